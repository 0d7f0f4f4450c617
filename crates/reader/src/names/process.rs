//! Numbers of calls on processes, signals, time and limits.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;

use super::set::{ByArchitecture, LazySet, Named, Set, flags_of, names};

fn signals() -> impl Iterator<Item = Named> {
    Signal::iterator().map(|signal| (signal as u64, signal.as_str()))
}

/// Signals
pub(super) static SIGNAL: LazySet = LazyLock::new(|| Set::values(signals()));

/// The kernel's first real-time signal and its last (`SIGRTMIN`, `_NSIG`;
/// arch/x86/include/uapi/asm/signal.h, include/uapi/asm-generic/signal.h). The C library keeps the
/// first two to itself, and calls the third its `SIGRTMIN`.
const REAL_TIME: RangeInclusive<u32> = 32..=64;

/// The name of a signal; of a real-time one by its place among the kernel's, as strace names it:
/// `SIGRTMIN`, `SIGRT_8`.
pub fn signal(number: u32) -> Option<Cow<'static, str>> {
    match SIGNAL.name(u64::from(number)) {
        Some(name) => Some(name.into()),
        None if number == *REAL_TIME.start() => Some("SIGRTMIN".into()),
        None if REAL_TIME.contains(&number) => {
            Some(format!("SIGRT_{}", number - REAL_TIME.start()).into())
        }
        None => None,
    }
}

/// `personality`: what the kernel imitates (`PER_MASK`, include/uapi/linux/personality.h), and how
pub static PERSONALITY: LazySet = LazyLock::new(|| {
    Set::flags(names![
        UNAME26,
        ADDR_NO_RANDOMIZE,
        FDPIC_FUNCPTRS,
        MMAP_PAGE_ZERO,
        ADDR_COMPAT_LAYOUT,
        READ_IMPLIES_EXEC,
        ADDR_LIMIT_32BIT,
        SHORT_INODE,
        WHOLE_SECONDS,
        STICKY_TIMEOUTS,
        ADDR_LIMIT_3GB,
    ])
    .with_field(
        u64::from(u8::MAX),
        [
            "PER_LINUX",
            "PER_SVR4",
            "PER_SVR3",
            "PER_SCOSVR3",
            "PER_WYSEV386",
            "PER_ISCR4",
            "PER_BSD",
            "PER_XENIX",
            "PER_LINUX32",
            "PER_IRIX32",
            "PER_IRIXN32",
            "PER_IRIX64",
            "PER_RISCOS",
            "PER_SOLARIS",
            "PER_UW7",
            "PER_OSF4",
            "PER_HPUX",
        ]
        .into_iter()
        .zip(0..)
        .map(|(name, value)| (value, name)),
    )
});

pub(super) fn clone_flags() -> impl Iterator<Item = Named> {
    names![
        CLONE_VM,
        CLONE_FS,
        CLONE_FILES,
        CLONE_SIGHAND,
        CLONE_PIDFD,
        CLONE_PTRACE,
        CLONE_VFORK,
        CLONE_PARENT,
        CLONE_THREAD,
        CLONE_NEWNS,
        CLONE_SYSVSEM,
        CLONE_SETTLS,
        CLONE_PARENT_SETTID,
        CLONE_CHILD_CLEARTID,
        CLONE_DETACHED,
        CLONE_UNTRACED,
        CLONE_CHILD_SETTID,
        CLONE_NEWCGROUP,
        CLONE_NEWUTS,
        CLONE_NEWIPC,
        CLONE_NEWUSER,
        CLONE_NEWPID,
        CLONE_NEWNET,
        CLONE_IO,
    ]
    .into_iter()
}

/// `clone`: the low byte (the kernel's CSIGNAL) is the signal that the parent gets.
pub(super) static CLONE: LazySet = LazyLock::new(|| {
    Set::flags(clone_flags()).with_field(u64::from(u8::MAX), signals()).field_last()
});
/// `unshare`, `setns`: no signal, so one more namespace fits.
pub(super) static NAMESPACE: LazySet =
    LazyLock::new(|| Set::flags(clone_flags().chain(names![CLONE_NEWTIME])));
