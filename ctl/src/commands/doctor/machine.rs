//! The machine that is looked at: its files, below a root that tests make up.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::statvfs::statvfs;

/// Most bytes that are read of a file: all that are looked at are short.
const MOST: u64 = 1 << 20;

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

/// What became of reading a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Its text.
    Text(String),
    /// It is not there.
    Absent,
    /// It may not be read.
    Denied,
}

/// A program that takes dumps, by what distributions call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dumper {
    /// kdump-tools, of Debian and Ubuntu.
    KdumpTools,
    /// kdump-utils (before: kexec-tools), of Fedora and RHEL.
    KdumpUtils,
}

impl Default for Machine {
    /// The one that this runs on.
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

impl Machine {
    /// One whose files are below a directory.
    pub fn below(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Where a file of the machine is.
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> Seen {
        let mut bytes = Vec::new();
        match fs::File::open(self.path(path))
            .and_then(|file| file.take(MOST).read_to_end(&mut bytes))
        {
            Ok(_) => Seen::Text(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Seen::Denied,
            Err(_) => Seen::Absent,
        }
    }

    /// A file's text, where it can be had.
    pub fn text(&self, path: &str) -> Option<String> {
        match self.read(path) {
            Seen::Text(text) => Some(text),
            Seen::Absent | Seen::Denied => None,
        }
    }

    /// A number that stands alone in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Whether something is there; `None`: it may not be looked at.
    pub fn exists(&self, path: &str) -> Option<bool> {
        match self.path(path).symlink_metadata() {
            Ok(_) => Some(true),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => None,
            Err(_) => Some(false),
        }
    }

    /// The first of these that is there.
    pub fn any<'a>(&self, paths: &[&'a str]) -> Option<&'a str> {
        paths.iter().copied().find(|path| self.exists(path) == Some(true))
    }

    /// When a file was last changed.
    pub fn modified(&self, path: &str) -> Option<SystemTime> {
        self.path(path).metadata().ok()?.modified().ok()
    }

    /// Names in a directory.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    }

    /// Bytes free for others than root where a path is, or would be.
    pub fn free(&self, path: &str) -> io::Result<u64> {
        let path = self.path(path);
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(&self.root);
        let stat = statvfs(there)?;
        Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
    }

    /// A line of `/proc/meminfo`, bytes.
    pub fn memory(&self, field: &str) -> Option<u64> {
        let text = self.text("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }

    /// What takes dumps here.
    pub fn dumper(&self) -> Option<Dumper> {
        if self.any(&["/etc/default/kdump-tools", "/usr/sbin/kdump-config"]).is_some() {
            Some(Dumper::KdumpTools)
        } else {
            self.any(&["/etc/kdump.conf"]).map(|_| Dumper::KdumpUtils)
        }
    }

    /// A setting of the program that takes dumps; the last one counts.
    pub fn setting(&self, dumper: Dumper, name: &str) -> Option<String> {
        let (file, separator) = match dumper {
            Dumper::KdumpTools => ("/etc/default/kdump-tools", '='),
            Dumper::KdumpUtils => ("/etc/kdump.conf", ' '),
        };
        let text = self.text(file)?;
        let line = text
            .lines()
            .rev()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(separator))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
    }
}
