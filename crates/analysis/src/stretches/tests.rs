//! Stretches of made-up events.

use super::*;
use flightrec_format::abi::record::{Abi, TaskExit, WakeContext};
use flightrec_format::decode::{Call, Stack};

fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

fn switch(time: u64, cpu: u16, tid: u32, prev_state: u16, next: u32) -> Event {
    let (prev_prio, next_prio) = (120, 120);
    let body =
        Body::Switch { prev_prio, prev_state, preempted: false, io_wait: false, next, next_prio };
    event(time, cpu, tid, body)
}

fn waking(time: u64, cpu: u16, tid: u32, wakee: u32) -> Event {
    let context = WakeContext::Thread;
    event(time, cpu, tid, Body::Waking { wakee, prio: 120, state: 1, cpu, new: false, context })
}

fn enter(time: u64, tid: u32, nr: u16) -> Event {
    let call = Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() };
    event(time, 0, tid, Body::Enter(call))
}

fn stack(time: u64, tid: u32) -> Event {
    let frames = Box::new([11, 12]);
    let body = Stack { slept: Some(5), status: Status::Taken, cut: false, frames };
    event(time, 0, tid, Body::Stack(body))
}

fn run(events: &[Event]) -> Stretches<u16> {
    let mut stretches = Stretches::new(0, true, true);
    for event in events {
        let nr = if let Body::Enter(call) = &event.body { call.nr } else { 0 };
        stretches.take(event, || nr);
    }
    stretches
}

#[test]
fn a_wait_comes_with_its_stack() {
    let mut all = run(&[
        enter(10, 5, 74),
        switch(20, 0, 5, 2, 6),
        waking(50, 0, 6, 5),
        switch(60, 0, 6, 1, 5),
    ]);
    let early = all.drain();
    assert!(early.iter().all(|of| !matches!(of.interval.state, State::Blocked(_))), "{early:?}");
    all.note_woken(5, Woken { disk: Some((8, 1)), ..Woken::default() });
    all.take(&stack(60, 5), || 0);
    let waits = all.drain();
    let [wait] = &waits[..] else { panic!("{waits:?}") };
    assert_eq!((wait.interval.from, wait.interval.until, wait.interval.tid), (20, 50, 5));
    assert_eq!((wait.told, &wait.frames[..]), (Some(74), &[11, 12][..]));
    assert_eq!((wait.woken.disk, wait.is_open), (Some((8, 1)), false));
    assert_eq!(all.call(5).map(|call| call.nr), Some(74));
}

#[test]
fn a_wait_without_a_stack_comes_when_its_thread_has_run() {
    let mut all = run(&[switch(20, 0, 5, 1, 6), waking(50, 0, 6, 5), switch(60, 0, 6, 1, 5)]);
    all.drain();
    all.take(&switch(70, 0, 5, 1, 0), || 0);
    let states: Vec<_> =
        all.drain().iter().map(|of| (of.interval.state, of.interval.from)).collect();
    assert_eq!(states, [(State::Blocked(1), 20), (State::Running, 60)]);
    all.settle(100);
    let open: Vec<_> =
        all.drain().iter().map(|of| (of.interval.tid, of.interval.ns(), of.is_open)).collect();
    assert!(open.contains(&(5, 30, true)) && open.contains(&(6, 40, true)), "{open:?}");
}

/// Of threads that ended before the window only their births and ends are read.
#[test]
fn the_dead_do_nothing_unknown() {
    let exit = TaskExit { tid: 5, tgid: 5, code: 0, left: 0, start_time: 0, comm: [0; 16] };
    let mut all = run(&[waking(5, 0, 6, 5), event(10, 0, 5, Body::TaskExit(exit))]);
    all.take(&switch(20, 0, 7, 0, 6), || 0);
    all.drain();
    all.settle(100);
    let open: Vec<_> = all.drain().iter().map(|of| (of.interval.tid, of.interval.state)).collect();
    assert!(!open.contains(&(5, State::Unknown)), "{open:?}");
    assert!(open.contains(&(6, State::Running)), "{open:?}");
}

/// Who ran while thread 5 waited for its last CPU, between two moments.
fn ran(all: &mut Stretches<u16>, from: u64, until: u64) -> Ran {
    let stretches = all.drain();
    let is_wait = |of: &&Stretch<u16>| of.interval.tid == 5 && of.interval.state == State::Runnable;
    let wait = stretches.iter().find(is_wait).unwrap_or_else(|| panic!("{stretches:?}"));
    all.ran(wait, from, until)
}

fn migrate(time: u64, thread: u32, from: u16, to: u16) -> Event {
    event(time, 9, 99, Body::Migrate { thread, prio: 120, from, to })
}

