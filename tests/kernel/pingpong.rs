//! Wakeups: who wakes whom, where, and what follows.

use std::collections::{HashMap, HashSet};

use flightrec_format::decode::{Body, Event};
use flightrec_tests::{Recorder, Snapshot, c_program, online_cpus};

use crate::support::{Printed, dump, nice, run, share_recorder, snapshot, start};

/// When both players have made their first move, a write and a read: what came before set the game
/// up, and may have been with the help of other pairs' players.
fn beginning(snapshot: &Snapshot, [ping, pong]: [u32; 2]) -> u64 {
    let first = |tid, name| {
        let call = snapshot.calls_named(tid, name).into_iter().next().expect("a call");
        call.enter.expect("its entry").0
    };
    first(ping, "write").max(first(pong, "read"))
}

/// The threads of a pair.
fn players(ids: &Printed, pair: usize) -> [u32; 2] {
    ["ping", "pong"].map(|name| ids.id(&format!("{name}{pair}")))
}

/// Time of a thread's last return from `read`.
fn last_read(snapshot: &Snapshot, tid: u32) -> u64 {
    let read = snapshot.calls_named(tid, "read").into_iter().next_back().expect("a read");
    read.exit.expect("its exit").0
}

/// What the scheduler did with one wakeup of a thread.
#[derive(Debug)]
struct Wakeup {
    time: u64,
    waker: u32,
    /// Where the records say that it is queued at last: its old CPU, then each migration's.
    named: u16,
    /// A migration began elsewhere than where the thread was.
    broken: bool,
    /// The CPU of its next switch-in, and when.
    ran: Option<(u16, u64)>,
}

/// The wakeups of a thread, each with what followed until the thread ran. A thread that is woken
/// while it is still running (it has decided to sleep, and has not yet been switched away from)
/// does not need a switch-in: those that go on with a system call instead come without `ran`. Where
/// a thread without any event had been switched to on its CPU, that is one that this machine hides
/// from BPF (see names.rs), and so is the switch away from it: the woken thread ran then.
fn wakeups(events: &[Event], thread: u32) -> Vec<Wakeup> {
    let mut all: Vec<Wakeup> = Vec::new();
    let mut open = false;
    let seen: HashSet<u32> = events.iter().map(|event| event.tid).collect();
    let mut running: HashMap<u16, u32> = HashMap::new();
    for event in events {
        let was = running.insert(
            event.cpu,
            if let Body::Switch { next, .. } = event.body { next } else { event.tid },
        );
        if open && event.tid == thread && was.is_some_and(|was| !seen.contains(&was)) {
            if let Some(wakeup) = all.last_mut() {
                wakeup.ran = Some((event.cpu, event.time));
            }
            open = false;
        }
        match event.body {
            Body::Waking { wakee, cpu, .. } if wakee == thread => {
                all.push(Wakeup {
                    time: event.time,
                    waker: event.tid,
                    named: cpu,
                    broken: false,
                    ran: None,
                });
                open = true;
            }
            Body::Migrate { thread: moved, from, to, .. } if moved == thread && open => {
                if let Some(wakeup) = all.last_mut() {
                    wakeup.broken |= wakeup.named != from;
                    wakeup.named = to;
                }
            }
            Body::Switch { next, .. } if next == thread && open => {
                if let Some(wakeup) = all.last_mut() {
                    wakeup.ran = Some((event.cpu, event.time));
                }
                open = false;
            }
            Body::Enter(_) | Body::Exit { .. } if event.tid == thread => open = false,
            _ => {}
        }
    }
    all
}

/// All wakeups of one player by the other between the first ball and the last.
fn game(snapshot: &Snapshot, ids: &Printed, pair: usize) -> [Vec<Wakeup>; 2] {
    let [ping, pong] = players(ids, pair);
    let (from, until) = (beginning(snapshot, [ping, pong]), last_read(snapshot, ping));
    [(ping, pong), (pong, ping)].map(|(waker, wakee)| {
        let mut all = wakeups(&snapshot.events, wakee);
        all.retain(|wakeup| wakeup.time > from && wakeup.time < until);
        for wakeup in &all {
            let around = || around(snapshot, wakeup.time);
            assert_eq!(
                wakeup.waker,
                waker,
                "pair {pair}: {wakee} was woken by another: {wakeup:?}\n{}",
                around()
            );
        }
        all
    })
}

/// The events about `time`, one a line.
fn around(snapshot: &Snapshot, time: u64) -> String {
    const EVENTS: usize = 30;
    let at = snapshot.events.partition_point(|event| event.time < time);
    let shown = snapshot
        .events
        .get(at.saturating_sub(EVENTS)..)
        .unwrap_or_default()
        .iter()
        .take(2 * EVENTS);
    shown.map(|event| format!("{event:?}")).collect::<Vec<_>>().join("\n")
}

