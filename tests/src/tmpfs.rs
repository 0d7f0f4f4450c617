//! File systems that are soon full.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// A tmpfs of its own, unmounted with the value.
#[derive(Debug)]
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    /// Mounts one of so many bytes (`160k`, `64m`) at a path, where a directory is made.
    ///
    /// # Errors
    /// What the kernel says; it takes root.
    pub fn new(path: &Path, size: &str) -> Result<Self> {
        std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        let tmpfs = Self(path.into());
        tmpfs.mount(size, MsFlags::empty())?;
        Ok(tmpfs)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Gives it another size.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn resize(&self, size: &str) -> Result<()> {
        self.mount(size, MsFlags::MS_REMOUNT)
    }

    fn mount(&self, size: &str, flags: MsFlags) -> Result<()> {
        let options = format!("size={size},mode=755");
        mount(Some("tmpfs"), &self.0, Some("tmpfs"), flags, Some(options.as_str()))
            .with_context(|| format!("a tmpfs at {}", self.0.display()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // It may never have been mounted.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}
