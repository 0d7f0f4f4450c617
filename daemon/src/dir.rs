//! Directories by descriptor: all that root does where another user may put links.
//!
//! The daemon's user owns the runtime directory and the BPF file system, and may have been taken
//! over. So root's part ([`crate::prepare`]) names nothing there by a path: it opens directory by
//! directory, follows no link, makes files under names that are not there yet, and changes owners
//! and modes of what it holds open.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, mkdirat};
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};
use thiserror::Error;

const OPEN: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);
/// `S_ISVTX`: whoever may write there may remove and rename his own entries only.
const STICKY: u32 = 0o1000;
/// Writable by the group or by all.
const OTHERS_WRITE: u32 = 0o022;

/// A directory that root must not work in.
#[derive(Debug, Error)]
pub enum DirError {
    /// Somebody may lead root elsewhere.
    #[error(
        "{path}: {why}. As root, use a directory that only root and {user} can change, and not a \
         link to it"
    )]
    Untrusted {
        /// The directory, or one on the way to it.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
        /// Whose directories are as good as root's.
        user: String,
    },
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl DirError {
    /// Whether a directory on the way, or the last one, is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Who may own the directories that root works in, beside root.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The user.
    pub uid: Uid,
    /// The user's own group.
    pub gid: Gid,
    /// The user's name.
    pub name: String,
}

/// An open directory. Whatever becomes of its name, this stays the same one.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// Opens a directory as the path tells, links included. For what the caller's own rights
    /// decide.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: open(path, OPEN, Mode::empty())?, path: path.into() })
    }

    /// Opens a directory for root to work in: on the way to it there is no link, and no directory
    /// that others than root and `owner` can change ([`Self::check`] asks that of itself). With
    /// `make`, what is missing of it is made, with mode 0755.
    pub fn trusted(path: &Path, owner: Option<&Owner>, make: bool) -> Result<Self, DirError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| DirError::Io { path, source }
        };
        // The parent of a relative path of one name is empty.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let absolute = std::path::absolute(path).map_err(at(path))?;
        let mut dir = Self::open(Path::new("/")).map_err(at(Path::new("/")))?;
        for part in absolute.components() {
            dir.check(owner)?;
            let name = match part {
                Component::Normal(name) => name,
                Component::ParentDir => return Err(dir.untrusted("there is a .. after it", owner)),
                _ => continue,
            };
            let next = if make { dir.make_dir(name, 0o755) } else { dir.dir(name) };
            dir = match next {
                Ok(next) => next,
                Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {
                    let path = dir.path.join(name);
                    return Err(
                        Self { path, ..dir }.untrusted("it is a link, or no directory", owner)
                    );
                }
                Err(e) => return Err(at(&dir.path.join(name))(e)),
            };
        }
        Ok(dir)
    }

    /// The path by which it was opened, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory in it, which must not be a link.
    pub fn dir(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let fd = openat(&self.fd, name, OPEN | OFlag::O_NOFOLLOW, Mode::empty())?;
        Ok(Self { fd, path: self.path.join(name) })
    }

    /// The same; made with exactly this mode where there is none.
    pub fn make_dir(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Self> {
        match mkdirat(&self.fd, name.as_ref(), Mode::from_bits_truncate(mode)) {
            Ok(()) => {
                let made = self.dir(name)?;
                fchmod(&made.fd, Mode::from_bits_truncate(mode))?;
                Ok(made)
            }
            Err(Errno::EEXIST) => self.dir(name),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives it to a user, with this mode.
    pub fn give(&self, owner: &Owner, mode: u32) -> io::Result<()> {
        fchown(&self.fd, Some(owner.uid), Some(owner.gid))?;
        Ok(fchmod(&self.fd, Mode::from_bits_truncate(mode))?)
    }

    /// Its names, `.` and `..` left out.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        // Of its own, for a directory is read by its descriptor's place.
        let fd = openat(&self.fd, ".", OPEN, Mode::empty())?;
        let mut names = Vec::new();
        for entry in nix::dir::Dir::from_fd(fd)?.iter() {
            let name = entry?.file_name().to_bytes().to_owned();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(&name).to_owned());
            }
        }
        Ok(names)
    }

    /// Removes a name that is no directory's: a link goes, and what it leads to stays.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.as_ref(), UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.as_ref(), UnlinkatFlags::RemoveDir)?)
    }

    /// Renames within it; a link is renamed itself.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&self.fd, from.as_ref(), &self.fd, to.as_ref())?)
    }

    /// Puts a file of this content and mode in the place of whatever has the name: whole, or not at
    /// all.
    pub fn replace(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        let new = format!("{name}.new");
        match self.remove(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        // Exclusive: not through a link that somebody has put there meanwhile.
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file =
            File::from(openat(&self.fd, new.as_str(), flags, Mode::from_bits_truncate(0o600))?);
        file.write_all(content)?;
        fchmod(&file, Mode::from_bits_truncate(mode))?;
        self.rename(&new, name)
    }

    /// The kind of file system that it is on.
    pub fn file_system(&self) -> io::Result<FsType> {
        Ok(fstatfs(&self.fd)?.filesystem_type())
    }

    /// A path that leads to a name in it for as long as this lives, whatever its own path is by
    /// then.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.fd.as_raw_fd().to_string()).join(name.as_ref())
    }

    /// The same, to itself.
    pub fn path_of_itself(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.fd.as_raw_fd().to_string())
    }

    /// Its owner and mode.
    pub fn stat(&self) -> io::Result<FileStat> {
        Ok(fstat(&self.fd)?)
    }

    /// Refuses it where others than root and `owner` can change what stands in it; in a sticky one
    /// they can't change what is not theirs.
    pub fn check(&self, owner: Option<&Owner>) -> Result<(), DirError> {
        let stat =
            self.stat().map_err(|source| DirError::Io { path: self.path.clone(), source })?;
        if stat.st_uid != 0 && owner.is_none_or(|owner| owner.uid.as_raw() != stat.st_uid) {
            return Err(self.untrusted("it belongs to another user", owner));
        }
        if stat.st_mode & OTHERS_WRITE != 0 && stat.st_mode & STICKY == 0 {
            return Err(self.untrusted("others may write there", owner));
        }
        Ok(())
    }

    fn untrusted(&self, why: &'static str, owner: Option<&Owner>) -> DirError {
        let user = owner.map_or("its daemon's user", |owner| &owner.name).to_owned();
        DirError::Untrusted { path: self.path.clone(), why, user }
    }
}

/// Makes what is missing of a path, with exactly this mode, whatever the umask is.
pub fn make(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make(parent, mode)?;
    }
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        // By somebody else, meanwhile.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(e),
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