/// `wait4`, `waitid`
pub(super) static WAIT: LazySet =
    LazyLock::new(|| Set::flags(flags_of!(WaitPidFlag).filter(|(_, name)| *name != "WSTOPPED")));
/// `waitid`'s kind of id
pub(super) static WAIT_ID: LazySet =
    LazyLock::new(|| Set::values(names![P_ALL, P_PID, P_PGID, P_PIDFD]));
/// `rt_sigprocmask`
pub(super) static SIGMASK: LazySet =
    LazyLock::new(|| Set::values(names![SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK]));
/// Clocks
pub(super) static CLOCK: LazySet = LazyLock::new(|| {
    Set::values(names![
        CLOCK_REALTIME,
        CLOCK_MONOTONIC,
        CLOCK_PROCESS_CPUTIME_ID,
        CLOCK_THREAD_CPUTIME_ID,
        CLOCK_MONOTONIC_RAW,
        CLOCK_REALTIME_COARSE,
        CLOCK_MONOTONIC_COARSE,
        CLOCK_BOOTTIME,
        CLOCK_REALTIME_ALARM,
        CLOCK_BOOTTIME_ALARM,
        CLOCK_TAI,
    ])
});
/// `clock_nanosleep`, `timer_settime`
pub(super) static TIMER: LazySet = LazyLock::new(|| Set::flags(names![TIMER_ABSTIME]));
/// Interval timers
pub(super) static ITIMER: LazySet =
    LazyLock::new(|| Set::values(names![ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF]));
/// Each of these commands of `futex`, and its form for one process alone.
macro_rules! futex_commands {
    ($($name:ident),* $(,)?) => {
        [$(
            (libc::$name as u64, stringify!($name)),
            (
                (libc::$name | libc::FUTEX_PRIVATE_FLAG) as u64,
                concat!(stringify!($name), "_PRIVATE"),
            ),
        )*]
    };
}
/// `futex`: the command, and what goes with it
pub(super) static FUTEX: LazySet = LazyLock::new(|| {
    Set::flags(names![FUTEX_CLOCK_REALTIME]).with_field(
        !(libc::FUTEX_CLOCK_REALTIME as u64) & u64::from(u32::MAX),
        futex_commands![
            FUTEX_WAIT,
            FUTEX_WAKE,
            FUTEX_FD,
            FUTEX_REQUEUE,
            FUTEX_CMP_REQUEUE,
            FUTEX_WAKE_OP,
            FUTEX_LOCK_PI,
            FUTEX_UNLOCK_PI,
            FUTEX_TRYLOCK_PI,
            FUTEX_WAIT_BITSET,
            FUTEX_WAKE_BITSET,
            FUTEX_WAIT_REQUEUE_PI,
            FUTEX_CMP_REQUEUE_PI,
            FUTEX_LOCK_PI2,
        ],
    )
});
/// Limits
pub(super) static RLIMIT: LazySet = LazyLock::new(|| {
    Set::values(names![
        RLIMIT_CPU,
        RLIMIT_FSIZE,
        RLIMIT_DATA,
        RLIMIT_STACK,
        RLIMIT_CORE,
        RLIMIT_RSS,
        RLIMIT_NPROC,
        RLIMIT_NOFILE,
        RLIMIT_MEMLOCK,
        RLIMIT_AS,
        RLIMIT_LOCKS,
        RLIMIT_SIGPENDING,
        RLIMIT_MSGQUEUE,
        RLIMIT_NICE,
        RLIMIT_RTPRIO,
        RLIMIT_RTTIME,
    ])
});
/// `getrusage`
pub(super) static RUSAGE: LazySet =
    LazyLock::new(|| Set::values(names![RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD]));
/// `getpriority`
pub(super) static PRIORITY_OF: LazySet =
    LazyLock::new(|| Set::values(names![PRIO_PROCESS, PRIO_PGRP, PRIO_USER]));
