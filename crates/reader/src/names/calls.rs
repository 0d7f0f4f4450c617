//! Which names belong to which argument of which system call.
//!
//! Calls go by the name in the recording, which is the manual's; arguments by the kernel's name for
//! them. Where kernels differ in a name, both stand here; an argument that is missing is shown as
//! its C type demands, never wrongly.

use flightrec_format::architecture::Architecture;

use super::set::Set;
use super::{files, net, process};

/// The names for the argument `argument` of the call `call`, on a machine.
pub fn set_for(architecture: Architecture, call: &str, argument: &str) -> Option<&'static Set> {
    files_set(architecture, call, argument)
        .or_else(|| net_set(call, argument))
        .or_else(|| process_set(architecture, call, argument))
}

fn files_set(architecture: Architecture, call: &str, argument: &str) -> Option<&'static Set> {
    Some(match (call, argument) {
        ("open" | "openat" | "open_by_handle_at", "flags")
        | ("mq_open", "oflag")
        | ("fanotify_init", "event_f_flags") => files::OPEN.of(architecture),
        ("pipe2" | "dup3" | "userfaultfd" | "memfd_secret", "flags") => {
            files::DESCRIPTOR.of(architecture)
        }
        ("access" | "faccessat" | "faccessat2", "mode") => &files::ACCESS,
        ("faccessat2", "flags") => &files::AT_ACCESS,
        ("unlinkat", "flag" | "flags") => &files::AT_UNLINK,
        (
            "newfstatat" | "fstatat64" | "linkat" | "fchownat" | "fchmodat2" | "utimensat"
            | "execveat" | "name_to_handle_at" | "mount_setattr",
            "flag" | "flags",
        )
        | (_, "at_flags") => &files::AT,
        ("statx", "flag" | "flags") => &files::AT_STATX,
        ("statx", "mask") => &files::STATX,
        ("renameat2", "flags") => &files::RENAME,
        ("lseek" | "_llseek" | "llseek", "whence") => &files::WHENCE,
        ("fcntl" | "fcntl64", "cmd") => &files::FCNTL,
        ("flock", "cmd") => &files::FLOCK,
        ("fallocate", "mode") => &files::FALLOCATE,
        ("fadvise64" | "fadvise64_64", "advice") => &files::FADVISE,
        ("splice" | "tee" | "vmsplice", "flags") => &files::SPLICE,
        ("sync_file_range", "flags") => &files::SYNC_RANGE,
        ("preadv2" | "pwritev2", "flags") => &files::RWF,
        ("setxattr" | "lsetxattr" | "fsetxattr", "flags") => &files::XATTR,
        ("close_range", "flags") => &files::CLOSE_RANGE,
        ("memfd_create", "flags") => &files::MEMFD,
        ("inotify_init1", "flags") => &files::INOTIFY_INIT,
        ("inotify_add_watch", "mask") => &files::INOTIFY_WATCH,
        ("fanotify_init", "flags") => &files::FANOTIFY_INIT,
        ("fanotify_mark", "flags") => &files::FANOTIFY_MARK,
        ("fanotify_mark", "mask") => &files::FANOTIFY_MASK,
        ("mount", "flags") => &files::MOUNT,
        ("umount" | "umount2", "flags") => &files::UMOUNT,
        ("move_mount", "flags") => &files::MOVE_MOUNT,
        ("open_tree" | "open_tree_attr", "flags") => &files::OPEN_TREE,
        ("mmap" | "mmap2" | "mprotect" | "pkey_mprotect", "prot") => files::PROT.of(architecture),
        ("mmap" | "mmap2", "flags") => files::MAP.of(architecture),
        ("mremap", "flags") => &files::MREMAP,
        ("msync", "flags") => &files::MSYNC,
        ("mlockall", "flags") => &files::MLOCKALL,
        ("mlock2", "flags") => &files::MLOCK2,
        ("madvise" | "process_madvise", "behavior") => &files::MADVISE,
        ("mbind" | "set_mempolicy", "mode") => &files::MEMPOLICY,
        _ => return None,
    })
}

