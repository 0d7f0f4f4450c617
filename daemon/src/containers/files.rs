//! Files that strangers may have put there: read as far as a limit, and only if they are files.
//!
//! The root is the root of the names as well: a link in them leads nowhere else, so the files of a
//! host that is mounted somewhere are that host's (`openat2`, `RESOLVE_IN_ROOT`, Linux 5.6).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};

/// Most entries of a directory that are looked at.
const ENTRIES_MAX: usize = 8192;

/// Files below a root.
#[derive(Debug, Clone)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    /// Those below `root`.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Opens what is there. It waits for no other end of a pipe.
    fn open(&self, path: &str, flags: OFlag) -> Option<OwnedFd> {
        let common = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let root = open(&self.root, common | OFlag::O_DIRECTORY | OFlag::O_PATH, Mode::empty());
        let how = OpenHow::new()
            .flags(common | flags)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        openat2(root.ok()?, path.trim_start_matches('/'), how).ok()
    }

    /// The contents of a file; `None`: there is none, it can't be read, it is no file, or it has
    /// more bytes than `limit`.
    pub(super) fn read(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        // A file that is a link is somebody's trick: the runtimes write none.
        let file = self.open(path, OFlag::O_RDONLY | OFlag::O_NOFOLLOW)?;
        let about = fstat(&file).ok()?;
        let is_file = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        if !is_file || u64::try_from(about.st_size).ok()? > limit {
            return None;
        }
        let mut bytes = Vec::new();
        // It may grow meanwhile.
        File::from(file).take(limit + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    }

    /// The names in a directory; none where it can't be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let dir = self.open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY);
        let Some(dir) = dir.and_then(|dir| Dir::from_fd(dir).ok()) else { return Vec::new() };
        let names = dir.into_iter().flatten().take(ENTRIES_MAX).filter(|entry| {
            matches!(entry.file_type(), None | Some(Type::Directory | Type::File | Type::Symlink))
        });
        let names = names.filter_map(|entry| {
            OsStr::from_bytes(entry.file_name().to_bytes()).to_str().map(str::to_owned)
        });
        names.filter(|name| name != "." && name != "..").collect()
    }
}
