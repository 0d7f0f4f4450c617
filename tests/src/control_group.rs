//! Control groups of a test's own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{PATIENCE, wait_until};

/// A control group, with those that are made in it. Removed in the end, once their members have
/// gone.
#[derive(Debug)]
pub struct ControlGroup {
    dir: PathBuf,
    is_v2: bool,
}

impl ControlGroup {
    /// The beginning of the names of those that a process makes: what a killed one leaves is found
    /// by it.
    pub fn prefix(process: u32) -> String {
        format!("flightrec-test-{process}-")
    }

    /// One with a controller, in version 1 where it is mounted at `/sys/fs/cgroup/CONTROLLER`, else
    /// in version 2.
    pub(crate) fn make(controller: &str) -> io::Result<Self> {
        let v1 = Path::new("/sys/fs/cgroup").join(controller);
        if v1.is_dir() {
            return Self::below(&v1, false);
        }
        Self::below(Path::new("/sys/fs/cgroup"), true)
    }

    /// One of version 2, without a controller.
    ///
    /// # Errors
    /// No file system of version 2 is mounted, or the group can't be made.
    pub fn unified() -> Result<Self> {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = roots.into_iter().find(|dir| dir.join("cgroup.controllers").exists());
        let root = root.context("no cgroup2 file system is mounted")?;
        Self::below(root, true).with_context(|| format!("a group in {}", root.display()))
    }

    fn below(root: &Path, is_v2: bool) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let dir = root.join(format!("{}{made}", Self::prefix(std::process::id())));
        fs::create_dir(&dir)?;
        Ok(Self { dir, is_v2 })
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether it is one of version 2.
    pub fn is_v2(&self) -> bool {
        self.is_v2
    }

    /// Removes a group and those in it, each once its members have gone; one whose members stay for
    /// longer than `patience` is left.
    pub fn remove(dir: &Path, patience: Duration) {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir())) {
            Self::remove(&entry.path(), patience);
        }
        wait_until(patience, || fs::remove_dir(dir).is_ok());
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        Self::remove(&self.dir, PATIENCE);
    }
}
