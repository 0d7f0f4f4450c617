//! What system calls do, by their names: one table for all who ask.

use flightrec_format::abi::value_names::IO_OPS;

/// What a call is, as far as it matters to why a thread waits in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallKind {
    /// Waits for the time that it is given.
    Sleep,
    /// Waits for one of several descriptors; returns 0 at its timeout.
    Poll,
    /// Waits for asynchronous I/O (io_submit(2)); returns 0 at its timeout.
    Aio,
    /// Waits for a word in memory to change, or wakes who does.
    Futex,
    /// Locks a file, or a part of one.
    FileLock,
    /// Waits for a child process.
    Child,
    /// Waits until a child executes a program or ends.
    Vfork,
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
    /// Sends to a queue of messages, or receives from one.
    Queue,
    /// Changes semaphores.
    Semaphore,
    /// Waits for all CPUs to have passed a barrier.
    Barrier,
    /// Ends a thread or a process.
    Exit,
    /// Anything else.
    #[default]
    Other,
}

/// Which of its arguments are descriptors between which a call moves bytes; its result is how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moves {
    /// It reads, from the descriptor of this argument.
    pub reads: Option<u8>,
    /// It writes, to the descriptor of this argument.
    pub writes: Option<u8>,
}

const NONE: Moves = Moves { reads: None, writes: None };

const fn reads(from: u8) -> Moves {
    Moves { reads: Some(from), writes: None }
}

const fn writes(to: u8) -> Moves {
    Moves { reads: None, writes: Some(to) }
}

const fn both(from: u8, to: u8) -> Moves {
    Moves { reads: Some(from), writes: Some(to) }
}

