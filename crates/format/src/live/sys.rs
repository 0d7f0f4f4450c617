//! The one place that makes `bpf(2)` calls. Structures as in `include/uapi/linux/bpf.h`, Linux 6.1.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ITER_CREATE: libc::c_int = 33;
const BPF_F_TEST_RUN_ON_CPU: u32 = 1;
/// `BPF_PERF_EVENT`, an attach type (since Linux 5.15).
const BPF_PERF_EVENT: u32 = 41;

/// `union bpf_attr`, as large as any command used here needs.
#[repr(C, align(8))]
struct Attr([u64; 18]);

impl Attr {
    fn new() -> Self {
        Self([0; 18])
    }

    /// Sets the 32-bit field at byte offset `at`.
    fn u32(mut self, at: usize, v: u32) -> Self {
        let word = &mut self.0[at / 8];
        let shift = (at % 8) * 8;
        *word = *word & !(0xffff_ffff << shift) | u64::from(v) << shift;
        self
    }

    /// Sets the 64-bit field at byte offset `at`.
    fn u64(mut self, at: usize, v: u64) -> Self {
        self.0[at / 8] = v;
        self
    }
}

fn bpf(command: libc::c_int, attr: &mut Attr) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is a live, writable buffer of the length passed; the addresses inside it
    // point to buffers that the callers below keep alive across the call.
    let r =
        unsafe { libc::syscall(libc::SYS_bpf, command, attr.0.as_mut_ptr(), size_of::<Attr>()) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r) }
}

/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;

