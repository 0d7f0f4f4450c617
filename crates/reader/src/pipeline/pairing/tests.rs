//! Entries and exits that are known, and which belong together.

use std::time::{Duration, Instant};

use super::*;
use crate::pipeline::testing::{call, comm, enter, event, exit, text, waking};
use flightrec_format::abi::record::{Act, Exec, TaskExit};
use flightrec_format::decode::Event;

fn meta() -> Meta {
    Meta {
        native: [(56, "clone"), (59, "execve")]
            .map(|(nr, name)| Syscall { nr, name: name.into(), args: None })
            .into(),
        ..Meta::default()
    }
}

fn run(events: Vec<Event>) -> Vec<Item> {
    run_since(Holes::new(0), events)
}

/// When the last of these, an exit, began.
fn began(holes: &[(u64, u64)], events: Vec<Event>) -> Option<Began> {
    let mut all = Holes::new(100);
    all.extend(holes.iter().copied());
    run_since(all, events).pop().and_then(|item| item.found.began)
}

fn returns(time: u64, tid: u32, nr: u16, ret: i64) -> Event {
    event(time, 0, tid, Body::Exit { call: call(nr), ret, entered: None })
}

const EPERM: i64 = -1;

fn run_since(holes: Holes, events: Vec<Event>) -> Vec<Item> {
    let mut pairing = Pairs::new(&meta(), holes);
    let mut placement = Placement::default();
    let mut line = DelayLine::default();
    for event in events {
        let mut item = Item::new(event.into());
        pairing.take(&mut item, &mut line, &placement);
        placement.take(&mut item, &mut line);
        item.waiting &= matches!(item.event.body, Body::Enter(_));
        line.push(item);
    }
    std::iter::from_fn(|| line.pop(0)).collect()
}

fn cold(time: u64, tid: u32, nr: u16) -> Event {
    let strings = vec![text(0, StringStatus::Unreadable, "")];
    event(time, 0, tid, Body::Enter(Call { strings, ..call(nr) }))
}

