//! Who is at the other end of a connection, and whether to talk to them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::unistd::{Group, getuid};
use tokio::net::UnixStream;
use tracing::warn;

/// Most supplementary groups that a process can have (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// Who is served, beside root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The daemon's own user.
    pub uid: u32,
    /// The group whose members are, if it exists.
    pub gid: Option<u32>,
}

/// The process that connected, with the credentials that it had then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its process id; 0 when it is not visible from here (another pid namespace).
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

impl Access {
    /// Access for root, the process's own user, and the members of `group`, if there is one.
    pub fn new(group: &str) -> Self {
        let found = Group::from_name(group).unwrap_or_else(|e| {
            warn!("looking up group {group} failed: {e}");
            None
        });
        if found.is_none() {
            warn!(
                "there is no group {group}: only root and flightd's own user may use the control \
                 socket; to allow others, run `groupadd --system {group}` and restart flightd"
            );
        }
        Self { uid: getuid().as_raw(), gid: found.map(|g| g.gid.as_raw()) }
    }

    /// Whether this peer is served.
    pub fn allows(&self, peer: &Peer) -> bool {
        peer.uid == 0
            || peer.uid == self.uid
            || self.gid.is_some_and(|gid| peer.gid == gid || peer.groups.contains(&gid))
    }
}

impl Peer {
    /// Whether it may change what the recording costs, and so what is recorded: root, and the
    /// daemon's own user. The group may read.
    pub fn may_change(&self) -> bool {
        self.uid == 0 || self.uid == getuid().as_raw()
    }

    /// Whether it may have functions probed, whose arguments may be anything: root.
    pub fn may_probe(&self) -> bool {
        self.uid == 0
    }

    /// Asks the kernel, which noted the credentials at `connect`.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let cred = stream.peer_cred()?;
        let fd = std::os::fd::AsFd::as_fd(stream);
        let pid = cred.pid().and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
        Ok(Self { pid, uid: cred.uid(), gid: cred.gid(), groups: peer_groups(fd)? })
    }
}

/// The peer's supplementary groups. Unlike /proc/PID/status and the user database, the socket
/// can't name another process's or another day's (`SO_PEERGROUPS`, since Linux 4.13).
fn peer_groups(fd: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: `groups` is a live, writable buffer of `bytes` bytes, and `bytes` one socklen_t;
        // the kernel writes no more than `bytes` says (sk_getsockopt, net/core/sock.c).
        let r = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        if r == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // Too small a buffer: `bytes` is then what it takes.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() || count > GROUPS_MAX
        {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}
