//! Mounts and directories that belong to one recorder alone.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

const TRACEFS: &str = "/sys/kernel/tracing";

thread_local! {
    /// Whether this thread has left the machine's mount namespace.
    static PRIVATE: Cell<bool> = const { Cell::new(false) };
}

/// A temporary directory with a bpffs mounted in it, in a mount namespace of the calling thread
/// (and of the processes and threads that it starts from then on), where tracefs is mounted too.
///
/// The machine's own mounts are neither changed nor needed, and the pins go away with the
/// namespace, whatever happens to the process. On drop the bpffs is unmounted and the directory
/// removed.
#[derive(Debug)]
pub struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    /// Needs root (`CAP_SYS_ADMIN`).
    pub fn new() -> Result<Self> {
        enter_private_namespace()?;
        let root = tempfile::Builder::new()
            .prefix("flightrec-")
            .tempdir()
            .context("can't make a temporary folder")?;
        let sandbox = Self { root };
        for dir in [sandbox.runtime_dir(), sandbox.state_dir(), sandbox.bpffs_dir()] {
            std::fs::create_dir(&dir).with_context(|| format!("can't make {}", dir.display()))?;
        }
        let none: Option<&str> = None;
        mount(Some("bpf"), &sandbox.bpffs_dir(), Some("bpf"), MsFlags::empty(), none)
            .context("can't mount a bpffs (does this kernel have CONFIG_BPF_SYSCALL?)")?;
        Ok(sandbox)
    }

    /// The temporary directory; a place for a test's own files.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// For `--runtime-dir`.
    pub fn runtime_dir(&self) -> PathBuf {
        self.root().join("run")
    }

    /// For `--state-dir`.
    pub fn state_dir(&self) -> PathBuf {
        self.root().join("state")
    }

    /// For `--bpffs-dir`: the mounted bpffs.
    pub fn bpffs_dir(&self) -> PathBuf {
        self.root().join("bpf")
    }

    /// All files pinned in the bpffs, sorted. A kernel with `CONFIG_BPF_PRELOAD` pins files of its
    /// own beside a recording's folders: those are left out.
    pub fn pins(&self) -> io::Result<Vec<PathBuf>> {
        let (mut files, mut folders) = (Vec::new(), vec![self.bpffs_dir()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() { &mut folders } else { &mut files }
                    .push(entry.path());
            }
        }
        files.retain(|file| file.parent() != Some(&self.bpffs_dir()));
        files.sort();
        Ok(files)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Before the directory goes, which a mount would hold. Detached, as a process that is just
        // ending may still be using it; if it isn't mounted, the failure means nothing.
        let _ = umount2(&self.bpffs_dir(), MntFlags::MNT_DETACH);
    }
}

/// Once a thread: several sandboxes of one thread see each other's mounts, so that each can be
/// unmounted.
fn enter_private_namespace() -> Result<()> {
    if PRIVATE.get() {
        return Ok(());
    }
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)
        .context("can't make a private mount namespace (run as root)")?;
    // Without this, mounts would still propagate to where the namespace was copied from.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("can't make the mounts private")?;
    if !Path::new(TRACEFS).join("events").is_dir() {
        mount(Some("tracefs"), TRACEFS, Some("tracefs"), MsFlags::empty(), none)
            .with_context(|| format!("can't mount tracefs on {TRACEFS}"))?;
    }
    PRIVATE.set(true);
    Ok(())
}