/// Scheduling policies
pub(super) static POLICY: LazySet = LazyLock::new(|| {
    Set::flags(names![SCHED_RESET_ON_FORK]).with_field(
        !(libc::SCHED_RESET_ON_FORK as u64),
        names![SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE, SCHED_DEADLINE],
    )
});
/// `getrandom`
pub(super) static RANDOM: LazySet =
    LazyLock::new(|| Set::flags(names![GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE]));
/// `seccomp`
pub(super) static SECCOMP: LazySet = LazyLock::new(|| {
    Set::values(names![
        SECCOMP_SET_MODE_STRICT,
        SECCOMP_SET_MODE_FILTER,
        SECCOMP_GET_ACTION_AVAIL,
        SECCOMP_GET_NOTIF_SIZES,
    ])
});
/// `membarrier`
pub(super) static MEMBARRIER: LazySet = LazyLock::new(|| {
    Set::values(names![
        MEMBARRIER_CMD_QUERY,
        MEMBARRIER_CMD_GLOBAL,
        MEMBARRIER_CMD_GLOBAL_EXPEDITED,
        MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
        MEMBARRIER_CMD_PRIVATE_EXPEDITED,
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
        MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
        MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ,
    ])
});
/// `prctl`
pub(super) static PRCTL: LazySet = LazyLock::new(|| {
    // No crate has these on aarch64 (include/uapi/linux/prctl.h, Linux 6.18).
    let others = [(52, "PR_GET_SPECULATION_CTRL"), (53, "PR_SET_SPECULATION_CTRL")];
    let all = names![
        PR_SET_PDEATHSIG,
        PR_GET_PDEATHSIG,
        PR_GET_DUMPABLE,
        PR_SET_DUMPABLE,
        PR_GET_KEEPCAPS,
        PR_SET_KEEPCAPS,
        PR_SET_NAME,
        PR_GET_NAME,
        PR_GET_SECCOMP,
        PR_SET_SECCOMP,
        PR_CAPBSET_READ,
        PR_CAPBSET_DROP,
        PR_GET_TSC,
        PR_SET_TSC,
        PR_GET_SECUREBITS,
        PR_SET_SECUREBITS,
        PR_SET_TIMERSLACK,
        PR_GET_TIMERSLACK,
        PR_MCE_KILL,
        PR_SET_MM,
        PR_SET_CHILD_SUBREAPER,
        PR_GET_CHILD_SUBREAPER,
        PR_SET_NO_NEW_PRIVS,
        PR_GET_NO_NEW_PRIVS,
        PR_GET_TID_ADDRESS,
        PR_SET_THP_DISABLE,
        PR_GET_THP_DISABLE,
        PR_CAP_AMBIENT,
        PR_SET_PTRACER,
        PR_SCHED_CORE,
        PR_SET_MDWE,
        PR_GET_MDWE,
        PR_SET_VMA,
    ];
    Set::values(all.into_iter().chain(others))
});
/// `arch_prctl`, from the kernel's `asm/prctl.h` of x86: no crate has them.
pub(super) static ARCH_PRCTL: LazySet = LazyLock::new(|| {
    Set::values([
        (0x1001, "ARCH_SET_GS"),
        (0x1002, "ARCH_SET_FS"),
        (0x1003, "ARCH_GET_FS"),
        (0x1004, "ARCH_GET_GS"),
        (0x1011, "ARCH_GET_CPUID"),
        (0x1012, "ARCH_SET_CPUID"),
    ])
});
/// `ptrace`. Machines' own: arch/x86/include/uapi/asm/ptrace-abi.h,
/// arch/arm64/include/uapi/asm/ptrace.h, Linux 6.18.
pub(super) static PTRACE: ByArchitecture = ByArchitecture {
    x86_64: LazyLock::new(|| {
        ptrace([
            (12, "PTRACE_GETREGS"),
            (13, "PTRACE_SETREGS"),
            (14, "PTRACE_GETFPREGS"),
            (15, "PTRACE_SETFPREGS"),
        ])
    }),
    aarch64: LazyLock::new(|| ptrace([(33, "PTRACE_PEEKMTETAGS"), (34, "PTRACE_POKEMTETAGS")])),
};

