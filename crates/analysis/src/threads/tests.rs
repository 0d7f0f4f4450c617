//! Events that are known, and the intervals that follow from them.

use std::collections::BTreeMap;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::record::StringStatus;
use flightrec_format::abi::record::{Abi, Exec, Fork, TaskExit, WakeContext};
use flightrec_format::decode::{Call, Text};
use flightrec_format::ring::Reason;
use proptest::prelude::*;

use super::table::TABLE_MAX;
use State::{Held, Runnable, Running, Stopped, Unknown};

use super::*;

/// Who wakes in these tests.
const WAKER: Waker = Waker { tid: 6, context: WakeContext::Thread };

/// Collects what it is told.
#[derive(Debug, Default)]
struct All {
    ended: Vec<Interval>,
    gone: Vec<(u32, State, u64)>,
}

impl Observer for All {
    type Account = u32;

    fn ended(&mut self, _: &mut u32, interval: &Interval) {
        self.ended.push(*interval);
    }

    fn gone(&mut self, tid: u32, _: u32, state: State, now: u64) {
        self.gone.push((tid, state, now));
    }
}

/// State, start and end of an interval.
type Short = (State, u64, u64);

/// What a thread did until `now`, without what took no time.
fn of(tid: u32, now: u64, events: &[Event]) -> Vec<Short> {
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    for event in events {
        threads.take(event, &mut all);
    }
    rest(tid, now, &mut threads, all)
}

fn rest(tid: u32, now: u64, threads: &mut Threads<u32>, mut all: All) -> Vec<Short> {
    threads.settle(now, |_, interval| all.ended.push(*interval));
    let own = all.ended.iter().filter(|interval| interval.tid == tid && interval.ns() != 0);
    own.map(|interval| (interval.state, interval.from, interval.until)).collect()
}

fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

fn switch(time: u64, cpu: u16, tid: u32, prev_state: u16, next: u32) -> Event {
    let body = Body::Switch {
        prev_prio: 120,
        prev_state,
        preempted: false,
        io_wait: false,
        next,
        next_prio: 120,
    };
    event(time, cpu, tid, body)
}

fn waking(time: u64, cpu: u16, tid: u32, wakee: u32, target: u16) -> Event {
    event(
        time,
        cpu,
        tid,
        Body::Waking {
            wakee,
            prio: 120,
            state: 1,
            cpu: target,
            new: false,
            context: WakeContext::Thread,
        },
    )
}

fn migrate(time: u64, cpu: u16, tid: u32, thread: u32, to: u16) -> Event {
    event(time, cpu, tid, Body::Migrate { thread, prio: 120, from: 0, to })
}

