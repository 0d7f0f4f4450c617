//! Windows of more events than a story has room for.

use super::*;

/// Room for so many states and calls.
const ROWS: usize = 2000;
/// When a thread begins to wait for the disk, and for how long.
const WAIT: (u64, u64) = (120 * MS, 70 * MS);

/// 300 ms in which thread 12 makes a call every 100 µs and sleeps, and thread 11 waits once.
fn events() -> Vec<Event> {
    let end = WAIT.0 + WAIT.1;
    let mut events = vec![
        switch(1, 0, 0, 0, 12),
        switch(WAIT.0 - 2000, 1, 0, 0, 11),
        enter(WAIT.0 - 1000, 1, 11, "fsync"),
        switch(WAIT.0, 1, 11, 2, 0),
        waking(end, 1, 0, 11, WakeContext::Hardirq),
        switch(end + 1000, 1, 0, 0, 11),
        exit(end + 2000, 1, 11, "fsync", 0),
        switch(end + 3000, 1, 11, 1, 0),
    ];
    for at in (1..3000).map(|n| n * MS / 10) {
        events.extend([
            enter(at, 0, 12, "read"),
            exit(at + 20_000, 0, 12, "read", 1),
            switch(at + 30_000, 0, 12, 1, 0),
            waking(at + 90_000, 0, 0, 12, WakeContext::Hardirq),
            switch(at + 95_000, 0, 0, 0, 12),
        ]);
    }
    events.sort_by_key(|event| event.time);
    events
}

/// How many parts there are, and the answers of those in which anything stands out: to whom it
/// happened, how much trouble it was, and the rest.
fn answers(bytes: usize) -> (u64, Vec<(u32, u64, Answer)>) {
    let mut story = Story::with_room(&meta(), (0, 0, 300 * MS), bytes);
    let known = Known { pid: 10, ..Known::default() };
    let (mut parts, mut answers) = (0, Vec::new());
    let mut ask = |part: &Story| {
        parts += 1;
        assert!(!part.tracks.is_cut, "there was room");
        if let Some((tid, trouble)) = part.worst_of(&Subject::default(), &Plainly) {
            answers.push((tid, trouble, part.answer(tid, &Plainly)));
        }
    };
    for event in &events() {
        if story.is_full() {
            ask(&story.part(event.time, |_, _| None));
        }
        story.take(event, &known, &mut Told::default);
    }
    story.finish(|_, _| None);
    ask(&story);
    (parts, answers)
}

#[test]
fn the_worst_part_has_the_answer() {
    let (parts, whole) = answers(4 << 20);
    let (1, [(11, _, whole)]) = (parts, &whole[..]) else { panic!("{parts}: {whole:#?}") };
    assert_eq!(whole.chain[0].ns, WAIT.1);

    let (parts, answers) = answers(96 * ROWS);
    assert!(parts >= 4, "{parts}");
    let (tid, _, mut worst) = answers.into_iter().max_by_key(|(_, trouble, _)| *trouble).unwrap();
    assert_eq!(tid, 11);
    let link = &worst.chain[0];
    assert_eq!((&link.did[..7], link.state), ("waited ", "blocked"), "{worst:#?}");
    assert!(link.did.contains("in fsync"), "{}", link.did);
    // What of the wait is in that part, from when the thread is known to wait.
    let within = worst.from..=worst.until;
    assert!(within.contains(&link.from) && within.contains(&link.until), "{worst:#?}");
    assert!(link.ns * 2 > worst.until - worst.from && link.ns < WAIT.1, "{worst:#?}");
    // Nothing is unknown but what is missing: that it is a part is no gap.
    let shares: f64 = worst.shares.iter().map(|share| share.percent).sum();
    assert!((shares - 100.0).abs() < 0.01, "{worst:#?}");
    assert!(worst.shares.iter().all(|share| share.state != "unknown"), "{worst:#?}");
    worst.say_part(parts, false);
    let said = worst.doubts.last().unwrap();
    assert!(
        said.contains(&format!("of the {parts} parts")) && said.contains("the worst one"),
        "{said}"
    );
}

/// Who waits through all parts does so in each, as if it were all there is.
#[test]
fn what_goes_on_is_known_in_the_next_part() {
    let mut story = Story::with_room(&meta(), (0, 0, 300 * MS), 96 * 500);
    let known = Known { pid: 10, comm: comm(11), cgroup: 7, ..Known::default() };
    let mut start = vec![
        switch(2, 1, 0, 0, 11),
        enter(1000, 1, 11, "read"),
        switch(2000, 1, 11, 1, 0),
        switch(1, 0, 0, 0, 12),
    ];
    start.sort_by_key(|event| event.time);
    let (mut time, mut parts) = (MS, 0);
    for event in &start {
        story.take(event, &known, &mut Told::default);
    }
    while time < 200 * MS {
        if story.is_full() {
            let part = story.part(time, |_, _| None);
            let answer = part.answer(11, &Plainly);
            assert!(answer.sentence.contains("in read"), "{answer:#?}");
            let who = answer.subject.as_ref().unwrap();
            assert_eq!((who.pid, &*who.comm), (10, "t1"));
            assert_eq!(who.group.as_deref(), Some("/group7"));
            assert!(part.has(time) && !part.has(time + 1), "the part ends there");
            parts += 1;
        }
        let known = Known { pid: 12, ..Known::default() };
        story.take(&exit(time, 0, 12, "openat", 3), &known, &mut Told::default);
        time += MS / 10;
    }
    assert!(parts >= 3, "{parts}");
}