#[test]
fn who_ran_meanwhile() {
    let mut all = run(&[
        waking(5, 0, 6, 5),
        switch(10, 0, 6, 0, 7),
        switch(25, 0, 7, 0, 8),
        switch(40, 0, 8, 0, 5),
    ]);
    let ran = ran(&mut all, 15, 40);
    assert_eq!(ran, Ran { threads: vec![(8, 15), (7, 10)], unknown_ns: 0 });
}

/// Who runs at the end of all events has run, too.
#[test]
fn who_still_runs_ran() {
    let mut all = run(&[switch(10, 0, 6, 1, 7), waking(20, 0, 7, 5)]);
    all.drain();
    all.settle(100);
    assert_eq!(ran(&mut all, 20, 100), Ran { threads: vec![(7, 80)], unknown_ns: 0 });
}

/// Whoever is moved waits for the other CPU from then on; there 8 runs, and goes on running.
#[test]
fn a_thread_that_moved_waits_for_another_cpu() {
    let mut all = run(&[
        switch(10, 0, 6, 1, 7),
        switch(12, 1, 6, 1, 8),
        waking(20, 0, 7, 5),
        migrate(30, 5, 0, 1),
        switch(50, 0, 7, 0, 9),
        switch(60, 1, 8, 0, 5),
    ]);
    assert_eq!(ran(&mut all, 20, 60), Ran { threads: vec![(7, 10), (8, 30)], unknown_ns: 0 });
    // It is moved to a third one, and to an idle one that nothing is known of.
    let mut all = run(&[
        switch(10, 0, 6, 1, 7),
        switch(12, 2, 6, 1, 8),
        waking(20, 0, 7, 5),
        migrate(30, 5, 0, 2),
        migrate(45, 5, 2, 3),
        switch(60, 3, 0, 0, 5),
    ]);
    assert_eq!(ran(&mut all, 20, 45), Ran { threads: vec![(7, 10), (8, 15)], unknown_ns: 0 });
}

/// What is not remembered is not known: neither of too many runs, nor of too many moves.
#[test]
fn what_is_forgotten_is_said() {
    let mut events = vec![waking(5, 0, 6, 5), switch(10, 0, 6, 1, 100)];
    for n in 1..=200u64 {
        events.push(switch(10 + n, 0, 99 + n as u32, 1, 100 + n as u32));
    }
    events.push(switch(220, 0, 300, 1, 5));
    let of = ran(&mut run(&events), 5, 220);
    let told: u64 = of.threads.iter().map(|(_, ns)| ns).sum();
    assert_eq!((told + of.unknown_ns, of.threads.len()), (215, 100), "{of:?}");
    let mut events = vec![switch(1, 0, 6, 1, 7), switch(1, 1, 6, 1, 8), waking(5, 0, 7, 5)];
    events.extend((0..100).map(|n| migrate(10 + n, 5, (n % 2) as u16, ((n + 1) % 2) as u16)));
    events.push(switch(200, 0, 7, 0, 5));
    let of = ran(&mut run(&events), 5, 200);
    let told: u64 = of.threads.iter().map(|(_, ns)| ns).sum();
    assert_eq!((told + of.unknown_ns, of.unknown_ns), (195, 41), "{of:?}");
}

/// A request that ended just before a thread woke another one need not be why.
#[test]
fn a_disk_ends_waits_by_interrupts_and_workers() {
    let disk = |context, io_wait, by_io_worker| {
        let sleep = Event { body: switch(20, 0, 5, 2, 6).body, ..switch(20, 0, 5, 2, 6) };
        let body = match sleep.body {
            Body::Switch { prev_prio, prev_state, preempted, next, next_prio, .. } => {
                Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio }
            }
            body => body,
        };
        let mut waking = waking(50, 0, 6, 5);
        if let Body::Waking { context: of, .. } = &mut waking.body {
            *of = context;
        }
        let mut all = run(&[Event { body, ..sleep }, waking]);
        all.note_woken(5, Woken { disk: Some((8, 1)), by_io_worker, call: None });
        all.settle(100);
        let waits = all.drain();
        let wait = waits.iter().find(|of| of.interval.state == State::Blocked(2)).expect("a wait");
        assert_eq!(wait.io_wait, io_wait);
        wait.disk()
    };
    assert_eq!(disk(WakeContext::Thread, false, false), None);
    assert_eq!(disk(WakeContext::Thread, true, false), Some((8, 1)));
    assert_eq!(disk(WakeContext::Thread, false, true), Some((8, 1)));
    assert_eq!(disk(WakeContext::Softirq, false, false), Some((8, 1)));
}
