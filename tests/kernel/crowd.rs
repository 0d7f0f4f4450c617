//! The table of threads when somebody wants a thread not to be in it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flightrec_tests::{PATIENCE, Recorder, c_program, key_values, wait_until};

use crate::support::start;

/// Whom nothing belongs to.
const NOBODY: u32 = 65534;

/// `crowd`, as a user without rights; it and its processes end with this.
struct Crowd {
    child: Child,
    victim: String,
    kept: u32,
}

impl Crowd {
    fn new(pages: u32, count: u32) -> Self {
        let program = c_program("crowd", &[]);
        let mut command = Command::new(program);
        command
            .args([pages.to_string(), count.to_string()])
            .uid(NOBODY)
            .gid(NOBODY)
            .process_group(0);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("crowd");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines().take(3);
        let said: Vec<String> = lines.map(|line| line.expect("a line")).collect();
        let said = key_values(said.join("\n").as_bytes());
        let of = |key: &str| said.get(key).cloned().unwrap_or_else(|| panic!("{key} in {said:?}"));
        Self { child, victim: of("victim"), kept: of("kept").parse().expect("a number") }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Whether the table has the thread.
fn is_shown(recorder: &Recorder, tid: &str) -> bool {
    recorder.flightctl(&["ps", "--all", "--tid", tid]).status.success()
}

#[test]
fn nobody_can_choose_ids_that_keep_a_thread_out() {
    const SLOTS: u32 = 2048;
    let recorder = start(&format!("[threads]\nslots = {SLOTS}"));
    let crowd = Crowd::new(SLOTS.div_ceil(31), 24);
    assert_eq!(crowd.kept, 24, "not enough ids that had the victim's places");
    // Each time that it wakes, another thread may take its place.
    let shown = (0..40).filter(|_| {
        std::thread::sleep(Duration::from_millis(30));
        is_shown(&recorder, &crowd.victim)
    });
    // It may be caught awake, which is no wonder.
    let shown = shown.count();
    assert!(shown >= 24, "the victim is kept out of the table: seen {shown} times of 40");
}

#[test]
fn threads_without_a_place_are_told() {
    let recorder = start("[threads]\nslots = 62");
    let crowd = Crowd::new(0, 300);
    assert_eq!(crowd.kept, 300);
    let told = || {
        let output = recorder.flightctl(&["ps", "--all"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let number = said.lines().find_map(|line| {
            line.split_once(
                " threads have no place in the thread \
                                                          table",
            )
        });
        (said.clone(), number.and_then(|(n, _)| n.rsplit(' ').next()?.parse::<u32>().ok()))
    };
    let enough = wait_until(PATIENCE, || told().1.is_some_and(|n| n >= 200));
    assert!(enough, "{}", told().0);
    let output = recorder.flightctl(&["ps", "--all", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let without = json["without_place"].as_array().expect("a list").len();
    let shown = json["threads"].as_array().expect("a list").len();
    assert!(without >= 200 && shown <= 62, "{without} without, {shown} shown");
}
