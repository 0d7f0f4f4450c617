//! Where in the kernel threads waited.

use std::collections::{BTreeMap, HashMap};
use std::process::{Command, Stdio};
use std::time::Duration;

use flightrec_format::abi::record::{stack::Status, switch};
use flightrec_format::decode::{Body, Event};
use flightrec_tests::{Recorder, bin_dir, c_program};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::{valid_dump, valid_dump_or_none};
use crate::lacking::{btf_without, status};
use crate::support::{dump, run, snapshot, start};

/// By the name of the thread, functions one of which is in the stack of its wait: as kernels from
/// Linux 6.1 on name them.
const WAITS: [(&str, &[&str]); 9] = [
    ("nanosleep", &["hrtimer_nanosleep"]),
    ("pipe", &["pipe_read", "anon_pipe_read"]),
    ("futex", &["futex_wait", "__futex_wait"]),
    ("epoll", &["ep_poll", "do_epoll_wait"]),
    ("tcp", &["tcp_recvmsg", "tcp_recvmsg_locked", "sk_wait_data"]),
    ("flock", &["locks_lock_inode_wait", "flock_lock_inode_wait", "__do_sys_flock"]),
    ("fsync", &["do_fsync", "vfs_fsync_range", "__x64_sys_fsync"]),
    ("vfork", &["kernel_clone"]),
    ("page", &["filemap_fault", "filemap_get_pages"]),
];

/// Threads that wait in all of these ways. On a disk: a file system in memory makes nobody wait.
fn wait(rounds: &str) -> u32 {
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    run(&c_program("long_waits", &[]), &[&dir.path().to_string_lossy(), rounds]).id("pid")
}

/// The functions of the stacks of each thread of a process, by its name.
fn functions(events: &[Value], pid: u32) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut found: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["event"] == "stack" && event["pid"] == pid) {
        let name = |frame: &Value| frame["symbol"].as_str().unwrap_or("?").to_owned();
        let stack = event["stack"].as_array().into_iter().flatten().map(name).collect();
        found.entry(event["comm"].as_str().unwrap_or("").into()).or_default().push(stack);
    }
    found
}

fn assert_all(events: &[Value], pid: u32) {
    let found = functions(events, pid);
    for (name, expected) in WAITS {
        let stacks = found.get(name).unwrap_or_else(|| panic!("no stack of {name}: {found:#?}"));
        let right = |stack: &&Vec<String>| stack.iter().any(|of| expected.contains(&of.as_str()));
        assert!(stacks.iter().any(|stack| right(&stack)), "{name}: {stacks:#?}");
        // The wait that it is named for is nearly all that such a thread does; but that for pages
        // waits for them to be written before, and who waits for a child by vfork(2) waits for its
        // end as well.
        let share = stacks.iter().filter(right).count() as f64 / stacks.len() as f64;
        let has_others = name == "page" || name == "vfork";
        assert!(share > 0.5 || has_others, "{name}: {share:.2} of {stacks:#?}");
    }
}

#[test]
fn the_stack_of_a_wait_has_its_function() {
    // A disk may be faster than 1 ms.
    let mut recorder = start("[stacks]\nlonger_than = \"50us\"\n");
    let pid = wait("5");
    let args = ["--last", "1h", "--pid", &pid.to_string(), "--event", "stack"];
    let events = valid_dump(&recorder, &args);
    assert_all(&events, pid);

    // The text has them where they are asked for, below the switch to the thread.
    let args = ["--last", "1h", "--tid", &events[0]["tid"].to_string()];
    let (without, with) =
        (dump(&recorder, &args), dump(&recorder, &[&args[..], &["--stacks"]].concat()));
    let is_stack = |text: &str| text.starts_with("(STACK) slept ");
    assert!(!without.iter().any(|line| is_stack(&line.text)));
    let at: Vec<usize> = (0..with.len()).filter(|at| is_stack(&with[*at].text)).collect();
    // A clock may have struck in the middle: samples are shown with stacks as well.
    let samples = with.iter().filter(|line| line.text.starts_with("(SAMPLE")).count();
    assert_eq!(with.len(), without.len() + at.len() + samples);
    assert!(!at.is_empty());
    for at in at {
        assert!(with[at - 1].text.contains(" -->"), "{:?}", &with[at - 1..=at]);
        assert_eq!(with[at - 1].tid, with[at].tid);
    }

    // A file has the names, and needs no daemon nor this machine's symbols.
    let dir = TempDir::new().expect("directory");
    let file = dir.path().join("saved.flight").display().to_string();
    let saved = recorder.flightctl(&["save", "--last", "1h", "-o", &file]);
    assert!(saved.status.success(), "{saved:?}");
    recorder.stop();
    let args = ["--file", &file, "--pid", &pid.to_string(), "--event", "stack"];
    assert_eq!(valid_dump(&recorder, &args), events);
    let elsewhere = Command::new(bin_dir().join("flightctl"))
        .args(["dump", "--event", "stack", "--file", &file])
        .env_clear()
        .output()
        .expect("flightctl");
    let text = String::from_utf8_lossy(&elsewhere.stdout).into_owned();
    assert!(text.contains(" in hrtimer_nanosleep <- "), "{text}");
    // And so have the files that were drained.
    let state = recorder.sandbox().state_dir().display().to_string();
    let args = ["--state-dir", &state, "--all", "--pid", &pid.to_string(), "--event", "stack"];
    assert_all(&valid_dump(&recorder, &args), pid);
}

