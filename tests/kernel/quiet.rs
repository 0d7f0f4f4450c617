//! What quiet processes did outlives a flood that writes over the rings.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use flightrec_tests::{Recorder, c_program, die_with_parent, key_values, online_cpus};
use nix::sys::signal::Signal;

use crate::support::start;

/// Rings that a flood goes round in about two seconds, and no files that have what was in them.
const SMALL: &str = "[rings]\nsyscall = \"4MiB\"\nsched = \"512KiB\"\nquiet = \
                     \"32MiB\"\n[store]\nenabled = false\n";

fn spawn(program: &str, args: &[&str]) -> Child {
    let mut command = Command::new(c_program(program, &[]));
    command.args(args).stdout(Stdio::piped());
    die_with_parent(&mut command, Signal::SIGKILL).spawn().expect(program)
}

/// The calls that a dump of a process shows, and how it ended.
fn calls(
    recorder: &Recorder,
    since: &str,
    pid: u32,
    more: &[&str],
) -> (usize, Option<i32>, String) {
    let pid = pid.to_string();
    let args = [
        "dump",
        "--since",
        since,
        "--strict",
        "--pid",
        &pid,
        "--syscall",
        "getpgrp",
        "--event",
        "sys_enter",
    ];
    let output = recorder.flightctl(&[&args, more].concat());
    let lines = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.contains("getpgrp("))
        .count();
    (lines, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_flood_does_not_write_over_quiet_processes() {
    let mut recorder = start(SMALL);
    // Processes that are older than the flood, and others than the flooders.
    let witnesses: Vec<Child> = ["10", "50", "200"]
        .into_iter()
        .map(|rate| spawn("witness", &[rate, "8", "-1", "3"]))
        .collect();
    sleep(Duration::from_millis(2500));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    let since = format!("{}.{:09}", now.as_secs(), now.subsec_nanos());
    let floods: Vec<Child> = online_cpus()
        .into_iter()
        .map(|cpu| spawn("witness", &["100000", "60", &cpu.to_string()]))
        .collect();
    let ended = witnesses.into_iter().map(|witness| {
        let output = witness.wait_with_output().expect("witness");
        let printed = key_values(&output.stdout);
        let number = |key: &str| printed[key].parse::<usize>().expect("a number");
        (number("pid") as u32, number("calls"))
    });
    let ended: Vec<(u32, usize)> = ended.collect();
    let flooder = floods.first().expect("a flood").id();
    sleep(Duration::from_secs(2));
    let bpffs = recorder.sandbox().bpffs_dir().display().to_string();
    let look = |recorder: &Recorder, more: &[&str]| {
        for (pid, made) in &ended {
            let (shown, code, said) = calls(recorder, &since, *pid, more);
            assert_eq!(shown, *made, "calls of {pid}: {said}");
            assert!(said.contains("the quiet ring holds"), "the rings alone had them: {said}");
            assert_eq!(code, Some(0), "{said}");
        }
        let (_, code, said) = calls(recorder, &since, flooder, more);
        assert!(
            code == Some(3) && said.contains("of busy processes, overwritten in the ring"),
            "{said}"
        );
    };
    look(&recorder, &[]);
    recorder.kill();
    look(&recorder, &["--bpffs-dir", &bpffs]);
    for mut flood in floods {
        let _ = flood.kill().and_then(|()| flood.wait());
    }
}