/// Calls by name, in order. Calls of 32-bit programs that have another name stand beside those of
/// 64-bit ones.
const CALLS: &[(&str, CallKind, Moves)] = &[
    ("_newselect", CallKind::Poll, NONE),
    ("accept", CallKind::Accept, NONE),
    ("accept4", CallKind::Accept, NONE),
    ("brk", CallKind::Memory, NONE),
    ("clock_nanosleep", CallKind::Sleep, NONE),
    ("clock_nanosleep_time64", CallKind::Sleep, NONE),
    ("connect", CallKind::Connect, NONE),
    ("copy_file_range", CallKind::Write, both(0, 2)),
    ("creat", CallKind::Open, NONE),
    ("epoll_pwait", CallKind::Poll, NONE),
    ("epoll_pwait2", CallKind::Poll, NONE),
    ("epoll_wait", CallKind::Poll, NONE),
    ("exit", CallKind::Exit, NONE),
    ("exit_group", CallKind::Exit, NONE),
    ("fcntl", CallKind::FileLock, NONE),
    ("fcntl64", CallKind::FileLock, NONE),
    ("fdatasync", CallKind::Sync, NONE),
    ("flock", CallKind::FileLock, NONE),
    ("fsync", CallKind::Sync, NONE),
    ("futex", CallKind::Futex, NONE),
    ("futex_requeue", CallKind::Futex, NONE),
    ("futex_time64", CallKind::Futex, NONE),
    ("futex_wait", CallKind::Futex, NONE),
    ("futex_waitv", CallKind::Futex, NONE),
    ("futex_wake", CallKind::Futex, NONE),
    ("getdents", CallKind::Read, reads(0)),
    ("getdents64", CallKind::Read, reads(0)),
    ("io_getevents", CallKind::Aio, NONE),
    ("io_pgetevents", CallKind::Aio, NONE),
    ("io_pgetevents_time64", CallKind::Aio, NONE),
    ("io_uring_enter", CallKind::Ring, NONE),
    ("kill", CallKind::Kill, NONE),
    ("madvise", CallKind::Memory, NONE),
    ("membarrier", CallKind::Barrier, NONE),
    ("mlock", CallKind::Memory, NONE),
    ("mlock2", CallKind::Memory, NONE),
    ("mlockall", CallKind::Memory, NONE),
    ("mmap", CallKind::Memory, NONE),
    ("mmap2", CallKind::Memory, NONE),
    ("mprotect", CallKind::Memory, NONE),
    ("mq_timedreceive", CallKind::Queue, reads(0)),
    ("mq_timedreceive_time64", CallKind::Queue, reads(0)),
    ("mq_timedsend", CallKind::Queue, NONE),
    ("mq_timedsend_time64", CallKind::Queue, NONE),
    ("mremap", CallKind::Memory, NONE),
    ("msgrcv", CallKind::Queue, NONE),
    ("msgsnd", CallKind::Queue, NONE),
    ("msync", CallKind::Sync, NONE),
    ("munlock", CallKind::Memory, NONE),
    ("munlockall", CallKind::Memory, NONE),
    ("munmap", CallKind::Memory, NONE),
    ("nanosleep", CallKind::Sleep, NONE),
    ("open", CallKind::Open, NONE),
    ("openat", CallKind::Open, NONE),
    ("openat2", CallKind::Open, NONE),
    ("pause", CallKind::Signal, NONE),
    ("pidfd_send_signal", CallKind::Kill, NONE),
    ("pkey_mprotect", CallKind::Memory, NONE),
    ("poll", CallKind::Poll, NONE),
    ("ppoll", CallKind::Poll, NONE),
    ("ppoll_time64", CallKind::Poll, NONE),
    ("pread64", CallKind::Read, reads(0)),
    ("preadv", CallKind::Read, reads(0)),
    ("preadv2", CallKind::Read, reads(0)),
    ("process_madvise", CallKind::Memory, NONE),
    ("pselect6", CallKind::Poll, NONE),
    ("pselect6_time64", CallKind::Poll, NONE),
    ("pwrite64", CallKind::Write, writes(0)),
    ("pwritev", CallKind::Write, writes(0)),
    ("pwritev2", CallKind::Write, writes(0)),
    ("read", CallKind::Read, reads(0)),
    ("readv", CallKind::Read, reads(0)),
    ("recv", CallKind::Receive, reads(0)),
    ("recvfrom", CallKind::Receive, reads(0)),
    ("recvmmsg", CallKind::Receive, NONE),
    ("recvmmsg_time64", CallKind::Receive, NONE),
    ("recvmsg", CallKind::Receive, reads(0)),
    ("rt_sigqueueinfo", CallKind::Kill, NONE),
    ("rt_sigsuspend", CallKind::Signal, NONE),
    ("rt_sigtimedwait", CallKind::Signal, NONE),
    ("rt_sigtimedwait_time64", CallKind::Signal, NONE),
    ("rt_tgsigqueueinfo", CallKind::Kill, NONE),
    ("sched_yield", CallKind::Yield, NONE),
    ("select", CallKind::Poll, NONE),
    ("semop", CallKind::Semaphore, NONE),
    ("semtimedop", CallKind::Semaphore, NONE),
    ("semtimedop_time64", CallKind::Semaphore, NONE),
    ("send", CallKind::Send, writes(0)),
    ("sendfile", CallKind::Write, both(1, 0)),
    ("sendfile64", CallKind::Write, both(1, 0)),
    ("sendmmsg", CallKind::Send, NONE),
    ("sendmsg", CallKind::Send, writes(0)),
    ("sendto", CallKind::Send, writes(0)),
    ("sigsuspend", CallKind::Signal, NONE),
    ("splice", CallKind::Write, both(0, 2)),
    ("sync", CallKind::Sync, NONE),
    ("sync_file_range", CallKind::Sync, NONE),
    ("syncfs", CallKind::Sync, NONE),
    ("tee", CallKind::Write, both(0, 1)),
    ("tgkill", CallKind::Kill, NONE),
    ("tkill", CallKind::Kill, NONE),
    ("vfork", CallKind::Vfork, NONE),
    ("vmsplice", CallKind::Write, writes(0)),
    ("wait4", CallKind::Child, NONE),
    ("waitid", CallKind::Child, NONE),
    ("waitpid", CallKind::Child, NONE),
    ("write", CallKind::Write, writes(0)),
    ("writev", CallKind::Write, writes(0)),
];

