//! The directory in a BPF file system where a recording lives while no daemon does.
//!
//! `DIR/gen-<session>` is one generation of rings with its programs. It is made under the name
//! `new-<session>` and renamed when it records, so that a daemon that dies on the way leaves
//! nothing that another would adopt.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use flightrec_format::live;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::{FsType, statfs};
use thiserror::Error;

use crate::dir::Dir;

/// `BPF_FS_MAGIC`, include/uapi/linux/magic.h.
pub const BPF_FS_MAGIC: FsType = FsType(0xcafe_4a11);
const COMPLETE: &str = "gen-";
// No dot: bpffs reserves names with one (`bpf_lookup`, kernel/bpf/inode.c, Linux 6.1).
const INCOMPLETE: &str = "new-";

/// What can go wrong with the directory.
#[derive(Debug, Error)]
pub enum BpffsError {
    /// It is on another kind of file system.
    #[error(
        "{0} is not on a BPF file system, where a recording outlives its daemon: mkdir -p {0} && \
         mount -t bpf bpf {0}"
    )]
    NotBpffs(PathBuf),
    /// A name that no BPF file system takes (`bpf_lookup`, kernel/bpf/inode.c, Linux 6.1).
    #[error(
        "{dir}: a BPF file system takes no names with a dot, and `{name}` has one: give a \
         --bpffs-dir without, or mount one there (mount -t bpf bpf {dir})"
    )]
    Dot {
        /// The directory.
        dir: PathBuf,
        /// Its last name.
        name: String,
    },
    /// Another daemon records there.
    #[error(
        "{0} is in use by another flightd: give this one directories of its own (--bpffs-dir, \
         --runtime-dir, --state-dir)"
    )]
    InUse(PathBuf),
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn io(path: &Path) -> impl FnOnce(io::Error) -> BpffsError {
    move |source| BpffsError::Io { path: path.into(), source }
}

/// Mode of the directories that flightd makes in a BPF file system to record in. That it is sticky
/// is how [`remove_made`] knows them, whichever daemon made them.
const MADE: u32 = 0o1700;

/// Makes sure that `dir` exists and is on a BPF file system.
pub fn prepare(dir: &Path) -> Result<(), BpffsError> {
    make(dir)?;
    if is_bpffs(dir).map_err(io(dir))? { Ok(()) } else { Err(BpffsError::NotBpffs(dir.into())) }
}

fn is_bpffs(dir: &Path) -> io::Result<bool> {
    Ok(statfs(dir)?.filesystem_type() == BPF_FS_MAGIC)
}

/// Makes what is missing of `dir`.
fn make(dir: &Path) -> Result<(), BpffsError> {
    if dir.is_dir() {
        return Ok(());
    }
    let Some((parent, name)) = dir.parent().zip(dir.file_name()) else { return Ok(()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    make(parent)?;
    let in_bpffs = is_bpffs(parent).map_err(io(parent))?;
    if !in_bpffs {
        return crate::dir::make(dir, 0o755).map_err(io(dir));
    }
    match fs::DirBuilder::new().mode(MADE).create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e)
            if e.kind() == io::ErrorKind::PermissionDenied && name.as_bytes().contains(&b'.') =>
        {
            Err(BpffsError::Dot { dir: dir.into(), name: name.to_string_lossy().into_owned() })
        }
        made => made.map_err(io(dir)),
    }
}

/// Removes an empty directory that [`prepare`] made, and those above it that it made, as far as
/// they are empty.
pub fn remove_made(dir: &Path) {
    for dir in dir.ancestors() {
        let made = fs::symlink_metadata(dir).is_ok_and(|m| m.is_dir() && m.mode() & 0o7777 == MADE);
        // Not empty: somebody records there, or left something.
        if !made || !is_bpffs(dir).unwrap_or(false) || fs::remove_dir(dir).is_err() {
            return;
        }
    }
}

/// Locks the directory for as long as what is returned lives. (A BPF file system takes no lock
/// file, but its directories can be locked themselves.)
pub fn lock(dir: &Path) -> Result<Flock<fs::File>, BpffsError> {
    lock_open(dir, fs::File::open(dir).map_err(io(dir))?)
}

