//! A control group whose members may take little memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::process::wait_until;

/// Removed in the end, once its members have gone.
#[derive(Debug)]
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// One of at most so many bytes, without swap. Its members are those whose ids are written to
    /// `cgroup.procs` in [`Self::dir`].
    ///
    /// # Panics
    /// Where the machine has no memory controller: [`Self::try_make`] asks.
    pub fn make(bytes: u64) -> Self {
        Self::try_make(bytes).unwrap_or_else(|e| {
            panic!(
                "this test needs a control group with a limit to its memory: {e}; `cargo xtask \
                 test` leaves it out where there is none"
            )
        })
    }

    /// The same, where it can be had.
    ///
    /// # Errors
    /// No control group can be made here (version 2, or version 1 at `/sys/fs/cgroup/memory`), or
    /// it has no memory controller.
    pub fn try_make(bytes: u64) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "flightrec-test-{}-{}",
            std::process::id(),
            MADE.fetch_add(1, Ordering::Relaxed)
        );
        let v1 = Path::new("/sys/fs/cgroup/memory").join(&name);
        let v2 = Path::new("/sys/fs/cgroup").join(&name);
        Self::limited(v1, ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], [bytes; 2])
            .or_else(|_| Self::limited(v2, ["memory.max", "memory.swap.max"], [bytes, 0]))
    }

    fn limited(dir: PathBuf, files: [&str; 2], limits: [u64; 2]) -> io::Result<Self> {
        fs::create_dir(&dir)?;
        let group = Self(dir);
        let [memory, swap] = files.map(|file| group.0.join(file));
        fs::write(memory, limits[0].to_string())?;
        // Without swap there is nothing to limit.
        let _ = fs::write(swap, limits[1].to_string());
        Ok(group)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        wait_until(Duration::from_secs(5), || fs::remove_dir(&self.0).is_ok());
    }
}
