//! The reason for a wait, by its system call and what that is about.

use super::{Reason, ReasonKind, Wait, is_journal, of};
use crate::{State, TaskState};

/// What a descriptor stands for, by its name as `/proc/PID/fd` and strace have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object<'a> {
    Pipe,
    /// With its protocol.
    Socket(Option<&'a [u8]>),
    Eventfd,
    Signalfd,
    Timerfd,
    Watch,
    Terminal,
    /// A file, or something else.
    File,
}

impl<'a> Object<'a> {
    pub(super) fn of(name: &'a [u8]) -> Self {
        let anonymous = name.strip_prefix(b"anon_inode:").map(|name| {
            let name = name.strip_prefix(b"[").unwrap_or(name);
            name.strip_suffix(b"]").unwrap_or(name)
        });
        match anonymous {
            Some(b"eventfd") => return Self::Eventfd,
            Some(b"signalfd") => return Self::Signalfd,
            Some(b"timerfd") => return Self::Timerfd,
            Some(b"inotify" | b"fanotify") => return Self::Watch,
            _ => {}
        }
        if name.starts_with(b"pipe:[") {
            return Self::Pipe;
        }
        if [b"/dev/pts/".as_slice(), b"/dev/tty", b"/dev/console"]
            .iter()
            .any(|p| name.starts_with(p))
        {
            return Self::Terminal;
        }
        match socket(name) {
            Some(protocol) => Self::Socket((protocol != b"socket").then_some(protocol)),
            None => Self::File,
        }
    }

    /// The protocol of a socket.
    fn protocol(self) -> Option<&'a [u8]> {
        if let Self::Socket(protocol) = self { protocol } else { None }
    }
}

/// The protocol of `TCP:[4711]`; `None`: it is no socket.
fn socket(name: &[u8]) -> Option<&[u8]> {
    let at = name.windows(2).position(|two| two == b":[")?;
    let protocol = name.get(..at)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
    let is_socket = protocol == b"socket" || protocol.first().is_some_and(u8::is_ascii_uppercase);
    (name.ends_with(b"]") && is_socket && protocol.iter().all(is_name)).then_some(protocol)
}

/// The protocol of what a wait is about.
pub(super) fn protocol<'a>(wait: &Wait<'a>) -> Option<&'a [u8]> {
    Object::of(wait.object?).protocol()
}

/// The file that a wait is about; not what has no path.
pub(super) fn file<'a>(wait: &Wait<'a>) -> Option<&'a [u8]> {
    wait.object.filter(|name| matches!(Object::of(name), Object::File | Object::Terminal))
}

/// Whether the call reads: `Some(false)`, it writes.
pub(super) fn reads(call: &str) -> Option<bool> {
    match call {
        "read" | "pread64" | "readv" | "preadv" | "preadv2" | "recvfrom" | "recvmsg"
        | "recvmmsg" | "recvmmsg_time64" | "recv" => Some(true),
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendto" | "sendmsg"
        | "sendmmsg" | "send" | "sendfile" | "sendfile64" => Some(false),
        _ => None,
    }
}

/// `None`: the call says nothing of it.
pub(super) fn reason(wait: &Wait<'_>) -> Option<Reason> {
    use ReasonKind as Kind;
    let call = wait.call?;
    let object = wait.object.map(Object::of);
    Some(match call {
        "futex" | "futex_time64" | "futex_wait" | "futex_waitv" | "futex_requeue" => {
            Kind::Futex.alone()
        }
        "nanosleep" | "clock_nanosleep" | "clock_nanosleep_time64" => Kind::Timer.alone(),
        "poll" | "ppoll" | "ppoll_time64" | "select" | "_newselect" | "pselect6"
        | "pselect6_time64" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => {
            Kind::Events.about(call.as_bytes())
        }
        "wait4" | "waitid" | "waitpid" => Kind::Child.alone(),
        "vfork" => Kind::Vfork.alone(),
        "pause" | "rt_sigsuspend" | "sigsuspend" | "rt_sigtimedwait" | "rt_sigtimedwait_time64" => {
            Kind::Signal.alone()
        }
        "flock" => Kind::Flock.maybe(file(wait)),
        "fcntl" | "fcntl64" if wait.command.is_some_and(waits_for_lock) => {
            Kind::RecordLock.maybe(file(wait))
        }
        "accept" | "accept4" => Kind::Accept.maybe(protocol(wait)),
        "connect" => Kind::Connect.maybe(protocol(wait)),
        "io_uring_enter" => Kind::IoUring.alone(),
        "io_getevents" | "io_pgetevents" | "io_pgetevents_time64" => Kind::Aio.alone(),
        "msgrcv"
        | "msgsnd"
        | "mq_timedreceive"
        | "mq_timedsend"
        | "mq_timedreceive_time64"
        | "mq_timedsend_time64" => Kind::MessageQueue.alone(),
        "semop" | "semtimedop" | "semtimedop_time64" => Kind::Semaphore.alone(),
        "membarrier" => Kind::Rcu.alone(),
        "fsync" | "fdatasync" | "msync" | "sync" | "syncfs" | "sync_file_range" => {
            if wait.may_be_io() {
                Kind::Disk.about(&of(call, file(wait)))
            } else if is_journal(wait.waker_name) {
                Kind::Journal.maybe(file(wait))
            } else {
                return None;
            }
        }
        "exit" | "exit_group" => Kind::Exit.alone(),
        _ => match (reads(call), object) {
            (Some(true), Some(Object::Pipe)) => Kind::PipeRead.alone(),
            (Some(false), Some(Object::Pipe)) => Kind::PipeWrite.alone(),
            (Some(true), Some(Object::Socket(protocol))) => Kind::SocketRead.maybe(protocol),
            (Some(false), Some(Object::Socket(protocol))) => Kind::SocketWrite.maybe(protocol),
            (Some(_), Some(Object::Eventfd)) => Kind::Eventfd.alone(),
            (Some(true), Some(Object::Signalfd)) => Kind::Signal.alone(),
            (Some(true), Some(Object::Timerfd)) => Kind::Timer.alone(),
            (Some(true), Some(Object::Watch)) => Kind::Watch.alone(),
            (Some(_), Some(Object::Terminal)) => Kind::Terminal.maybe(wait.object),
            (Some(true), None) if call.starts_with("recv") => Kind::SocketRead.alone(),
            (Some(false), None) if call.starts_with("send") && !call.starts_with("sendfile") => {
                Kind::SocketWrite.alone()
            }
            // Who waits for a file so that nothing interrupts it waits for its disk.
            (_, Some(Object::File)) if is_uninterruptible(wait.state) && wait.may_be_io() => {
                Kind::Disk.about(&of(call, wait.object))
            }
            _ => return None,
        },
    })
}

fn is_uninterruptible(state: State) -> bool {
    matches!(state, State::Blocked(state)
        if TaskState::of(state.into()) == TaskState::Uninterruptible)
}

/// Whether a command of `fcntl` waits for a lock: `F_SETLKW`, `F_SETLKW64` (of 32 bits),
/// `F_OFD_SETLKW` (include/uapi/asm-generic/fcntl.h, Linux 6.18; x86).
fn waits_for_lock(command: u64) -> bool {
    matches!(command, 7 | 14 | 38)
}