/// Makes an array map of one value of `bytes` bytes, all zero, that can be mapped. Its name has at
/// most 15 bytes.
pub fn map_of_one(name: &str, bytes: u32) -> io::Result<OwnedFd> {
    let mut attr = Attr::new().u32(0, ARRAY).u32(4, 4).u32(8, bytes).u32(12, 1).u32(16, MMAPABLE);
    for (i, byte) in name.bytes().take(15).enumerate() {
        attr.0[(28 + i) / 8] |= u64::from(byte) << ((28 + i) % 8 * 8);
    }
    let fd = bpf(BPF_MAP_CREATE, &mut attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// How a program makes a pointer that the verifier knows of an address: numbers in the kernel's
/// BTF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// Of the function `bpf_rdonly_cast` (since Linux 6.2).
    pub function: u32,
    /// Of the structure that is at the address.
    pub structure: u32,
}

impl Cast {
    /// Whether the kernel takes a program that does this.
    pub fn is_taken(self) -> bool {
        let constant =
            |registers: u64, constant: u32| 0xb7 | registers << 8 | u64::from(constant) << 32;
        // r1 = 0; r2 = structure; call function (BPF_PSEUDO_KFUNC_CALL); r0 = 0; exit
        let call = 0x85 | 2 << 12 | u64::from(self.function) << 32;
        let insns = [constant(1, 0), constant(2, self.structure), call, constant(0, 0), 0x95];
        is_taken(&insns)
    }
}

/// Whether the kernel takes a store that orders those before it (`BPF_STORE_REL`, since Linux
/// 6.15).
pub fn has_store_release() -> bool {
    // r0 = 0; *(u32 *)(r10 - 8) = w0; store_release((u32 *)(r10 - 8), w0); exit
    let at = |opcode: u64, operation: u64| opcode | 0x0a << 8 | 0xfff8 << 16 | operation << 32;
    let insns = [0xb7, at(0x63, 0), at(0xc3, 0x110), 0x95];
    is_taken(&insns)
}

/// Whether the kernel loads a program of these instructions (`BPF_PROG_TYPE_RAW_TRACEPOINT`).
fn is_taken(insns: &[u64]) -> bool {
    const RAW_TRACEPOINT: u32 = 17;
    let mut attr = Attr::new()
        .u32(0, RAW_TRACEPOINT)
        .u32(4, insns.len() as u32)
        .u64(8, insns.as_ptr() as u64)
        .u64(16, c"GPL".as_ptr() as u64);
    let Ok(fd) = bpf(BPF_PROG_LOAD, &mut attr) else { return false };
    // SAFETY: the kernel has just returned this descriptor to us alone.
    drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    true
}

/// Opens a pinned object. Errors as `BPF_OBJ_GET` gives them: `ENOENT`, `EPERM`, …
pub fn obj_get(path: &Path) -> io::Result<OwnedFd> {
    let c = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut attr = Attr::new().u64(0, c.as_ptr() as u64);
    let fd = bpf(BPF_OBJ_GET, &mut attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Pins an object where nothing is yet, below a BPF file system.
pub fn obj_pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let c = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    bpf(BPF_OBJ_PIN, &mut Attr::new().u64(0, c.as_ptr() as u64).u32(8, fd.as_raw_fd() as u32))
        .map(drop)
}

/// Links a program to a perf event. The program runs for as long as the link lives.
pub fn link_perf_event(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> io::Result<OwnedFd> {
    let mut attr = Attr::new()
        .u32(0, program.as_raw_fd() as u32)
        .u32(4, event.as_raw_fd() as u32)
        .u32(8, BPF_PERF_EVENT)
        .u64(16, cookie); // perf_event.bpf_cookie
    let fd = bpf(BPF_LINK_CREATE, &mut attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The same, with what tells the program by which link it runs (`bpf_get_attach_cookie`, since
/// Linux 5.15).
pub fn link_perf_event_with(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> io::Result<OwnedFd> {
    let mut attr = Attr::new()
        .u32(0, program.as_raw_fd() as u32)
        .u32(4, event.as_raw_fd() as u32)
        .u32(8, BPF_PERF_EVENT)
        .u64(16, cookie); // perf_event.bpf_cookie
    let fd = bpf(BPF_LINK_CREATE, &mut attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// `BPF_TRACE_UPROBE_MULTI`, an attach type (since Linux 6.6).
const TRACE_UPROBE_MULTI: u32 = 48;

/// Loads a program for many points of a file at once, of whole instructions.
pub fn load_uprobe_multi(name: &str, instructions: &[u64]) -> io::Result<OwnedFd> {
    const KPROBE: u32 = 2;
    let mut attr = Attr::new()
        .u32(0, KPROBE)
        .u32(4, instructions.len() as u32)
        .u64(8, instructions.as_ptr() as u64)
        .u64(16, c"GPL".as_ptr() as u64)
        .u32(68, TRACE_UPROBE_MULTI); // expected_attach_type
    for (i, byte) in name.bytes().take(15).enumerate() {
        attr.0[(48 + i) / 8] |= u64::from(byte) << ((48 + i) % 8 * 8);
    }
    let fd = bpf(BPF_PROG_LOAD, &mut attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Whether there are links for it: of no points none is made.
pub fn knows_uprobe_multi(program: BorrowedFd<'_>) -> io::Result<()> {
    match link_uprobe_multi(program, c"/", &[0], &[0], &[0], false) {
        // No regular file: the kernel has looked (`bpf_uprobe_multi_link_attach`,
        // kernel/trace/bpf_trace.c, Linux 6.6).
        Err(e) if e.raw_os_error() == Some(libc::EBADF) => Ok(()),
        Err(e) => Err(e),
        Ok(_) => Err(io::Error::other("a link to a directory")),
    }
}

/// Links a program to points of the file at `path`, or to the returns of the functions there; of
/// each point the byte of the file, that of the counter of listeners or 0, and what the program is
/// told. It runs for as long as the link lives.
pub fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    offsets: &[u64],
    semaphores: &[u64],
    cookies: &[u64],
    returns: bool,
) -> io::Result<OwnedFd> {
    /// `BPF_F_UPROBE_MULTI_RETURN`.
    const RETURN: u32 = 1;
    if semaphores.len() != offsets.len() || cookies.len() != offsets.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut attr = Attr::new()
        .u32(0, program.as_raw_fd() as u32)
        .u32(8, TRACE_UPROBE_MULTI)
        .u64(16, path.as_ptr() as u64)
        .u64(24, offsets.as_ptr() as u64)
        .u64(32, semaphores.as_ptr() as u64)
        .u64(40, cookies.as_ptr() as u64)
        .u32(48, offsets.len() as u32)
        .u32(52, if returns { RETURN } else { 0 });
    let fd = bpf(BPF_LINK_CREATE, &mut attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Attaches a `tp_btf` program to the tracepoint that it was loaded for. It runs for as long as the
/// link lives.
pub fn attach_tracing(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // No name: the program knows it (`bpf_raw_tp_link_attach`, kernel/bpf/syscall.c).
    let fd = bpf(BPF_RAW_TRACEPOINT_OPEN, &mut Attr::new().u32(8, program.as_raw_fd() as u32))?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Runs an iterator over what belongs to one process (`pid` as the caller sees it): the file to
/// read. (`union bpf_iter_link_info`, `task.pid`: since Linux 6.1.)
pub fn iterate_process(program: BorrowedFd<'_>, pid: u32) -> io::Result<OwnedFd> {
    iterate_task(program, [0, pid, 0, 0])
}

/// The same of one thread (`task.tid`).
pub fn iterate_thread(program: BorrowedFd<'_>, tid: u32) -> io::Result<OwnedFd> {
    iterate_task(program, [tid, 0, 0, 0])
}

/// Whether this process is in the machine's first PID namespace, where threads have the ids that are
/// recorded; `None`: /proc does not tell.
pub fn is_in_first_pid_namespace() -> Option<bool> {
    /// `PROC_PID_INIT_INO`, include/linux/proc_ns.h, Linux 6.1.
    const FIRST: u64 = 0xefff_fffc;
    // A process stays in its namespace, and walks ask for each piece of memory.
    static OWN: OnceLock<Option<bool>> = OnceLock::new();
    *OWN.get_or_init(|| {
        let own = std::fs::metadata("/proc/self/ns/pid").ok()?;
        Some(std::os::unix::fs::MetadataExt::ino(&own) == FIRST)
    })
}

/// `info`: `task.tid`, `task.pid`, `task.pid_fd`. The kernel takes them for ids in the caller's PID
/// namespace (`bpf_iter_attach_task`, kernel/bpf/task_iter.c, Linux 6.18), and recorded ids are of
/// the first one.
fn iterate_task(program: BorrowedFd<'_>, info: [u32; 4]) -> io::Result<OwnedFd> {
    /// `BPF_TRACE_ITER`, an attach type.
    const TRACE_ITER: u32 = 28;
    if is_in_first_pid_namespace() == Some(false) {
        let why = "this process is in a PID namespace of its own";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let mut attr = Attr::new()
        .u32(0, program.as_raw_fd() as u32)
        .u32(8, TRACE_ITER)
        .u64(16, info.as_ptr() as u64) // iter_info
        .u32(24, size_of_val(&info) as u32);
    let fd = bpf(BPF_LINK_CREATE, &mut attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    let link = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let fd = bpf(BPF_ITER_CREATE, &mut Attr::new().u32(0, link.as_raw_fd() as u32))?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// What is asked of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapInfo {
    /// Bytes of a value.
    pub value_size: u32,
    /// Number of values.
    pub max_entries: u32,
}

fn info(fd: BorrowedFd<'_>, buf: &mut [u64]) -> io::Result<()> {
    let mut attr = Attr::new()
        .u32(0, fd.as_raw_fd() as u32)
        .u32(4, size_of_val(buf) as u32)
        .u64(8, buf.as_mut_ptr() as u64);
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr).map(drop)
}

/// Size of a map (`struct bpf_map_info`).
pub fn map_info(fd: BorrowedFd<'_>) -> io::Result<MapInfo> {
    let mut buf = [0u64; 3]; // type, id, key_size, value_size, max_entries, map_flags
    info(fd, &mut buf)?;
    Ok(MapInfo { value_size: (buf[1] >> 32) as u32, max_entries: buf[2] as u32 })
}

/// How often the kernel skipped a program because it was already active on the CPU
/// (`recursion_misses` of `struct bpf_prog_info`).
pub fn prog_misses(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // Offset 208 in struct bpf_prog_info (since Linux 5.12); the struct is 232 bytes long in 6.1.
    let mut buf = [0u64; 29];
    info(fd, &mut buf)?;
    Ok(buf[26])
}

/// How long a program ran in all, ns, and how often, while `kernel.bpf_stats_enabled` was 1
/// (`run_time_ns` and `run_cnt` of `struct bpf_prog_info`).
pub fn prog_runs(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // Offsets 192 and 200 (since Linux 5.1).
    let mut buf = [0u64; 29];
    info(fd, &mut buf)?;
    Ok((buf[24], buf[25]))
}

/// Runs a raw tracepoint program once, with preemption off: on this CPU, in this process's context,
/// or on `cpu`, in an interrupt (`bpf_prog_test_run_raw_tp`, net/bpf/test_run.c, Linux 6.1).
/// Returns the program's own result. `ENXIO`: that CPU is offline.
pub fn prog_run(fd: BorrowedFd<'_>, args: &[u64], cpu: Option<u16>) -> io::Result<u32> {
    let mut attr = Attr::new()
        .u32(0, fd.as_raw_fd() as u32)
        .u32(40, size_of_val(args) as u32) // ctx_size_in
        .u64(48, args.as_ptr() as u64) // ctx_in
        .u32(64, cpu.map_or(0, |_| BPF_F_TEST_RUN_ON_CPU)) // flags
        .u32(68, cpu.map_or(0, u32::from)); // cpu
    bpf(BPF_PROG_TEST_RUN, &mut attr)?;
    Ok((attr.0[0] >> 32) as u32)
}

/// Reads one value of a map with 4-byte keys into `value`, which must have the map's value size.
pub fn map_lookup(fd: BorrowedFd<'_>, key: u32, value: &mut [u8]) -> io::Result<()> {
    let mut attr = Attr::new()
        .u32(0, fd.as_raw_fd() as u32)
        .u64(8, &raw const key as u64)
        .u64(16, value.as_mut_ptr() as u64);
    bpf(BPF_MAP_LOOKUP_ELEM, &mut attr).map(drop)
}
