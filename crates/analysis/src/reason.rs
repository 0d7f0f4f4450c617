//! Why a thread waited, in words.
//!
//! [`Reason::of`] puts together what is known of a wait: the system call, what its descriptor or
//! path stands for, the functions of the kernel in which the thread slept, the request to a disk
//! whose end woke it, and what woke it. The stack decides where there is one: it tells a wait for a
//! lock inside of a call from the wait that the call is for. Without a stack the call and its
//! object decide. What is not known stays unknown.

mod awaited;
mod calls;
mod frames;
#[cfg(test)]
mod tests;

use std::fmt;

use flightrec_format::abi::record::WakeContext;

pub use self::awaited::{ADDRESS_SPACE_LOCK, Awaited, Class, awaited, is_fault, is_sync};
use crate::{State, TaskState, Waker};

/// What is known of a wait. Every part may be missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wait<'a> {
    /// The state in which the thread waited.
    pub state: State,
    /// Name of the system call that it was in, as in `flock`; `None`: in none, or not known.
    pub call: Option<&'a str>,
    /// The second argument of that call, which says what `fcntl` does.
    pub command: Option<u64>,
    /// What the call's first descriptor stands for, or its first path: `/srv/journal`, `pipe:[5]`,
    /// `TCP:[10.0.0.1:80->10.0.0.9:5]`. Any bytes.
    pub object: Option<&'a [u8]>,
    /// Functions of the kernel, from the innermost one out; empty: no stack is known.
    pub frames: &'a [&'a str],
    /// The request to a disk whose end woke it: the device and what was done there, as in `vda` and
    /// `read`.
    pub disk: Option<(&'a str, &'a str)>,
    /// What woke it; `None`: it still waits, or that is not known.
    pub waker: Option<Waker>,
    /// Name of the thread that woke it; empty: not known, or it was an interrupt.
    pub waker_name: &'a [u8],
    /// The thread stopped to wait for I/O (`task_struct.in_iowait`).
    pub io_wait: bool,
}

impl Wait<'_> {
    /// Whether the end of I/O may be what ended it: an interrupt did, or a thread of the kernel
    /// whose work that is, or it waited for I/O by what the kernel itself says. Any other thread
    /// ends a wait for a reason of its own: it releases a lock, or writes to a pipe.
    fn may_be_io(&self) -> bool {
        let by_thread = self.waker.is_some_and(|waker| waker.thread().is_some());
        !by_thread || self.io_wait || is_io_worker(self.waker_name)
    }
}

/// Whether a thread of that name is one of the kernel whose work is to end I/O of block devices:
/// workqueues, softirqs in a thread of their own, threaded interrupts, loop devices, RAID,
/// dm-crypt. (kernel/workqueue.c, kernel/softirq.c, kernel/irq/manage.c, drivers/block/loop.c,
/// drivers/md/md.c, drivers/md/dm-crypt.c, Linux 6.1 and 6.18.) Programs can take such names, too.
pub fn is_io_worker(name: &[u8]) -> bool {
    let begins: [&[u8]; 6] =
        [b"kworker/", b"ksoftirqd/", b"irq/", b"loop", b"dmcrypt_write", b"nvmet"];
    // md0_raid1, md127_raid5
    let is_raid = name.starts_with(b"md") && name.windows(5).any(|part| part == b"_raid");
    is_raid || begins.iter().any(|begin| name.starts_with(begin))
}

/// Whether a thread of that name writes a file system's journal to disk: jbd2 of ext4.
fn is_journal(name: &[u8]) -> bool {
    name.starts_with(b"jbd2/")
}

/// Why a thread waited.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    /// The kind of wait.
    pub kind: ReasonKind,
    /// What it is about, where the kind has such: see [`ReasonKind`]. Any bytes.
    pub about: Option<Box<[u8]>>,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Kinds of wait.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ReasonKind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl ReasonKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in JSON, which is stable.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

