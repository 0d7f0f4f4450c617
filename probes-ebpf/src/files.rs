//! The walk over open files: what every descriptor of every process stands for.
//!
//! Run by the daemon alone, by reading the iterator's file; each run of the program writes one
//! record (`format::abi::file`) into it. It holds no lane and fills no page.
//!
//! Members of tasks, files and inodes are read by typed loads, as in [`crate::kernel`]; what lies
//! behind a socket by `bpf_probe_read_kernel`, since its types (unions, casts of `struct sock`) are
//! more than the verifier follows.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{
    bpf_d_path, bpf_probe_read_kernel, bpf_seq_write, bpf_sock_from_file,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use flightrec_format::abi::file::{CLOEXEC, FileOffsets, FileRecord, SOCKET, TEXT_MAX, UNNAMED};
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
            length = describe_socket(socket, record, text);
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
    // SAFETY: see `offset`.
    let at = unsafe { (&raw const FILE_OFFSETS).read_volatile() };
    if at.files == 0 {
        return 0;
    }
    let files: u64 = peek(task.as_ptr() as u64, at.files);
    let table: u64 = peek(files, at.fdt);
    let array: u64 = peek(table, at.fd);
    let file: u64 = peek(array.wrapping_add(u64::from(fd) * 8), 0);
    let inode: u64 = peek(file, at.f_inode);
    if inode == 0 { 0 } else { peek(inode, at.i_rdev) }
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

/// What a socket is; the length of its name.
#[inline(always)]
fn describe_socket(socket: u64, record: &mut FileRecord, text: *mut u8) -> usize {
    record.flags |= SOCKET;
    // SAFETY: see `offset`.
    let at = unsafe { (&raw const FILE_OFFSETS).read_volatile() };
    let sock: u64 = peek(socket, at.socket_sk);
    if sock == 0 {
        return 0;
    }
    record.family = peek(sock, at.family);
    record.kind = peek(sock, at.kind);
    record.protocol = peek(sock, at.protocol);
    match record.family {
        AF_INET | AF_INET6 => {
            record.local_port = peek(sock, at.num);
            record.remote_port = u16::from_be(peek(sock, at.dport));
            if record.family == AF_INET6 && at.local6 != ABSENT {
                record.local = peek(sock, at.local6);
                record.remote = peek(sock, at.remote6);
            } else {
                let (local, remote): ([u8; 4], [u8; 4]) =
                    (peek(sock, at.local4), peek(sock, at.remote4));
                let [a, b, c, d] = local;
                (record.local[0], record.local[1], record.local[2], record.local[3]) = (a, b, c, d);
                let [a, b, c, d] = remote;
                (record.remote[0], record.remote[1], record.remote[2], record.remote[3]) =
                    (a, b, c, d);
            }
            0
        }
        AF_UNIX => {
            let peer: u64 = peek(sock, at.unix_peer);
            if peer != 0 {
                // Its socket's file is open somewhere, or not any more: then this ends at 0.
                let file: u64 = peek(peek(peer, at.sk_socket), at.socket_file);
                record.peer = peek(peek(file, at.f_inode), at.i_ino);
            }
            let address: u64 = peek(sock, at.unix_addr);
            let length: u32 = if address == 0 { 0 } else { peek(address, at.unix_len) };
            let length = bounded::<0, SUN_PATH_MAX>((length as usize).wrapping_sub(SUN_PATH));
            let name = address.wrapping_add((at.unix_name as usize + SUN_PATH) as u64);
            // SAFETY: the text has more room than that.
            unsafe { bpf_probe_read_kernel(text.cast(), length as u32, name as *const c_void) };
            length
        }
        _ => 0,
    }
}
