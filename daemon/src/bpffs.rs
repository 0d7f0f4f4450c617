//! The directory in a BPF file system where a recording lives while no daemon does.
//!
//! `DIR/gen-<session>` is one generation of rings with its programs. It is made under the name
//! `new-<session>` and renamed when it records, so that a daemon that dies on the way leaves
//! nothing that another would adopt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flightrec_format::live;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::{FsType, statfs};
use thiserror::Error;

/// `BPF_FS_MAGIC`, include/uapi/linux/magic.h.
const BPF_FS_MAGIC: FsType = FsType(0xcafe_4a11);
const COMPLETE: &str = "gen-";
// No dot: bpffs reserves names with one (`bpf_lookup`, kernel/bpf/inode.c, Linux 6.1).
const INCOMPLETE: &str = "new-";

/// What can go wrong with the directory.
#[derive(Debug, Error)]
pub enum BpffsError {
    /// It is on another kind of file system.
    #[error(
        "{0} is not on a BPF file system, where a recording outlives its daemon: mkdir -p {0} && mount -t bpf bpf {0}"
    )]
    NotBpffs(PathBuf),
    /// Another daemon records there.
    #[error(
        "{0} is in use by another flightd: give this one directories of its own (--bpffs-dir, --runtime-dir, --state-dir)"
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

/// Makes sure that `dir` exists and is on a BPF file system.
pub fn prepare(dir: &Path) -> Result<(), BpffsError> {
    fs::create_dir_all(dir).map_err(io(dir))?;
    let kind = statfs(dir).map_err(|e| BpffsError::Io { path: dir.into(), source: e.into() })?.filesystem_type();
    if kind == BPF_FS_MAGIC { Ok(()) } else { Err(BpffsError::NotBpffs(dir.into())) }
}

/// Locks the directory for as long as what is returned lives. (A BPF file system takes no lock
/// file, but its directories can be locked themselves.)
pub fn lock(dir: &Path) -> Result<Flock<fs::File>, BpffsError> {
    let file = fs::File::open(dir).map_err(io(dir))?;
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
    let (from, to) = (dir.join(format!("{INCOMPLETE}{session:016x}")), dir.join(format!("{COMPLETE}{session:016x}")));
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

/// Whether it has the name of an incomplete generation, in full: anything else in the directory is
/// somebody else's.
fn is_incomplete(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(INCOMPLETE)).is_some_and(|session| {
        session.len() == 16 && session.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Removes a generation: first its name, so that nobody adopts the rest if this is interrupted;
/// then links, so that nothing records when the maps go.
pub fn remove(generation: &Path) -> Result<(), BpffsError> {
    let mut generation = generation.to_path_buf();
    if let (Some(session), Some(dir)) = (live::Generation::session(&generation), generation.parent()) {
        let doomed = dir.join(format!("{INCOMPLETE}{session:016x}"));
        fs::rename(&generation, &doomed).map_err(io(&generation))?;
        generation = doomed;
    }
    for part in ["links", "progs", "maps"] {
        let dir = generation.join(part);
        match fs::read_dir(&dir) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry.map_err(io(&dir))?.path();
                    fs::remove_file(&path).map_err(io(&path))?;
                }
                fs::remove_dir(&dir).map_err(io(&dir))?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io(&dir)(e)),
        }
    }
    fs::remove_dir(&generation).map_err(io(&generation))
}
