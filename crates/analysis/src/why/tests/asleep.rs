//! Threads of which there is no event: they sleep.

use super::*;
use crate::CallId;
use crate::why::Sleeper;

const SECOND: u64 = 1000 * MS;

/// Thread 12 ran all the time but for its calls, on CPU 0, from 10 s to 15 s.
fn busy() -> Vec<Event> {
    let begins = |n: u64| 10 * SECOND + n * 10 * MS;
    let calls = (0..500)
        .flat_map(|n| [enter(begins(n), 0, 12, "read"), exit(begins(n) + 1000, 0, 12, "read", 1)]);
    calls.collect()
}

/// The same thread sleeps all the time.
fn idle() -> Vec<Event> {
    let begin = 10 * SECOND;
    vec![enter(begin, 0, 12, "clock_nanosleep"), switch(begin + 1000, 0, 12, 1, 0)]
}

/// The window from 12 s to 15 s, of which the events begin at 10 s.
fn asleep(sleepers: &[Sleeper], events: &[Event]) -> Story {
    let mut story = Story::new(&meta(), 10 * SECOND, 12 * SECOND, 15 * SECOND).complete();
    for of in sleepers {
        story.asleep(of);
    }
    for event in events {
        let pid = event.tid / 10 * 10;
        let known = Known { pid, comm: comm(event.tid), ..Known::default() };
        story.take(event, &known, &mut Told::default);
    }
    story.finish(|tid, since| {
        if tid != 11 {
            return None;
        }
        assert_eq!(since, 7 * SECOND);
        let text = "fcntl(3</srv/lock>, F_SETLKW)".into();
        Some(Told { text, object: Some("/srv/lock".into()), ..Told::default() })
    });
    story
}

fn sleeper(name: &str) -> Sleeper {
    let call = Some(CallId { nr: nr(name), abi: Abi::Native });
    let (tid, pid, comm) = (11, 10, comm(11));
    Sleeper { tid, pid, comm, cgroup: 7, since: 7 * SECOND, state: 1, call }
}

#[test]
fn who_hangs_since_long_before_is_told_of() {
    let story = asleep(&[sleeper("fcntl")], &busy());
    let named = Subject { tids: vec![11], ..Subject::default() };
    assert_eq!(story.worst(&named, &Plainly), Some(11));
    let answer = story.answer(11, &Plainly);
    assert!(
        answer.sentence.starts_with("`t1` (11) waited 3.0 s in fcntl(/srv/lock)"),
        "{answer:?}"
    );
    let evidence = &answer.chain[0].evidence;
    assert!(
        evidence.contains(&"had waited for 5.0 s when the window began".into()),
        "{evidence:?}"
    );
    assert!(!answer.lacks_past);
    // It stands out, but not beside one that has trouble in this window.
    assert_eq!(story.worst(&Subject::default(), &Plainly), Some(12));
    let idle = asleep(&[sleeper("fcntl")], &idle());
    assert_eq!(idle.worst(&Subject::default(), &Plainly), Some(11));
}

#[test]
fn who_waits_for_work_does_not_stand_out() {
    let story = asleep(&[sleeper("read")], &idle());
    assert_eq!(story.worst(&Subject::default(), &Plainly), None);
    let stuck = Sleeper { state: 2, ..sleeper("read") };
    let story = asleep(&[stuck], &idle());
    assert_eq!(story.worst(&Subject::default(), &Plainly), Some(11));
}

#[test]
fn who_sleeps_since_an_event_is_known_by_that() {
    let late = Sleeper { since: 11 * SECOND, ..sleeper("read") };
    let story = asleep(&[late], &idle());
    assert!(story.tracks.get(11).is_none());
}

/// It was switched out before all events, and nothing says when.
#[test]
fn who_is_woken_had_waited() {
    let woken = [
        enter(10 * SECOND, 0, 12, "read"),
        waking(14 * SECOND, 0, 12, 11, WakeContext::Thread),
        switch(14 * SECOND + 1000, 0, 12, 1, 11),
        exit(14 * SECOND + 2000, 0, 11, "fcntl", 0),
    ];
    let answer = asleep(&[], &woken).answer(11, &Plainly);
    assert!(answer.sentence.starts_with("`t1` (11) waited 2.0 s"), "{answer:?}");
    // Its CPU was not heard of before: it may have run there.
    let mut elsewhere = woken;
    if let Body::Waking { cpu, .. } = &mut elsewhere[1].body {
        *cpu = 2;
    }
    let answer = asleep(&[], &elsewhere).answer(11, &Plainly);
    assert!(answer.lacks_past && !answer.sentence.contains("waited"), "{answer:?}");
}
