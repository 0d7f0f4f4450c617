//! Classes of system calls, as strace(1) has them: `%file`, `%network` and so on.
//!
//! What takes a path, and what takes or makes a descriptor, the kernel's published argument types
//! tell, so that calls of kernels to come fall into their classes by themselves. The rest is
//! strace's own definition (its flags TF, TN, TP, TS, TM and TD), listed here, as no crate has it.

use flightrec_format::meta::{Argument, Syscall, is_descriptor, is_path};

use flightrec_reader::fds::makes_descriptor;

/// A class of system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Takes a path.
    File,
    /// Sockets.
    Network,
    /// Processes: their making, their end, signals to them.
    Process,
    /// Signals.
    Signal,
    /// Memory mappings.
    Memory,
    /// Takes or makes a descriptor; those of sockets are [`Class::Network`]'s.
    Desc,
}

impl Class {
    pub(super) const ALL: [Self; 6] =
        [Self::File, Self::Network, Self::Process, Self::Signal, Self::Memory, Self::Desc];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Network => "network",
            Self::Process => "process",
            Self::Signal => "signal",
            Self::Memory => "memory",
            Self::Desc => "desc",
        }
    }

    /// By its name, with or without strace's `%`. (`signal` is the class; i386's call of that name
    /// goes by its number.)
    pub(super) fn named(name: &str) -> Option<Self> {
        let bare = name.strip_prefix('%').unwrap_or(name);
        Self::ALL.into_iter().find(|class| class.name() == bare)
    }

    /// Whether a call is of this class; `args` are its arguments, where they are known.
    pub(super) fn has(self, call: &Syscall, args: Option<&[Argument]>) -> bool {
        let name = call.name.as_str();
        let any = |is: &dyn Fn(&Argument) -> bool| args.unwrap_or_default().iter().any(is);
        match self {
            Self::File => FILE.contains(&name) || any(&|arg| is_path(name, arg)),
            Self::Network => NETWORK.contains(&name),
            Self::Process => PROCESS.contains(&name),
            Self::Signal => {
                SIGNAL.contains(&name)
                    || name.starts_with("rt_sig")
                    || name.starts_with("rt_tgsig")
                    || name.starts_with("sig")
            }
            Self::Memory => MEMORY.contains(&name),
            Self::Desc => {
                let socket = NETWORK.contains(&name) && !name.starts_with("sendfile");
                !socket
                    && (DESC.contains(&name)
                        || makes_descriptor(name)
                        || any(&|arg| is_descriptor(name, arg)))
            }
        }
    }
}

/// Their path is not recorded as a string, or their type is not published.
const FILE: &[&str] = &["getcwd", "quotactl", "uselib", "oldstat", "oldlstat", "umount"];

const NETWORK: &[&str] = &[
    "socket",
    "socketpair",
    "socketcall",
    "bind",
    "connect",
    "listen",
    "accept",
    "accept4",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "recvmmsg_time64",
    "shutdown",
    "sendfile",
    "sendfile64",
    "getpmsg",
    "putpmsg",
];

const PROCESS: &[&str] = &[
    "clone",
    "clone3",
    "fork",
    "vfork",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "wait4",
    "waitid",
    "waitpid",
    "kill",
    "tkill",
    "tgkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "pidfd_send_signal",
    "unshare",
];

/// Beside all whose name begins with `sig`, `rt_sig` or `rt_tgsig`.
const SIGNAL: &[&str] =
    &["kill", "tkill", "tgkill", "pidfd_send_signal", "pause", "ssetmask", "sgetmask"];

const MEMORY: &[&str] = &[
    "brk",
    "mmap",
    "mmap2",
    "munmap",
    "mprotect",
    "pkey_mprotect",
    "mremap",
    "remap_file_pages",
    "msync",
    "mincore",
    "madvise",
    "mlock",
    "mlock2",
    "munlock",
    "mlockall",
    "munlockall",
    "mseal",
    "map_shadow_stack",
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "set_mempolicy_home_node",
    "migrate_pages",
    "move_pages",
    "shmat",
    "shmdt",
    "io_setup",
    "io_destroy",
    "io_uring_register",
];

/// Take sets of descriptors in user memory, or make descriptors that the recording can't name.
const DESC: &[&str] = &[
    "poll",
    "ppoll",
    "ppoll_time64",
    "select",
    "_newselect",
    "pselect6",
    "pselect6_time64",
    "pipe",
    "pipe2",
    "bpf",
    "mq_open",
    "fsopen",
    "landlock_create_ruleset",
    "mmap2",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(name: &str, args: &[(&str, &str)]) -> Vec<&'static str> {
        let args = args
            .iter()
            .map(|(ctype, name)| Argument { name: (*name).into(), ctype: (*ctype).into() })
            .collect();
        let call = Syscall { nr: 0, name: name.into(), args: Some(args) };
        let args = call.args.as_deref();
        Class::ALL.into_iter().filter(|class| class.has(&call, args)).map(Class::name).collect()
    }

    #[test]
    fn as_strace_has_them() {
        assert_eq!(
            classes("openat", &[("int", "dfd"), ("const char *", "filename")]),
            ["file", "desc"]
        );
        assert_eq!(classes("read", &[("unsigned int", "fd"), ("char *", "buf")]), ["desc"]);
        assert_eq!(classes("connect", &[("int", "fd")]), ["network"]);
        assert_eq!(
            classes("sendfile", &[("int", "out_fd"), ("int", "in_fd")]),
            ["network", "desc"]
        );
        assert_eq!(classes("kill", &[("pid_t", "pid")]), ["process", "signal"]);
        assert_eq!(classes("mmap", &[("unsigned long", "fd")]), ["memory", "desc"]);
        assert_eq!(classes("execve", &[("const char *", "filename")]), ["file", "process"]);
        assert_eq!(classes("signalfd4", &[("int", "ufd")]), ["signal", "desc"]);
        assert_eq!(classes("getpid", &[]), Vec::<&str>::new());
    }

    #[test]
    fn names_with_and_without_their_sign() {
        assert_eq!(
            (Class::named("%file"), Class::named("memory")),
            (Some(Class::File), Some(Class::Memory))
        );
        assert_eq!(Class::named("files"), None);
    }
}
