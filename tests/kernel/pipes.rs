//! What can't be read at any place is refused at once, with words, and not waited for.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use flightrec_tests::{PATIENCE, bin_dir, die_with_parent, wait_limited};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// Runs `flightctl` with nothing to read but what it is told to, and gives what it says.
fn flightctl(args: &[&str], stdin: Stdio) -> String {
    let mut command = Command::new(bin_dir().join("flightctl"));
    command.args(args).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("flightctl");
    if wait_limited(&mut child, PATIENCE).expect("wait").is_none() {
        child.kill().expect("kill");
        child.wait().expect("wait");
        panic!("flightctl {args:?} waits");
    }
    let output = child.wait_with_output().expect("wait");
    assert!(!output.status.success(), "{args:?}");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn are_refused_wherever_a_file_is_named() {
    let dir = tempfile::tempdir().expect("directory");
    let boot = dir.path().join("01234567-89ab-cdef-0123-456789abcdef");
    fs::create_dir(&boot).expect("directory");
    let (pipe, stored) = (dir.path().join("pipe"), boot.join("20261121T120503Z-000001.flight"));
    for path in [&pipe, &stored] {
        mkfifo(path, Mode::S_IRWXU).expect("fifo");
    }
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (pipe, store, out) = (text(&pipe), text(dir.path()), text(&dir.path().join("out")));
    let cases: [&[&str]; 6] = [
        &["dump", "--vmcore", &pipe],
        &["dump", "--file", &pipe],
        &["dump", "--store", &pipe],
        &["dump", "--store", &store],
        &["verify", &pipe],
        &["recover", &pipe, "-o", &out],
    ];
    for args in cases {
        let said = flightctl(args, Stdio::null());
        assert!(said.contains("a pipe: name a file"), "{args:?}: {said}");
    }
    for args in [["dump", "--vmcore", "/dev/stdin"], ["dump", "--file", "/dev/stdin"]] {
        let said = flightctl(&args, Stdio::piped());
        assert!(said.contains("a pipe: name a file"), "{args:?}: {said}");
        let said = flightctl(&args, Stdio::null());
        assert!(said.contains("a character device: name a file"), "{args:?}: {said}");
    }
}
