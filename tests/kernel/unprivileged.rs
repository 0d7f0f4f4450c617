//! flightd as the service runs it: another user, two capabilities, and root's part done before and
//! after.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use flightrec_tests::{
    BpfObject, PATIENCE, Sandbox, Snapshot, bin_dir, bpf_objects_left, die_with_parent,
    numbered_call, require_kernel, wait_limited, wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, gettid};

use crate::support::without_limit;

/// Whom the daemon runs as.
pub(crate) const USER: &str = "nobody";

/// A daemon that ends with its test, also where that fails: the signal of `die_with_parent` is lost
/// when setpriv changes the user.
pub(crate) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sandbox that `USER` may use, with a copy of `flightd` that it may run.
pub(crate) struct UserSandbox {
    pub(crate) sandbox: Sandbox,
    pub(crate) user: User,
}

impl UserSandbox {
    pub(crate) fn new(config: &str) -> Self {
        require_kernel();
        let sandbox = Sandbox::new().expect("sandbox");
        let user = User::from_name(USER).expect("users").expect("nobody");
        fs::set_permissions(sandbox.root(), Permissions::from_mode(0o755)).expect("mode");
        // By another process: a child that some other test starts just then would hold the copy
        // open for writing, and nothing executes a file that is.
        let copied = Command::new("cp")
            .arg(bin_dir().join("flightd"))
            .arg(sandbox.root())
            .status()
            .expect("cp");
        assert!(copied.success(), "no copy of flightd");
        fs::write(sandbox.root().join("flightd.toml"), without_limit(config))
            .expect("configuration");
        chown(sandbox.state_dir(), Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .expect("chown");
        Self { sandbox, user }
    }

    fn with_directories(&self, mut command: Command) -> Command {
        command.arg("--config").arg(self.sandbox.root().join("flightd.toml"));
        command.arg("--runtime-dir").arg(self.sandbox.runtime_dir());
        command.arg("--state-dir").arg(self.sandbox.state_dir());
        command.arg("--bpffs-dir").arg(self.sandbox.bpffs_dir());
        command
    }

    /// Root's part.
    pub(crate) fn as_root(&self, args: &[&str]) {
        let mut command = self.with_directories(Command::new(self.sandbox.root().join("flightd")));
        let output = command.args(args).stdin(Stdio::null()).output().expect("flightd");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// `flightctl`, as root.
    pub(crate) fn flightctl(&self, args: &[&str]) -> Output {
        let mut command = Command::new(bin_dir().join("flightctl"));
        command.arg("--runtime-dir").arg(self.sandbox.runtime_dir());
        command.arg("--state-dir").arg(self.sandbox.state_dir());
        command.args(args).output().expect("flightctl")
    }

    /// The daemon, with CAP_BPF and CAP_PERFMON and nothing else.
    pub(crate) fn daemon(&self) -> Daemon {
        self.daemon_by(Command::new("setpriv"))
    }

    /// The same, to which /proc shows its own processes only, as `ProtectProc=invisible` has it.
    pub(crate) fn daemon_that_sees_no_others(&self) -> Daemon {
        let mut command = Command::new("unshare");
        let script = "mount -t proc -o hidepid=invisible proc /proc && exec setpriv \"$@\"";
        command.args(["--mount", "--", "sh", "-c", script, "sh"]);
        self.daemon_by(command)
    }

    /// `command` takes the arguments of setpriv(1).
    fn daemon_by(&self, mut command: Command) -> Daemon {
        command.args(["--reuid", USER, "--regid", &self.user.gid.to_string(), "--clear-groups"]);
        command.args(["--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=-all,+bpf,+perfmon"]);
        command.args(["--bounding-set=-all,+bpf,+perfmon", "--no-new-privs", "--"]);
        command.arg(self.sandbox.root().join("flightd"));
        let mut command = self.with_directories(command);
        die_with_parent(command.arg("--keep-recording").stdin(Stdio::null()), Signal::SIGKILL);
        let mut daemon = Daemon(command.spawn().expect("setpriv"));
        let child = &mut daemon.0;
        // The socket is there before the recording is: an answer is what tells.
        let answers = wait_until(PATIENCE, || {
            self.flightctl(&["status"]).status.success() || !matches!(child.try_wait(), Ok(None))
        });
        assert!(
            answers && matches!(child.try_wait(), Ok(None)),
            "flightd as {USER} does not answer"
        );
        daemon
    }
}

pub(crate) fn end(mut daemon: Daemon) {
    kill(Pid::from_raw(daemon.0.id() as i32), Signal::SIGTERM).expect("its own process");
    let status = wait_limited(&mut daemon.0, PATIENCE).expect("wait").expect("it ends");
    assert!(status.success(), "{status}");
}

fn has_mount(dir: &Path) -> bool {
    let parent = dir.parent().expect("a parent");
    dir.exists()
        && fs::metadata(dir).expect("dir").dev() != fs::metadata(parent).expect("parent").dev()
}

fn records_and_leaves_nothing(form: &str) {
    let place = UserSandbox::new(&format!("[kernel]\nsyscall_programs = \"{form}\""));
    let bpffs = place.sandbox.bpffs_dir();
    place.as_root(&["--prepare", USER]);
    let daemon = place.daemon();
    numbered_call(0);
    end(daemon);
    numbered_call(1);
    let daemon = place.daemon(); // adopts
    numbered_call(2);

    let snapshot = Snapshot::take(&bpffs);
    assert_eq!(snapshot.meta.syscall_programs, form);
    assert_eq!(snapshot.numbered_calls(gettid().as_raw() as u32), [0, 1, 2]);
    let pins = place.sandbox.pins().expect("pins");
    let objects: Vec<BpfObject> =
        pins.iter().map(|pin| BpfObject::pinned(pin).expect("object")).collect();
    assert!(objects.len() > 10, "{pins:?}");

    end(daemon);
    assert_eq!(place.sandbox.pins().expect("pins"), pins, "the recording goes on");
    place.as_root(&["--remove"]);
    assert!(!bpffs.exists(), "the BPF file system is still mounted: {}", has_mount(&bpffs));
    assert!(!place.sandbox.runtime_dir().join("tracepoints.json").exists());
    assert_eq!(bpf_objects_left(&objects), []);
    // Twice is as good as once.
    place.as_root(&["--remove"]);
}

#[test]
fn with_tp_btf_programs() {
    records_and_leaves_nothing("tp_btf");
}

#[test]
fn with_tracepoint_programs() {
    records_and_leaves_nothing("tracepoint");
}

#[test]
fn prepare_mounts_where_nothing_is_mounted() {
    let place = UserSandbox::new("");
    let own = place.sandbox.root().join("own");
    let mut command = Command::new(bin_dir().join("flightd"));
    command.arg("--runtime-dir").arg(place.sandbox.runtime_dir()).arg("--bpffs-dir").arg(&own);
    let output = command.args(["--prepare", USER]).output().expect("flightd");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(has_mount(&own));
    let meta = fs::metadata(&own).expect("bpffs");
    assert_eq!((meta.uid(), meta.mode() & 0o777), (place.user.uid.as_raw(), 0o700));

    let mut command = Command::new(bin_dir().join("flightd"));
    command.arg("--runtime-dir").arg(place.sandbox.runtime_dir()).arg("--bpffs-dir").arg(&own);
    assert!(command.arg("--remove").status().expect("flightd").success());
    assert!(!own.exists());
}

#[test]
fn a_user_that_is_not_there_is_named() {
    let place = UserSandbox::new("");
    let mut command = place.with_directories(Command::new(bin_dir().join("flightd")));
    let output = command.args(["--prepare", "no-such-user"]).output().expect("flightd");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("no user no-such-user"), "{error}");
}
