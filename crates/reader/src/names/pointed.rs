//! Names of numbers in structures that arguments point to.

use std::sync::LazyLock;

use nix::sys::epoll::EpollFlags;
use nix::sys::signal::SaFlags;

use super::set::{LazySet, Set, flags_of, names};
use super::{files, net, process};

/// `pollfd.events` and `revents`
static POLL: LazySet = LazyLock::new(|| {
    Set::flags(names![
        POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLRDNORM, POLLRDBAND, POLLWRNORM,
        POLLWRBAND, POLLRDHUP,
    ])
});
/// `epoll_event.events`
static EPOLL: LazySet = LazyLock::new(|| Set::flags(flags_of!(EpollFlags)));
/// `sigaction.sa_flags`; `SA_RESTORER`: arch/x86/include/uapi/asm/signal.h and
/// arch/arm64/include/uapi/asm/signal.h.
static SIGNAL_ACTION: LazySet = LazyLock::new(|| {
    Set::flags([(0x0400_0000, "SA_RESTORER")].into_iter().chain(flags_of!(SaFlags)))
});
/// `open_how.resolve` (include/uapi/linux/openat2.h, Linux 6.18)
static RESOLVE: LazySet = LazyLock::new(|| {
    Set::flags([
        (0x01, "RESOLVE_NO_XDEV"),
        (0x02, "RESOLVE_NO_MAGICLINKS"),
        (0x04, "RESOLVE_NO_SYMLINKS"),
        (0x08, "RESOLVE_BENEATH"),
        (0x10, "RESOLVE_IN_ROOT"),
        (0x20, "RESOLVE_CACHED"),
    ])
});
/// `flock.l_type`
static LOCK_TYPE: LazySet = LazyLock::new(|| Set::values(names![F_RDLCK, F_WRLCK, F_UNLCK]));
/// `clone_args.flags`
static CLONE3: LazySet = LazyLock::new(|| {
    Set::flags(process::clone_flags().chain([
        (0x80, "CLONE_NEWTIME"),
        (0x1_0000_0000, "CLONE_CLEAR_SIGHAND"),
        (0x2_0000_0000, "CLONE_INTO_CGROUP"),
    ]))
});

/// A member of a structure that has names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// `sockaddr.sa_family`
    Family,
    /// `pollfd.events`, `pollfd.revents`
    Poll,
    /// `epoll_event.events`
    Epoll,
    /// `sigaction.sa_flags`
    SignalAction,
    /// `open_how.resolve`
    Resolve,
    /// `clone_args.flags`
    CloneFlags,
    /// `flock.l_type`
    LockType,
    /// `flock.l_whence`
    Whence,
    /// `msghdr.msg_flags`
    MessageFlags,
}

impl Member {
    /// Its names, which are the same on all machines.
    pub fn names(self) -> &'static Set {
        match self {
            Self::Family => &net::FAMILY,
            Self::Poll => &POLL,
            Self::Epoll => &EPOLL,
            Self::SignalAction => &SIGNAL_ACTION,
            Self::Resolve => &RESOLVE,
            Self::CloneFlags => &CLONE3,
            Self::LockType => &LOCK_TYPE,
            Self::Whence => &files::WHENCE,
            Self::MessageFlags => &net::MESSAGE,
        }
    }
}
