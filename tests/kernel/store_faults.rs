//! The disk fails: recording goes on in the rings, the fault is told, and writing resumes by itself
//! in a new file.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flightrec_tests::{Files, PATIENCE, Recorder, numbered_call, wait_until};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::Value;

use crate::store::{BUSY, is, maps, missing, read, store, wait_for};
use crate::support::start;

/// A file system of its own on the state directory, of so many KiB, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(dir: &Path, kib: u64) -> Self {
        let size = format!("size={kib}k");
        mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
            .expect("a small tmpfs");
        Self(dir.into())
    }

    fn remount(&self, flags: MsFlags) {
        mount(Some("tmpfs"), &self.0, Some("tmpfs"), MsFlags::MS_REMOUNT | flags, None::<&str>)
            .expect("remount");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// How often the daemon's log has a word.
fn said(recorder: &Recorder, words: &str) -> usize {
    recorder.log().matches(words).count()
}

fn reason_of(store: &Value) -> Option<&str> {
    store["reason"].as_str()
}

fn reason(store: &Value) -> &str {
    reason_of(store).unwrap_or_else(|| panic!("{store:#}"))
}

fn files(recorder: &Recorder) -> u64 {
    // None where the directory can't be read just now.
    store(recorder)["files"].as_u64().unwrap_or(0)
}

/// The rest of every fault's story: written again in a new file, told once, and nothing of the
/// recording lost.
fn recovered(mut recorder: Recorder, before: &[PathBuf]) {
    let recording = maps(&recorder);
    wait_for(&recorder, "it is written again", is("writing"));
    numbered_call(1);
    recorder.stop();
    let files = read(&recorder);
    assert_eq!(missing(&files, &recording), [0; 4], "the rings held it meanwhile");
    assert!(files.paths.last().is_some_and(|last| !before.contains(last)), "in a new file");
    assert_eq!(
        (said(&recorder, "files can't be written"), said(&recorder, "files are written again")),
        (1, 1),
        "once each:\n{}",
        recorder.log()
    );
}

#[test]
fn a_full_disk() {
    let mut recorder = start(&format!("{BUSY}max_total = \"1GiB\"\n"));
    recorder.stop();
    let state = recorder.sandbox().state_dir();
    let disk = Disk::mount(&state, 4 << 10);
    recorder.restart();
    wait_for(&recorder, "a file", |store| store["file"].is_string());
    // Somebody else fills it, and goes on filling it until there is no room for a block.
    let ballast = state.join("ballast");
    let fill = || {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(&ballast).expect("ballast");
        while std::io::Write::write(&mut file, &[1; 4096]).is_ok_and(|n| n > 0) {}
    };
    let full = wait_until(PATIENCE, || {
        fill();
        store(&recorder)["state"] == "failed"
    });
    assert!(full, "{:#}", store(&recorder));
    let failed = store(&recorder);
    assert!(reason(&failed).contains("free some space"), "{failed:#}");
    let text = recorder.flightctl(&["status"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("NOT WRITTEN since ") && text.contains("recording continues in the rings"),
        "{text}"
    );
    let before = Files::read(&state, |_| {});
    // The oldest may be deleted to make room; none may be changed.
    let contents: Vec<_> = before.paths.iter().map(fs::read).collect();
    numbered_call(0);
    fs::remove_file(&ballast).expect("ballast");
    recovered(recorder, &before.paths);
    for (path, content) in before.paths.iter().zip(contents) {
        let now = fs::read(path);
        assert!(now.is_err() || now.ok() == content.ok(), "{} was touched", path.display());
    }
    drop(disk);
}

/// Somebody fills the disk, and all that is deleted to make room, again and again.
#[test]
fn whoever_fills_the_disk_leaves_the_newest_history() {
    let mut recorder = start(&format!("{BUSY}max_total = \"1GiB\"\nkeep_at_least = \"300KiB\"\n"));
    recorder.stop();
    let state = recorder.sandbox().state_dir();
    let disk = Disk::mount(&state, 8 << 10);
    recorder.restart();
    wait_for(&recorder, "some files", |store| {
        numbered_call(0);
        store["files"].as_u64() > Some(4) && store["bytes"].as_u64() > Some(600 << 10)
    });
    let ballast = state.join("ballast");
    let fill = || {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(&ballast).expect("ballast");
        while std::io::Write::write(&mut file, &[1; 4096]).is_ok_and(|n| n > 0) {}
    };
    let given_up = wait_until(PATIENCE, || {
        fill();
        let store = store(&recorder);
        store["state"] == "failed" && store["deleted_files"]["keep_free"].as_u64() > Some(0)
    });
    assert!(given_up, "{:#}\n{}", store(&recorder), recorder.log());
    // It goes on and on, and comes at no more.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while std::time::Instant::now() < end {
        fill();
        // Not so often that the rings of recorders beside it are full of it.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // The recorder tries again meanwhile, so that a file may be there for a moment.
    let is_told = || {
        let failed = store(&recorder);
        let left = Files::read(&state, |_| {});
        let sizes = left.paths.iter().map(|path| Some(fs::metadata(path).ok()?.len()));
        let bytes = sizes.sum::<Option<u64>>();
        reason_of(&failed).is_some_and(|why| why.contains("no space left"))
            && bytes >= Some(300 << 10)
            && failed["files"].as_u64() == Some(left.paths.len() as u64)
            && failed["bytes"].as_u64() == bytes
    };
    assert!(wait_until(PATIENCE, is_told), "{:#}", store(&recorder));
    assert!(
        said(&recorder, "were deleted because the file system is nearly full") >= 1,
        "{}",
        recorder.log()
    );
    let text = recorder.flightctl(&["status"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("for keep_free (others fill the disk)"), "{text}");
    fs::remove_file(&ballast).expect("ballast");
    wait_for(&recorder, "it is written again", is("writing"));
    recorder.stop();
    drop(disk);
}

#[test]
fn a_disk_that_is_read_only_until_later() {
    let mut recorder = start(BUSY);
    recorder.stop();
    let disk = Disk::mount(&recorder.sandbox().state_dir(), 16 << 10);
    disk.remount(MsFlags::MS_RDONLY);
    recorder.restart();
    let failed = wait_for(&recorder, "it is told", is("failed"));
    assert!(reason(&failed).contains("mount it for writing"), "{failed:#}");
    numbered_call(0);
    disk.remount(MsFlags::empty());
    recovered(recorder, &[]);
    drop(disk);
}

/// An error of write(2) in the middle of a block: the size that a file may have is used up.
#[test]
fn a_write_that_fails_within_a_block() {
    let recorder = start(BUSY);
    wait_for(&recorder, "a file", |store| store["written_bytes"].as_u64() > Some(100_000));
    let before = Files::read(&recorder.sandbox().state_dir(), |_| {});
    limit(&recorder, 200_000);
    let failed = wait_for(&recorder, "it is told", is("failed"));
    assert!(reason(&failed).contains("File too large"), "{failed:#}");
    limit(&recorder, libc::RLIM_INFINITY);
    recovered(recorder, &before.paths);
}

/// Limits the size of the daemon's files, prlimit(2).
fn limit(recorder: &Recorder, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    let pid = recorder.pid() as libc::pid_t;
    // SAFETY: one live structure is read, and none written.
    let set =
        unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_directory_that_is_deleted_under_it() {
    let mut recorder = start(BUSY);
    let recording = maps(&recorder);
    wait_for(&recorder, "some files", |store| store["files"].as_u64() > Some(1));
    let state = recorder.sandbox().state_dir();
    fs::remove_dir_all(&state).expect("the state directory");
    assert!(wait_until(PATIENCE, || state.join("lock").exists() && files(&recorder) > 0));
    wait_for(&recorder, "it is written again", is("writing"));
    recorder.stop();
    // What the deleted files held is written again, as the rings still have it all.
    assert_eq!(missing(&read(&recorder), &recording), [0; 4]);
    assert!(
        said(&recorder, "was deleted") + said(&recorder, "files can't be written") >= 1,
        "{}",
        recorder.log()
    );
}

/// Early in boot the state directory is not there yet, and can't be made.
#[test]
fn a_directory_that_comes_later() {
    let mut recorder = start(BUSY);
    recorder.stop();
    let state = recorder.sandbox().state_dir();
    fs::remove_dir_all(&state).expect("the state directory");
    fs::write(&state, "in the way").expect("a file in its place");
    fs::set_permissions(&state, Permissions::from_mode(0o600)).expect("its mode");
    recorder.restart();
    let failed = wait_for(&recorder, "it is told", is("failed"));
    assert!(reason(&failed).contains(&*state.to_string_lossy()), "{failed:#}");
    numbered_call(0);
    fs::remove_file(&state).expect("the file");
    recovered(recorder, &[]);
}
