//! The walk over open files: what every descriptor of every process stands for.
//!
//! Run by the daemon alone, by reading the iterator's file; each run of the program writes one
//! record (`format::abi::file`) into it. It holds no lane and fills no page.
//!
//! Members of tasks, files and inodes are read by typed loads, as in [`crate::kernel`]; what a
//! socket points to by `bpf_probe_read_kernel`, since its types (unions, casts of `struct sock`) are
//! more than the verifier follows.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{
    bpf_d_path, bpf_probe_read_kernel, bpf_seq_write, bpf_sock_from_file,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use flightrec_format::abi::file::{
    CLOEXEC, FileOffsets, FileRecord, SOCKET, SocketRecord, TEXT_MAX, UNNAMED,
};
use flightrec_format::abi::probe::ABSENT;

use crate::kernel::Task;
use crate::pages::{Page, bounded};

/// Written by the daemon alone; here so that it is made, pinned and found with the rest.
#[map(name = "descriptors")]
static DESCRIPTORS: Array<Page> = Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);

/// The quiet ring (`format::kept`). As above: the daemon alone writes it.
#[map(name = "quiet")]
static QUIET: Array<Page> = Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);

/// A record and its text.
#[repr(C)]
struct Scratch {
    record: FileRecord,
    text: [u8; TEXT_MAX],
}

/// Where the record of the file at hand is put together. One is enough: the daemon runs one walk at
/// a time.
#[map(name = "file_scratch")]
static SCRATCH: Array<Scratch> = Array::with_max_entries(1, 0);

/// Filled by the loader.
#[unsafe(no_mangle)]
static FILE_OFFSETS: FileOffsets = FileOffsets {
    files: 0,
    fdt: 0,
    close_on_exec: 0,
    f_path: 0,
    f_inode: 0,
    i_mode: 0,
    i_ino: 0,
    socket_sk: 0,
    socket_file: 0,
    family: 0,
    num: 0,
    dport: 0,
    local4: 0,
    remote4: 0,
    local6: 0,
    remote6: 0,
    kind: 0,
    protocol: 0,
    sk_socket: 0,
    unix_addr: 0,
    unix_peer: 0,
    unix_len: 0,
    unix_name: 0,
    fd: 0,
    i_rdev: 0,
    private_data: 0,
};

/// The member of [`FILE_OFFSETS`], read so that the compiler does not assume its initial value. For
/// use inside `unsafe`: a static of ours, so the read is always sound.
macro_rules! offset {
    ($member:ident) => {
        (&raw const FILE_OFFSETS.$member).read_volatile()
    };
}

/// `S_IFMT` and `S_IFSOCK`, include/uapi/linux/stat.h.
const TYPE_MASK: u16 = 0o170_000;
const TYPE_SOCKET: u16 = 0o140_000;
/// Families, include/linux/socket.h.
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
pub(crate) const AF_INET6: u16 = 10;
/// Bytes before the path in a `struct sockaddr_un`, and most of the path.
const SUN_PATH: usize = 2;
const SUN_PATH_MAX: usize = 108;

/// `struct bpf_iter__task_file`, kernel/bpf/task_iter.c, Linux 6.1.
#[repr(C)]
struct IterTaskFile {
    meta: *const IterMeta,
    task: *const u8,
    fd: u32,
    file: *const u8,
}

/// `struct bpf_iter_meta`, include/linux/bpf.h, Linux 6.1: its first member.
#[repr(C)]
pub(crate) struct IterMeta {
    pub(crate) seq: *mut c_void,
}

/// A typed load, as `kernel::load`.
///
/// # Safety
/// `p` must be a pointer that the verifier tracks; it checks the access itself.
#[inline(always)]
pub(crate) unsafe fn load<T: Copy>(p: *const u8, offset: u32) -> T {
    // SAFETY: by the contract above.
    unsafe { p.add(offset as usize).cast::<T>().read_volatile() }
}

/// What stands at any kernel address; zero where nothing can be read.
#[inline(always)]
pub(crate) fn peek<T: Copy + Default>(address: u64, offset: u32) -> T {
    let mut value = T::default();
    // SAFETY: the helper takes any address, and writes no more than the value.
    unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            size_of::<T>() as u32,
            (address.wrapping_add(u64::from(offset))) as *const c_void,
        )
    };
    value
}

