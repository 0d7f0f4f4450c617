//! What the daemon gives up once it records: from then on it, and all that it starts, makes no map
//! and loads no program.
//!
//! `CAP_BPF` and `CAP_PERFMON` together load programs that read all of the kernel's memory and send
//! signals (`bpf_send_signal`) to any process. They are needed at the start alone. The commands of
//! bpf(2) that are left open what is pinned, run its programs, and attach them again (`[budget]
//! detach`): see `COMMANDS`. The filter is classic BPF, which sees bpf(2)'s command as that is
//! the first argument (seccomp(2)); nothing takes it off again.

use std::io;

use flightrec_format::architecture::Architecture;

/// Commands of bpf(2) that a daemon which records makes, by `enum bpf_cmd`
/// (include/uapi/linux/bpf.h), and what for.
const COMMANDS: [(u32, &str); 8] = [
    (1, "BPF_MAP_LOOKUP_ELEM: counters"),
    (6, "BPF_OBJ_PIN: a link that attaches again"),
    (7, "BPF_OBJ_GET: what is pinned, by its readers and to attach again"),
    (10, "BPF_PROG_TEST_RUN: marks and recorder events"),
    (15, "BPF_OBJ_GET_INFO_BY_FD: sizes of maps, and what programs missed"),
    (17, "BPF_RAW_TRACEPOINT_OPEN: attaching again"),
    (28, "BPF_LINK_CREATE: the same of classic tracepoints and clocks; walks over mapped files"),
    (33, "BPF_ITER_CREATE: these walks"),
];

/// What a filter has to tell apart on a machine.
struct Calls {
    /// `AUDIT_ARCH_…`, include/uapi/linux/audit.h: of its own calls, and of 32-bit ones.
    native: u32,
    compat: u32,
    /// bpf(2) and perf_event_open(2), by the two tables.
    own: [u32; 2],
    narrow: [u32; 2],
    /// What stands in a number of a third kind of calls, of which none is made here.
    third: Option<u32>,
}

/// Of x86_64 (arch/x86/entry/syscalls; `__X32_SYSCALL_BIT`).
const X86_64: Calls = Calls {
    native: 0xc000_003e,
    compat: 0x4000_0003,
    own: [321, 298],
    narrow: [357, 336],
    third: Some(0x4000_0000),
};

/// Of aarch64 (include/uapi/asm-generic/unistd.h, arch/arm/tools/syscall.tbl).
const AARCH64: Calls = Calls {
    native: 0xc000_00b7,
    compat: 0x4000_0028,
    own: [280, 241],
    narrow: [386, 364],
    third: None,
};

impl Calls {
    const fn of(architecture: Architecture) -> &'static Self {
        match architecture {
            Architecture::X86_64 => &X86_64,
            Architecture::Aarch64 => &AARCH64,
        }
    }
}

/// Offsets in `struct seccomp_data`, include/uapi/linux/seccomp.h. Of an argument the low half is
/// what an `int` is read from.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

/// Forbids it from now on, for all threads of this process. `perf_events`: whether perf events are
/// opened to attach again.
pub fn forbid_loading(perf_events: bool) -> io::Result<()> {
    install(perf_events, libc::SECCOMP_FILTER_FLAG_TSYNC)
}

/// Installs the filter; without flags, for the calling thread and what it starts.
fn install(perf_events: bool, flags: libc::c_ulong) -> io::Result<()> {
    let filter = filter(Calls::of(Architecture::HERE), perf_events);
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let set = || {
        // SAFETY: `program` and the instructions that it points to are alive, and the kernel copies
        // them.
        let r = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        match r {
            0 => Ok(()),
            -1 => Err(io::Error::last_os_error()),
            thread => Err(io::Error::other(format!("thread {thread} has a filter of its own"))),
        }
    };
    match set() {
        // Without CAP_SYS_ADMIN only a process that can gain no rights may have a filter; the unit
        // sees to that anyway.
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
            nix::sys::prctl::set_no_new_privs()?;
            set()
        }
        other => other,
    }
}

/// The filter's instructions: everything is allowed but what is named here.
fn filter(calls: &Calls, perf_events: bool) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let give = |what| statement(libc::BPF_RET | libc::BPF_K, what);
    let (allow, deny) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    // Goes on after the next instruction where the accumulator is another value.
    let unless = |k| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k,
    };
    let [bpf, perf] = calls.own;

    let mut all = vec![load(ARCH)];
    let mut foreign = vec![load(NUMBER)];
    for call in calls.narrow {
        foreign.extend([unless(call), give(deny)]);
    }
    foreign.push(give(allow));
    // 32-bit programs, which a hook may be.
    let mut other = vec![load(ARCH), unless(calls.compat)];
    other.push(jump(1));
    other.push(give(deny));
    other.extend(foreign);

    let mut native = vec![load(NUMBER)];
    for (call, third) in [bpf, perf].into_iter().zip(calls.third.into_iter().cycle()) {
        native.extend([unless(call | third), give(deny)]);
    }
    if !perf_events {
        native.extend([unless(perf), give(deny)]);
    }
    let commands = COMMANDS.iter().flat_map(|(command, _)| [unless(*command), give(allow)]);
    let commands: Vec<_> =
        [load(FIRST_ARGUMENT)].into_iter().chain(commands).chain([give(deny)]).collect();
    native.extend([unless(bpf), jump(1), give(allow)]);
    native.extend(commands);

    // After the first load: on to the native part where it is that, else over it.
    all.extend([unless(calls.native), jump(1), jump(native.len() as u32)]);
    all.extend(native);
    all.extend(other);
    all
}