/// `rounds` of two threads on these CPUs.
fn pinned(rounds: usize, cpus: [usize; 2]) {
    // Beside a busy loop they take seconds, and others wake each other as well.
    let recorder = start("[rings]\nsyscall = \"32MiB\"\nsched = \"64MiB\"\n");
    let [ping_cpu, pong_cpu] = cpus.map(|cpu| cpu.to_string());
    let ids = run(&c_program("pingpong", &[]), &[&rounds.to_string(), "1", &ping_cpu, &pong_cpu]);
    let snapshot = snapshot(&recorder);
    let both = players(&ids, 0);
    snapshot.assert_complete(beginning(&snapshot, both), last_read(&snapshot, both[0]));
    let [pong, ping] = game(&snapshot, &ids, 0);
    // Control passes at least twice a round; on one CPU not without the other's sleep.
    let all = ping.len() + pong.len();
    assert!(
        all > if cpus[0] == cpus[1] { rounds * 9 / 10 } else { rounds / 10 },
        "{all} wakeups in {rounds} rounds"
    );
    for (wakeups, cpu, tid) in [(pong, cpus[1], ids.id("pong0")), (ping, cpus[0], ids.id("ping0"))]
    {
        for wakeup in &wakeups {
            assert_eq!((usize::from(wakeup.named), wakeup.broken), (cpu, false), "{wakeup:?}");
            assert!(wakeup.ran.is_none_or(|(ran, _)| usize::from(ran) == cpu), "{wakeup:?}");
            // On one CPU the sleeper has been switched away from, so it is switched to.
            let around = || around(&snapshot, wakeup.time);
            assert!(wakeup.ran.is_some() || cpus[0] != cpus[1], "{wakeup:?}\n{}", around());
        }
        let (slept, maybe) = sleeps(&snapshot, &ids, tid);
        assert!(
            slept <= wakeups.len() + 1,
            "{tid} slept {slept} times, and was woken {} times",
            wakeups.len()
        );
        // On several CPUs some wakeups come before the thread has gone to sleep, which it then does
        // not.
        assert!(
            wakeups.len() <= slept + maybe + 1 || cpus[0] != cpus[1],
            "{slept} sleeps, {} wakeups",
            wakeups.len()
        );
    }
}

/// How often a player went to sleep during the game, and how often it was preempted while about to.
fn sleeps(snapshot: &Snapshot, ids: &Printed, tid: u32) -> (usize, usize) {
    let both = players(ids, 0);
    let (from, until) = (beginning(snapshot, both), last_read(snapshot, both[0]));
    let of = |wanted: bool| {
        let slept = |event: &&Event| {
            matches!(event.body, Body::Switch { prev_state: 1.., preempted, .. } if preempted == wanted)
                && (from..until).contains(&event.time)
        };
        snapshot.of(tid).filter(slept).count()
    };
    (of(false), of(true))
}

#[test]
fn two_threads_on_one_cpu() {
    let cpu = online_cpus()[0];
    pinned(2000, [cpu, cpu]);
}

#[test]
fn two_threads_on_two_cpus() {
    let cpus = online_cpus();
    pinned(2000, [cpus[0], *cpus.last().expect("a CPU")]);
}

/// Of hundreds of wakeups, after so many the thread may run on another CPU than the records say: a
/// migration that a thread makes which this machine hides from BPF (see names.rs) is not seen.
const HIDDEN: usize = 2;

/// Four times as many threads as CPUs, wherever the scheduler puts them.
fn unpinned() -> (Printed, usize) {
    let pairs = 2 * online_cpus().len();
    (run(&c_program("pingpong", &[]), &["500", &pairs.to_string()]), pairs)
}

fn the_records_lead_to_the_cpu_where_the_wakee_runs(recorder: &Recorder) {
    let (ids, pairs) = unpinned();
    let snapshot = snapshot(recorder);
    let (mut all, mut ran, mut wrong) = (0, 0, Vec::new());
    for pair in 0..pairs {
        for wakeup in game(&snapshot, &ids, pair).into_iter().flatten() {
            all += 1;
            ran += usize::from(wakeup.ran.is_some());
            if wakeup.broken || wakeup.ran.is_some_and(|(cpu, _)| cpu != wakeup.named) {
                wrong.push(wakeup);
            }
        }
    }
    assert!(all > 100 * pairs, "{all} wakeups of {pairs} pairs");
    assert!(wrong.len() <= HIDDEN, "a migration is missing: {wrong:#?}");
    assert!(ran * 100 > all * 95, "{ran} of {all} wakeups were followed by a switch-in");
}

fn the_text_names_the_cpu_where_the_wakee_runs(recorder: &Recorder) {
    let (ids, pairs) = unpinned();
    let players: Vec<u32> = (0..pairs).flat_map(|pair| players(&ids, pair)).collect();
    let lines = dump(recorder, &["--last", "1h", "--event", "switch,waking"]);
    let mut named: HashMap<u32, (u16, String)> = HashMap::new();
    let nice = format!("[n:{}]", nice());
    let (mut checked, mut wrong) = (0, Vec::new());
    for line in lines {
        if let Some(wakeup) = line.text.strip_prefix("(RUNQ) #") {
            // `7 8883 TP09[n:-5] qlen:0`, or `1>7 8883 …`: queued on 1, but 7 ran it.
            let mut words = wakeup.split(' ');
            let cpu =
                words.next().and_then(|cpus| cpus.rsplit('>').next()?.parse().ok()).expect("a CPU");
            let wakee = words.next().and_then(|tid| tid.parse().ok()).expect("a thread");
            if players.contains(&wakee) {
                let name = words.next().expect("a name");
                let is_player = name.starts_with("ping") || name.starts_with("pong");
                assert!(is_player && name.ends_with(&nice), "{wakeup}");
                named.insert(wakee, (cpu, wakeup.to_owned()));
            }
        } else if line.text.ends_with(" -->") {
            if let Some((cpu, wakeup)) = named.remove(&line.tid) {
                if line.cpu != cpu {
                    wrong.push(format!("{wakeup}, and then {line:?}"));
                }
                checked += 1;
            }
        } else {
            // Switched away from without having been switched to: it had not slept yet when it was
            // woken.
            named.remove(&line.tid);
        }
    }
    assert!(checked > 100 * pairs, "{checked} wakeups of {pairs} pairs");
    assert!(wrong.len() <= HIDDEN, "{wrong:#?}");
}

share_recorder!(
    the_records_lead_to_the_cpu_where_the_wakee_runs,
    the_text_names_the_cpu_where_the_wakee_runs
);
