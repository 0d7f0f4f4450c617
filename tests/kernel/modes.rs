//! What flightd makes, and leaves: modes whatever the umask is, and nothing behind in a BPF file
//! system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flightrec_tests::{
    PATIENCE, Sandbox, bin_dir, die_with_parent, require_kernel, wait_limited, wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Pid;

/// A recorder on directories that are not there yet.
struct Fresh {
    sandbox: Sandbox,
    runtime: PathBuf,
    state: PathBuf,
}

impl Fresh {
    fn new() -> Self {
        require_kernel();
        let sandbox = Sandbox::new().expect("sandbox");
        let (runtime, state) = (sandbox.root().join("new/run"), sandbox.root().join("new/state"));
        Self { sandbox, runtime, state }
    }

    fn flightd(&self, bpffs: &Path) -> Command {
        let mut command = Command::new(bin_dir().join("flightd"));
        command.arg("--runtime-dir").arg(&self.runtime).arg("--state-dir").arg(&self.state);
        die_with_parent(
            command.arg("--bpffs-dir").arg(bpffs).stdin(Stdio::null()),
            Signal::SIGKILL,
        );
        command
    }

    /// Until it answers.
    fn start(&self, mut command: Command) -> Child {
        let mut daemon = command.spawn().expect("flightd");
        let answers = wait_until(PATIENCE, || {
            let mut status = Command::new(bin_dir().join("flightctl"));
            status.arg("--runtime-dir").arg(&self.runtime).arg("status");
            status.output().is_ok_and(|output| output.status.success())
                || !matches!(daemon.try_wait(), Ok(None))
        });
        assert!(answers && matches!(daemon.try_wait(), Ok(None)), "flightd does not answer");
        daemon
    }
}

fn stop(mut daemon: Child) {
    kill(Pid::from_raw(daemon.id() as i32), Signal::SIGTERM).expect("its own process");
    let status = wait_limited(&mut daemon, PATIENCE).expect("wait").expect("it ends");
    assert!(status.success(), "{status}");
}

/// Whatever others than the owner and the group may write to, below a directory.
fn writable(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("directory") {
        let path = entry.expect("entry").path();
        let meta = fs::symlink_metadata(&path).expect("meta");
        if meta.mode() & 0o002 != 0 {
            found.push(path.clone());
        }
        if meta.is_dir() {
            writable(&path, found);
        }
    }
}

#[test]
fn an_open_umask_opens_nothing() {
    let fresh = Fresh::new();
    let mut command = fresh.flightd(&fresh.sandbox.bpffs_dir());
    // SAFETY: umask(2) is async-signal-safe, and touches nothing of the parent's.
    unsafe {
        command.pre_exec(|| {
            umask(Mode::empty());
            Ok(())
        });
    }
    let daemon = fresh.start(command);
    let mode = |path: &Path| fs::metadata(path).expect("made").mode() & 0o7777;
    assert_eq!(format!("{:o}", mode(&fresh.runtime)), "755");
    assert_eq!(format!("{:o}", mode(&fresh.runtime.join("control.sock"))), "660");
    let is_drained = wait_until(PATIENCE, || fresh.state.is_dir());
    assert!(is_drained, "no state directory");
    stop(daemon);
    let mut found = Vec::new();
    writable(&fresh.sandbox.root().join("new"), &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
    assert_eq!(format!("{:o}", mode(&fresh.state)), "750");
}

#[test]
fn a_directory_that_it_made_in_a_bpf_file_system_goes_with_it() {
    let fresh = Fresh::new();
    let bpffs = fresh.sandbox.bpffs_dir();
    let made = bpffs.join("a/b");
    let mut keep = fresh.flightd(&made);
    keep.arg("--keep-recording");
    stop(fresh.start(keep));
    assert!(made.is_dir(), "the recording that was to be kept is gone");
    // Another daemon than the one that made it ends the recording.
    stop(fresh.start(fresh.flightd(&made)));
    assert_eq!(
        fs::read_dir(&bpffs)
            .expect("bpffs")
            .filter(|e| e.as_ref().is_ok_and(|e| e.path().is_dir()))
            .count(),
        0
    );
    // What somebody else made stays, and so does the mount itself.
    let theirs = bpffs.join("theirs");
    fs::create_dir(&theirs).expect("directory");
    stop(fresh.start(fresh.flightd(&theirs)));
    assert!(theirs.is_dir());
}

#[test]
fn a_name_with_a_dot_is_refused_with_its_reason() {
    let fresh = Fresh::new();
    for name in ["flight.rec", "flight.rec/deeper"] {
        let output =
            fresh.flightd(&fresh.sandbox.bpffs_dir().join(name)).output().expect("flightd");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        for words in ["flight.rec", "takes no names with a dot", "--bpffs-dir"] {
            assert!(said.contains(words), "no {words:?} in: {said}");
        }
    }
}
