//! What only root can do for a daemon that runs as another user, before it starts and after it
//! ended.
//!
//! The directories are that user's, who may have been taken over: root works in them by descriptors
//! ([`crate::dir`]).

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{Gid, Uid, User, geteuid};
use tracing::warn;

use crate::attachments::ATTACHMENTS;
use crate::bpffs::{self, BPF_FS_MAGIC};
use crate::config::Config;
use crate::dir::{Dir, DirError, Owner};
use crate::tracefs::{FILE, Tracepoints};

/// Gives `user` a BPF file system of its own at `bpffs_dir`, and a copy of what tracefs shows only
/// to root. What is there already stays: a recording in it goes on.
pub fn prepare(config: &Config, user: &str, runtime_dir: &Path, bpffs_dir: &Path) -> Result<()> {
    ensure!(geteuid().is_root(), "--prepare mounts a BPF file system: run it as root");
    let Some(user) = User::from_name(user)? else {
        bail!(
            "there is no user {user}: `useradd --system {user}`, or systemd-sysusers with the \
             package's file"
        )
    };
    let user = Owner { uid: user.uid, gid: user.gid, name: user.name };
    let runtime = own(runtime_dir, &user, 0o755)?;
    let dir = Dir::trusted(bpffs_dir, Some(&user), true)?;
    dir.check(Some(&user))?;
    let bpffs =
        if dir.file_system()? == BPF_FS_MAGIC { dir } else { mounted(&dir, bpffs_dir, &user)? };
    bpffs.give(&user, 0o700).with_context(|| {
        format!("changing the owner of {} to {}", bpffs_dir.display(), user.name)
    })?;
    Tracepoints::read(&config.kernel.tracefs, ATTACHMENTS, &config.tracepoint)?
        .hand_on(&runtime)?;
    Ok(())
}

/// A directory of the user's, made where there is none.
fn own(path: &Path, user: &Owner, mode: u32) -> Result<Dir> {
    let dir = Dir::trusted(path, Some(user), true)?;
    dir.check(Some(user))?;
    dir.give(user, mode).with_context(|| {
        format!(
            "changing the owner of {} to \
                                                  {}",
            path.display(),
            user.name
        )
    })?;
    Ok(dir)
}

/// Mounts a BPF file system on the directory that is held, and opens that.
fn mounted(dir: &Dir, path: &Path, user: &Owner) -> Result<Dir> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("bpf"), &dir.path_of_itself(), Some("bpf"), flags, Some("mode=0700"))
        .with_context(|| format!("mounting a BPF file system on {}", path.display()))?;
    // Unless somebody has moved the directory meanwhile, this leads into what is mounted.
    let mounted = Dir::trusted(path, Some(user), false)?;
    ensure!(
        mounted.file_system()? == BPF_FS_MAGIC,
        "{}: it was moved while being mounted on",
        path.display()
    );
    Ok(mounted)
}

/// Ends whatever records below `bpffs_dir`, and takes back what [`prepare`] gave.
pub fn remove(runtime_dir: &Path, bpffs_dir: &Path) -> Result<()> {
    let runtime = found(Dir::trusted(runtime_dir, None, false))?;
    let user = runtime.as_ref().map(owner_of).transpose()?;
    if let Some(parent) = bpffs_dir.parent()
        && let Some(name) = bpffs_dir.file_name()
        && let Some(parent) = found(Dir::trusted(parent, user.as_ref(), false))?
    {
        parent.check(user.as_ref())?;
        match parent.dir(name) {
            Ok(bpffs) if bpffs.file_system()? == BPF_FS_MAGIC => end(&bpffs)?,
            // Somebody has put a link there, which is not followed; or nothing is there.
            _ => {}
        }
        match umount2(&parent.path_of(name), MntFlags::UMOUNT_NOFOLLOW) {
            // Not a mount of its own: somebody else's file system, which stays.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(e) => return Err(e).with_context(|| format!("unmounting {}", bpffs_dir.display())),
        }
        let removed = match parent.remove_dir(name) {
            Err(e) if e.raw_os_error() == Some(libc::ENOTDIR) => parent.remove(name),
            other => other,
        };
        gone(removed).with_context(|| bpffs_dir.display().to_string())?;
    }
    if let Some(runtime) = runtime {
        gone(runtime.remove(FILE)).with_context(|| runtime_dir.join(FILE).display().to_string())?;
    }
    Ok(())
}

/// Ends all recordings in it. What can't be removed by itself goes with the file system.
fn end(bpffs: &Dir) -> Result<()> {
    // A daemon that still runs would be left without its recording.
    let _lock = bpffs::lock_held(bpffs)?;
    for name in bpffs.names()?.iter().filter(|name| bpffs::is_generation(name)) {
        if let Err(e) = bpffs::remove_in(bpffs, name) {
            warn!("{e}; it is removed when the file system is unmounted");
        }
    }
    Ok(())
}

/// Whoever the directory was given to.
fn owner_of(dir: &Dir) -> Result<Owner> {
    let stat = dir.stat()?;
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let name = User::from_uid(uid)?.map_or_else(|| uid.to_string(), |user| user.name);
    Ok(Owner { uid, gid, name })
}

fn found(dir: Result<Dir, DirError>) -> Result<Option<Dir>> {
    match dir {
        Err(e) if e.is_not_found() => Ok(None),
        other => Ok(Some(other?)),
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
