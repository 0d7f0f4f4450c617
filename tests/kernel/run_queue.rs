//! Run-queue lengths against a construction whose lengths are known.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use flightrec_format::decode::{Body, Event};
use flightrec_tests::{PATIENCE, c_program, online_cpus, wait_until};

use crate::samples::Off;
use crate::support::{dump, nice, run, snapshot, start};

/// A CPU of a machine that is not busy is idle within this time.
const SOON: Duration = Duration::from_secs(3);
/// Wakeups of the sleeper.
const SLEEPS: usize = 40;

/// At each wakeup of the sleeper, its time, and how many threads but `ours` were runnable on `cpu`:
/// those that the last event of theirs left running or waiting there. The machine has other things
/// to do as well.
fn others(events: &[Event], cpu: u16, sleeper: u32, ours: &HashSet<u32>) -> Vec<(u64, usize)> {
    let mut runnable: HashMap<u32, u16> = HashMap::new();
    let mut counts = Vec::new();
    for event in events {
        match event.body {
            Body::Switch { prev_state, preempted, next, .. } => {
                if prev_state == 0 || preempted {
                    runnable.insert(event.tid, event.cpu);
                } else {
                    runnable.remove(&event.tid);
                }
                runnable.insert(next, event.cpu);
                if next == 0 {
                    runnable.retain(|_, on| *on != event.cpu);
                }
            }
            Body::Waking { wakee, .. } if wakee == sleeper => {
                let other =
                    |(tid, on): &(&u32, &u16)| **on == cpu && **tid != 0 && !ours.contains(*tid);
                counts.push((event.time, runnable.iter().filter(other).count()));
            }
            Body::Waking { wakee, cpu, .. } => {
                runnable.entry(wakee).or_insert(cpu);
            }
            Body::Migrate { thread, to, .. } => {
                runnable.entry(thread).and_modify(|on| *on = to);
            }
            _ => {}
        }
    }
    counts
}

/// `hogs` threads that never sleep on one CPU: that many a sleeper finds there whenever it wakes.
fn counted(hogs: usize) {
    let recorder = start("[rings]\nsched = \"64MiB\"\nmax_ram_percent = 20");
    let cpu = *online_cpus().last().expect("a CPU");
    // Lengths are known from the moment when the CPU was idle for the first time.
    let idle = |event: &Event| {
        usize::from(event.cpu) == cpu && matches!(event.body, Body::Switch { next: 0, .. })
    };
    let was_idle = || snapshot(&recorder).events.iter().any(idle);
    // Beside programs that never sleep it never is; but a CPU that comes back begins idle.
    if !wait_until(SOON, was_idle) {
        drop(Off::new(cpu));
    }
    assert!(wait_until(PATIENCE, was_idle), "CPU {cpu} was never idle, and can't be switched off");
    let ids = run(
        &c_program("hogs", &[]),
        &[&hogs.to_string(), &cpu.to_string(), &SLEEPS.to_string(), "5000"],
    );
    let (pid, sleeper) = (ids.id("pid"), ids.id("sleeper"));
    // At once, before others write over it.
    let snapshot = snapshot(&recorder);

    let lines = dump(
        &recorder,
        &["--last", "1h", "--event", "waking,wakeup_new", "--tid", &sleeper.to_string()],
    );
    let wakeup = format!("(RUNQ hardirq) #{cpu} {sleeper} sleeper[n:{}] qlen:", nice());
    // The first thread is no hog: it may wait behind them, on its way to wait for their end.
    let mut ours = snapshot.threads_of(pid);
    ours.remove(&pid);
    let others = others(&snapshot.events, cpu as u16, sleeper, &ours);
    let lines = lines.iter().filter(|line| line.text.contains(&format!(" {sleeper} ")));
    let lines: Vec<&str> = lines.map(|line| &*line.text).collect();
    assert_eq!(lines.len(), others.len(), "wakeups of the sleeper: {lines:#?}");
    // Its first wakeups are those of the barriers, before all hogs spin.
    let sleeps = snapshot.calls_named(sleeper, "clock_nanosleep");
    let first = sleeps[0].enter.expect("an entry").0;
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for (text, (_, others)) in lines.iter().zip(&others).filter(|(_, (time, _))| *time > first) {
        let length = text.strip_prefix(&wakeup).and_then(|rest| rest.parse().ok());
        found.push(length.unwrap_or_else(|| panic!("{text}")));
        expected.push(hogs + others);
    }
    // A timer's wakeup while a thread runs that this machine hides from BPF (see names.rs) is not
    // seen.
    assert_eq!(sleeps.len(), SLEEPS);
    assert!(
        (SLEEPS - 2..=SLEEPS).contains(&found.len()),
        "{} wakeups from {SLEEPS} sleeps",
        found.len()
    );
    assert!(
        found.iter().all(|n: &usize| *n >= hogs),
        "{hogs} hogs\n   found {found:?}\nexpected {expected:?}"
    );
    // A thread that is just going to sleep, or is moved, may be seen on either side of the wakeup.
    let exact = found.iter().zip(&expected).filter(|(found, expected)| found == expected).count();
    assert!(
        exact * 10 >= found.len() * 9,
        "{hogs} hogs\n   found {found:?}\nexpected {expected:?}"
    );
}

#[test]
fn one_hog() {
    counted(1);
}

#[test]
fn three_hogs() {
    counted(3);
}

#[test]
fn nine_hogs() {
    counted(9);
}
