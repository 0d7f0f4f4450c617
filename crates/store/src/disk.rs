//! The system calls of the writer, so that tests can have them fail.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Access to directories: owner everything, group may look.
const DIR_MODE: u32 = 0o750;
/// Access to files: owner writes, group reads.
const FILE_MODE: u32 = 0o640;

/// A file being written.
pub trait Handle: Write + Send + std::fmt::Debug {
    /// Another handle, to sync it elsewhere.
    fn syncer(&self) -> io::Result<Box<dyn Syncer>>;
    /// Whether it still has a name.
    fn linked(&self) -> io::Result<bool>;
}

/// Something to bring to the disk.
pub trait Syncer: Send + std::fmt::Debug {
    /// Returns when it is there.
    fn sync(&self) -> io::Result<()>;
}

/// What a writer needs of the system.
pub trait Disk: Send + std::fmt::Debug {
    /// Makes a directory, and those above it that are missing.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a file that is not there yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>>;
    /// To sync a directory's names.
    fn dir_syncer(&self, path: &Path) -> io::Result<Box<dyn Syncer>>;
    /// Deletes a file, and its directory if that is then empty.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Bytes that are free on the file system of a directory.
    fn free(&self, dir: &Path) -> io::Result<u64>;
}

/// The system's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDisk {
    /// Group of what is made; `None`: the process's.
    pub group: Option<u32>,
}

impl SystemDisk {
    /// Gives a file to the group. A process that may not do that goes on nevertheless, as a service
    /// does that has the group already: the files are then readable by fewer, not by more.
    ///
    /// # Errors
    /// The system's, but for a lack of rights.
    pub fn give(self, file: &File) -> io::Result<()> {
        match fchown(file, None, self.group) {
            Err(e) if e.kind() != io::ErrorKind::PermissionDenied => Err(e),
            _ => Ok(()),
        }
    }
}

impl Disk for SystemDisk {
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.make_dir(parent)?;
        }
        match DirBuilder::new().mode(DIR_MODE).create(path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            Err(_) => Ok(()),
            Ok(()) => self.give(&File::open(path)?),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        self.give(&file)?;
        Ok(Box::new(file))
    }

    fn dir_syncer(&self, path: &Path) -> io::Result<Box<dyn Syncer>> {
        Ok(Box::new(Names(File::open(path)?)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        if let Some(dir) = path.parent() {
            // Only an empty one goes; one that is not is the usual case.
            let _ = std::fs::remove_dir(dir);
        }
        Ok(())
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let stat = statvfs(dir)?;
        Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
    }
}

impl Handle for File {
    fn syncer(&self) -> io::Result<Box<dyn Syncer>> {
        Ok(Box::new(Data(self.try_clone()?)))
    }

    fn linked(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() != 0)
    }
}

/// A file's data.
#[derive(Debug)]
struct Data(File);

impl Syncer for Data {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// A directory's names.
#[derive(Debug)]
struct Names(File);

impl Syncer for Names {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}
