//! What system calls are to the model, by their names in the recording.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Abi;
use flightrec_format::meta::Meta;

use crate::CallId;

/// What a call is, as far as it matters to why a thread waits in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallKind {
    /// Waits for the time that it is given.
    Sleep,
    /// Waits for one of several descriptors; returns 0 at its timeout.
    Poll,
    /// Waits for a word in memory to change, or wakes who does.
    Futex,
    /// Locks a file, or a part of one.
    FileLock,
    /// Waits for a child process.
    Child,
    /// Changes the address space.
    Memory,
    /// Writes data that is not on disk yet to it.
    Sync,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Sends to a socket.
    Send,
    /// Receives from a socket.
    Receive,
    /// Waits for a connection from others.
    Accept,
    /// Connects a socket.
    Connect,
    /// Hands over operations of io_uring, and waits for results.
    Ring,
    /// Waits for a signal.
    Signal,
    /// Sends a signal.
    Kill,
    /// Opens a file.
    Open,
    /// Gives up the CPU.
    Yield,
    /// Anything else.
    #[default]
    Other,
}

impl CallKind {
    fn of(name: &str) -> Self {
        match name {
            "nanosleep" | "clock_nanosleep" | "clock_nanosleep_time64" => Self::Sleep,
            "poll" | "ppoll" | "select" | "_newselect" | "pselect6" | "epoll_wait"
            | "epoll_pwait" | "epoll_pwait2" | "ppoll_time64" | "pselect6_time64"
            | "io_getevents" | "io_pgetevents" => Self::Poll,
            "futex" | "futex_wait" | "futex_waitv" | "futex_time64" | "futex_wake" => Self::Futex,
            "flock" | "fcntl" | "fcntl64" => Self::FileLock,
            "wait4" | "waitid" | "waitpid" => Self::Child,
            "mmap" | "mmap2" | "munmap" | "mprotect" | "mremap" | "brk" | "madvise" | "mlock"
            | "mlock2" | "munlock" | "mlockall" | "pkey_mprotect" | "process_madvise" => {
                Self::Memory
            }
            "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => Self::Sync,
            "read" | "pread64" | "readv" | "preadv" | "preadv2" | "getdents64" => Self::Read,
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendfile" | "splice" => {
                Self::Write
            }
            "sendto" | "sendmsg" | "sendmmsg" => Self::Send,
            "recvfrom" | "recvmsg" | "recvmmsg" => Self::Receive,
            "accept" | "accept4" => Self::Accept,
            "connect" => Self::Connect,
            "io_uring_enter" => Self::Ring,
            "pause" | "rt_sigsuspend" | "rt_sigtimedwait" | "sigsuspend" => Self::Signal,
            "kill" | "tgkill" | "tkill" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo"
            | "pidfd_send_signal" => Self::Kill,
            "open" | "openat" | "openat2" | "creat" => Self::Open,
            "sched_yield" => Self::Yield,
            _ => Self::Other,
        }
    }

    /// Whether a thread without work waits in such a call.
    pub(super) fn is_idle(self) -> bool {
        matches!(self, Self::Sleep | Self::Poll | Self::Accept | Self::Signal | Self::Child)
    }

    /// Whether its first argument is a descriptor.
    pub(super) fn takes_descriptor(self) -> bool {
        use CallKind::{FileLock, Read, Receive, Send, Sync, Write};
        matches!(self, FileLock | Read | Receive | Send | Sync | Write)
    }

    /// Whether it is kept in words however short it was: what the thread did to others before it
    /// waited.
    pub(super) fn tells(self) -> bool {
        matches!(self, Self::Send | Self::Connect | Self::Open | Self::Kill)
    }
}

/// The calls of a recording.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds {
    calls: FxHashMap<(Abi, u16), (Box<str>, CallKind)>,
}

impl Kinds {
    pub(super) fn new(meta: &Meta) -> Self {
        let tables =
            [(Abi::Native, &meta.native), (Abi::X32, &meta.native), (Abi::Compat, &meta.compat)];
        let of = |(abi, table): (Abi, &Vec<flightrec_format::meta::Syscall>)| {
            let one = move |call: &flightrec_format::meta::Syscall| {
                ((abi, call.nr), (printable(&call.name), CallKind::of(&call.name)))
            };
            table.iter().map(one).collect::<Vec<_>>()
        };
        Self { calls: tables.into_iter().flat_map(of).collect() }
    }

    pub(super) fn kind(&self, call: CallId) -> CallKind {
        self.calls.get(&(call.abi, call.nr)).map_or(CallKind::Other, |(_, kind)| *kind)
    }

    pub(super) fn name(&self, call: CallId) -> String {
        match self.calls.get(&(call.abi, call.nr)) {
            Some((name, _)) => name.to_string(),
            None => format!("syscall_{}", call.nr),
        }
    }

    /// Whether a call has this name.
    pub(super) fn is(&self, call: CallId, name: &str) -> bool {
        self.calls.get(&(call.abi, call.nr)).is_some_and(|(known, _)| **known == *name)
    }
}

/// Names are identifiers; anything else in one is no letter of it.
fn printable(name: &str) -> Box<str> {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect()
}