kinds! {
    /// For a lock of a whole file; about: the file.
    Flock = "flock",
    /// For a lock of a file's bytes; about: the file.
    RecordLock = "record_lock",
    /// For another process to give a lease back (`fcntl(F_SETLEASE)`); about: the file.
    Lease = "lease",
    /// For something to be read from a pipe.
    PipeRead = "pipe_read",
    /// For room in a pipe.
    PipeWrite = "pipe_write",
    /// For somebody to open the other end of a FIFO; about: the file.
    FifoOpen = "fifo_open",
    /// For something to be read from a socket; about: its protocol.
    SocketRead = "socket_read",
    /// For room in a socket's buffer; about: its protocol.
    SocketWrite = "socket_write",
    /// For a connection to come; about: the protocol.
    Accept = "accept",
    /// For a connection to be made; about: the protocol.
    Connect = "connect",
    /// For a user-space lock, or condition.
    Futex = "futex",
    /// For a time that the thread asked for.
    Timer = "timer",
    /// For any event of a set of descriptors; about: the call.
    Events = "events",
    /// For a child process to end or stop.
    Child = "child",
    /// For a child to execute a program or end, as it uses the thread's memory.
    Vfork = "vfork",
    /// For a signal.
    Signal = "signal",
    /// For input from a terminal, or its output to be written; about: the terminal.
    Terminal = "terminal",
    /// For an eventfd to be written.
    Eventfd = "eventfd",
    /// For a change of watched files.
    Watch = "watch",
    /// For results of io_uring.
    IoUring = "io_uring",
    /// For results of the kernel's older asynchronous I/O.
    Aio = "aio",
    /// For a disk; about: device and operation, or else call and file.
    Disk = "disk",
    /// For room in the queue of a disk.
    DiskQueue = "disk_queue",
    /// For the file system's journal; about: the file.
    Journal = "journal",
    /// Held back, as too many pages wait to be written to disks.
    DirtyLimit = "dirty_limit",
    /// For memory to be freed.
    Reclaim = "reclaim",
    /// For a page of memory that is in swap space.
    Swap = "swap",
    /// For a page fault to be handled by a program.
    Userfault = "userfault",
    /// For a file system that a program, or another machine, serves; about: which kind.
    FileServer = "file_server",
    /// For a lock of the kernel; about: the function that takes it.
    KernelLock = "kernel_lock",
    /// For the lock of an address space (`mmap_lock`).
    AddressSpace = "address_space",
    /// For all readers of the kernel's data to be done (RCU).
    Rcu = "rcu",
    /// For work that the kernel does in another thread; about: the function that waits.
    KernelWork = "kernel_work",
    /// For a message of a System V or POSIX queue.
    MessageQueue = "message_queue",
    /// For a semaphore of System V.
    Semaphore = "semaphore",
    /// For its virtual CPU's guest to have work.
    Guest = "guest",
    /// For its process's core dump, or other threads, to end.
    Exit = "exit",
    /// A thread of the kernel: for work to come.
    Work = "work",
    /// Frozen: by its control group, or as the machine suspends.
    Frozen = "frozen",
    /// Stopped by a signal.
    Stopped = "stopped",
    /// Stopped for its debugger.
    Traced = "traced",
    /// In a system call, of which no more is known; about: the call, and its file.
    Call = "call",
    /// In functions of the kernel, of which no more is known; about: the innermost one.
    Function = "function",
    /// Nothing is known.
    Unknown = "unknown",
}

impl Reason {
    /// Why a thread waited.
    pub fn of(wait: &Wait<'_>) -> Self {
        let state = match wait.state {
            State::Stopped(state) if TaskState::of(state.into()) == TaskState::Traced => {
                return ReasonKind::Traced.alone();
            }
            State::Stopped(_) => return ReasonKind::Stopped.alone(),
            State::Blocked(state) => u32::from(state),
            _ => 0,
        };
        if let Some((device, op)) = wait.disk.filter(|_| wait.may_be_io()) {
            return ReasonKind::Disk.about(format!("{device}: {op}").as_bytes());
        }
        let by_stack = frames::reason(wait);
        let reason =
            by_stack.or_else(|| calls::reason(wait)).unwrap_or_else(|| Self::rest(wait, state));
        // Only a thread ends such a wait by itself; an interrupt does it when the time is over.
        let is_timed = matches!(reason.kind, ReasonKind::Futex | ReasonKind::Semaphore);
        if is_timed && wait.waker.is_some_and(|waker| waker.context == WakeContext::Hardirq) {
            return ReasonKind::Timer.alone();
        }
        reason
    }

    /// Where neither the stack nor the call says more.
    fn rest(wait: &Wait<'_>, state: u32) -> Self {
        /// `TASK_FROZEN`, include/linux/sched.h, Linux 6.1 and 6.18.
        const FROZEN: u32 = 0x8000;
        if state & FROZEN != 0 {
            return ReasonKind::Frozen.alone();
        }
        if let Some(call) = wait.call {
            return ReasonKind::Call.about(&of(call, wait.object));
        }
        if let Some(function) = frames::innermost(wait.frames) {
            return ReasonKind::Function.about(function.as_bytes());
        }
        match TaskState::of(state) {
            TaskState::Idle | TaskState::Parked => ReasonKind::Work.alone(),
            _ => ReasonKind::Unknown.alone(),
        }
    }

    /// Whether the thread merely had nothing to do: it waited for what others, or the time, bring.
    pub fn is_idle(&self) -> bool {
        use ReasonKind::{
            Accept, Child, Events, Guest, IoUring, Signal, Terminal, Timer, Watch, Work,
        };
        matches!(
            self.kind,
            Accept | Child | Events | Guest | IoUring | Signal | Terminal | Timer | Watch | Work
        )
    }
}

impl ReasonKind {
    /// A reason that is about nothing in particular.
    pub(crate) fn alone(self) -> Reason {
        Reason { kind: self, about: None }
    }

    /// A reason that is about something.
    pub(crate) fn about(self, about: &[u8]) -> Reason {
        Reason { kind: self, about: Some(about.into()) }
    }