fn ptrace(own: impl IntoIterator<Item = Named>) -> Set {
    let all = names![
        PTRACE_TRACEME,
        PTRACE_PEEKTEXT,
        PTRACE_PEEKDATA,
        PTRACE_PEEKUSER,
        PTRACE_POKETEXT,
        PTRACE_POKEDATA,
        PTRACE_POKEUSER,
        PTRACE_CONT,
        PTRACE_KILL,
        PTRACE_SINGLESTEP,
        PTRACE_ATTACH,
        PTRACE_DETACH,
        PTRACE_SYSCALL,
        PTRACE_SETOPTIONS,
        PTRACE_GETEVENTMSG,
        PTRACE_GETSIGINFO,
        PTRACE_SETSIGINFO,
        PTRACE_GETREGSET,
        PTRACE_SETREGSET,
        PTRACE_SEIZE,
        PTRACE_INTERRUPT,
        PTRACE_LISTEN,
        PTRACE_GET_SYSCALL_INFO,
    ];
    Set::values(all.into_iter().chain(own))
}

/// `shmget`, `semget`, `msgget`: flags and permissions
pub(super) static IPC_GET: LazySet =
    LazyLock::new(|| Set::flags(names![IPC_CREAT, IPC_EXCL]).octal());
/// `shmctl`, `semctl`, `msgctl`
pub(super) static IPC_CTL: LazySet =
    LazyLock::new(|| Set::values(names![IPC_RMID, IPC_SET, IPC_STAT, IPC_INFO]));
/// `msgsnd`, `msgrcv`
pub(super) static IPC_MESSAGE: LazySet =
    LazyLock::new(|| Set::flags(names![IPC_NOWAIT, MSG_NOERROR, MSG_EXCEPT]));
/// `shmat`
pub(super) static SHMAT: LazySet =
    LazyLock::new(|| Set::flags(names![SHM_RDONLY, SHM_RND, SHM_REMAP, SHM_EXEC]));
/// `reboot`
pub(super) static REBOOT: LazySet = LazyLock::new(|| {
    Set::values(names![
        LINUX_REBOOT_CMD_RESTART,
        LINUX_REBOOT_CMD_HALT,
        LINUX_REBOOT_CMD_CAD_ON,
        LINUX_REBOOT_CMD_CAD_OFF,
        LINUX_REBOOT_CMD_POWER_OFF,
        LINUX_REBOOT_CMD_RESTART2,
        LINUX_REBOOT_CMD_SW_SUSPEND,
        LINUX_REBOOT_CMD_KEXEC,
    ])
});
/// `pidfd_open`
pub(super) static PIDFD: LazySet =
    LazyLock::new(|| Set::flags(names![PIDFD_NONBLOCK, PIDFD_THREAD]));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::set::tests::text;

    #[test]
    fn clone_names_its_signal_last() {
        let flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as u64;
        assert_eq!(text(&CLONE, flags), "CLONE_VM|CLONE_VFORK|SIGCHLD");
        assert_eq!(text(&CLONE, libc::SIGCHLD as u64), "SIGCHLD");
        assert_eq!(text(&CLONE, 0), "0");
    }

    #[test]
    fn arch_prctl_options() {
        assert_eq!(text(&ARCH_PRCTL, 0x1002), "ARCH_SET_FS");
    }

    #[test]
    fn ptrace_requests() {
        use flightrec_format::architecture::Architecture;
        let name = |architecture, number| PTRACE.of(architecture).name(number);
        assert_eq!(name(Architecture::X86_64, 12), Some("PTRACE_GETREGS"));
        assert_eq!(name(Architecture::Aarch64, 12), None);
        assert_eq!(name(Architecture::Aarch64, 0x4204), Some("PTRACE_GETREGSET"));
    }

    #[test]
    fn futex_operations() {
        assert_eq!(text(&FUTEX, 1), "FUTEX_WAKE");
        assert_eq!(text(&FUTEX, 128), "FUTEX_WAIT_PRIVATE");
        assert_eq!(text(&FUTEX, 393), "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME");
    }
}
