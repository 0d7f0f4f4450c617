//! What only root can do for a daemon that runs as another user, before it starts and after it ended.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{User, geteuid};

use crate::bpffs;
use crate::config::Config;
use crate::tracepoints::{FILE, Tracepoints};

/// Gives `user` a BPF file system of its own at `bpffs_dir`, and a copy of what tracefs shows only to root. What is
/// there already stays: a recording in it goes on.
pub fn prepare(config: &Config, user: &str, runtime_dir: &Path, bpffs_dir: &Path) -> Result<()> {
    ensure!(geteuid().is_root(), "--prepare mounts a BPF file system: run it as root");
    let Some(user) = User::from_name(user)? else {
        bail!("there is no user {user}: `useradd --system {user}`, or systemd-sysusers with the package's file")
    };
    for dir in [runtime_dir, bpffs_dir] {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    own(runtime_dir, &user, 0o755)?;
    if matches!(bpffs::prepare(bpffs_dir), Err(bpffs::BpffsError::NotBpffs(_))) {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("bpf"), bpffs_dir, Some("bpf"), flags, Some("mode=0700"))
            .with_context(|| format!("mounting a BPF file system on {}", bpffs_dir.display()))?;
    }
    own(bpffs_dir, &user, 0o700)?;
    Tracepoints::read(&config.kernel.tracefs)?.hand_on(runtime_dir)?;
    Ok(())
}

fn own(path: &Path, user: &User, mode: u32) -> Result<()> {
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
        .with_context(|| format!("giving {} to {}", path.display(), user.name))
}

/// Ends whatever records below `bpffs_dir`, and takes back what [`prepare`] gave.
pub fn remove(runtime_dir: &Path, bpffs_dir: &Path) -> Result<()> {
    if bpffs_dir.exists() {
        if bpffs::prepare(bpffs_dir).is_ok() {
            // A daemon that still runs would be left without its recording.
            let lock = bpffs::lock(bpffs_dir)?;
            let (complete, incomplete) = bpffs::list(bpffs_dir)?;
            for generation in complete.into_iter().chain(incomplete) {
                bpffs::remove(&generation)?;
            }
            drop(lock);
        }
        match umount2(bpffs_dir, MntFlags::UMOUNT_NOFOLLOW) {
            // Not a mount of its own: somebody else's file system, which stays.
            Ok(()) | Err(nix::errno::Errno::EINVAL) => {}
            Err(e) => return Err(e).with_context(|| format!("unmounting {}", bpffs_dir.display())),
        }
    }
    for path in [runtime_dir.join(FILE), bpffs_dir.to_path_buf()] {
        let removed = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        match removed {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        }
    }
    Ok(())
}