fn net_set(call: &str, argument: &str) -> Option<&'static Set> {
    Some(match (call, argument) {
        ("socket" | "socketpair", "family") => &net::FAMILY,
        ("socket" | "socketpair", "type") => &net::SOCKET_TYPE,
        ("accept4", "flags") => &net::SOCKET_FLAGS,
        ("setsockopt" | "getsockopt", "level") => &net::LEVEL,
        (
            "send" | "sendto" | "sendmsg" | "sendmmsg" | "recv" | "recvfrom" | "recvmsg"
            | "recvmmsg" | "recvmmsg_time64",
            "flags",
        ) => &net::MESSAGE,
        ("shutdown", "how") => &net::SHUTDOWN,
        ("epoll_ctl", "op") => &net::EPOLL_OP,
        ("epoll_create1", "flags") => &net::EPOLL_CREATE,
        ("eventfd2", "flags") => &net::EVENTFD,
        ("signalfd4", "flags") => &net::SIGNALFD,
        ("timerfd_create", "flags") => &net::TIMERFD,
        ("timerfd_settime", "flags") => &net::TIMERFD_SET,
        _ => return None,
    })
}

fn process_set(architecture: Architecture, call: &str, argument: &str) -> Option<&'static Set> {
    Some(match (call, argument) {
        (
            "kill" | "tkill" | "tgkill" | "rt_sigaction" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo"
            | "pidfd_send_signal" | "signal" | "sigaction",
            "sig",
        ) => &process::SIGNAL,
        ("clone", "clone_flags") => &process::CLONE,
        ("unshare", "unshare_flags") | ("setns", "flags") => &process::NAMESPACE,
        ("wait4" | "waitid" | "waitpid", "options") => &process::WAIT,
        ("waitid", "which") => &process::WAIT_ID,
        ("rt_sigprocmask" | "sigprocmask", "how") => &process::SIGMASK,
        (_, "which_clock") | ("timerfd_create" | "futex_wait" | "futex_waitv", "clockid") => {
            &process::CLOCK
        }
        (
            "clock_nanosleep" | "clock_nanosleep_time64" | "timer_settime" | "timer_settime64",
            "flags",
        ) => &process::TIMER,
        ("getitimer" | "setitimer", "which") => &process::ITIMER,
        ("futex" | "futex_time64", "op") => &process::FUTEX,
        ("getrlimit" | "setrlimit" | "prlimit64" | "prlimit" | "ugetrlimit", "resource") => {
            &process::RLIMIT
        }
        ("getrusage", "who") => &process::RUSAGE,
        ("getpriority" | "setpriority", "which") => &process::PRIORITY_OF,
        ("sched_setscheduler" | "sched_get_priority_max" | "sched_get_priority_min", "policy") => {
            &process::POLICY
        }
        ("getrandom", "flags") => &process::RANDOM,
        ("seccomp", "op") => &process::SECCOMP,
        ("membarrier", "cmd") => &process::MEMBARRIER,
        ("prctl", "option") => &process::PRCTL,
        ("arch_prctl", "option") => &process::ARCH_PRCTL,
        ("ptrace", "request") => process::PTRACE.of(architecture),
        ("shmget" | "semget", "shmflg" | "semflg") | ("msgget", "msgflg") => &process::IPC_GET,
        ("shmctl" | "semctl" | "msgctl", "cmd") => &process::IPC_CTL,
        ("msgsnd" | "msgrcv", "msgflg") => &process::IPC_MESSAGE,
        ("shmat", "shmflg") => &process::SHMAT,
        ("reboot", "cmd") => &process::REBOOT,
        ("pidfd_open", "flags") => &process::PIDFD,
        _ => return None,
    })
}
