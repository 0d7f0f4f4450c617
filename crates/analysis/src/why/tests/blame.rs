//! Whom an answer blames, and whom it must not.

use super::*;

/// A story of events with a group above the threads' own (7), of `paths`.
fn with_groups(paths: &[(u64, &str)]) -> Meta {
    let cgroups = paths.iter().map(|(id, path)| (*id, (*path).to_owned())).collect();
    Meta { cgroups, ..meta() }
}

fn throttle(time: u64, ns: u64, cgroup: u64, cpu: u32) -> Event {
    let of = Throttle { duration: ns, cgroup, v1_cgroup: 0, throttled_cpu: cpu, reserved: 0 };
    plain(time, 0, Kind::Throttle, &of.bytes())
}

fn told(meta: &Meta, events: &[Event], until: u64) -> Answer {
    let mut story = Story::new(meta, 0, 0, until);
    for event in events {
        let known = Known { pid: 10, comm: comm(event.tid), cgroup: 7, ..Known::default() };
        story.take(event, &known, &mut Told::default);
    }
    story.finish(|_, _| None);
    story.answer(11, &Plainly)
}

/// Thread 11 is queued on CPU 0, where 12 runs, and is moved to CPU 1 at `moved`.
fn moved(moved: u64) -> Vec<Event> {
    vec![
        switch(MS, 0, 5, 0, 11),
        switch(2 * MS, 0, 11, 0, 12),
        event(moved, 1, 0, Body::Migrate { thread: 11, prio: 120, from: 0, to: 1 }),
        switch(moved + 1000, 1, 0, 0, 11),
        switch(90 * MS, 1, 11, 1, 0),
        switch(91 * MS, 0, 12, 1, 0),
    ]
}

#[test]
fn a_thread_that_was_moved_waited_where_it_was_queued() {
    // CPU 1 idled all the time, but the thread was not there.
    let known = answer(&moved(80 * MS), 11, 91 * MS);
    assert!(
        known.sentence.starts_with("`t1` (11) waited 78 ms for CPU 0, where `t2` (12) ran"),
        "{}",
        known.sentence
    );
    let shares = story(&moved(80 * MS), 91 * MS, &[]).shares(11, 0, 91 * MS, &Plainly);
    assert!(shares.iter().all(|share| share.state != "held"), "{shares:#?}");
}

#[test]
fn throttling_of_another_group_is_no_cause() {
    let wait = |row: Event| {
        [
            switch(MS, 0, 5, 0, 11),
            switch(10 * MS, 0, 11, 0, 12),
            row,
            switch(80 * MS, 0, 12, 0, 11),
            switch(90 * MS, 0, 11, 1, 0),
        ]
    };
    let meta = with_groups(&[(7, "/app/web"), (8, "/app"), (9, "/ap"), (6, "/other")]);
    for (group, is_cause) in [(7, true), (8, true), (9, false), (6, false), (5, false)] {
        let known = told(&meta, &wait(throttle(80 * MS, 70 * MS, group, 0)), 90 * MS);
        assert_eq!(known.sentence.contains("throttled"), is_cause, "{group}: {}", known.sentence);
    }
}