fn path(item: &Item) -> &[u8] {
    match &item.event.body {
        Body::Enter(call) => &call.strings[0].bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_entry_of_the_thread() {
    let out = run(vec![
        enter(10, 0, 1, 0),
        enter(11, 0, 2, 0),
        exit(15, 1, 1, 0),
        exit(19, 0, 2, 0),
        exit(20, 0, 2, 0),
    ]);
    let entered: Vec<_> = out.iter().map(|i| i.found.entered).collect();
    assert_eq!(entered, [None, None, Some(10), Some(11), None]);
}

/// Thread 1 enters call 9 on CPU 0 at 50; the pages of CPU 1 begin at 100. When its calls that end
/// from then on began, as far as it is known.
fn entered_before(events: Vec<Event>) -> Vec<Option<u64>> {
    let all = [vec![enter(50, 0, 1, 9)], events].concat();
    let out = run_since(Holes::new(90).with_whole(100), all);
    let exits = out.iter().filter(|item| matches!(item.event.body, Body::Exit { .. }));
    exits.map(|item| item.found.entered).collect()
}

#[test]
fn an_entry_from_before_all_pages_may_have_had_its_exit() {
    // Between them the thread may have made calls on CPU 1.
    assert_eq!(entered_before(vec![exit(500, 1, 1, 9)]), [None]);
    assert_eq!(entered_before(vec![exit(500, 0, 1, 9)]), [None]);
    assert_eq!(entered_before(vec![exit(95, 1, 1, 9)]), [None]);
    // On its own CPU that would be there.
    assert_eq!(entered_before(vec![exit(95, 0, 1, 9)]), [Some(50)]);
    // It slept all the time on CPU 0, or has run elsewhere.
    let woken = |time, cpu| waking(time, 1, 7, 1, cpu);
    assert_eq!(entered_before(vec![woken(450, 0), exit(500, 1, 1, 9)]), [Some(50)]);
    assert_eq!(entered_before(vec![woken(450, 1), exit(500, 0, 1, 9)]), [None]);
    let twice = vec![woken(450, 0), woken(460, 1), exit(500, 1, 1, 9)];
    assert_eq!(entered_before(twice), [Some(50)]);
    // Woken before that, it may have gone on where nobody saw it.
    assert_eq!(entered_before(vec![woken(95, 0), exit(500, 0, 1, 9)]), [None]);
    let again = vec![woken(95, 0), woken(450, 1), woken(460, 0), exit(500, 0, 1, 9)];
    assert_eq!(entered_before(again), [None]);
    // What follows is known.
    let next = vec![exit(500, 1, 1, 9), enter(510, 1, 1, 9), exit(520, 0, 1, 9)];
    assert_eq!(entered_before(next), [None, Some(510)]);
}

/// The task lane is there from long before: an exec does not make an execve of a call that ends
/// later.
#[test]
fn an_exec_whose_end_was_not_seen_takes_no_other_exit() {
    let exec = Exec { tid: 1, old_tid: 1, tgid: 1, args_len: 0, cgroup: 0, comm: comm("cat") };
    let exec = event(60, 0, 1, Body::Exec { exec, file: None, args: None });
    let ended = event(500, 1, 1, Body::Exit { call: call(0), ret: 7, entered: None });
    let events = vec![enter(50, 0, 1, 59), exec, ended];
    let of = |holes| run_since(holes, events.clone()).pop().expect("the exit");
    let nr = |item: &Item| match &item.event.body {
        Body::Exit { call, .. } => call.nr,
        other => panic!("{other:?}"),
    };
    let unseen = of(Holes::new(90).with_whole(100));
    assert_eq!((nr(&unseen), unseen.found.entered), (0, None));
    assert_eq!(unseen.found.began, Some(Began { from: 50, until: 90 }));
    let seen = of(Holes::new(0));
    assert_eq!((nr(&seen), seen.found.entered), (59, Some(50)));
}

/// As many threads as there may be are in calls, and more want to: none of these may cost a
/// walk over all of those.
#[test]
fn more_threads_than_are_remembered_cost_no_more() {
    let (mut pairing, mut line) = (Pairs::new(&meta(), Holes::new(0)), DelayLine::default());
    let placement = Placement::default();
    let mut take = |event: Event| {
        let mut item = Item::new(event.into());
        pairing.take(&mut item, &mut line, &placement);
        item.found.entered
    };
    let begun = Instant::now();
    let all = THREADS_MAX as u32;
    for tid in 1..=all + 100_000 {
        take(enter(u64::from(tid), 0, tid, 0));
    }
    // Each exit makes room for one thread.
    for tid in 1..=100_000 {
        assert_eq!(take(exit(1 << 32, 0, tid, 0)), Some(u64::from(tid)));
        assert_eq!(take(exit(1 << 32, 0, all + tid, 0)), None);
        take(enter(2 << 32, 0, all + tid, 0));
        assert_eq!(take(exit(3 << 32, 0, all + tid, 0)), Some(2 << 32));
        take(enter(4 << 32, 0, all + tid, 0));
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn who_was_not_seen_since_all_is_there_was_in_its_call() {
    let before = |from, until| Some(Began { from, until });
    assert_eq!(began(&[], vec![returns(900, 1, 0, 7)]), before(0, 100));
    // What was read from before that tells no more than when it was not.
    let early = vec![enter(50, 0, 1, 9), exit(60, 0, 1, 9), returns(900, 1, 0, 7)];
    assert_eq!(began(&[], early), before(60, 100));
    let seen = vec![enter(500, 0, 1, 9), exit(501, 0, 1, 9), returns(900, 1, 0, 7)];
    assert_eq!(began(&[], seen), None, "all that it did since is there");
    assert_eq!(began(&[], vec![returns(500, 1, 0, EPERM), returns(900, 1, 0, 7)]), None);
    assert_eq!(run(vec![enter(5, 0, 1, 0), returns(900, 1, 0, 7)])[1].found.began, None);
}

#[test]
fn a_hole_is_where_it_may_have_begun() {
    let holes = [(200, 300)];
    let bounds = |from, until| Some(Began { from, until });
    assert_eq!(began(&holes, vec![returns(900, 1, 0, 7)]), bounds(0, 300));
    let seen = |at| vec![enter(at, 0, 1, 9), exit(at + 1, 0, 1, 9), returns(900, 1, 0, 7)];
    assert_eq!(began(&holes, seen(150)), bounds(151, 300));
    assert_eq!(began(&holes, seen(400)), None);
    // Within one nothing is known but that it was seen.
    assert_eq!(began(&[(200, 1000)], seen(150)), bounds(151, 900));
    assert_eq!(began(&[(200, 1000)], vec![returns(900, 1, 0, 7)]), bounds(0, 900));
    // So it is where system calls were detached.
    let attached =
        event(400, 0, 9, Body::Act(Act::Attached as u16, text(0, StringStatus::Whole, "x")));
    assert_eq!(began(&[], vec![attached, returns(900, 1, 0, 7)]), bounds(0, 400));
}

#[test]
fn the_born_were_in_no_call() {
    assert_eq!(began(&[], vec![returns(900, 1, 56, 0)]), None);
    let parent = vec![returns(900, 1, 56, 77)];
    assert_eq!(began(&[], parent), Some(Began { from: 0, until: 100 }));
    let fork = crate::pipeline::testing::fork(2, 2, 1, 1, "x");
    let born = event(700, 0, 2, Body::Fork(fork));
    assert_eq!(began(&[], vec![born, returns(900, 1, 0, 7)]), None);
}

/// A filter may refuse the first call in a long time of a thread that was in no call.
#[test]
fn what_a_filter_may_return_tells_nothing_unless_its_thread_slept() {
    use crate::pipeline::testing::{switch, waking};
    let unknown = Some(Began { from: 0, until: 900 });
    let known = Some(Began { from: 0, until: 100 });
    for (ret, expected) in [(EPERM, unknown), (-38, unknown), (-11, unknown)] {
        assert_eq!(began(&[], vec![returns(900, 1, 0, ret)]), expected, "{ret}");
    }
    for ret in [0, 7, -4, -110, -512, -516, -5000] {
        assert_eq!(began(&[], vec![returns(900, 1, 0, ret)]), known, "{ret}");
    }
    let slept = |state| {
        let mut waking = waking(800, 1, 5, 1, 0);
        if let Body::Waking { state: of, .. } = &mut waking.body {
            *of = state;
        }
        vec![waking, switch(850, 0, 9, 1, 1), returns(900, 1, 0, EPERM)]
    };
    assert_eq!(began(&[], slept(1)), known);
    assert_eq!(began(&[], slept(0x2001)), known, "freezable");
    assert_eq!(began(&[], slept(2)), unknown, "as for a page of memory");
    assert_eq!(began(&[], slept(8)), unknown, "stopped by a tracer");
    assert_eq!(began(&[(200, 851)], slept(1)), unknown, "calls that are missing may have followed");
    let mut preempted = slept(1);
    preempted.splice(2..2, [switch(860, 0, 1, 0, 9), switch(870, 0, 9, 0, 1)]);
    assert_eq!(began(&[], preempted), unknown, "it ran since");
}

/// A thread that has given up its place may have been seen.
#[test]
fn in_a_crowd_only_the_latest_is_known() {
    let (mut pairing, mut line) = (Pairs::new(&meta(), Holes::new(1)), DelayLine::default());
    let mut take = |event: Event| {
        let mut item = Item::new(event.into());
        pairing.take(&mut item, &mut line, &Placement::default());
        item.found.began
    };
    let all = (THREADS_MAX / 2) as u32;
    for tid in 1..=all {
        take(enter(u64::from(tid), 0, tid, 0));
    }
    let (first, then) = (1 << 32, 2 << 32);
    assert_eq!(take(returns(first, 1, 0, 7)), None, "its entry is there");
    assert_eq!(take(returns(then, 1, 0, 7)), Some(Began { from: 0, until: first }));
}

#[test]
fn another_call_is_no_pair() {
    assert_eq!(run(vec![enter(10, 0, 1, 0), exit(15, 0, 1, 1)])[1].found.entered, None);
}

#[test]
fn sigreturn_is_named_by_its_entry() {
    let out = run(vec![enter(10, 0, 1, 15), exit(15, 0, 1, NR_INVALID)]);
    assert_eq!(out[1].found.entered, Some(10));
    assert!(matches!(&out[1].event.body, Body::Exit { call, .. } if call.nr == 15));
}

#[test]
fn a_number_beyond_all_tables_is_that_of_the_entry() {
    let mut begin = enter(10, 0, 1, NR_INVALID);
    let Body::Enter(call) = &mut begin.body else { panic!("{begin:?}") };
    (call.args[0], call.nargs) = (5000, 1);
    let out = run(vec![begin, exit(15, 0, 1, NR_INVALID)]);
    let Body::Exit { call, .. } = &out[1].event.body else { panic!("{:?}", out[1].event) };
    assert_eq!((call.nr, call.args[0], call.nargs), (NR_INVALID, 5000, 1));
}

#[test]
fn nothing_pairs_across_a_time_without_system_calls() {
    let act = |act: Act| event(12, 0, 9, Body::Act(act as u16, text(0, StringStatus::Whole, "x")));
    let paired =
        |with: Act| run(vec![enter(10, 0, 1, 0), act(with), exit(15, 0, 1, 0)])[2].found.entered;
    assert_eq!(paired(Act::Level), Some(10));
    assert_eq!(paired(Act::Attached), None);
    // Nor does a path that was to come with the exit hold anything up.
    assert_eq!(run(vec![cold(10, 1, 2), act(Act::Attached)]).len(), 2);
}

#[test]
fn a_folded_exit_knows_better() {
    let folded = event(15, 0, 1, Body::Exit { call: call(0), ret: 0, entered: Some(12) });
    assert_eq!(run(vec![enter(10, 0, 1, 0), folded])[1].found.entered, Some(12));
}

#[test]
fn exec_from_a_thread_that_is_no_leader() {
    let exec = Exec { tid: 1, old_tid: 3, tgid: 1, args_len: 0, cgroup: 0, comm: comm("x") };
    let gone = TaskExit { tid: 1, tgid: 1, code: 0, left: 0, start_time: 0, comm: comm("x") };
    let out = run(vec![
        enter(10, 0, 1, 34),
        cold(11, 3, 59),
        event(12, 1, 1, Body::TaskExit(gone)),
        event(
            13,
            0,
            1,
            Body::Exec { exec, file: Some(text(0, StringStatus::Whole, "/bin/x")), args: None },
        ),
        exit(14, 0, 1, 59),
    ]);
    assert_eq!(out[4].found.entered, Some(11));
    assert_eq!(path(&out[1]), b"/bin/x");
}

#[test]
fn a_cold_path_comes_with_the_exit() {
    let strings = vec![text(0, StringStatus::Whole, "/etc/cold")];
    let warm =
        event(15, 0, 1, Body::Exit { call: Call { strings, ..call(2) }, ret: 3, entered: None });
    let out = run(vec![cold(10, 1, 2), enter(11, 1, 2, 0), warm]);
    assert_eq!(path(&out[0]), b"/etc/cold");
    assert_eq!(out.len(), 3);
}

#[test]
fn the_cold_end_of_a_path_comes_with_the_exit() {
    let of = |status, path: &str| Call { strings: vec![text(0, status, path)], ..call(2) };
    let entry = event(10, 0, 1, Body::Enter(of(StringStatus::Cut, "/./.")));
    let call = of(StringStatus::Ends, &["/.".repeat(64), "/secret".to_owned()].concat());
    let out = run(vec![entry, event(15, 0, 1, Body::Exit { call, ret: 3, entered: None })]);
    assert!(path(&out[0]).ends_with(b"/secret"));
    assert_eq!(out.len(), 2);
}

#[test]
fn a_path_that_stays_unreadable_holds_nothing_up() {
    assert_eq!(run(vec![cold(10, 1, 2), exit(11, 0, 1, 2)]).len(), 2);
    assert_eq!(run(vec![cold(10, 1, 2), enter(11, 0, 1, 0)]).len(), 2);
    assert_eq!(run(vec![cold(10, 1, 2)]).len(), 0, "its exit is still to come");
}
