//! Which system calls make, copy and close descriptors, and how.

use flightrec_format::abi::record::Abi;
use flightrec_format::meta::{Meta, Syscall};

/// Where a call says whether the descriptor that it makes is closed by an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cloexec {
    /// By this bit of this argument.
    Flag(u8, u32),
    /// It always is.
    Always,
    /// It never is.
    Never,
    /// By this bit of the flags of the `struct open_how` that this argument points to.
    How(u8, u32),
}

/// What a call does to descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Returns one for the path in an argument, relative to the directory in another.
    Open { dir: Option<u8>, path: u8, cloexec: Cloexec },
    /// Returns one for something that has no path.
    Make { name: &'static str, cloexec: Cloexec },
    /// Returns one for what another process, or nobody, has named: which that is no argument says.
    Foreign { cloexec: Cloexec },
    /// `memfd_create`
    Memfd,
    /// `socket`
    Socket,
    /// Binds or connects the socket in the first argument.
    Address,
    /// Returns one for a connection to the socket in the first argument.
    Accept { cloexec: Cloexec },
    /// Returns a copy of the first argument.
    Dup,
    /// Makes the second argument a copy of the first.
    DupTo { cloexec: Cloexec },
    /// `fcntl`
    Fcntl,
    /// `ioctl`
    Ioctl,
    /// `close`
    Close,
    /// `close_range`
    CloseRange,
    /// `unshare`
    Unshare,
    /// `chroot`
    Chroot,
}

/// `O_CLOEXEC`; `EFD_CLOEXEC`, `SOCK_CLOEXEC` and their kin are the same bit.
pub(super) const CLOEXEC: u32 = libc::O_CLOEXEC as u32;

pub(super) fn role(name: &str) -> Option<Role> {
    use Cloexec::{Always, Flag, How, Never};
    let open = |dir, path, cloexec| Role::Open { dir, path, cloexec };
    // The names are those that /proc/PID/fd shows.
    let make = |name, cloexec| Role::Make { name, cloexec };
    Some(match name {
        "open" => open(None, 0, Flag(1, CLOEXEC)),
        "creat" => open(None, 0, Never),
        "openat" | "open_tree" | "open_tree_attr" => open(Some(0), 1, Flag(2, CLOEXEC)),
        "openat2" => open(Some(0), 1, How(2, CLOEXEC)),
        "memfd_create" => Role::Memfd,
        "memfd_secret" => make("/secretmem", Flag(0, CLOEXEC)),
        "eventfd" => make("anon_inode:[eventfd]", Never),
        "eventfd2" => make("anon_inode:[eventfd]", Flag(1, CLOEXEC)),
        "epoll_create" => make("anon_inode:[eventpoll]", Never),
        "epoll_create1" => make("anon_inode:[eventpoll]", Flag(0, CLOEXEC)),
        "timerfd_create" => make("anon_inode:[timerfd]", Flag(1, CLOEXEC)),
        "signalfd" => make("anon_inode:[signalfd]", Never),
        "signalfd4" => make("anon_inode:[signalfd]", Flag(3, CLOEXEC)),
        "inotify_init" => make("anon_inode:inotify", Never),
        "inotify_init1" => make("anon_inode:inotify", Flag(0, CLOEXEC)),
        "fanotify_init" => make("anon_inode:[fanotify]", Flag(0, 1)), // FAN_CLOEXEC
        "userfaultfd" => make("anon_inode:[userfaultfd]", Flag(0, CLOEXEC)),
        "perf_event_open" => make("anon_inode:[perf_event]", Flag(4, 8)), // PERF_FLAG_FD_CLOEXEC
        "io_uring_setup" => make("anon_inode:[io_uring]", Always),
        "pidfd_open" => make("anon_inode:[pidfd]", Always),
        "pidfd_getfd" => Role::Foreign { cloexec: Always },
        "open_by_handle_at" => Role::Foreign { cloexec: Flag(2, CLOEXEC) },
        "socket" => Role::Socket,
        "bind" | "connect" => Role::Address,
        "accept" => Role::Accept { cloexec: Never },
        "accept4" => Role::Accept { cloexec: Flag(3, CLOEXEC) },
        "dup" => Role::Dup,
        "dup2" => Role::DupTo { cloexec: Never },
        "dup3" => Role::DupTo { cloexec: Flag(2, CLOEXEC) },
        "fcntl" | "fcntl64" => Role::Fcntl,
        "ioctl" => Role::Ioctl,
        "close" => Role::Close,
        "close_range" => Role::CloseRange,
        "unshare" => Role::Unshare,
        "chroot" => Role::Chroot,
        _ => return None,
    })
}

/// Whether a call makes a descriptor of which not its arguments alone say what it is: one of another
/// process, of a handle, or by a path in a directory that may be its root.
pub fn is_unsure(name: &str) -> bool {
    matches!(role(name), Some(Role::Foreign { .. } | Role::Open { cloexec: Cloexec::How(..), .. }))
}

/// What a recording's calls are to somebody, by number; most are nothing.
#[derive(Debug, Clone)]
pub(super) struct Roles<T = Role> {
    native: Vec<Option<T>>,
    compat: Vec<Option<T>>,
}

impl Roles {
    pub(super) fn new(meta: &Meta) -> Self {
        Self::by_name(meta, role)
    }
}

impl<T: Copy> Roles<T> {
    /// What `of` says of each call's name.
    pub(super) fn by_name(meta: &Meta, of: impl Fn(&str) -> Option<T>) -> Self {
        Self { native: table(&meta.native, &of), compat: table(&meta.compat, &of) }
    }

    pub(super) fn get(&self, abi: Abi, nr: u16) -> Option<T> {
        *self.table(abi).get(usize::from(nr))?
    }

    /// Whether the call is anything: to be asked of every event.
    #[inline]
    pub(super) fn has(&self, abi: Abi, nr: u16) -> bool {
        self.table(abi).get(usize::from(nr)).is_some_and(Option::is_some)
    }

    #[inline]
    fn table(&self, abi: Abi) -> &[Option<T>] {
        match abi {
            Abi::Native | Abi::X32 => &self.native,
            Abi::Compat => &self.compat,
        }
    }
}

fn table<T: Copy>(calls: &[Syscall], of: impl Fn(&str) -> Option<T>) -> Vec<Option<T>> {
    let mut roles = Vec::new();
    for call in calls {
        if let Some(role) = of(&call.name) {
            let at = usize::from(call.nr);
            if roles.len() <= at {
                roles.resize(at + 1, None);
            }
            if let Some(slot) = roles.get_mut(at) {
                *slot = Some(role);
            }
        }
    }
    roles
}

/// Whether a call returns a new descriptor that can be named.
pub fn makes_descriptor(name: &str) -> bool {
    !matches!(
        role(name),
        None | Some(
            Role::Address
                | Role::Chroot
                | Role::Close
                | Role::CloseRange
                | Role::Fcntl
                | Role::Foreign { .. }
                | Role::Ioctl
                | Role::Unshare
        )
    )
}
