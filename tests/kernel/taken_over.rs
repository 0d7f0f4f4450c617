//! flightd, taken over while it records: what its capabilities are still good for.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flightrec_tests::{bin_dir, c_program, die_with_parent, key_values, wait_until};
use nix::sys::signal::Signal;

use crate::unprivileged::{USER, UserSandbox};

/// A process of root's that makes a system call now and then.
struct Victim(Child);

impl Victim {
    fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "while :; do sleep 0.05; done"]).stdin(Stdio::null());
        Self(die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("sh"))
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It has been killed already where the attack works.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A hook is what runs in the daemon's place with all of its rights: user, capabilities, filters.
#[test]
fn it_loads_no_program_that_kills_a_process_of_root() {
    let mut victim = Victim::start();
    let place = UserSandbox::new("");
    let root = place.sandbox.root();
    let (program, out) = (root.join("send_signal"), place.sandbox.state_dir().join("came-of-it"));
    let copied =
        Command::new("cp").arg(c_program("send_signal", &[])).arg(&program).status().expect("cp");
    assert!(copied.success(), "no copy of the program");
    let hook = format!(
        "[snapshots]\nhook = [{program:?}, \"{}\", {out:?}]\n[triggers]\nenabled = false\n",
        victim.0.id()
    );
    let config = fs::read_to_string(root.join("flightd.toml")).expect("configuration");
    fs::write(root.join("flightd.toml"), format!("{config}\n[store]\nkeep_free = \"0B\"\n{hook}"))
        .expect("configuration");
    place.as_root(&["--prepare", USER]);
    let daemon = place.daemon();
    let mut snapshot = Command::new(bin_dir().join("flightctl"));
    snapshot
        .arg("--runtime-dir")
        .arg(place.sandbox.runtime_dir())
        .args(["snapshot", "--last", "1s", "--reason", "a test"]);
    let output = snapshot.output().expect("flightctl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(wait_until(Duration::from_mins(1), || out.exists()), "the hook was not run");
    let said = key_values(&fs::read(&out).expect("what came of it"));
    assert!(victim.is_alive(), "a process of root was killed: {said:?}");
    let refused = libc::EPERM.to_string();
    assert_eq!((said.get("load"), said.get("map")), (Some(&refused), Some(&refused)), "{said:?}");
    drop(daemon);
    place.as_root(&["--remove"]);
}