/// A wait by its two switches.
struct Wait {
    tid: u32,
    /// When it ended.
    until: u64,
    slept: u64,
    /// The stack that is recorded of it.
    status: Option<Status>,
}

/// All waits whose two switches are recorded, with what is after the second one.
fn waits(events: &[Event]) -> Vec<Wait> {
    let mut left: HashMap<u32, u64> = HashMap::new();
    let mut came: HashMap<u16, (u32, Option<usize>)> = HashMap::new();
    let mut waits: Vec<Wait> = Vec::new();
    for event in events {
        match &event.body {
            Body::Switch { prev_state, preempted, next, .. } => {
                let slept = left.remove(next).map(|since| event.time - since);
                if let Some(slept) = slept {
                    waits.push(Wait { tid: *next, until: event.time, slept, status: None });
                }
                came.insert(event.cpu, (*next, slept.map(|_| waits.len() - 1)));
                if switch::sleeps(*prev_state, *preempted) {
                    left.insert(event.tid, event.time);
                }
            }
            Body::Stack(stack) => {
                let Some((tid, wait)) = came.get(&event.cpu).copied() else { continue };
                assert_eq!(tid, event.tid, "after the switch to it");
                // Of a thread whose wait began before the recording there is one, too.
                if let Some(wait) = wait {
                    assert_eq!(stack.slept, Some(waits[wait].slept));
                    assert_eq!(waits[wait].status.replace(stack.status), None, "one each");
                    assert_eq!(stack.frames.is_empty(), stack.status != Status::Taken);
                }
            }
            Body::Waking { .. } | Body::Migrate { .. } | Body::Plain(_) => {
                came.insert(event.cpu, (0, None));
            }
            _ => {}
        }
    }
    // The events may end between a switch and the stack after it.
    let mut last: Vec<usize> = came.into_values().filter_map(|(_, wait)| wait).collect();
    last.sort_unstable();
    for wait in last.into_iter().rev() {
        if waits[wait].status.is_none() {
            waits.remove(wait);
        }
    }
    waits
}

/// Calls, switches, forks and files on all CPUs for so long.
fn mixed_load(time: Duration) {
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let script = format!(
        "end=$(($(date +%s) + {})); while [ $(date +%s) -lt $end ]; do ls -lR /usr/share | wc -l; \
         cp -r /usr/include/linux {dir}/a; sync {dir}/a; rm -r {dir}/a; sleep 0.01; \
         seq 20000 | sort | tail -1; done",
        time.as_secs(),
        dir = dir.path().display()
    );
    let shell = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("sh")
    };
    for mut load in [shell(), shell(), shell()] {
        load.wait().expect("wait");
    }
}

