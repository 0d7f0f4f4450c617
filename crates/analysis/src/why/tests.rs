//! Stories of known causes, whole and with events missing.

mod asleep;
mod blame;
mod memory;
mod parts;
mod rivals;
mod traced;
mod traps;

use flightrec_format::abi::kinds::{BlockComplete, Fork, Kind, SignalGenerate, Throttle};
use flightrec_format::abi::page::{Lane, REFUSALS};
use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::abi::record::{Abi, Comm, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Plain};
use flightrec_format::meta::{Meta, Syscall};
use flightrec_format::ring::{Gap, Reason};
use proptest::prelude::*;

use super::{Answer, Known, Names, Story, Subject, Told};

const MS: u64 = 1_000_000;
const CALLS: [&str; 12] = [
    "read",
    "futex",
    "fsync",
    "clock_nanosleep",
    "poll",
    "sendto",
    "munmap",
    "fcntl",
    "openat",
    "recvfrom",
    "connect",
    "exit_group",
];

/// Numbers as names.
struct Plainly;

impl Names for Plainly {
    fn text(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
    fn error(&self, number: i32) -> String {
        format!("error {number}")
    }
    fn kernel(&self, frame: u32) -> String {
        format!("f{frame}")
    }
    fn user(&self, frame: UserFrame, _: bool) -> String {
        format!("u{}", frame.at)
    }
    fn device(&self, device: u32) -> String {
        format!("disk{device}")
    }
    fn signal(&self, number: u32) -> String {
        format!("signal {number}")
    }
    fn group(&self, cgroup: u64) -> Option<String> {
        Some(format!("/group{cgroup}"))
    }
    fn operation(&self, op: u32) -> String {
        format!("op{op}")
    }
}

fn meta() -> Meta {
    let native =
        CALLS.iter().zip(0..).map(|(name, nr)| Syscall { nr, name: (*name).into(), args: None });
    Meta { native: native.collect(), ..Meta::default() }
}

fn nr(name: &str) -> u16 {
    CALLS.iter().position(|of| *of == name).unwrap() as u16
}

fn comm(tid: u32) -> Comm {
    let mut comm = [0; 16];
    comm[0] = b't';
    comm[1] = b'0' + (tid % 10) as u8;
    comm
}

fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

fn call(name: &str) -> Call {
    Call { nr: nr(name), abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

fn enter(time: u64, cpu: u16, tid: u32, name: &str) -> Event {
    event(time, cpu, tid, Body::Enter(call(name)))
}

fn exit(time: u64, cpu: u16, tid: u32, name: &str, ret: i64) -> Event {
    event(time, cpu, tid, Body::Exit { call: call(name), ret, entered: None })
}

fn switch(time: u64, cpu: u16, tid: u32, state: u16, next: u32) -> Event {
    let body = Body::Switch {
        prev_prio: 120,
        prev_state: state,
        preempted: state == 0,
        io_wait: false,
        next,
        next_prio: if next == 9 { 59 } else { 120 },
    };
    event(time, cpu, tid, body)
}

fn waking(time: u64, cpu: u16, tid: u32, wakee: u32, context: WakeContext) -> Event {
    let body = Body::Waking { wakee, prio: 120, state: 1, cpu, new: false, context };
    event(time, cpu, tid, body)
}

fn plain(time: u64, tid: u32, kind: Kind, bytes: &[u8]) -> Event {
    event(time, 0, tid, Body::Plain(Plain::read(kind, bytes).unwrap()))
}

/// Scheduling events that are missing.
fn gap(from: u64, until: u64) -> Gap {
    let refused = [0; REFUSALS];
    Gap { lane: Lane::Sched, cpu: 1, from, until, lost: None, refused, reason: Reason::Overwritten }
}

/// A story of these, from 0 to `until`. Calls know when they began.
fn story(events: &[Event], until: u64, gaps: &[Gap]) -> Story {
    let mut story = Story::new(&meta(), 0, 0, until);
    let mut entered = std::collections::HashMap::new();
    let mut last = 0;
    for event in events {
        for gap in gaps.iter().filter(|gap| last <= gap.from && gap.begins_before(event.time)) {
            story.miss(gap);
        }
        last = event.time;
        let mut known = Known {
            pid: event.tid / 10 * 10,
            comm: comm(event.tid),
            cgroup: 7,
            ..Known::default()
        };
        match &event.body {
            Body::Enter(_) => _ = entered.insert(event.tid, event.time),
            Body::Exit { .. } => known.entered = entered.remove(&event.tid),
            Body::Switch { next, .. } => known.other = comm(*next),
            Body::Waking { wakee, .. } => known.other = comm(*wakee),
            Body::Plain(of) if of.kind() == Kind::BlockComplete => {
                known.request = Some((Some(12), 0, 30 * MS));
            }
            _ => {}
        }
        story.take(event, &known, &mut || {
            let name = match &event.body {
                Body::Enter(call) | Body::Exit { call, .. } => CALLS[usize::from(call.nr)],
                _ => "",
            };
            let (text, object) = match name {
                "fsync" => ("fsync(3</srv/journal>)".into(), Some("/srv/journal".into())),
                "sendto" => ("sendto(3)".into(), None),
                name => (name.into(), None),
            };
            let peer = (name == "sendto").then(|| "10.0.0.1:53".into());
            Told { text, object, peer, open_flags: 0 }
        });
    }
    story.finish(|_, _| None);
    story
}

fn answer(events: &[Event], tid: u32, until: u64) -> Answer {
    story(events, until, &[]).answer(tid, &Plainly)
}

/// Thread 11 waits for a lock that 12 holds, which is in fsync, until a disk is done.
fn convoy() -> Vec<Event> {
    let done = BlockComplete {
        request: 1,
        device: 5,
        sector: 0,
        bytes: 4096,
        op: 1,
        flags: 0,
        context: 3,
        left: 0,
        error: 0,
    };
    vec![
        enter(MS, 0, 11, "futex"),
        switch(2 * MS, 0, 11, 1, 0),
        enter(2 * MS, 1, 12, "fsync"),
        event(
            3 * MS,
            1,
            12,
            Body::Switch {
                prev_prio: 120,
                prev_state: 2,
                preempted: false,
                io_wait: true,
                next: 0,
                next_prio: 120,
            },
        ),
        plain(90 * MS, 0, Kind::BlockComplete, &done.bytes()),
        waking(90 * MS, 1, 0, 12, WakeContext::Hardirq),
        switch(90 * MS, 1, 0, 0, 12),
        exit(91 * MS, 1, 12, "fsync", 0),
        waking(92 * MS, 1, 12, 11, WakeContext::Thread),
        switch(92 * MS, 0, 0, 0, 11),
        exit(93 * MS, 0, 11, "futex", 0),
        switch(95 * MS, 0, 11, 1, 0),
    ]
}

#[test]
fn a_lock_is_followed_to_its_holder_and_the_disk() {
    let answer = answer(&convoy(), 11, 95 * MS);
    assert_eq!(
        answer.sentence,
        "`t1` (11) waited 90 ms in futex for `t2` (12), which waited 87 ms in \
         fsync(/srv/journal) for I/O on disk5"
    );
    let culprit = &answer.culprits[0];
    assert_eq!(culprit.who.as_ref().map(|who| who.tid), Some(12));
    assert_eq!(
        (culprit.mechanism, culprit.call.as_deref(), culprit.object.as_deref()),
        ("I/O", Some("fsync"), Some("/srv/journal"))
    );
    // What thread 11 did before its first event is not known.
    let sum: f64 = answer.shares.iter().map(|share| share.percent).sum();
    assert!((sum - 100.0).abs() < 1e-6, "{sum}");
}

#[test]
fn without_the_events_that_tell_there_is_a_doubt_and_no_culprit() {
    let all = convoy();
    // The holder's own events are missing: it is known by its wakeup alone.
    let only_waker: Vec<Event> = all
        .iter()
        .filter(|event| event.tid != 12 || matches!(event.body, Body::Waking { .. }))
        .filter(|event| !matches!(event.body, Body::Switch { next: 12, .. }))
        .filter(|event| !matches!(event.body, Body::Waking { wakee: 12, .. }))
        .cloned()
        .collect();
    let known = answer(&only_waker, 11, 95 * MS);
    assert!(known.culprits.is_empty() && !known.complete, "{known:#?}");
    assert!(known.doubts.iter().any(|doubt| doubt.contains("not recorded")), "{known:#?}");
    // The wakeup is missing.
    let unwoken: Vec<Event> = all
        .iter()
        .filter(|event| !matches!(event.body, Body::Waking { wakee: 11, .. }))
        .cloned()
        .collect();
    let known = answer(&unwoken, 11, 95 * MS);
    assert!(known.culprits.is_empty() && !known.complete, "{known:#?}");
    assert!(known.sentence.ends_with("in futex"), "{}", known.sentence);
    // A gap in the time that the answer looks at.
    let gap = gap(3 * MS, 91 * MS);
    let known = story(&all, 95 * MS, &[gap]).answer(11, &Plainly);
    assert!(!known.complete && !known.doubts.is_empty(), "{known:#?}");
    assert!(known.culprits.iter().all(|of| of.who.as_ref().map(|who| who.tid) != Some(12)));
}

#[test]
fn any_event_may_be_missing() {
    let all = convoy();
    for left_out in 0..all.len() {
        let mut events = all.clone();
        events.remove(left_out);
        let answer = answer(&events, 11, 95 * MS);
        let sum: f64 = answer.shares.iter().map(|share| share.percent).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{left_out}: {sum}");
        let tids: Vec<u32> =
            answer.culprits.iter().filter_map(|of| Some(of.who.as_ref()?.tid)).collect();
        assert!(tids.iter().all(|tid| [11, 12].contains(tid)), "{left_out}: {answer:#?}");
    }
}

#[test]
fn who_ran_instead_is_named_with_its_priority() {
    let events = [
        switch(MS, 0, 5, 0, 11),
        switch(2 * MS, 0, 11, 0, 9),
        switch(80 * MS, 0, 9, 1, 11),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    let answer = answer(&events, 11, 90 * MS);
    assert_eq!(
        answer.sentence,
        "`t1` (11) waited 78 ms for CPU 0, where `t9` (9) ran for 78 ms with real-time priority \
         40 (r:40)"
    );
    assert_eq!(answer.culprits[0].mechanism, "CPU taken");
}

#[test]
fn a_quota_is_named_with_its_group() {
    let row = |time, duration| {
        let of = Throttle { duration, cgroup: 7, v1_cgroup: 0, throttled_cpu: 0, reserved: 0 };
        plain(time, 0, Kind::Throttle, &of.bytes())
    };
    let events = [
        switch(MS, 0, 5, 0, 11),
        switch(10 * MS, 0, 11, 0, 0),
        row(80 * MS, 70 * MS),
        switch(80 * MS, 0, 0, 0, 11),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    let known = answer(&events, 11, 90 * MS);
    assert!(
        known.sentence.starts_with(
            "`t1` (11) was throttled for 70 ms (1 time): its control group /group7 had used up \
             its CPU quota"
        ),
        "{}",
        known.sentence
    );
    // Without the row it is a conclusion; where switches may be missing it is none.
    let without = [&events[..2], &events[3..]].concat();
    let known = answer(&without, 11, 90 * MS);
    assert!(known.sentence.contains("was probably throttled for 70 ms"), "{}", known.sentence);
    assert!(known.doubts.iter().any(|doubt| doubt.contains("inferred")), "{known:#?}");
    let gap = gap(20 * MS, 30 * MS);
    let known = story(&without, 90 * MS, &[gap]).answer(11, &Plainly);
    assert!(!known.sentence.contains("throttled") && !known.complete, "{known:#?}");
}

#[test]
fn who_stops_it_is_named() {
    let signal = |time, signal| {
        let of = SignalGenerate {
            signal,
            code: 0,
            target_tid: 11,
            target_pid: 10,
            scope: 1,
            result: 0,
            target_comm: comm(11),
        };
        plain(time, 42, Kind::SignalGenerate, &of.bytes())
    };
    let events = [
        switch(MS, 0, 5, 0, 11),
        signal(10 * MS, 19),
        switch(10 * MS, 0, 11, 4, 0),
        switch(10 * MS, 1, 0, 0, 42),
        signal(70 * MS, 18),
        waking(70 * MS, 1, 42, 11, WakeContext::Thread),
        switch(70 * MS, 0, 0, 0, 11),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    let known = answer(&events, 11, 90 * MS);
    assert_eq!(known.sentence, "`t1` (11) was stopped for 60 ms by signal 19, sent by `t2` (42)");
    let without: Vec<Event> =
        events.iter().filter(|of| !matches!(of.body, Body::Plain(_))).cloned().collect();
    let known = answer(&without, 11, 90 * MS);
    assert!(known.culprits.is_empty() && !known.complete, "{known:#?}");
}

#[test]
fn an_answer_that_does_not_come_is_named_by_whom_it_was_asked_of() {
    let events = [
        switch(0, 0, 5, 0, 11),
        enter(MS, 0, 11, "sendto"),
        exit(MS + 1000, 0, 11, "sendto", 9),
        enter(2 * MS, 0, 11, "poll"),
        switch(2 * MS, 0, 11, 1, 0),
        waking(82 * MS, 0, 0, 11, WakeContext::Hardirq),
        switch(82 * MS, 0, 0, 0, 11),
        exit(83 * MS, 0, 11, "poll", 0),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    let known = answer(&events, 11, 90 * MS);
    assert_eq!(
        known.sentence,
        "`t1` (11) waited 80 ms in poll, which timed out: no answer came from 10.0.0.1:53"
    );
    assert_eq!(story(&events, 90 * MS, &[]).worst(&Subject::default(), &Plainly), Some(11));
}

#[test]
fn the_worst_is_found_without_a_name() {
    let story = story(&convoy(), 95 * MS, &[]);
    assert!([Some(11), Some(12)].contains(&story.worst(&Subject::default(), &Plainly)));
    let pid = Subject { pids: vec![10], ..Subject::default() };
    assert!(story.worst(&pid, &Plainly).is_some());
    let nobody = Subject { tids: vec![77], ..Subject::default() };
    assert_eq!(story.worst(&nobody, &Plainly), None);
    let slow = story.slowest_call(&Subject::default(), Some("fsync"), 0, &Plainly).unwrap();
    assert_eq!((slow.tid, slow.from, slow.until), (12, 2 * MS, 91 * MS));
    assert_eq!(story.episode(11, 50 * MS), (MS, 93 * MS));
}

/// Any event at all, of few threads.
fn any_event() -> impl Strategy<Value = Event> {
    let body = prop_oneof![
        (0..8u16, any::<bool>(), -120..3i64).prop_map(|(nr, begins, ret)| {
            let call = call(CALLS[usize::from(nr)]);
            if begins { Body::Enter(call) } else { Body::Exit { call, ret, entered: None } }
        }),
        (prop_oneof![Just(0u16), Just(1), Just(2), Just(4), Just(8), Just(0x80)], 0..6u32)
            .prop_map(|(prev_state, next)| Body::Switch {
                prev_prio: 120,
                prev_state,
                preempted: prev_state == 0,
                io_wait: prev_state == 2,
                next: next + 10,
                next_prio: 120,
            }),
        (0..6u32, 0..5u8).prop_map(|(wakee, context)| Body::Waking {
            wakee: wakee + 10,
            prio: 120,
            state: 1,
            cpu: 0,
            new: false,
            context: WakeContext::from_bits(context),
        }),
    ];
    (0..3u16, 0..6u32, body).prop_map(|(cpu, tid, body)| event(0, cpu, tid + 10, body))
}

proptest! {
    /// Whatever the events: no panic, and all of the time is accounted for.
    #[test]
    fn shares_are_all_of_the_time(
        mut events in prop::collection::vec((any_event(), 0..3_000_000u64), 1..200),
        from in 0..100_000_000u64,
        length in 1..400_000_000u64,
    ) {
        let mut time = 0;
        let events: Vec<Event> = events
            .drain(..)
            .map(|(event, after)| {
                time += after;
                Event { time, ..event }
            })
            .collect();
        let story = story(&events, time + 1, &[]);
        for tid in 10..17 {
            let (from, until) = (from.min(time), from.min(time) + length.min(time + 1 - from.min(time)));
            let shares = story.shares(tid, from, until, &Plainly);
            let sum: u64 = shares.iter().map(|share| share.ns).sum();
            prop_assert_eq!(sum, until - from);
            let answer = story.answer_within(tid, from, until, &Plainly);
            prop_assert!(!answer.sentence.is_empty());
            let _ = story.episode(tid, from);
        }
        let _ = story.worst(&Subject::default(), &Plainly);
    }
}