    /// A reason that is about something, where it is known.
    pub(crate) fn maybe(self, about: Option<&[u8]>) -> Reason {
        Reason { kind: self, about: about.map(Into::into) }
    }
}

/// `fsync of /srv/journal`, or the call alone.
pub(crate) fn of(call: &str, object: Option<&[u8]>) -> Vec<u8> {
    match object {
        Some(object) => [call.as_bytes(), b" of ", object].concat(),
        None => call.into(),
    }
}

/// In words: `flock on /srv/journal`, `disk vda: read`, `timer`. Bytes that are
/// not UTF-8 are replaced; control characters stay: escape them before a terminal.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ReasonKind as Kind;
        let about = self.about.as_deref().map(String::from_utf8_lossy);
        let about = about.as_deref();
        let on = |f: &mut fmt::Formatter<'_>, what: &str| match about {
            Some(about) => write!(f, "{what} on {about}"),
            None => f.write_str(what),
        };
        let socket = |f: &mut fmt::Formatter<'_>, before: &str, what: &str| match about {
            Some(protocol) => write!(f, "{before} a {protocol} {what}"),
            None => write!(f, "{before} a {what}"),
        };
        let in_function = |f: &mut fmt::Formatter<'_>, what: &str| match about {
            Some(function) => write!(f, "{what} in {function}"),
            None => f.write_str(what),
        };
        match self.kind {
            Kind::Flock => on(f, "flock"),
            Kind::RecordLock => on(f, "record lock"),
            Kind::Lease => on(f, "lease"),
            Kind::PipeRead => f.write_str("reading a pipe"),
            Kind::PipeWrite => f.write_str("writing to a full pipe"),
            Kind::FifoOpen => match about {
                Some(path) => write!(f, "other end of the FIFO {path}"),
                None => f.write_str("other end of a FIFO"),
            },
            Kind::SocketRead => socket(f, "receiving from", "socket"),
            Kind::SocketWrite => socket(f, "room to send to", "socket"),
            Kind::Accept => socket(f, "accepting", "connection"),
            Kind::Connect => socket(f, "making", "connection"),
            Kind::Futex => f.write_str("futex"),
            Kind::Timer => f.write_str("timer"),
            Kind::Events => match about {
                Some(call) => write!(f, "event on its descriptors ({call})"),
                None => f.write_str("event on its descriptors"),
            },
            Kind::Child => f.write_str("child process"),
            Kind::Vfork => f.write_str("child of vfork, until it executes a program"),
            Kind::Signal => f.write_str("signal"),
            Kind::Terminal => match about {
                Some(path) => write!(f, "terminal {path}"),
                None => f.write_str("terminal"),
            },
            Kind::Eventfd => f.write_str("eventfd"),
            Kind::Watch => f.write_str("change of watched files"),
            Kind::IoUring => f.write_str("results of io_uring"),
            Kind::Aio => f.write_str("results of asynchronous I/O"),
            Kind::Disk => match about {
                // With a device: `vda: read`.
                Some(about) if about.contains(": ") && !about.contains('/') => {
                    write!(f, "disk {about}")
                }
                Some(about) => write!(f, "disk: {about}"),
                None => f.write_str("disk"),
            },
            Kind::DiskQueue => f.write_str("room in the queue of a disk"),
            Kind::Journal => on(f, "journal commit of the file system"),
            Kind::DirtyLimit => f.write_str("writeback: too many dirty pages"),
            Kind::Reclaim => f.write_str("memory reclaim"),
            Kind::Swap => f.write_str("page fault: swap"),
            Kind::Userfault => f.write_str("page fault: a userfaultfd handler"),
            Kind::FileServer => match about {
                Some(kind) => write!(f, "file server ({kind})"),
                None => f.write_str("file server"),
            },
            Kind::KernelLock => in_function(f, "kernel lock"),
            Kind::AddressSpace => f.write_str("lock of its address space (mmap_lock)"),
            Kind::Rcu => f.write_str("RCU grace period"),
            Kind::KernelWork => in_function(f, "work of a kernel thread"),
            Kind::MessageQueue => f.write_str("message queue"),
            Kind::Semaphore => f.write_str("System V semaphore"),
            Kind::Guest => f.write_str("work for the guest of its virtual CPU"),
            Kind::Exit => f.write_str("end of other threads of its process"),
            Kind::Work => f.write_str("work (kernel thread)"),
            Kind::Frozen => f.write_str("frozen"),
            Kind::Stopped => f.write_str("stopped by a signal"),
            Kind::Traced => f.write_str("stopped by its debugger"),
            Kind::Call => match about {
                Some(call) => write!(f, "in {call}"),
                None => f.write_str("in a system call"),
            },
            Kind::Function => match about {
                Some(function) => write!(f, "in {function} of the kernel"),
                None => f.write_str("in the kernel"),
            },
            Kind::Unknown => f.write_str("not known"),
        }
    }
}
