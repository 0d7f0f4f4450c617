//! The socket file: made, handed to its group, taken over from a dead daemon, removed.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, connect, listen, socket,
};
use thiserror::Error;

use super::Access;

/// Longest path of a socket (`sun_path` with its NUL, unix(7)).
const PATH_MAX: usize = 107;
/// Connections that wait to be let in. One more waits in its own `connect`.
const QUEUE: i32 = 128;

/// The socket can't be made.
#[derive(Debug, Error)]
pub enum BindError {
    /// A daemon answers there.
    #[error(
        "{path}: flightd is already running there; stop it, or give this one another --runtime-dir"
    )]
    AlreadyRunning {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has the name; it is not ours to remove.
    #[error("{path}: exists and is not a socket; remove it, or give another --runtime-dir")]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// Longer than the kernel takes.
    #[error(
        "{path}: a socket's path can't be longer than {PATH_MAX} bytes; give a shorter \
         --runtime-dir"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Anything else.
    #[error("{path}: {what}: {source}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// The listening socket. Its file goes when it is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, so that no later daemon's is removed.
    id: Option<(u64, u64)>,
}

impl Listener {
    /// Makes the socket, for the group to use. The file of a dead daemon is replaced, a live one's
    /// is not. Who holds the directory's lock ([`super::lock`]) is alone here.
    pub fn bind(path: &Path, access: &Access) -> Result<Self, BindError> {
        let io = |what| move |source| BindError::Io { path: path.into(), what, source };
        if path.as_os_str().len() > PATH_MAX {
            return Err(BindError::TooLong { path: path.into() });
        }
        match fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(BindError::NotASocket { path: path.into() });
            }
            Ok(_) if is_live(path).map_err(io("asking who listens there"))? => {
                return Err(BindError::AlreadyRunning { path: path.into() });
            }
            Ok(_) => fs::remove_file(path).map_err(io("removing what a dead daemon left"))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io("looking at it")(e)),
        }
        let socket = UnixListener::bind(path).map_err(io("making the control socket"))?;
        // Whoever floods it is ahead of everybody else by this queue.
        let queue = Backlog::new(QUEUE).map_err(|e| io("making its queue")(e.into()))?;
        listen(&socket, queue).map_err(|e| io("making its queue")(e.into()))?;
        let mut listener = Self { socket, path: path.into(), id: None };
        listener.id = identity(path);
        // Until here others may have connected, as the umask was; each peer is asked for its
        // credentials.
        fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(io("setting its mode"))?;
        // A service that has the group already may be forbidden to change owners at all.
        let gid = access
            .gid
            .filter(|gid| fs::symlink_metadata(path).map_or(true, |meta| meta.gid() != *gid));
        if let Some(gid) = gid {
            chown(path, None, Some(gid)).map_err(io("giving it to its group"))?;
        }
        listener.socket.set_nonblocking(true).map_err(io("making it non-blocking"))?;
        Ok(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.id.is_some() && self.id == identity(&self.path) {
            // Left behind, it would be taken for a dead daemon's and replaced: no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Whether somebody listens on the socket, even one who does not accept.
fn is_live(path: &Path) -> io::Result<bool> {
    let fd = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    match connect(fd.as_raw_fd(), &UnixAddr::new(path)?) {
        Ok(()) | Err(Errno::EAGAIN) => Ok(true), // EAGAIN: its queue is full
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
