//! Control groups of a test's own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{PATIENCE, wait_until};

/// Removed in the end, once its members have gone.
#[derive(Debug)]
pub struct ControlGroup {
    dir: PathBuf,
    is_v2: bool,
}

impl ControlGroup {
    /// One with a controller, in version 1 where it is mounted at `/sys/fs/cgroup/CONTROLLER`, else
    /// in version 2.
    pub(crate) fn make(controller: &str) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("flightrec-test-{}-{made}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup").join(controller);
        let is_v2 = !v1.is_dir();
        let dir = if is_v2 { Path::new("/sys/fs/cgroup") } else { &v1 }.join(name);
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
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        wait_until(PATIENCE, || fs::remove_dir(&self.dir).is_ok());
    }
}