fn call(nr: u16) -> Call {
    Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

fn enter(time: u64, cpu: u16, tid: u32, nr: u16) -> Event {
    event(time, cpu, tid, Body::Enter(call(nr)))
}

fn exit(time: u64, cpu: u16, tid: u32) -> Event {
    event(time, cpu, tid, Body::Exit { call: call(0), ret: 0, entered: None })
}

fn fork(time: u64, tid: u32) -> Event {
    let comm = [0; 16];
    let (parent_tid, parent_tgid, tgid) = (1, 1, tid);
    let fork =
        Fork { parent_tid, parent_tgid, tid, tgid, start_time: 0, cgroup: 0, comm, shares: 0 };
    event(time, 0, 1, Body::Fork(fork))
}

fn gap(lane: Lane, cpu: u16, from: u64, until: u64) -> Gap {
    let lost = Some(Counts::first([1]));
    Gap { lane, cpu, from, until, lost, refused: [0; 3], reason: Reason::Overwritten }
}

#[test]
fn a_wait_has_a_waker_a_call_and_a_cpu() {
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    let events = [
        switch(10, 2, 9, 1, 5),
        enter(15, 2, 5, 74),
        switch(20, 2, 5, 2, 0),
        waking(50, 1, 6, 5, 2),
        migrate(55, 1, 6, 5, 3),
        switch(70, 3, 8, 1, 5),
        exit(75, 3, 5),
    ];
    for event in &events {
        threads.take(event, &mut all);
    }
    let call = Some(CallId { nr: 74, abi: Abi::Native });
    let own: Vec<Interval> = all.ended.into_iter().filter(|i| i.tid == 5 && i.from != 0).collect();
    assert_eq!(
        own,
        [
            Interval { tid: 5, state: Running, from: 10, until: 20, waker: None, call, cpu: 2 },
            Interval {
                tid: 5,
                state: State::Blocked(2),
                from: 20,
                until: 50,
                waker: Some(WAKER),
                call,
                cpu: 2
            },
            Interval {
                tid: 5,
                state: Runnable,
                from: 50,
                until: 70,
                waker: Some(WAKER),
                call,
                cpu: 3
            },
        ]
    );
    let mut open = Vec::new();
    threads.settle(80, |_, interval| open.push(*interval));
    let five = open.into_iter().find(|interval| interval.tid == 5).unwrap();
    assert_eq!((five.state, five.from, five.until, five.call), (Running, 70, 80, None));
}

#[test]
fn preempted_held_and_stopped() {
    let own = of(
        5,
        90,
        &[
            switch(10, 0, 0, 0, 5),
            switch(20, 0, 5, 0, 6),
            switch(30, 0, 6, 1, 5),
            switch(40, 0, 5, 0, 0), // its quota is used up
            switch(60, 0, 0, 0, 5),
            switch(70, 0, 5, 8, 0), // its debugger stops it
        ],
    );
    assert_eq!(
        own,
        [
            (Unknown, 0, 10),
            (Running, 10, 20),
            (Runnable, 20, 30),
            (Running, 30, 40),
            (Held, 40, 60),
            (Running, 60, 70),
            (Stopped(8), 70, 90),
        ]
    );
}

/// A call or a wakeup by a thread says that it runs; since when, nobody saw.
#[test]
fn whoever_does_something_runs_and_what_it_did_before_is_unknown() {
    for evidence in [enter(50, 1, 5, 0), exit(50, 1, 5), waking(50, 1, 5, 7, 0)] {
        for before in [switch(20, 0, 5, 1, 0), switch(20, 0, 5, 0, 6)] {
            let own = of(5, 60, &[switch(10, 0, 0, 0, 5), before, evidence.clone()]);
            let tail = [(Unknown, 20, 50), (Running, 50, 60)];
            assert_eq!(own[2..], tail, "{evidence:?}");
        }
    }
}

#[test]
fn nobody_waits_for_a_cpu_whose_switches_were_not_seen() {
    // 9 makes room for 7, which is not seen any more; then 9 is there again.
    let hidden = [waking(10, 1, 1, 5, 0), switch(20, 0, 9, 0, 7), switch(40, 0, 9, 1, 5)];
    assert_eq!(of(5, 50, &hidden)[..2], [(Unknown, 0, 10), (Unknown, 10, 40)]);
    // Its own switches are seen: had it run, the one away from it would have been.
    let seen = [switch(4, 0, 0, 0, 5), switch(5, 0, 5, 1, 9)];
    assert_eq!(of(5, 50, &[&seen[..], &hidden].concat())[3], (Runnable, 10, 40));
    // What 7 did ended at some moment before, and 9 ran then or before.
    assert_eq!(of(7, 50, &hidden)[1..], [(Running, 20, 40), (Unknown, 40, 50)]);
    assert_eq!(of(9, 50, &hidden)[1..], [(Unknown, 20, 40), (State::Blocked(1), 40, 50)]);
    // It still waits, or was moved there before: the same.
    assert_eq!(of(5, 50, &[&hidden[..2], &[switch(40, 0, 9, 1, 6)]].concat())[1].0, Unknown);
    let moved = [waking(5, 1, 1, 5, 3), migrate(6, 1, 1, 5, 0)];
    assert_eq!(of(5, 50, &[&moved[..], &hidden[1..]].concat())[1].0, Unknown);
    // The hole was before it came, or is on another CPU.
    let late =
        [&hidden[1..2], &[switch(30, 0, 9, 1, 8), waking(35, 1, 1, 5, 0), switch(40, 0, 8, 1, 5)]];
    assert_eq!(of(5, 50, &late.concat())[1], (Runnable, 35, 40));
    let elsewhere = [
        &[waking(5, 1, 1, 5, 3)],
        &hidden[1..2],
        &[switch(40, 0, 9, 1, 8), switch(45, 3, 0, 0, 5)],
    ];
    assert_eq!(of(5, 50, &elsewhere.concat())[1], (Runnable, 5, 45));
    // Sleep is no matter of a CPU.
    let asleep = [&[switch(5, 3, 5, 1, 0)], &hidden[1..2], &[switch(40, 0, 9, 1, 8)]];
    assert_eq!(of(5, 50, &asleep.concat())[1], (State::Blocked(1), 5, 50));
}

/// The waker's event may come before the sleeper's switch (`ctl`'s `placement.rs`).
#[test]
fn who_was_woken_before_its_switch_is_runnable() {
    let begun = [switch(1, 1, 0, 0, 9), waking(10, 0, 5, 9, 1), switch(11, 1, 9, 1, 0)];
    let run = |more: &[Event]| of(9, 40, &[&begun[..], more].concat());
    let own = run(&[switch(30, 1, 0, 0, 9)]);
    assert_eq!(own[2], (Runnable, 11, 30));
    // It was put back and went on; this is another sleep, which another wakeup ends.
    let own = run(&[waking(20, 0, 5, 9, 1), switch(30, 1, 0, 0, 9)]);
    assert_eq!(own[2..4], [(State::Blocked(1), 11, 20), (Runnable, 20, 30)]);
    // Long after the wakeup, it went to sleep for another reason.
    let long = 10 + 5_000_000;
    let own = of(
        9,
        long + 20,
        &[&begun[..2], &[switch(long, 1, 9, 1, 0), switch(long + 9, 1, 0, 0, 9)]].concat(),
    );
    assert_eq!(own[2], (State::Blocked(1), long, long + 9));
}

#[test]
fn a_gap_of_scheduling_leaves_only_what_other_cpus_run() {
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    let mut take = |threads: &mut Threads<u32>, events: &[Event]| {
        for event in events {
            threads.take(event, &mut all);
        }
    };
    take(&mut threads, &[switch(10, 0, 4, 1, 5), switch(10, 1, 7, 1, 6)]);
    let mut none = All::default();
    threads.miss(&gap(Lane::Sched, 0, 30, 60), &mut none);
    let ended: Vec<_> = none.ended.iter().map(|i| (i.tid, i.state, i.until)).collect();
    assert!(ended.contains(&(5, Running, 30)) && ended.contains(&(4, State::Blocked(1), 30)));
    assert!(ended.iter().all(|(tid, ..)| *tid != 6), "it goes on running: {ended:?}");
    // In the gap, 6 sleeps; that it was not woken and slept again nobody knows.
    take(&mut threads, &[switch(40, 1, 6, 1, 0), waking(80, 1, 0, 6, 1), switch(90, 1, 0, 0, 6)]);
    let own = rest(6, 100, &mut threads, all);
    assert_eq!(
        own[1..],
        [
            (Running, 10, 40),
            (State::Blocked(1), 40, 60),
            (Unknown, 60, 80),
            (Runnable, 80, 90),
            (Running, 90, 100)
        ]
    );
}

#[test]
fn a_gap_without_loss_changes_nothing() {
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    let _ = threads.take(&switch(10, 0, 4, 1, 5), &mut all);
    let own =
        Gap { lost: Some(Counts::first([0])), refused: [0, 0, 9], ..gap(Lane::Sched, 0, 20, 30) };
    threads.miss(&own, &mut all);
    threads.miss(&gap(Lane::Task, 0, 20, 30), &mut all);
    let _ = threads.take(&exit(40, 0, 5), &mut all);
    assert_eq!(rest(4, 50, &mut threads, all)[1..], [(State::Blocked(1), 10, 50)]);
    // What was refused is missing.
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    let _ = threads.take(&switch(10, 0, 4, 1, 5), &mut all);
    threads.miss(&Gap { refused: [0, 1, 0], ..own }, &mut all);
    assert_eq!(
        rest(4, 50, &mut threads, all)[1..],
        [(State::Blocked(1), 10, 20), (Unknown, 20, 50)]
    );
}

#[test]
fn a_gap_of_calls_leaves_only_the_calls_of_who_waits() {
    let call = |events: &[Event], gap: Gap, after: &[Event]| {
        let (mut threads, mut all) = (Threads::new(0, false), All::default());
        for event in events {
            threads.take(event, &mut all);
        }
        threads.miss(&gap, &mut all);
        for event in after {
            threads.take(event, &mut all);
        }
        let mut open = None;
        threads.settle(100, |_, interval| {
            open = Some(*interval).filter(|interval| interval.tid == 5).or(open);
        });
        open.and_then(|interval| interval.call).map(|call| call.nr)
    };
    let gap = |cpu| gap(Lane::Syscall, cpu, 20, 30);
    let runs = [switch(5, 0, 0, 0, 5), enter(10, 0, 5, 74)];
    let waits = [&runs[..], &[switch(15, 0, 5, 1, 0)]].concat();
    assert_eq!(call(&runs, gap(1), &[]), Some(74), "on another CPU");
    assert_eq!(call(&runs, gap(0), &[]), None);
    assert_eq!(
        call(&waits, gap(0), &[switch(40, 1, 8, 1, 6)]),
        Some(74),
        "it can't leave its call"
    );
    assert_eq!(call(&waits, gap(0), &[switch(25, 0, 0, 0, 5)]), None, "it may have");
    assert_eq!(call(&waits, gap(0), &[switch(35, 0, 0, 0, 5)]), Some(74), "it runs later");
    // What was entered in the gap may have ended in it.
    assert_eq!(call(&runs, gap(0), &[enter(25, 0, 5, 1), switch(26, 0, 5, 1, 0)]), Some(1));
    assert_eq!(call(&runs, gap(0), &[enter(25, 0, 5, 1), switch(35, 0, 5, 1, 0)]), None);
    // Nor does any call go on over a time in which none were recorded.
    let text = Text { index: 0, status: StringStatus::Whole, bytes: Box::default() };
    let attached = event(50, 1, 9, Body::Act(Act::Attached as u16, text));
    assert_eq!(call(&waits, gap(1), &[attached]), None);
}

#[test]
fn births_and_deaths() {
    let gone = TaskExit { tid: 5, tgid: 5, code: 0, left: 0, start_time: 0, comm: [0; 16] };
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    let events = [
        fork(10, 5),
        waking(12, 0, 1, 5, 0),
        switch(15, 0, 1, 1, 5),
        event(20, 0, 5, Body::TaskExit(gone)),
        switch(22, 0, 5, 0x80, 0),
        // Its id is used again. Of its second bearer, only the birth of the next is seen.
        fork(30, 5),
        waking(31, 0, 0, 5, 0),
        switch(32, 0, 0, 0, 5),
        switch(33, 0, 5, 1, 0),
        fork(90, 5),
    ];
    for event in &events {
        threads.take(event, &mut all);
    }
    assert_eq!(all.gone, [(5, State::Dead, 22), (5, State::Dead, 90)]);
    assert_eq!(
        rest(5, 95, &mut threads, all),
        [
            (Unknown, 10, 12),
            (Runnable, 12, 15),
            (Running, 15, 22),
            (Unknown, 30, 31),
            (Runnable, 31, 32),
            (Running, 32, 33),
            (Unknown, 33, 90),
            (Unknown, 90, 95)
        ]
    );
}

#[test]
fn exec_goes_on_under_the_id_of_the_process() {
    let exec = Exec { tid: 7, old_tid: 9, tgid: 7, args_len: 0, cgroup: 0, comm: [0; 16] };
    let events = [
        switch(5, 1, 7, 1, 0),
        switch(10, 0, 0, 0, 9),
        event(20, 0, 7, Body::Exec { exec, file: None, args: None }),
        switch(30, 0, 7, 1, 0),
    ];
    let own = of(7, 40, &events);
    let leader = [(Unknown, 0, 5), (Unknown, 5, 20)];
    assert_eq!(own[..2], leader);
    assert_eq!(own[2..], [(Running, 10, 30), (State::Blocked(1), 30, 40)]);
}

#[test]
fn who_runs_at_a_cpus_first_event_has_run_from_a_complete_beginning() {
    let own = |is_complete, first: Event| {
        let (mut threads, mut all) = (Threads::new(100, is_complete), All::default());
        let _ = threads.take(&first, &mut all);
        let _ = threads.take(&switch(300, 0, 5, 0, 6), &mut all);
        rest(5, 400, &mut threads, all)
    };
    let after = (Runnable, 300, 400);
    for first in [enter(200, 0, 5, 0), switch(300, 0, 5, 0, 6)] {
        assert_eq!(own(true, first), [(Running, 100, 300), after]);
    }
    let unknown = own(false, enter(200, 0, 5, 0));
    assert_eq!(unknown, [(Unknown, 100, 200), (Running, 200, 300), after]);
}

#[test]
fn memory_is_bounded_and_whoever_runs_or_is_expected_stays() {
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    let expected = 9_000_000;
    threads.expect(expected);
    let _ = threads.take(&fork(1, expected), &mut all);
    let _ = threads.take(&switch(1, 1, 0, 0, 8_000_000), &mut all);
    for tid in 1..200_000 {
        let _ = threads.take(&enter(u64::from(tid), 0, tid, 0), &mut all);
        assert!(tid % 1000 != 0 || threads.table.iter_mut().count() <= TABLE_MAX);
    }
    for tid in [expected, 8_000_000, 199_999] {
        assert!(threads.table.get_mut(tid).is_some(), "{tid}");
    }
    assert!(all.gone.len() > 100_000 && all.gone.iter().all(|(_, state, _)| *state == Unknown));
    // Nobody can be given up: no more are followed, and looking for room is not done each time.
    let (mut threads, mut all) = (Threads::new(0, false), All::default());
    for tid in 1..400_000 {
        let _ = threads.take(&waking(u64::from(tid), 0, 1, tid, 0), &mut all);
    }
    assert_eq!((threads.table.iter_mut().count(), all.gone.len()), (TABLE_MAX, 0));
}

/// Any event, by few threads on few CPUs.
fn any_event() -> impl Strategy<Value = (u64, u16, u32, u8, u32, u16)> {
    (
        0..20u64,
        0..3u16,
        0..6u32,
        0..12u8,
        0..6u32,
        prop_oneof![Just(0), Just(1), Just(2), Just(8), Just(0x80)],
    )
}

proptest! {
    /// Whatever the events say, a thread's intervals follow one another from the beginning or its
    /// birth to the end, so that their shares add up.
    #[test]
    fn intervals_leave_no_hole(
        steps in prop::collection::vec(any_event(), 0..200),
        is_complete: bool,
    ) {
        let (mut threads, mut all) = (Threads::new(0, is_complete), All::default());
        let mut now = 0;
        let mut births: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (later, cpu, tid, what, other, state) in steps {
            now += later;
            let target = cpu ^ 1;
            let one = match what {
                0 => enter(now, cpu, tid, 3),
                1 => exit(now, cpu, tid),
                2..=4 => switch(now, cpu, tid, state, other),
                5 | 6 => waking(now, cpu, tid, other, target),
                7 => migrate(now, cpu, tid, other, target),
                8 if other != 0 => {
                    births.entry(other).or_default().push(now);
                    fork(now, other)
                }
                9 => {
                    let from = now.saturating_sub(u64::from(tid));
                    threads.miss(&gap(Lane::Sched, cpu, from, now + 15), &mut all);
                    continue;
                }
                10 => {
                    threads.miss(&gap(Lane::Syscall, cpu, now, now + 15), &mut all);
                    continue;
                }
                _ => {
                    threads.settle(now, |_, interval| all.ended.push(*interval));
                    continue;
                }
            };
            let _ = threads.take(&one, &mut all);
        }
        threads.settle(now, |_, interval| all.ended.push(*interval));
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for interval in &all.ended {
            prop_assert!(interval.from <= interval.until && interval.until <= now);
            prop_assert!(interval.tid != 0);
            let births = births.get(&interval.tid);
            let born = births.is_some_and(|times| times.contains(&interval.from));
            // Who is heard of after its end is met anew.
            let died = || all.gone.iter().any(|(tid, ..)| *tid == interval.tid);
            let follows = last.get(&interval.tid).is_none_or(|until| *until == interval.from);
            let is_whole = follows || born || interval.from == 0 && died();
            prop_assert!(is_whole, "{interval:?} after {last:?}");
            last.insert(interval.tid, interval.until);
        }
    }
}
