//! Events that are known, and what is to be said of them.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::abi::record::{Abi, Rename, WakeContext};
use flightrec_format::abi::slot::{BLOCKED, TaskSlot};
use flightrec_format::decode::{Body, Call, Event, Stack};
use flightrec_format::meta::{Meta, Symbol, Syscall};
use flightrec_format::ring::{Gap, Reason};
use flightrec_store::snapshot::{About, Involved, Summary, WaitKind};

use super::Living;
use super::pass::Pass;

const MS: u64 = 1_000_000;

fn event(ms: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time: ms * MS, cpu, tid, body }
}

fn switch(ms: u64, cpu: u16, tid: u32, prev_state: u16, next: u32) -> Event {
    let body = Body::Switch {
        prev_prio: 120,
        prev_state,
        preempted: false,
        io_wait: false,
        next,
        next_prio: 120,
    };
    event(ms, cpu, tid, body)
}

fn waking(ms: u64, cpu: u16, tid: u32, wakee: u32) -> Event {
    event(
        ms,
        cpu,
        tid,
        Body::Waking {
            wakee,
            prio: 120,
            state: 1,
            cpu: 0,
            new: false,
            context: WakeContext::Thread,
        },
    )
}

fn call(nr: u16) -> Call {
    Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

fn name(tid: u32, name: &[u8]) -> Event {
    let mut new = [0; 16];
    new[..name.len()].copy_from_slice(name);
    event(0, 0, tid, Body::Rename(Rename { tid, tgid: tid, old: [0; 16], new }))
}

fn pass(about: &About, events: &[Event]) -> Summary {
    let native = [(0, "read"), (74, "fsync")].map(|(nr, name)| Syscall {
        nr,
        name: name.into(),
        args: None,
    });
    let meta = Meta { native: native.to_vec(), ..Meta::default() };
    let living = Living::default();
    let mut pass = Pass::new(0, 1000 * MS, about, &meta, &living);
    for event in events {
        pass.event(event);
    }
    pass.finish()
}

#[test]
fn a_wait_says_in_which_call_and_who_ended_it() {
    let events = [
        name(5, b"db"),
        name(6, b"disk"),
        event(10, 0, 5, Body::Enter(call(74))),
        switch(20, 0, 5, 2, 0),
        waking(520, 1, 6, 5),
        switch(600, 0, 0, 0, 5),
        event(610, 0, 5, Body::Exit { call: call(74), ret: -5, entered: None }),
    ];
    let about = About { threads: vec![5], ..About::default() };
    let summary = pass(&about, &events);
    let [blocked, queued] = &summary.waits[..] else { panic!("{summary:#?}") };
    assert_eq!((blocked.thread.name.as_str(), blocked.ns, blocked.state), ("db", 500 * MS, 2));
    assert_eq!(
        (blocked.call.as_deref(), blocked.waker.as_ref().unwrap().name.as_str()),
        (Some("fsync"), "disk")
    );
    assert_eq!((queued.kind, queued.ns), (WaitKind::Queued, 80 * MS));
    let involved = &summary.involved[0];
    assert_eq!(
        (involved.ran, involved.queued, involved.blocked, involved.calls),
        (420 * MS, 80 * MS, 500 * MS, 1)
    );
    let failure = &summary.failures[0];
    assert_eq!((failure.call.as_str(), failure.error.as_str(), failure.count), ("fsync", "EIO", 1));
}

/// It asked to wait.
#[test]
fn a_nice_threads_wait_for_a_cpu_comes_after_others() {
    let mut nice = switch(860, 0, 5, 1, 9);
    let Body::Switch { next_prio, .. } = &mut nice.body else { panic!("a switch") };
    *next_prio = 139;
    let events = [
        switch(5, 0, 9, 1, 7),
        waking(10, 1, 6, 9),
        waking(800, 1, 6, 5),
        switch(850, 0, 7, 1, 5),
        nice,
    ];
    let summary = pass(&About::default(), &events);
    let waits: Vec<(u32, WaitKind)> =
        summary.waits.iter().map(|wait| (wait.thread.tid, wait.kind)).collect();
    assert_eq!(waits[0], (5, WaitKind::Queued), "{summary:#?}");
    assert!(waits.contains(&(9, WaitKind::Queued)), "{summary:#?}");
}

/// A stack after a switch at which its thread came back from a wait of so many ms.
fn stack(ms: u64, cpu: u16, tid: u32, slept: u64, frames: &[u32]) -> Event {
    let (status, frames) = (Status::Taken, frames.into());
    let stack = Stack { slept: Some(slept * MS), status, cut: false, frames };
    // It takes a moment.
    Event { time: ms * MS + 1500, cpu, tid, body: Body::Stack(stack) }
}

#[test]
fn a_wait_says_where_in_the_kernel_it_was() {
    let events = [
        switch(20, 0, 5, 2, 0),
        switch(30, 1, 6, 1, 0),
        waking(520, 1, 0, 5),
        // On another CPU, a thread comes in between.
        switch(600, 0, 0, 0, 5),
        switch(600, 1, 0, 0, 9),
        stack(600, 0, 5, 580, &[110, 250]),
        switch(610, 0, 5, 2, 0),
        switch(620, 1, 9, 1, 0),
    ];
    let symbol = |at, name: &str| Symbol { at, size: 100, name: name.into() };
    let meta = Meta { symbols: vec![symbol(100, "wait [xfs]")], ..Meta::default() };
    let about = About { threads: vec![5, 6, 9], ..About::default() };
    let slot = |tid, since: u64| TaskSlot {
        tid,
        flags: BLOCKED,
        since: since * MS,
        ..TaskSlot::default()
    };
    let living = Living {
        // Thread 5 has run since, and thread 9 has blocked after the moment of the stacks.
        threads: vec![slot(5, 900), slot(6, 30), slot(9, 620)],
        stacks: [(5, vec![120]), (6, vec![130]), (9, vec![140])].into(),
        stacks_from: 615 * MS,
    };
    let mut pass = Pass::new(0, 1000 * MS, &about, &meta, &living);
    for event in &events {
        pass.event(event);
    }
    let summary = pass.finish();
    let of = |tid: u32| -> Vec<(u64, &[String])> {
        let waits = summary.waits.iter().filter(|wait| wait.thread.tid == tid);
        waits.map(|wait| (wait.since / MS, wait.stack.as_slice())).collect()
    };
    let wait = "wait [xfs]".to_owned();
    // Of the two times that it was blocked, and the one that it waited for a CPU: the first alone.
    assert_eq!(of(5)[0], (20, &[wait.clone(), "?0xfa".into()][..]));
    assert!(of(5)[1..].iter().all(|(_, stack)| stack.is_empty()), "{:?}", of(5));
    assert_eq!(of(6), [(30, &[wait][..])]);
    assert_eq!(of(9), [(620, &[][..])]);
}

#[test]
fn an_interrupt_that_ends_a_wait_is_nobody() {
    let mut woken = waking(520, 1, 6, 5);
    if let Body::Waking { context, .. } = &mut woken.body {
        *context = WakeContext::Hardirq;
    }
    let events =
        [name(5, b"db"), name(6, b"hog"), switch(20, 0, 5, 2, 0), woken, switch(600, 0, 0, 0, 5)];
    let about = About { threads: vec![5], ..About::default() };
    let summary = pass(&about, &events);
    let told = summary.waits.iter().map(|wait| (wait.waker.is_none(), wait.waker_context.clone()));
    let expected = (true, Some("hardirq".to_owned()));
    assert_eq!(told.collect::<Vec<_>>(), [expected.clone(), expected], "blocked, and queued");
}

#[test]
fn a_thread_that_gave_way_to_idle_did_not_lose_its_cpu_to_another() {
    // 7's control group has spent its quota: nobody runs until it may go on; then 8 takes its CPU.
    let events = [
        switch(100, 0, 7, 0, 0),
        switch(190, 0, 0, 0, 7),
        switch(200, 0, 7, 0, 8),
        switch(260, 0, 8, 1, 7),
    ];
    let summary = pass(&About::default(), &events);
    let of_7 = summary.waits.iter().filter(|wait| wait.thread.tid == 7);
    let told: Vec<_> =
        of_7.map(|wait| (wait.kind, wait.ns / MS, wait.idle, wait.waker.is_none())).collect();
    assert_eq!(told, [(WaitKind::Queued, 90, true, true), (WaitKind::Queued, 60, false, true)]);
}

#[test]
fn hogs_come_by_their_time_and_who_waits_at_the_end_is_told() {
    let events = [
        switch(100, 0, 7, 0, 8), // 7 has run since the beginning, and would go on
        switch(900, 0, 8, 1, 9),
    ];
    let summary = pass(&About::default(), &events);
    let hogs: Vec<(u32, u64)> =
        summary.hogs.iter().map(|hog| (hog.thread.tid, hog.ns / MS)).collect();
    assert_eq!(hogs, [(8, 800), (7, 100), (9, 100)]);
    let waits: Vec<_> =
        summary.waits.iter().map(|wait| (wait.thread.tid, wait.kind, wait.ns / MS)).collect();
    assert_eq!(waits, [(7, WaitKind::Queued, 900), (8, WaitKind::Blocked, 100)]);
}

#[test]
fn the_dead_wait_for_nothing_and_what_was_not_seen_is_not_told() {
    let events = [
        switch(100, 0, 7, 0x80, 0),
        waking(200, 0, 1, 8),
        // Its switch was not seen.
        event(900, 1, 8, Body::Enter(call(0))),
        switch(950, 1, 8, 1, 0),
    ];
    let summary = pass(&About::default(), &events);
    let waits: Vec<_> =
        summary.waits.iter().map(|wait| (wait.thread.tid, wait.kind, wait.ns / MS)).collect();
    assert_eq!(waits, [(8, WaitKind::Blocked, 50)]);
}

#[test]
fn sleep_does_not_hide_what_can_not_be_interrupted() {
    let mut events: Vec<Event> = (10..40).map(|tid| switch(u64::from(tid), 0, tid, 1, 0)).collect();
    events.push(switch(700, 1, 5, 2, 0));
    let summary = pass(&About::default(), &events);
    assert_eq!((summary.waits.len(), summary.waits[0].thread.tid), (10, 5));
}

#[test]
fn calls_that_go_on_have_not_failed() {
    let exit = |ms, ret| event(ms, 0, 5, Body::Exit { call: call(0), ret, entered: None });
    let events = [exit(10, -512), exit(20, -516), exit(30, -4)];
    let told: Vec<_> = pass(&About::default(), &events)
        .failures
        .into_iter()
        .map(|failure| (failure.call, failure.error, failure.count))
        .collect();
    assert_eq!(told, [("read".to_owned(), "EINTR".to_owned(), 1)]);
}

/// A thread is woken, and waits for its CPU until the end, or until its end.
#[test]
fn a_sleep_that_ended_is_told_though_its_thread_has_not_run_since() {
    let events = [switch(100, 0, 5, 2, 0), waking(700, 1, 6, 5)];
    let summary = pass(&About::default(), &events);
    let told: Vec<_> = summary.waits.iter().map(|wait| (wait.kind, wait.ns / MS)).collect();
    assert_eq!(told, [(WaitKind::Blocked, 600), (WaitKind::Queued, 300)]);
}

/// One thread waits in D for 300 ms, another one for a CPU for 200 ms.
#[test]
fn what_there_is_pressure_on_is_waited_for_first() {
    let events = [
        switch(100, 0, 5, 2, 6),
        switch(200, 0, 6, 0, 7),
        switch(400, 0, 7, 1, 5),
        switch(401, 0, 5, 1, 6),
    ];
    for (cause, subject, first) in [
        ("pressure", "cpu", WaitKind::Queued),
        ("pressure", "io", WaitKind::Blocked),
        ("pressure", "memory", WaitKind::Blocked),
        ("request", "", WaitKind::Blocked),
    ] {
        let about = About { cause: cause.into(), subject: subject.into(), ..About::default() };
        let summary = pass(&about, &events);
        assert_eq!(summary.waits[0].kind, first, "{cause} {subject}");
    }
}

#[test]
fn a_gap_ends_what_is_known() {
    let (about, meta) = (About { threads: vec![5], ..About::default() }, Meta::default());
    let living = Living::default();
    let mut pass = Pass::new(0, 1000 * MS, &about, &meta, &living);
    pass.event(&switch(100, 0, 5, 2, 0));
    pass.miss(&Gap {
        lane: Lane::Sched,
        cpu: 1,
        from: 300 * MS,
        until: 400 * MS,
        lost: None,
        refused: [0; 3],
        reason: Reason::Missing,
    });
    pass.event(&switch(900, 0, 0, 0, 5));
    let summary = pass.finish();
    let Involved { ran, queued, held, blocked, .. } = summary.involved[0];
    assert_eq!((ran, queued, held, blocked), (200 * MS, 0, 0, 200 * MS));
}

#[test]
fn whom_the_cause_names_may_have_ended() {
    let about = About { threads: vec![7], ..About::default() };
    let events = [switch(100, 0, 7, 0, 0), switch(150, 0, 0, 0, 7), switch(200, 0, 7, 0x80, 8)];
    let summary = pass(&about, &events);
    let Involved { ran, queued, held, .. } = summary.involved[0];
    assert_eq!((ran, queued, held), (150 * MS, 0, 50 * MS));
    assert_eq!((summary.hogs[0].thread.tid, summary.hogs[1].thread.tid), (8, 7));
}

#[test]
fn a_flood_of_waits_is_bounded_and_the_worst_is_kept() {
    let about = About::default();
    let meta = Meta::default();
    let living = Living::default();
    let mut pass = Pass::new(0, u64::MAX, &about, &meta, &living);
    for i in 0..20_000u64 {
        let length = if i == 7777 { 50 } else { 1 };
        let tid = 100 + (i % 1000) as u32;
        pass.event(&switch(i * 100, 0, tid, 2, 0));
        pass.event(&switch(i * 100 + length, 0, 0, 0, tid));
        pass.event(&switch(i * 100 + length, 0, tid, 1, 0));
        pass.event(&switch(i * 100 + length, 0, 0, 0, tid));
    }
    let summary = pass.finish();
    assert!(summary.waits.iter().any(|wait| wait.ns == 50 * MS), "{summary:#?}");
}

#[test]
fn a_storm_of_threads_leaves_room_for_whom_the_cause_names() {
    let about = About { threads: vec![7_000_000], ..About::default() };
    let meta = Meta::default();
    let living = Living::default();
    let mut pass = Pass::new(0, u64::MAX, &about, &meta, &living);
    for tid in 1..200_000 {
        pass.event(&name(tid, b"bomb"));
        pass.event(&Event { time: MS, cpu: 0, tid, body: Body::Enter(call(0)) });
    }
    pass.event(&name(7_000_000, b"db"));
    pass.event(&Event { time: MS, cpu: 0, tid: 7_000_000, body: Body::Enter(call(0)) });
    let involved = &pass.finish().involved[0];
    assert_eq!((involved.thread.name.as_str(), involved.calls), ("db", 1));
}
