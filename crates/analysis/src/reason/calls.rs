//! The reason for a wait, by its system call and what that is about.

use super::{Reason, ReasonKind, Wait, is_journal, of};
use crate::syscalls::{self, CallKind};
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

/// `None`: the call says nothing of it.
pub(super) fn reason(wait: &Wait<'_>) -> Option<Reason> {
    use ReasonKind as Kind;
    let call = wait.call?;
    let object = wait.object.map(Object::of);
    Some(match syscalls::kind(call) {
        CallKind::Futex => Kind::Futex.alone(),
        CallKind::Sleep => Kind::Timer.alone(),
        CallKind::Poll => Kind::Events.about(call.as_bytes()),
        CallKind::Child => Kind::Child.alone(),
        CallKind::Vfork => Kind::Vfork.alone(),
        CallKind::Signal => Kind::Signal.alone(),
        CallKind::FileLock if call == "flock" => Kind::Flock.maybe(file(wait)),
        CallKind::FileLock if wait.command.is_some_and(waits_for_lock) => {
            Kind::RecordLock.maybe(file(wait))
        }
        CallKind::Accept => Kind::Accept.maybe(protocol(wait)),
        CallKind::Connect => Kind::Connect.maybe(protocol(wait)),
        CallKind::Ring => Kind::IoUring.alone(),
        CallKind::Aio => Kind::Aio.alone(),
        CallKind::Queue => Kind::MessageQueue.alone(),
        CallKind::Semaphore => Kind::Semaphore.alone(),
        CallKind::Barrier => Kind::Rcu.alone(),
        CallKind::Sync => {
            if wait.may_be_io() {
                Kind::Disk.about(&of(call, file(wait)))
            } else if is_journal(wait.waker_name) {
                Kind::Journal.maybe(file(wait))
            } else {
                return None;
            }
        }
        CallKind::Exit => Kind::Exit.alone(),
        kind => match (syscalls::reads_first(call), object) {
            (Some(true), Some(Object::Pipe)) => Kind::PipeRead.alone(),
            (Some(false), Some(Object::Pipe)) => Kind::PipeWrite.alone(),
            (Some(true), Some(Object::Socket(protocol))) => Kind::SocketRead.maybe(protocol),
            (Some(false), Some(Object::Socket(protocol))) => Kind::SocketWrite.maybe(protocol),
            (Some(_), Some(Object::Eventfd)) => Kind::Eventfd.alone(),
            (Some(true), Some(Object::Signalfd)) => Kind::Signal.alone(),
            (Some(true), Some(Object::Timerfd)) => Kind::Timer.alone(),
            (Some(true), Some(Object::Watch)) => Kind::Watch.alone(),
            (Some(_), Some(Object::Terminal)) => Kind::Terminal.maybe(wait.object),
            (Some(true), None) if kind == CallKind::Receive => Kind::SocketRead.alone(),
            (Some(false), None) if kind == CallKind::Send => Kind::SocketWrite.alone(),
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