/// `FLIGHTREC_STACKS_SECONDS` makes the load longer.
#[test]
fn every_long_wait_has_its_stack_or_a_refusal() {
    const LONG: u64 = 1_000_000;
    let seconds = std::env::var("FLIGHTREC_STACKS_SECONDS").ok().and_then(|text| text.parse().ok());
    let recorder = start("[rings]\nsched = \"64MiB\"\nmax_ram_percent = 20\n");
    mixed_load(Duration::from_secs(seconds.unwrap_or(5)));
    let taken_at = snapshot(&recorder);
    // Before, costs were measured, partly without switches.
    let started = taken_at.meta.started;
    let since = taken_at.events.partition_point(|event| event.time < started);
    // From then on one ring was copied after the other: a thread may have run unseen.
    let until = taken_at.events.partition_point(|event| event.time < taken_at.copied);
    let waits = waits(&taken_at.events[since..until]);
    let (long, short): (Vec<Wait>, Vec<Wait>) =
        waits.into_iter().partition(|wait| wait.slept >= LONG);
    let count = |status| long.iter().filter(|wait| wait.status == Some(status)).count();
    let taken = count(Status::Taken);
    eprintln!(
        "{} long waits, {taken} stacks, {} refused, {} not to be had; {} short waits",
        long.len(),
        count(Status::Refused),
        count(Status::Unreadable),
        short.len()
    );
    let end = taken_at.events.last().map_or(0, |event| event.time);
    let without: Vec<(u32, u64, u64, u64)> = long
        .iter()
        .filter(|of| of.status.is_none())
        .map(|of| (of.tid, of.slept, of.until - taken_at.meta.started, end - of.until))
        .collect();
    assert_eq!(without, [], "waits without a stack: thread, ns, since the start, until the end");
    assert!(short.iter().all(|wait| wait.status.is_none()), "stacks of short waits");
    assert!(long.len() > 100 && taken == long.len(), "{taken} of {}", long.len());
    // And the functions have names.
    let events = valid_dump(&recorder, &["--last", "1h", "--event", "stack"]);
    let frames = events.iter().flat_map(|event| event["stack"].as_array().into_iter().flatten());
    let (named, all) = frames.fold((0u64, 0u64), |(named, all), frame| {
        (named + u64::from(frame["symbol"].is_string()), all + 1)
    });
    assert!(named as f64 >= 0.999 * all as f64, "{named} of {all}");
}

#[test]
fn what_the_budget_refuses_is_told_and_counted() {
    let recorder = start("[budget]\nper_cpu = \"0.01%\"\nburst = \"1s\"\n");
    let program = c_program("long_waits", &[]);
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    run(&program, &[&dir.path().to_string_lossy(), "40"]);
    // A change of the level is told whatever the filter.
    let mut events = valid_dump(&recorder, &["--last", "1h", "--event", "stack"]);
    events.retain(|event| event["event"] == "stack");
    let refused = events.iter().filter(|event| event["stack_missing"] == "refused").count();
    assert!(refused > 0, "{} stacks", events.len());
    assert!(
        events.iter().all(|event| event["stack"].is_null() == event["stack_missing"].is_string())
    );
    let counted = status(&recorder)["lanes"]["sched"]["throttled"]["stack"].as_u64();
    assert!(counted >= Some(refused as u64), "{counted:?} of {refused}: {:#}", status(&recorder));
}

#[test]
fn none_are_recorded_where_they_are_off_or_the_kernel_has_none() {
    let events = |recorder: &Recorder| {
        wait("2");
        let events = &status(recorder)["lanes"]["sched"]["events"];
        (events["switch"].as_u64() > Some(100), events["stack"].as_u64())
    };
    let recorder = start("[stacks]\nenabled = false\n");
    assert_eq!(events(&recorder), (true, Some(0)));
    assert_eq!(status(&recorder)["lacking"].as_array().map_or(0, Vec::len), 0);
    drop(recorder);

    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["stack_trace_save_tsk"], dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    assert_eq!(events(&recorder), (true, Some(0)));
    let lacking = status(&recorder)["lacking"].clone();
    let lacking = lacking.as_array().expect("a list");
    let whats: Vec<&Value> = lacking.iter().map(|of| &of["what"]).collect();
    let blocked = "kernel stacks of blocked threads, for `flightctl ps`";
    assert_eq!(whats, [blocked, "kernel stacks of long waits"]);
    for of in lacking {
        assert_eq!(of["why"], "this kernel's BTF has no function stack_trace_save_tsk");
    }
    let output = recorder.flightctl(&["dump", "--last", "1s", "--event", "stack"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("# not recorded on this kernel: kernel stacks of long waits"), "{said}");
}

#[test]
fn a_change_of_the_configuration_takes_effect_at_once() {
    let mut recorder = start("[stacks]\nlonger_than = \"1h\"\n");
    wait("2");
    let before: Vec<Value> = valid_dump_or_none(&recorder, &["--last", "1h", "--event", "stack"]);
    // Those that began before the recording alone.
    assert!(before.iter().all(|event| event["slept_ns"].is_null()), "{before:#?}");
    let config = recorder.options_mut().config.replace("\"1h\"", "\"2ms\"\nkernel_frames = 2");
    recorder.options_mut().config = config;
    recorder.kill();
    recorder.restart();
    let pid = wait("2");
    let events =
        valid_dump(&recorder, &["--last", "1h", "--event", "stack", "--pid", &pid.to_string()]);
    assert!(events.len() > 5, "{events:#?}");
    for event in &events {
        assert!(event["slept_ns"].as_u64() >= Some(2_000_000), "{event}");
        assert_eq!(event["stack"].as_array().map(Vec::len), Some(2), "{event}");
        assert_eq!(event["stack_cut"], true, "{event}");
    }
}