/// The same of a directory that is open.
pub fn lock_held(dir: &Dir) -> Result<Flock<fs::File>, BpffsError> {
    let file = dir.as_fd().try_clone_to_owned().map_err(io(dir.path()))?;
    lock_open(dir.path(), file.into())
}

fn lock_open(dir: &Path, file: fs::File) -> Result<Flock<fs::File>, BpffsError> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, Errno::EWOULDBLOCK)) => Err(BpffsError::InUse(dir.into())),
        Err((_, errno)) => Err(io(dir)(errno.into())),
    }
}

/// Makes the directories of a new, as yet incomplete generation.
pub fn create(dir: &Path, session: u64) -> Result<PathBuf, BpffsError> {
    let new = dir.join(format!("{INCOMPLETE}{session:016x}"));
    for part in ["", "maps", "progs", "links"] {
        let path = new.join(part);
        fs::create_dir(&path).map_err(io(&path))?;
    }
    Ok(new)
}

/// Declares it complete.
pub fn complete(dir: &Path, session: u64) -> Result<PathBuf, BpffsError> {
    let (from, to) = (
        dir.join(format!("{INCOMPLETE}{session:016x}")),
        dir.join(format!("{COMPLETE}{session:016x}")),
    );
    fs::rename(&from, &to).map_err(io(&from))?;
    Ok(to)
}

/// Generations under `dir`: complete ones, and what an interrupted start left.
pub fn list(dir: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), BpffsError> {
    let (mut complete, mut incomplete) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(io(dir))? {
        let path = entry.map_err(io(dir))?.path();
        if live::Generation::session(&path).is_some() {
            complete.push(path);
        } else if is_incomplete(&path) {
            incomplete.push(path);
        }
    }
    Ok((complete, incomplete))
}

/// Whether it has the name of a generation, complete or not.
pub fn is_generation(name: &OsStr) -> bool {
    let path = Path::new(name);
    live::Generation::session(path).is_some() || is_incomplete(path)
}

/// Whether it has the name of an incomplete generation, in full: anything else in the directory is
/// somebody else's.
fn is_incomplete(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(INCOMPLETE)).is_some_and(|session| {
        session.len() == 16
            && session.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Removes a generation: first its name, so that nobody adopts the rest if this is interrupted;
/// then links, so that nothing records when the maps go.
pub fn remove(generation: &Path) -> Result<(), BpffsError> {
    let Some((dir, name)) = generation.parent().zip(generation.file_name()) else {
        return Err(io(generation)(io::ErrorKind::InvalidInput.into()));
    };
    remove_in(&Dir::open(dir).map_err(io(dir))?, name)
}

/// The same, by its name in a directory. Nothing behind a link is touched: root does this where
/// another user may have put one.
pub fn remove_in(dir: &Dir, name: &OsStr) -> Result<(), BpffsError> {
    let mut name = name.to_owned();
    let at = |name: &OsStr| dir.path().join(name);
    if let Some(session) = live::Generation::session(&at(&name)) {
        let doomed = OsString::from(format!("{INCOMPLETE}{session:016x}"));
        dir.rename(&name, &doomed).map_err(io(&at(&name)))?;
        name = doomed;
    }
    let generation = match dir.dir(&name) {
        Ok(generation) => generation,
        // A link, or a file: no generation of ours.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {
            return dir.remove(&name).map_err(io(&at(&name)));
        }
        Err(e) => return Err(io(&at(&name))(e)),
    };
    for part in ["links", "progs", "maps"] {
        let path = generation.path().join(part);
        let removed = match generation.dir(part) {
            Ok(held) => empty(&held).and_then(|()| generation.remove_dir(part)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {
                generation.remove(part)
            }
            Err(e) => Err(e),
        };
        removed.map_err(io(&path))?;
    }
    dir.remove_dir(&name).map_err(io(&at(&name)))
}

fn empty(dir: &Dir) -> io::Result<()> {
    dir.names()?.iter().try_for_each(|name| dir.remove(name))
}
