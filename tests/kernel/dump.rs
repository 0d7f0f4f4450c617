//! `flightctl` as people use it: marks, windows, filters, files, exit codes.

use std::io::Read;
use std::process::Stdio;

use flightrec_tests::{Recorder, Sandbox, numbered_call, require_kernel};
use nix::unistd::gettid;

use crate::support::{Line, dump, is_whole, lines, run, share_recorder};

fn a_mark_is_in_the_recording(recorder: &Recorder) {
    let output = recorder.flightctl(&["mark", "deploy \x1b[2J of 1.2"]);
    assert!(output.status.success(), "{output:?}");
    let marks = dump(recorder, &["--last", "1h", "--event", "mark"]);
    let [mark] = &marks[..] else { panic!("{marks:?}") };
    assert_eq!(mark.text, r"(MARK) deploy \33[2J of 1.2");
    assert_eq!(mark.comm, "flightctl");
    for (text, words) in [("", "empty"), (&*"x".repeat(256), "at most 255")] {
        let output = recorder.flightctl(&["mark", text]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
}

fn windows_and_exit_codes(recorder: &Recorder) {
    numbered_call(0);
    let me = gettid().to_string();
    let dump = |args: &[&str]| {
        recorder.flightctl(&[&["dump", "--tid", &me, "--syscall", "getpgid"], args].concat())
    };
    for window in [
        // The last 10 s: asked for at once.
        &[][..],
        &["--last", "20m"],
        &["--all"],
        &["--since", "-20m"],
        &["--since", "-20m", "--until", "now"],
    ] {
        let output = dump(&[window, &["--strict"]].concat());
        assert_eq!(
            (output.status.code(), lines(&output).len()),
            (Some(0), 2),
            "{window:?}: {output:?}"
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("coverage: ") && said.contains("complete on CPUs"), "{said}");
    }
    // Before the recording began there is nothing, which is not an error.
    let output = dump(&["--until", "-1h"]);
    assert_eq!((output.status.code(), lines(&output).len()), (Some(1), 0), "{output:?}");
    for wrong in [
        &["--last", "soon"][..],
        &["--since", "-1s", "--until", "-2s"],
        &["--event", "swich"],
        &["--cpu", "x"],
    ] {
        let output = dump(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{output:?}");
    }
}

fn filters_combine(recorder: &Recorder) {
    numbered_call(7);
    let pid = std::process::id().to_string();
    let all = dump(recorder, &["--pid", &pid, "--all"]);
    let own = std::fs::read_to_string("/proc/thread-self/comm").expect("a name");
    assert!(
        all.iter()
            .any(|line| line.text == "getpgid(5000007) -->" && own.trim().starts_with(&*line.comm))
    );
    for cpu in ["0", "1"] {
        for line in dump_or_nothing(recorder, &["--cpu", cpu]) {
            assert_eq!(line.cpu.to_string(), cpu);
        }
    }
    let calls = dump(
        recorder,
        &["--pid", &pid, "--all", "--syscall", "getpgid,121", "--event", "sys_exit"],
    );
    // An exit alone has the arguments.
    let is_it = |line: &&Line| line.text.starts_with("getpgid(5000007) <-- -3 ESRCH (");
    assert_eq!(calls.iter().filter(is_it).count(), 1, "{calls:?}");
    assert!(
        calls.iter().all(|line| line.text.contains(") <-- -3 ESRCH (")),
        "exits of these calls alone: {calls:?}"
    );
    let output = recorder.flightctl(&["dump", "--comm", "nobody-has-this", "--all"]);
    assert_eq!(output.status.code(), Some(1));
}

fn dump_or_nothing(recorder: &Recorder, args: &[&str]) -> Vec<Line> {
    let output = recorder.flightctl(&[&["dump"], args].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    lines(&output)
}

fn the_order_is_that_of_time(recorder: &Recorder) {
    run(&flightrec_tests::c_program("pingpong", &[]), &["500", "4"]);
    let output = recorder.flightctl(&["dump", "--last", "1h"]);
    let text = String::from_utf8(output.stdout).expect("ASCII");
    let times: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.get(..15))
        .collect();
    assert!(times.len() > 4000, "{} lines", times.len());
    // All of one day, unless midnight was within.
    let backwards = times.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(
        backwards == 0 || backwards == 1 && times[0] > times[times.len() - 1],
        "{backwards} times backwards"
    );
}

fn a_reader_that_has_seen_enough(recorder: &Recorder) {
    run(&flightrec_tests::c_program("pingpong", &[]), &["5000", "4"]);
    let mut command = recorder.flightctl_command();
    command
        .args(["dump", "--last", "1h", "--strict"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("flightctl");
    let mut head = [0; 200];
    child.stdout.take().expect("its output").read_exact(&mut head).expect("some lines");
    // The pipe is closed now, with most of the dump unread.
    let output = child.wait_with_output().expect("wait");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(is_whole(&output), "{said}");
    assert!(!said.to_lowercase().contains("broken pipe") && !said.contains("panicked"), "{said}");
}

fn into_a_file(recorder: &Recorder) {
    numbered_call(0);
    let file = recorder.sandbox().root().join("dump.txt");
    let name = file.to_str().expect("UTF-8");
    let output = recorder.flightctl(&["dump", "--all", "--syscall", "getpgid", "-o", name]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(text.contains("getpgid(5000000) -->\n"), "{text}");
    assert!(text.starts_with("# coverage: "), "a text that is kept says what it covers: {text}");
    assert!(!text.contains('\x1b'));
    let output = recorder.flightctl(&["dump", "-o", "/nonexistent/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nonexistent/file"));
}

fn status_says_what_is_held(recorder: &Recorder) {
    let output = recorder.flightctl(&["status"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for words in
        ["syscall", "sched", "task", "sys_enter", "switch", "MiB", &recorder.pid().to_string()]
    {
        assert!(said.contains(words), "no {words:?} in:\n{said}");
    }
}

#[test]
fn nothing_to_read_from() {
    require_kernel();
    let sandbox = Sandbox::new().expect("sandbox");
    for command in [&["dump"][..], &["status"], &["mark", "x"]] {
        let mut flightctl =
            std::process::Command::new(flightrec_tests::bin_dir().join("flightctl"));
        let output = flightctl
            .arg("--runtime-dir")
            .arg(sandbox.runtime_dir())
            .args(command)
            .output()
            .expect("flightctl");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("flightd") && said.contains("start"), "{command:?}: {said}");
    }
}

share_recorder!(
    a_mark_is_in_the_recording,
    windows_and_exit_codes,
    filters_combine,
    the_order_is_that_of_time,
    a_reader_that_has_seen_enough,
    into_a_file,
    status_says_what_is_held
);