fn row(name: &str) -> Option<&'static (&'static str, CallKind, Moves)> {
    let at = CALLS.binary_search_by_key(&name, |(known, ..)| known).ok()?;
    CALLS.get(at)
}

/// What a call is.
pub fn kind(name: &str) -> CallKind {
    row(name).map_or(CallKind::Other, |(_, kind, _)| *kind)
}

/// What bytes a call moves. (A call that sends or receives several messages returns their number.)
pub fn moves(name: &str) -> Moves {
    row(name).map_or(NONE, |(.., moves)| *moves)
}

/// Whether a call reads from, or else writes to, the descriptor that it takes first; `None`: it
/// does neither.
pub fn reads_first(name: &str) -> Option<bool> {
    let (_, kind, moves) = row(name)?;
    match kind {
        CallKind::Read | CallKind::Receive => Some(true),
        CallKind::Write | CallKind::Send => Some(moves.reads == Some(0)),
        _ => None,
    }
}

/// Whether an operation of io_uring, by its number, writes, or reads; `None`: it moves no bytes.
pub fn operation_writes(op: u32) -> Option<bool> {
    let named = IO_OPS.iter().find(|(number, _)| *number == u64::from(op));
    match named.map(|(_, name)| *name) {
        Some(
            "readv" | "read" | "read_fixed" | "readv_fixed" | "recv" | "recvmsg" | "read_multishot",
        ) => Some(false),
        Some(
            "writev" | "write" | "write_fixed" | "writev_fixed" | "send" | "sendmsg" | "send_zc"
            | "sendmsg_zc",
        ) => Some(true),
        _ => None,
    }
}

impl CallKind {
    /// Whether a thread without work waits in such a call.
    pub fn is_idle(self) -> bool {
        matches!(
            self,
            Self::Sleep | Self::Poll | Self::Aio | Self::Accept | Self::Signal | Self::Child
        )
    }

    /// Whether its first argument is a descriptor.
    pub fn takes_descriptor(self) -> bool {
        use CallKind::{FileLock, Read, Receive, Send, Sync, Write};
        matches!(self, FileLock | Read | Receive | Send | Sync | Write)
    }

    /// Whether it is kept in words however short it was: what the thread did to others before it
    /// waited.
    pub fn tells(self) -> bool {
        matches!(self, Self::Send | Self::Connect | Self::Open | Self::Kill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_in_order_and_each_once() {
        assert!(CALLS.is_sorted_by(|(a, ..), (b, ..)| a < b));
    }

    #[test]
    fn what_32_bit_programs_call_is_as_its_twin() {
        let twin = |name: &str| {
            let base = name.strip_suffix("_time64").or_else(|| name.strip_suffix("64"));
            base.or(name.strip_prefix("_new")).map(str::to_owned)
        };
        let twins: Vec<(&str, String)> =
            CALLS.iter().filter_map(|(name, ..)| Some((*name, twin(name)?))).collect();
        for (name, base) in twins.iter().filter(|(_, base)| row(base).is_some()) {
            assert_eq!((kind(name), moves(name)), (kind(base), moves(base)), "{name}");
        }
        assert!(twins.len() > 12, "{twins:?}");
    }

    #[test]
    fn what_is_read_first_may_be_written_to_another() {
        assert_eq!(["read", "splice", "recvmmsg"].map(reads_first), [Some(true); 3]);
        assert_eq!(["write", "sendfile", "sendmsg"].map(reads_first), [Some(false); 3]);
        assert_eq!((reads_first("close"), kind("no_such_call")), (None, CallKind::Other));
    }
}