/// Leaves out so many instructions.
fn jump(by: u32) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JA) as u16, jt: 0, jf: 0, k: by }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says to a command of bpf(2) that makes no sense.
    fn bpf(command: u32) -> i32 {
        // SAFETY: no buffer is given, and none is touched.
        let r = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::null::<u8>(), 0) };
        if r < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
    }

    fn perf_event() -> i32 {
        // SAFETY: no attributes are given, and none are touched.
        let r = unsafe {
            libc::syscall(libc::SYS_perf_event_open, std::ptr::null::<u8>(), 0, -1, -1, 0)
        };
        if r < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
    }

    #[test]
    fn all_but_what_a_recorder_needs_is_refused() {
        for perf_events in [false, true] {
            std::thread::spawn(move || {
                let allowed_before: Vec<u32> =
                    (0..40).filter(|command| bpf(*command) != libc::EPERM).collect();
                let perf_before = perf_event();
                install(perf_events, 0).unwrap();
                for command in 0..40 {
                    let wanted = COMMANDS.iter().any(|(wanted, _)| *wanted == command);
                    let is_left = bpf(command) != libc::EPERM;
                    assert_eq!(
                        is_left,
                        wanted && allowed_before.contains(&command),
                        "command {command}"
                    );
                }
                assert_eq!(perf_event(), if perf_events { perf_before } else { libc::EPERM });
                // Another kind of call does not get around it (`__X32_SYSCALL_BIT`).
                if let Some(third) = Calls::of(Architecture::HERE).third {
                    // SAFETY: as above.
                    let r = unsafe {
                        let call = libc::SYS_bpf | i64::from(third);
                        libc::syscall(call, 5, std::ptr::null::<u8>(), 0)
                    };
                    let error = io::Error::last_os_error().raw_os_error();
                    assert_eq!((r, error), (-1, Some(libc::EPERM)));
                }
                assert!(
                    std::fs::read_to_string("/proc/self/status").is_ok(),
                    "other calls are made as before"
                );
            })
            .join()
            .unwrap();
        }
    }

    /// What the instructions come to, by hand.
    fn judge(filter: &[libc::sock_filter], arch: u32, number: u32, argument: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = filter[at];
            at += 1;
            match u32::from(step.code) & 7 {
                libc::BPF_LD => {
                    value = match step.k {
                        NUMBER => number,
                        ARCH => arch,
                        FIRST_ARGUMENT => argument,
                        other => panic!("offset {other}"),
                    }
                }
                libc::BPF_RET => return step.k,
                _ if u32::from(step.code) & 0xf0 == libc::BPF_JA => at += step.k as usize,
                _ => at += usize::from(if value == step.k { step.jt } else { step.jf }),
            }
        }
    }

    #[test]
    fn on_every_architecture() {
        let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        let allow = libc::SECCOMP_RET_ALLOW;
        for of in [&X86_64, &AARCH64] {
            let closed = filter(of, false);
            let ([bpf, perf], [narrow_bpf, narrow_perf]) = (of.own, of.narrow);
            let cases = [
                (of.native, bpf, 5, deny),
                (of.native, bpf, 7, allow),
                (of.native, perf, 0, deny),
                (of.native, 0, 5, allow),
                (of.native, narrow_bpf, 5, allow),
                (of.compat, narrow_bpf, 7, deny),
                (of.compat, narrow_perf, 7, deny),
                (of.compat, 3, 5, allow),
                (of.compat, bpf, 5, allow),
                (0x1234, 3, 0, deny),
            ];
            let third = of
                .third
                .into_iter()
                .flat_map(|third| [bpf, perf].map(|call| (of.native, call | third, 7, deny)));
            for (arch, number, argument, wanted) in cases.into_iter().chain(third) {
                assert_eq!(
                    judge(&closed, arch, number, argument),
                    wanted,
                    "{arch:x} {number} {argument}"
                );
            }
            assert_eq!(judge(&filter(of, true), of.native, perf, 0), allow);
        }
        let here = Calls::of(Architecture::HERE);
        assert_eq!(here.own.map(i64::from), [libc::SYS_bpf, libc::SYS_perf_event_open]);
    }
}
