//! Mounts and directories that belong to one recorder alone.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

const TRACEFS: &str = "/sys/kernel/tracing";
const GROUPS: &str = "/etc/group";
/// Where an installed flightrec has its files.
const INSTALLED: [&str; 3] = ["/etc/flightrec", "/run/flightrec", "/var/lib/flightrec"];
/// Beginning of the line of its group.
const INSTALLED_GROUP: &str = "flightrec:";

thread_local! {
    /// Whether this thread has left the machine's mount namespace.
    static PRIVATE: Cell<bool> = const { Cell::new(false) };
}

/// A temporary directory with a bpffs mounted in it, in a mount namespace of the calling thread
/// (and of the processes and threads that it starts from then on), where tracefs is mounted too.
/// Whatever is installed on the machine, flightrec is not, in there: no configuration, no recorder
/// that runs, and no group `flightrec`.
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
            fs::create_dir(&dir).with_context(|| format!("can't make {}", dir.display()))?;
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
            for entry in fs::read_dir(folder)? {
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
        // Before the directory goes, which a mount would hold: the bpffs, and what the test has
        // mounted. Detached, as a process that is just ending may still be using it.
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
        let points = mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
        for point in points.filter(|point| point.starts_with(self.root())) {
            // If it is gone already, the failure means nothing.
            let _ = umount2(point, MntFlags::MNT_DETACH);
        }
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
    hide_installed()?;
    PRIVATE.set(true);
    Ok(())
}

/// flightd gives its socket and files to the group `flightrec` where there is one, which a user of
/// a test may not; and programs that are not told their directories take the installed ones.
fn hide_installed() -> Result<()> {
    let none: Option<&str> = None;
    for dir in INSTALLED.into_iter().filter(|dir| Path::new(dir).exists()) {
        mount(Some("none"), dir, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
            .with_context(|| format!("can't hide {dir}"))?;
    }
    let groups = fs::read_to_string(GROUPS).with_context(|| GROUPS)?;
    let others = groups.split_inclusive('\n').filter(|line| !line.starts_with(INSTALLED_GROUP));
    // The mount holds the file, so that it needs no name from here on.
    let mut file = tempfile::NamedTempFile::new().context("can't make a temporary file")?;
    file.write_all(others.collect::<String>().as_bytes()).context("can't write the groups")?;
    fs::set_permissions(file.path(), Permissions::from_mode(0o644)).context("can't set a mode")?;
    mount(Some(file.path()), GROUPS, none, MsFlags::MS_BIND, none)
        .with_context(|| format!("can't mount {GROUPS}"))
}