#[test]
fn throttling_of_groups_one_in_another_counts_once() {
    let meta = with_groups(&[(7, "/app/web"), (8, "/app")]);
    let events = [
        switch(MS, 0, 5, 0, 11),
        switch(10 * MS, 0, 11, 0, 12),
        throttle(40 * MS, 30 * MS, 7, 0),
        throttle(40 * MS, 30 * MS, 8, 0),
        switch(80 * MS, 0, 12, 0, 11),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    let known = told(&meta, &events, 90 * MS);
    let throttled = known.shares.iter().find(|share| share.state == "throttled").unwrap();
    assert_eq!(throttled.ns, 30 * MS, "{known:#?}");
}

/// Thread 11 polls; a wakeup comes in this context while 12 is in this call.
fn packet(context: WakeContext, name: &str) -> Answer {
    let events = [
        switch(0, 0, 5, 0, 11),
        switch(0, 1, 5, 0, 12),
        enter(MS, 0, 11, "poll"),
        switch(2 * MS, 0, 11, 1, 0),
        enter(79 * MS, 1, 12, name),
        waking(80 * MS, 1, 12, 11, context),
        switch(80 * MS, 0, 0, 0, 11),
        exit(81 * MS, 1, 12, name, 1),
        exit(81 * MS, 0, 11, "poll", 1),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    answer(&events, 11, 90 * MS)
}

#[test]
fn who_was_only_interrupted_is_not_the_sender_of_a_packet() {
    let blames = |answer: &Answer| {
        answer.chain.iter().any(|link| link.who.tid == 12)
            || answer.culprits.iter().any(|of| of.who.as_ref().is_some_and(|who| who.tid == 12))
    };
    assert!(blames(&packet(WakeContext::Softirq, "sendto")));
    for (context, name) in [
        (WakeContext::Hardirq, "sendto"),
        (WakeContext::Softirq, "fsync"),
        (WakeContext::Softirq, "read"),
    ] {
        let known = packet(context, name);
        assert!(!blames(&known), "{name}: {known:#?}");
    }
}

/// A signal to thread 11 by this `si_code`, with this result.
fn signal(time: u64, signal: u32, code: i32, result: u32) -> Event {
    let of = SignalGenerate {
        signal,
        code,
        target_tid: 11,
        target_pid: 10,
        scope: 1,
        result,
        target_comm: comm(11),
    };
    plain(time, 42, Kind::SignalGenerate, &of.bytes())
}

#[test]
fn signals_of_timers_are_not_of_who_was_interrupted() {
    let stormed = |code: i32, result: u32| {
        let mut events = vec![switch(0, 0, 5, 0, 11)];
        events.extend((1..90).map(|at| signal(at * MS, 14, code, result)));
        events.push(switch(90 * MS, 0, 11, 1, 0));
        answer(&events, 11, 90 * MS)
    };
    let by = |answer: &Answer| {
        let of = answer.culprits.iter().find(|of| of.mechanism == "signal");
        of.map(|of| of.who.as_ref().map(|who| who.tid))
    };
    assert_eq!(by(&stormed(0, 0)), Some(Some(42)));
    for code in [0x80, -2] {
        let known = stormed(code, 0);
        assert_eq!(by(&known), Some(None), "{known:#?}");
        assert!(known.sentence.contains("from the kernel"), "{}", known.sentence);
    }
    // Signals that were dropped, as the target ignores them.
    assert_eq!(by(&stormed(0, 1)), None);
}

#[test]
fn a_stop_of_the_terminal_is_not_of_who_was_interrupted() {
    let events = [
        switch(MS, 0, 5, 0, 11),
        signal(10 * MS, 20, 0x80, 0),
        switch(10 * MS, 0, 11, 4, 0),
        waking(70 * MS, 1, 42, 11, WakeContext::Thread),
        switch(70 * MS, 0, 0, 0, 11),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    let known = answer(&events, 11, 90 * MS);
    assert_eq!(
        known.sentence,
        "`t1` (11) was stopped for 60 ms by signal 20, which the kernel sent"
    );
    assert_eq!(known.culprits[0].who, None);
}

#[test]
fn a_lock_of_the_address_space_without_a_stack_is_in_doubt() {
    let events = [
        switch(0, 0, 5, 0, 11),
        switch(0, 1, 5, 0, 12),
        enter(MS, 0, 11, "munmap"),
        enter(MS, 1, 12, "munmap"),
        switch(2 * MS, 0, 11, 2, 0),
        exit(79 * MS, 1, 12, "munmap", 0),
        waking(80 * MS, 1, 12, 11, WakeContext::Thread),
        switch(80 * MS, 0, 0, 0, 11),
        exit(81 * MS, 0, 11, "munmap", 0),
        switch(90 * MS, 0, 11, 1, 0),
        switch(90 * MS, 1, 12, 1, 0),
    ];
    let known = answer(&events, 11, 90 * MS);
    assert!(known.sentence.contains("mmap_lock"), "{}", known.sentence);
    assert!(known.doubts.iter().any(|doubt| doubt.contains("no kernel stack")), "{known:#?}");
}

#[test]
fn a_gap_in_a_wait_is_a_doubt() {
    // Of another CPU, and only in the wait: the wakeup itself was recorded.
    let gap = Gap { cpu: 3, lane: Lane::Syscall, ..gap(40 * MS, 41 * MS) };
    let known = story(&convoy(), 95 * MS, &[gap]).answer(11, &Plainly);
    assert!(!known.complete, "{known:#?}");
    assert!(known.doubts.iter().any(|doubt| doubt.contains("are missing")), "{known:#?}");
}

#[test]
fn threads_are_bounded_and_the_answer_says_so() {
    let mut story = Story::new(&meta(), 0, 0, 90 * MS);
    let known = Known { pid: 10, ..Known::default() };
    for tid in 1..=70_000 {
        story.take(&enter(u64::from(tid), 0, tid, "read"), &known, &mut Told::default);
    }
    story.finish(|_, _| None);
    assert!(story.tracks.all.len() <= 65_536, "{}", story.tracks.all.len());
    let answer = story.answer(11, &Plainly);
    assert!(!answer.complete && answer.doubts.iter().any(|doubt| doubt.contains("left out")));
}

#[test]
fn long_texts_are_bounded() {
    let mut story = Story::new(&meta(), 0, 0, 90_000 * MS);
    let known = Known { pid: 10, ..Known::default() };
    let mut long = || Told { text: "x".repeat(4096).into(), ..Told::default() };
    for at in 0..20_000 {
        story.take(&exit(at * MS, 0, 11, "sendto", 0), &known, &mut long);
    }
    assert!(story.tracks.is_short);
    let answer = story.answer(11, &Plainly);
    assert!(!answer.complete && answer.doubts.iter().any(|doubt| doubt.contains("left out")));
}

/// What many short calls were about leaves room for what a long one is about.
#[test]
fn a_long_call_finds_room_for_its_words_after_short_ones() {
    let bytes = 1 << 20;
    let mut story = Story::with_room(&meta(), (0, 0, 90_000 * MS), bytes);
    let known = Known { pid: 10, ..Known::default() };
    let mut short = || Told { text: "x".repeat(64).into(), ..Told::default() };
    for at in 0..bytes as u64 / 500 {
        story.take(&exit(at * MS / 10, 0, 11, "sendto", 0), &known, &mut short);
    }
    assert!(story.tracks.is_short);
    let known = Known { pid: 12, entered: Some(0), ..Known::default() };
    let mut long = || Told { text: "read(3</fifo>)".into(), ..Told::default() };
    story.take(&exit(60_000 * MS, 0, 12, "read", 1), &known, &mut long);
    let call = story.tracks.get(12).and_then(|track| track.calls.last()).expect("the call");
    assert_eq!(&*story.tracks.told(call.told).expect("its words").text, "read(3</fifo>)");
}

#[test]
fn times_at_the_end_of_the_clock_do_not_wrap() {
    let end = u64::MAX;
    let mut story = Story::new(&meta(), 0, 0, end);
    let at = |event: &Event| Event { time: end - 100 * MS + event.time, ..event.clone() };
    let mut events: Vec<Event> = convoy().iter().map(at).collect();
    events.insert(0, signal(0, 19, 0, 0));
    events.insert(1, throttle(MS, end, 7, 0));
    events.insert(2, switch(2 * MS, 0, 5, 0, 11));
    for event in &events {
        story.take(event, &Known { pid: 10, cgroup: 7, ..Known::default() }, &mut Told::default);
    }
    story.finish(|_, _| None);
    for tid in [5, 11, 12, 42] {
        let answer = story.answer(tid, &Plainly);
        assert!(!answer.sentence.is_empty());
    }
    let _ = story.worst(&Subject::default(), &Plainly);
}

#[test]
fn what_is_tried_again_and_again_fails_between_the_sleeps() {
    const ROUNDS: u64 = 30;
    // When it began, the program had failed more often: by another call, and by the same one.
    for (first, failures) in [("read", 4 * ROUNDS), ("openat", 4 * ROUNDS), ("openat", 17)] {
        let mut events = vec![switch(0, 0, 5, 0, 11)];
        for i in 0..failures {
            events.push(enter(MS + i * 1000, 0, 11, first));
            events.push(exit(MS + i * 1000 + 500, 0, 11, first, -2));
        }
        for i in 0..ROUNDS {
            let begin = (10 + 20 * i) * MS;
            events.extend([
                enter(begin, 0, 11, "openat"),
                exit(begin + 1000, 0, 11, "openat", -2),
                enter(begin + 2000, 0, 11, "clock_nanosleep"),
                switch(begin + 3000, 0, 11, 1, 0),
                waking(begin + 19 * MS, 0, 0, 11, WakeContext::Hardirq),
                switch(begin + 19 * MS + 1000, 0, 0, 0, 11),
                exit(begin + 19 * MS + 2000, 0, 11, "clock_nanosleep", 0),
            ]);
        }
        let end = (10 + 20 * ROUNDS) * MS;
        events.push(switch(end, 0, 11, 1, 0));
        let known = answer(&events, 11, end);
        let said = "tried openat again and again: it failed 30 times with error 2";
        assert!(known.sentence.contains(said), "{first} {failures}: {}", known.sentence);
    }
}