/// One descriptor. That there is no room for its record needs no care: the kernel then shows the
/// same one again at the next read (`bpf_seq_read`, kernel/bpf/bpf_iter.c, Linux 6.1).
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
fn walk_files(ctx: *mut c_void) -> i32 {
    let ctx = ctx.cast::<IterTaskFile>();
    // SAFETY: the context of this program type.
    let (meta, task, fd, file) = unsafe {
        (
            (&raw const (*ctx).meta).read_volatile(),
            (&raw const (*ctx).task).read_volatile(),
            (&raw const (*ctx).fd).read_volatile(),
            (&raw const (*ctx).file).read_volatile(),
        )
    };
    if task.is_null() || file.is_null() {
        return 0;
    }
    // SAFETY: as above; the verifier knows the member's type.
    let seq = unsafe { (&raw const (*meta).seq).read_volatile() };
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else { return 0 };
    // SAFETY: one walk at a time uses it.
    let record = unsafe { &mut (*scratch).record };
    *record = FileRecord::default();
    let thread = Task::from_arg(task);
    (record.tgid, record.tid, record.fd) = (thread.tgid(), thread.tid(), fd);
    // SAFETY: see `load`.
    let mode: u16 = unsafe {
        record.files = load(task, offset!(files));
        let inode: *const u8 = load(file, offset!(f_inode));
        record.inode = load(inode, offset!(i_ino));
        load(inode, offset!(i_mode))
    };
    if closes_on_exec(record.files, fd) {
        record.flags |= CLOEXEC;
    }
    // SAFETY: the text lies inside the scratch.
    let text = unsafe { (&raw mut (*scratch).text).cast::<u8>() };
    let mut length = 0;
    if mode & TYPE_MASK == TYPE_SOCKET {
        // SAFETY: the file is one that the verifier knows.
        let socket = unsafe { bpf_sock_from_file(file.cast_mut().cast()) } as u64;
        if socket != 0 {
            record.flags |= SOCKET;
            record.socket.inode = record.inode as u32;
            length = describe_socket::<TEXT_MAX>(socket, &mut record.socket, text, true);
        }
    } else {
        // SAFETY: the path inside a file that the verifier knows; the text has this size.
        let n = unsafe {
            let path = file.add(offset!(f_path) as usize).cast_mut();
            bpf_d_path(path.cast(), text.cast(), TEXT_MAX as u32)
        };
        if n > 0 {
            // Without its NUL.
            length = n as usize - 1;
        } else {
            record.flags |= UNNAMED;
        }
    }
    let length = bounded::<0, TEXT_MAX>(length);
    record.text = length as u32;
    // SAFETY: record and text are one piece, of which so much is filled.
    unsafe { bpf_seq_write(seq.cast(), scratch.cast(), (size_of::<FileRecord>() + length) as u32) };
    0
}

/// The device that a process's descriptor is open on, as the kernel numbers it
/// (include/linux/kdev_t.h); 0: on none, or not known.
#[inline(always)]
pub(crate) fn device(task: Task, fd: u32) -> u32 {
    let file = file(task, fd);
    // SAFETY: see `offset`.
    let (f_inode, i_rdev) = unsafe { (offset!(f_inode), offset!(i_rdev)) };
    let inode: u64 = peek(file, f_inode);
    if inode == 0 { 0 } else { peek(inode, i_rdev) }
}

/// The file that a process's descriptor stands for; 0: none, or not known.
#[inline(always)]
fn file(task: Task, fd: u32) -> u64 {
    // SAFETY: see `offset`.
    let (files, fdt, array) = unsafe { (offset!(files), offset!(fdt), offset!(fd)) };
    if files == 0 {
        return 0;
    }
    let files: u64 = peek(task.as_ptr() as u64, files);
    let table: u64 = peek(files, fdt);
    let array: u64 = peek(table, array);
    peek(array.wrapping_add(u64::from(fd) * 8), 0)
}

