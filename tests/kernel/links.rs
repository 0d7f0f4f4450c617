//! The user that flightd runs as, taken over: links where it may put them lead root's helpers
//! nowhere.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::unprivileged::{USER, UserSandbox};

/// What a file of root's holds, and what is to be in it still.
const SECRET: &str = "root's own\n";

/// A directory of root's with a file, which `USER` can read and not change.
fn of_root(place: &UserSandbox) -> PathBuf {
    let dir = place.sandbox.root().join("root");
    fs::create_dir(&dir).expect("directory");
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("mode");
    fs::write(dir.join("file"), SECRET).expect("file");
    dir
}

fn is_untouched(dir: &Path) {
    assert_eq!(fs::read_to_string(dir.join("file")).expect("root's file"), SECRET);
    for path in [dir, &dir.join("file")] {
        assert_eq!(
            fs::metadata(path).expect("root's").uid(),
            0,
            "{} is root's no more",
            path.display()
        );
    }
    assert_eq!(fs::metadata(dir).expect("root's").mode() & 0o777, 0o755);
    assert_eq!(
        fs::read_dir(dir).expect("root's").count(),
        1,
        "something else is in {}",
        dir.display()
    );
}

/// Runs a script as `USER`, with no capability.
fn as_user(place: &UserSandbox, script: &str) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", &place.user.gid.to_string(), "--clear-groups"]);
    command.args([
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
        "/bin/sh",
        "-ec",
        script,
    ]);
    let output =
        command.current_dir(place.sandbox.root()).stdin(Stdio::null()).output().expect("setpriv");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Root's part, with the BPF file system where the service has it: in the runtime directory.
fn root(place: &UserSandbox, args: &[&str]) -> Output {
    let mut command = Command::new(place.sandbox.root().join("flightd"));
    command.arg("--config").arg(place.sandbox.root().join("flightd.toml"));
    command.arg("--runtime-dir").arg(place.sandbox.runtime_dir());
    command.args(args).stdin(Stdio::null()).output().expect("flightd")
}

fn fine(place: &UserSandbox, args: &[&str]) {
    let output = root(place, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_copy_of_the_tracepoints_is_written_through_no_link() {
    let place = UserSandbox::new("");
    let secret = of_root(&place);
    fine(&place, &["--prepare", USER]);
    as_user(&place, "rm run/tracepoints.json; ln -s ../root/file run/tracepoints.json.new");
    fine(&place, &["--prepare", USER]);
    is_untouched(&secret);
    let copy =
        fs::symlink_metadata(place.sandbox.runtime_dir().join("tracepoints.json")).expect("a copy");
    assert!(copy.is_file() && copy.uid() == 0, "{copy:?}");
    // One that is there already is replaced, not written to.
    as_user(&place, "rm run/tracepoints.json; ln -s ../root/file run/tracepoints.json");
    fine(&place, &["--prepare", USER]);
    is_untouched(&secret);
    fine(&place, &["--remove"]);
}

#[test]
fn nothing_behind_a_link_is_given_to_the_user() {
    let place = UserSandbox::new("");
    let secret = of_root(&place);
    fine(&place, &["--prepare", USER]);
    fine(&place, &["--remove"]);
    as_user(&place, "ln -s ../root run/bpf");
    let output = root(&place, &["--prepare", USER]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    is_untouched(&secret);
    assert!(!output.status.success() && error.contains("run/bpf: it is a link"), "{error}");
    // Taking it back takes the link, and nothing else.
    fine(&place, &["--remove"]);
    is_untouched(&secret);
    assert!(fs::symlink_metadata(place.sandbox.runtime_dir().join("bpf")).is_err());
}

#[test]
fn nothing_behind_a_link_is_removed() {
    let place = UserSandbox::new("");
    let secret = of_root(&place);
    fine(&place, &["--prepare", USER]);
    let root = place.sandbox.root().display().to_string();
    let (complete, half) = ("gen-00000000000000aa", "new-00000000000000bb");
    as_user(&place, &format!("cd run/bpf; mkdir {complete}; ln -s {root}/root {complete}/links"));
    as_user(&place, &format!("cd run/bpf; mkdir {half}; ln -s {root}/root {half}/maps"));
    fine(&place, &["--remove"]);
    is_untouched(&secret);
    fine(&place, &["--prepare", USER]);
    as_user(&place, &format!("ln -s {root}/root run/bpf/{complete}"));
    fine(&place, &["--remove"]);
    is_untouched(&secret);
    assert!(
        !place.sandbox.runtime_dir().join("bpf").exists(),
        "the BPF file system is still there"
    );
}

#[test]
fn root_works_in_no_directory_that_others_can_change() {
    let place = UserSandbox::new("");
    let shared = place.sandbox.root().join("shared");
    fs::create_dir(&shared).expect("directory");
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("mode");
    let bpffs = shared.join("bpf");
    let output = root(&place, &["--bpffs-dir", bpffs.to_str().expect("text"), "--prepare", USER]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("shared: others may write there"),
        "{error}"
    );
    assert!(!bpffs.exists());
}
