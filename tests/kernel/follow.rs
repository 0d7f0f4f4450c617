//! `flightctl follow`: what it shows and what it says it skipped is what was recorded.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::{PATIENCE, Recorder, c_program, numbered_call, wait_limited, wait_until};
use nix::sys::prctl::set_name;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};

use crate::support::{lines, start};

/// Starts following into a file; returns when it has begun.
fn follow(recorder: &Recorder, name: &str, args: &[&str]) -> Child {
    let file = recorder.sandbox().root().join(name);
    let mut command = recorder.flightctl_command();
    command
        .arg("follow")
        .args(args)
        .arg("-o")
        .arg(&file)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("flightctl");
    // Something happens all the time, if only what this test does.
    let begun = wait_until(PATIENCE, || fs::metadata(&file).is_ok_and(|file| file.len() > 0));
    assert!(begun, "follow has not begun");
    child
}

fn ended(mut child: Child) -> Output {
    let status = wait_limited(&mut child, PATIENCE).expect("wait");
    if status.is_none() {
        child.kill().expect("kill");
    }
    let output = child.wait_with_output().expect("its output");
    assert!(status.is_some(), "follow did not end: {output:?}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `followed for 10.0 s: 5 events recorded = 3 shown + 1 filtered out + 1 skipped`
fn summary(said: &str) -> HashMap<&'static str, u64> {
    let line = said
        .lines()
        .find(|line| line.starts_with("followed for "))
        .unwrap_or_else(|| panic!("{said}"));
    let (_, counts) = line.split_once(": ").expect("counts");
    let mut found = HashMap::new();
    for part in counts.split([' ', '=', '+']).collect::<Vec<_>>().windows(2) {
        let (Ok(n), word) = (part[0].parse(), part[1]) else { continue };
        let name = ["event", "shown", "filtered", "skipped"]
            .into_iter()
            .find(|name| word.starts_with(name));
        if let Some(name) = name {
            found.insert(name, n);
        }
    }
    assert_eq!(found.len(), 4, "{line}");
    found
}

/// All events that the probes have counted in rings.
fn counted(recorder: &Recorder) -> u64 {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    let totals = recording.totals(&dir.join("progs")).expect("counters");
    totals.cpus.iter().flat_map(|cpu| cpu.events.iter().flatten()).sum()
}

/// More than `flightctl` can show on a small machine.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Self {
        let program = |path: &std::path::Path, args: &[&str]| {
            let mut command = Command::new(path);
            command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            flightrec_tests::die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("a load")
        };
        let dd = program("dd".as_ref(), &["if=/dev/zero", "of=/dev/null", "bs=1"]);
        let pingpong = program(&c_program("pingpong", &[]), &["2000000000", "4"]);
        Self(vec![dd, pingpong])
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lines of events, and what the lines of gaps say is missing; tells when the first came. The first
/// line of all says what is followed.
fn count(mut lines: impl BufRead, begun: &mpsc::Sender<()>) -> (u64, u64) {
    let (mut shown, mut skipped, mut line) = (0, 0, String::new());
    lines.read_line(&mut line).expect("UTF-8");
    assert!(line.starts_with(r#"{"event":"following","schema_version":1,"#), "{line}");
    line.clear();
    while lines.read_line(&mut line).expect("UTF-8") > 0 {
        if shown + skipped == 0 {
            // Nobody waits for it any more where the test has failed.
            let _ = begun.send(());
        }
        if line.contains("\"event\":\"gap\"") {
            let (_, rest) = line.split_once("\"missing\":").expect("a gap's length");
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            skipped += digits.parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        } else {
            shown += 1;
        }
        line.clear();
    }
    (shown, skipped)
}

/// For `FLIGHTREC_FOLLOW_SECONDS`, 10 by default.
#[test]
#[ignore = "long: minutes of load"]
fn under_load_it_adds_up() {
    let seconds =
        std::env::var("FLIGHTREC_FOLLOW_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(10);
    let recorder = start("");
    let load = Load::start();
    let before = counted(&recorder);
    let mut command = recorder.flightctl_command();
    command.args(["follow", "--format", "jsonl"]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("flightctl");
    // Counted as it comes: in a minute these are gigabytes.
    let lines = BufReader::with_capacity(1 << 20, child.stdout.take().expect("its output"));
    let (begun, begins) = mpsc::channel();
    let counts = std::thread::spawn(move || count(lines, &begun));
    begins.recv_timeout(PATIENCE).expect("a first line");
    let first = counted(&recorder);
    std::thread::sleep(Duration::from_secs(seconds));
    let last = counted(&recorder);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("Ctrl-C");
    let output = ended(child);
    let after = counted(&recorder);
    drop(load);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let (shown, skipped) = counts.join().expect("the lines");
    let sum = summary(&said);
    // What was read, and cut off by the end, stands in no gap.
    let cut = said
        .lines()
        .find_map(|line| line.split_once(" of those skipped were read")?.0.parse().ok());
    assert_eq!(
        (sum["shown"], sum["filtered"], sum["skipped"]),
        (shown, 0, skipped + cut.unwrap_or(0)),
        "{said}"
    );
    assert_eq!(sum["event"], shown + sum["skipped"], "{said}");
    // The probes' own counters, read apart from it.
    assert!(
        last - first <= sum["event"] && sum["event"] <= after - before,
        "{first} {last}, {before} {after}: {said}"
    );
    assert!(shown > 10_000, "{said}");
}

/// The same lines as a dump has, also for what happened while there was no daemon. Other tests may
/// flood the lane of system calls meanwhile, and make it skip some; nobody floods the task lane.
#[test]
fn it_shows_what_a_dump_shows_through_the_daemons_death() {
    let mut recorder = start("");
    let tid = gettid().to_string();
    let filter = ["--tid", &tid, "--syscall", "getpgid", "--event", "rename,sys_enter,sys_exit"];
    let child = follow(&recorder, "follow.txt", &filter);
    let pid = Pid::from_raw(child.id() as i32);
    let mut n = 0;
    let mut some = || {
        for _ in 0..100 {
            numbered_call(n);
            let name = CString::new(format!("name {n}")).expect("a name");
            set_name(&name).expect("a new name");
            n += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    some();
    recorder.kill();
    some();
    recorder.restart();
    some();
    let file = recorder.sandbox().root().join("follow.txt");
    let events = |text: &str| {
        text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    let renames = |lines: &[String]| {
        lines.iter().filter(|l| l.contains("name ")).filter(|l| !l.contains("getpgid")).count()
    };
    let followed = || events(&fs::read_to_string(&file).expect("ASCII"));
    assert!(wait_until(PATIENCE, || renames(&followed()) == 300), "{}", renames(&followed()));
    kill(pid, Signal::SIGINT).expect("Ctrl-C");
    let output = ended(child);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("flightctl waits for flightd") && said.contains("flightd is back"),
        "{said}"
    );

    let (sum, followed) = (summary(&said), followed());
    assert_eq!((sum["shown"], renames(&followed)), (followed.len() as u64, 300), "{said}");
    let dump = recorder.flightctl(&[&["dump", "--all"], &filter[..]].concat());
    let dumped = events(std::str::from_utf8(&dump.stdout).expect("ASCII"));
    if sum["skipped"] == 0 {
        assert_eq!((followed.len(), &followed), (900, &dumped));
    } else if dumped.len() == 900 {
        let mut rest = dumped.iter();
        let foreign = followed.iter().find(|line| !rest.any(|dumped| dumped == *line));
        assert_eq!(foreign, None, "followed, and not dumped, or not in this order");
    }
    let text = fs::read_to_string(&file).expect("ASCII");
    assert!(
        text.starts_with("# following session ") && text.contains("\n# followed for "),
        "{text}"
    );
}

#[test]
fn without_a_daemon_from_the_pinned_rings() {
    let mut recorder = start("");
    recorder.kill();
    let tid = gettid().to_string();
    let bpffs = recorder.sandbox().bpffs_dir();
    let mut command = Command::new(flightrec_tests::bin_dir().join("flightctl"));
    command.arg("--bpffs-dir").arg(bpffs).args([
        "follow",
        "--for",
        "3s",
        "--tid",
        &tid,
        "--syscall",
        "getpgid",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("flightctl");
    let mut n = 0;
    wait_until(PATIENCE, || {
        numbered_call(n);
        n += 1;
        child.try_wait().expect("follow").is_some()
    });
    let output = ended(child);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(summary(&said)["shown"] > 100, "{said}");
    assert_eq!(lines(&output).len() as u64, summary(&said)["shown"]);
}

#[test]
fn who_has_seen_enough_and_who_asks_for_nonsense() {
    use std::io::Read;
    let recorder = start("");
    let mut command = recorder.flightctl_command();
    // Kinds that no kernel lacks, which would be told.
    command.args(["follow", "--event", "sys_enter,switch"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("flightctl");
    child.stdout.take().expect("its output").read_exact(&mut [0; 100]).expect("some lines");
    // The pipe is closed now; something happens, so that it notices.
    let output = ended(child);
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    for (args, words) in [
        (&["--interval", "1ms"][..], "10ms"),
        (&["--syscall", "opneat"], "openat"),
        (&["--for", "soon"], "--for"),
        (&["-o", "/nonexistent/file"], "/nonexistent/file"),
    ] {
        let output = recorder.flightctl(&[&["follow"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).contains(words), "{output:?}");
    }
}