/// What the socket is that a descriptor of the running process stands for, and the length of its
/// name, which has room for `ROOM` bytes: where it takes more, or is not to be named, there is
/// nothing. `None`: it is no socket, or not known.
#[inline(always)]
pub(crate) fn socket<const ROOM: usize>(
    fd: u32,
    record: &mut SocketRecord,
    name: *mut u8,
    is_named: bool,
) -> Option<usize> {
    let file = file(Task::current(), fd);
    // SAFETY: see `offset`.
    let (f_inode, i_mode) = unsafe { (offset!(f_inode), offset!(i_mode)) };
    // SAFETY: as above.
    let (i_ino, private_data) = unsafe { (offset!(i_ino), offset!(private_data)) };
    let inode: u64 = peek(file, f_inode);
    let mode: u16 = peek(inode, i_mode);
    if inode == 0 || mode & TYPE_MASK != TYPE_SOCKET {
        return None;
    }
    let number: u64 = peek(inode, i_ino);
    record.inode = number as u32;
    let length = describe_socket::<ROOM>(peek(file, private_data), record, name, is_named);
    // Another thread may have closed it meanwhile, and its memory may be another file's.
    if self::file(Task::current(), fd) == file { Some(length) } else { None }
}

/// Whether an exec closes the descriptor (`close_on_exec`, include/linux/fdtable.h). The walk runs
/// under RCU, so that a table which is replaced meanwhile still stands.
#[inline(always)]
fn closes_on_exec(files: u64, fd: u32) -> bool {
    // SAFETY: see `offset`.
    let (fdt, bits) = unsafe { (offset!(fdt), offset!(close_on_exec)) };
    let table: u64 = peek(files, fdt);
    let bits: u64 = peek(table, bits);
    let word: u64 = peek(bits, fd / 64 * 8);
    word >> (fd % 64) & 1 != 0
}

/// What a socket is but for its number; the length of its name, which has room for `ROOM` bytes and
/// is read if `is_named`. The offsets are read one by one: all of them at once take 100 bytes of the
/// stack, which is 512 for all that call each other.
#[inline(always)]
fn describe_socket<const ROOM: usize>(
    socket: u64,
    record: &mut SocketRecord,
    name: *mut u8,
    is_named: bool,
) -> usize {
    // SAFETY: see `offset`.
    unsafe {
        let sock: u64 = peek(socket, offset!(socket_sk));
        if sock == 0 {
            return 0;
        }
        record.family = peek(sock, offset!(family));
        record.kind = peek(sock, offset!(kind));
        record.protocol = peek(sock, offset!(protocol));
        match record.family {
            AF_INET | AF_INET6 => {
                record.local_port = peek(sock, offset!(num));
                record.remote_port = u16::from_be(peek(sock, offset!(dport)));
                let (local, remote) = (&raw mut record.local, &raw mut record.remote);
                if record.family == AF_INET6 && offset!(local6) != ABSENT {
                    peek_bytes::<16>(sock, offset!(local6), local.cast());
                    peek_bytes::<16>(sock, offset!(remote6), remote.cast());
                } else {
                    peek_bytes::<4>(sock, offset!(local4), local.cast());
                    peek_bytes::<4>(sock, offset!(remote4), remote.cast());
                }
                0
            }
            AF_UNIX => {
                let peer: u64 = peek(sock, offset!(unix_peer));
                if peer != 0 {
                    // Its socket's file is open somewhere, or not any more: then this ends at 0.
                    let peer: u64 = peek(peer, offset!(sk_socket));
                    let file: u64 = peek(peer, offset!(socket_file));
                    let inode: u64 = peek(file, offset!(f_inode));
                    let number: u64 = peek(inode, offset!(i_ino));
                    record.peer = number as u32;
                }
                let address: u64 = peek(sock, offset!(unix_addr));
                let length: u32 = if address == 0 { 0 } else { peek(address, offset!(unix_len)) };
                let length = bounded::<0, SUN_PATH_MAX>((length as usize).wrapping_sub(SUN_PATH));
                record.name = length as u16;
                let length = if is_named { bounded::<0, ROOM>(length) } else { 0 };
                let from = address.wrapping_add((offset!(unix_name) as usize + SUN_PATH) as u64);
                bpf_probe_read_kernel(name.cast(), length as u32, from as *const c_void);
                length
            }
            _ => 0,
        }
    }
}

/// [`peek`] of `N` bytes, to where they are to be.
///
/// # Safety
/// So much room is there.
#[inline(always)]
unsafe fn peek_bytes<const N: usize>(address: u64, offset: u32, to: *mut u8) {
    let from = address.wrapping_add(u64::from(offset)) as *const c_void;
    // SAFETY: by the contract; the helper takes any address.
    unsafe { bpf_probe_read_kernel(to.cast(), N as u32, from) };
}
