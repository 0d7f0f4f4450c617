//! What quiet processes did outlives a flood that writes over the rings.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use flightrec_format::abi::page::Lane;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::{
    PATIENCE, Recorder, c_program, die_with_parent, key_values, online_cpus, wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::start;

/// Rings that a flood goes round in about ten seconds, which is time for flightd to keep what is
/// quiet where others keep the CPUs busy; and no files that have what was in them.
const SMALL: &str = "[rings]\nsyscall = \"4MiB\"\nsched = \"512KiB\"\nquiet = \
                     \"32MiB\"\n[store]\nenabled = false\n";

fn spawn(program: &str, args: &[&str]) -> Child {
    let mut command = Command::new(c_program(program, &[]));
    command.args(args).stdout(Stdio::piped());
    die_with_parent(&mut command, Signal::SIGKILL).spawn().expect(program)
}

/// The calls that a dump of processes shows, and how it ended.
fn calls(
    recorder: &Recorder,
    since: &str,
    pids: &[u32],
    more: &[&str],
) -> (usize, Option<i32>, String) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let mut args =
        vec!["dump", "--since", since, "--strict", "--syscall", "getpgrp", "--event", "sys_enter"];
    args.extend(pids.iter().flat_map(|pid| ["--pid", pid]));
    let output = recorder.flightctl(&[&args, more].concat());
    let lines = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.contains("getpgrp("))
        .count();
    (lines, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Waits until all that the rings of calls hold is written over.
fn have_gone_round(recorder: &Recorder) {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let live = LiveRings::open(&dir, false).expect("a recording");
    let newest = |cpu: u16| live.newest(Lane::Syscall, cpu);
    let round = |cpu: u16| (cpu, newest(cpu) + live.ring_pages(Lane::Syscall, cpu));
    let after: Vec<(u16, u64)> = live.cpus().into_iter().map(round).collect();
    let are_over = || after.iter().all(|(cpu, seq)| newest(*cpu) > *seq);
    assert!(wait_until(PATIENCE, are_over), "the flood is too slow");
}

#[test]
#[ignore = "long: a flood"]
fn a_flood_does_not_write_over_quiet_processes() {
    let mut recorder = start(SMALL);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    let since = format!("{}.{:09}", now.as_secs(), now.subsec_nanos());
    // Processes that are older than the flood, and others than the flooders.
    let witnesses: Vec<Child> = ["10", "50", "200"]
        .into_iter()
        .map(|rate| spawn("witness", &[rate, "8", "-1", "3"]))
        .collect();
    sleep(Duration::from_millis(2500));
    let floods: Vec<Child> = online_cpus()
        .into_iter()
        .map(|cpu| spawn("witness", &["20000", "600", &cpu.to_string()]))
        .collect();
    let ended = witnesses.into_iter().map(|witness| {
        let output = witness.wait_with_output().expect("witness");
        let printed = key_values(&output.stdout);
        let number = |key: &str| printed[key].parse::<usize>().expect("a number");
        (number("pid") as u32, number("calls"))
    });
    let ended: Vec<(u32, usize)> = ended.collect();
    let flooder = floods.first().expect("a flood").id();
    have_gone_round(&recorder);
    let bpffs = recorder.sandbox().bpffs_dir().display().to_string();
    let see = |recorder: &Recorder, witnesses: &[(u32, usize)], more: &[&str]| {
        let pids: Vec<u32> = witnesses.iter().map(|(pid, _)| *pid).collect();
        let made: usize = witnesses.iter().map(|(_, made)| made).sum();
        let (shown, code, said) = calls(recorder, &since, &pids, more);
        assert_eq!(shown, made, "calls of {pids:?}: {said}");
        assert!(said.contains("the quiet ring holds"), "the rings alone had them: {said}");
        assert_eq!(code, Some(0), "{said}");
    };
    let see_flood = |recorder: &Recorder, more: &[&str]| {
        let (_, code, said) = calls(recorder, &since, &[flooder], more);
        assert!(
            code == Some(3) && said.contains("of busy processes, overwritten in the ring"),
            "{said}"
        );
    };
    for witness in &ended {
        see(&recorder, &[*witness], &[]);
    }
    see_flood(&recorder, &[]);
    // From now on nobody keeps what is written over. In a panic nothing is; here the flood ends,
    // but not all that the machine does, so all witnesses are looked at by one dump.
    let stop = |flood: &Child| kill(Pid::from_raw(flood.id() as i32), Signal::SIGSTOP);
    for flood in &floods {
        stop(flood).expect("a flood");
    }
    recorder.kill();
    see(&recorder, &ended, &["--bpffs-dir", &bpffs]);
    see_flood(&recorder, &["--bpffs-dir", &bpffs]);
    for mut flood in floods {
        let _ = flood.kill().and_then(|()| flood.wait());
    }
}
