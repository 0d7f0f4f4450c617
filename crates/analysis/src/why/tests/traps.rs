//! Stories in which the first guess is wrong.

use super::*;

/// A thread that moved waits for the CPU that it moved to, not for that on which it stopped.
#[test]
fn who_moves_waits_for_another_cpu() {
    let moves = Body::Migrate { thread: 11, prio: 120, from: 0, to: 1 };
    let events = [
        switch(0, 1, 0, 0, 9),
        switch(MS, 0, 5, 0, 11),
        switch(2 * MS, 0, 11, 0, 5),
        event(22 * MS, 0, 5, moves),
        switch(22 * MS, 0, 5, 1, 0),
        switch(80 * MS, 1, 9, 1, 11),
        switch(90 * MS, 1, 11, 1, 0),
    ];
    let answer = answer(&events, 11, 90 * MS);
    assert_eq!(
        answer.sentence,
        "`t1` (11) waited 78 ms for a CPU (1 wait), where `t9` (9) ran for 58 ms with real-time \
         priority 40 (r:40)"
            .replace(" (1 wait)", "")
    );
    assert!(answer.shares.iter().all(|share| share.state != "held"), "{answer:#?}");
}

/// The limit of a group that the thread is not in keeps nobody.
#[test]
fn a_quota_of_another_group_is_none() {
    let row = |cgroup| {
        let of =
            Throttle { duration: 60 * MS, cgroup, v1_cgroup: 0, throttled_cpu: 0, reserved: 0 };
        plain(70 * MS, 0, Kind::Throttle, &of.bytes())
    };
    let sentence = |cgroup| {
        let groups = [(7, "/a/b"), (8, "/a"), (9, "/a/bc")].map(|(id, of)| (id, of.to_owned()));
        let meta = Meta { cgroups: groups.into_iter().collect(), ..meta() };
        let mut story = Story::new(&meta, 0, 0, 90 * MS);
        let events = [
            switch(MS, 0, 5, 0, 11),
            switch(10 * MS, 0, 11, 0, 9),
            row(cgroup),
            switch(70 * MS, 0, 9, 0, 11),
            switch(80 * MS, 0, 11, 1, 0),
        ];
        for event in &events {
            let known = Known { pid: 10, cgroup: 7, ..Known::default() };
            story.take(event, &known, &mut Told::default);
        }
        story.finish(|_, _| None);
        story.answer(11, &Plainly).sentence
    };
    assert!(sentence(7).contains("was throttled for 60 ms"), "{}", sentence(7));
    assert!(sentence(8).contains("was throttled for 60 ms"), "{}", sentence(8));
    assert!(sentence(9).contains("waited 60 ms for CPU 0"), "{}", sentence(9));
}

/// An interpreter's lock is tried some hundred times a second; who gives it in the end had it.
#[test]
fn a_lock_with_a_timeout_is_had_from_who_gives_it() {
    let mut events = vec![switch(0, 1, 0, 0, 12), switch(0, 0, 5, 0, 11)];
    for at in (5..800).step_by(5) {
        let (from, until) = (at * MS, (at + 5) * MS - 100_000);
        events.extend([enter(from, 0, 11, "futex"), switch(from, 0, 11, 1, 0)]);
        let is_last = at == 795;
        // The last wait is a little shorter than any other one.
        let until = if is_last { until - MS } else { until };
        let (by, context) =
            if is_last { (12, WakeContext::Thread) } else { (0, WakeContext::Hardirq) };
        events.push(waking(until, u16::from(is_last), by, 11, context));
        events.push(switch(until, 0, 0, 0, 11));
        events.push(exit(until, 0, 11, "futex", if is_last { 0 } else { -110 }));
    }
    events.push(switch(802 * MS, 0, 11, 1, 0));
    let answer = answer(&events, 11, 802 * MS);
    assert!(
        answer.sentence.starts_with("`t1` (11) waited 778 ms in futex (159 waits) for a lock that")
            && answer.sentence.contains("held by `t2` (12), which ran on CPU for 794 ms"),
        "{}",
        answer.sentence
    );
}

/// A softirq interrupts whoever runs: only a thread in a call on a socket sends.
#[test]
fn a_packet_is_not_from_whom_it_interrupted() {
    let sent = |by: &str, context| {
        let events = [
            switch(0, 1, 0, 0, 12),
            switch(0, 0, 5, 0, 11),
            enter(MS, 0, 11, "poll"),
            switch(MS, 0, 11, 1, 0),
            enter(70 * MS, 1, 12, by),
            waking(80 * MS, 1, 12, 11, context),
            switch(80 * MS, 0, 0, 0, 11),
            exit(81 * MS, 1, 12, by, 1),
            exit(81 * MS, 0, 11, "poll", 1),
            switch(90 * MS, 0, 11, 1, 0),
        ];
        let culprits = answer(&events, 11, 90 * MS).culprits;
        culprits.iter().any(|of| of.who.as_ref().is_some_and(|who| who.tid == 12))
    };
    assert!(sent("sendto", WakeContext::Softirq));
    assert!(!sent("read", WakeContext::Softirq) && !sent("fsync", WakeContext::Softirq));
    assert!(!sent("sendto", WakeContext::Hardirq));
}

/// Events are missing at the end of the wait: whoever is named there is chance.
#[test]
fn a_chain_ends_where_events_are_missing() {
    let whole = story(&convoy(), 95 * MS, &[]).answer(11, &Plainly);
    assert!(!whole.culprits.is_empty());
    for gap in [gap(3 * MS, 60 * MS), gap(85 * MS, 95 * MS)] {
        let known = story(&convoy(), 95 * MS, &[gap]).answer(11, &Plainly);
        assert!(known.culprits.is_empty() && !known.complete, "{known:#?}");
        assert!(!known.doubts.is_empty());
    }
}

/// The last switch before a gap tells who ran at that moment, not for how long.
#[test]
fn who_is_switched_in_last_before_a_gap_is_not_said_to_run_through_it() {
    let events = [
        switch(0, 1, 5, 0, 11),
        switch(10 * MS, 1, 11, 0, 12),
        switch(80 * MS, 1, 13, 0, 11),
        switch(90 * MS, 1, 11, 1, 0),
    ];
    let whole = story(&events, 90 * MS, &[]).answer(11, &Plainly);
    assert!(whole.sentence.contains("waited 70 ms for CPU 1"), "{whole:#?}");
    let gap = gap(10 * MS, 80 * MS);
    let known = story(&events, 90 * MS, &[gap]).answer(11, &Plainly);
    assert!(known.culprits.is_empty() && !known.complete, "{known:#?}");
    let unknown = known.shares.iter().find(|share| share.state == "unknown");
    assert_eq!(unknown.map(|share| share.ns), Some(70 * MS), "{known:#?}");
}

#[test]
fn signals_of_a_timer_are_nobodys() {
    let sender = |code| {
        let mut events = vec![switch(0, 0, 5, 0, 11)];
        for at in 1..80 {
            let of = SignalGenerate {
                signal: 14,
                code,
                target_tid: 11,
                target_pid: 10,
                scope: 1,
                result: 0,
                target_comm: comm(11),
            };
            events.push(plain(at * MS, 42, Kind::SignalGenerate, &of.bytes()));
        }
        events.push(switch(90 * MS, 0, 11, 1, 0));
        answer(&events, 11, 90 * MS)
    };
    let by = |answer: &Answer| answer.culprits[0].who.as_ref().map(|who| who.tid);
    let told = sender(0);
    assert!(told.sentence.contains("it took 79 signals signal 14 from `t2` (42)"));
    assert_eq!(by(&told), Some(42));
    let told = sender(-2);
    assert!(told.sentence.contains("signals signal 14 from the kernel"), "{}", told.sentence);
    assert_eq!(by(&told), None);
}

/// Processes that live for a moment each are named by who creates them.
#[test]
fn who_creates_processes_all_the_time_is_named() {
    let mut events = vec![switch(0, 0, 5, 0, 11), switch(MS, 0, 11, 0, 40)];
    for (at, child) in (0..20).zip(100_u32..) {
        let time = (2 + 4 * at) * MS;
        // Two parents of one name.
        let parent = 40 + 10 * (child % 2);
        let fork = Fork::read(&[0; 256]).unwrap();
        let fork = Fork { tid: child, tgid: child, parent_tgid: parent, ..fork };
        events.push(event(time, 1, parent, Body::Fork(fork)));
        events.push(switch(time, 0, if at == 0 { 40 } else { child - 1 }, 0, child));
    }
    events.push(switch(85 * MS, 0, 119, 0, 11));
    events.push(switch(90 * MS, 0, 11, 1, 0));
    let mut story = Story::new(&meta(), 0, 0, 90 * MS);
    for event in &events {
        let next = match event.body {
            Body::Switch { next, .. } => next,
            _ => event.tid,
        };
        let name = |tid: u32| if tid >= 100 { comm(3) } else { comm(tid) };
        let known =
            Known { pid: event.tid, comm: name(event.tid), other: name(next), ..Known::default() };
        story.take(event, &known, &mut Told::default);
    }
    story.finish(|_, _| None);
    let known = story.answer(11, &Plainly);
    assert!(
        known.sentence.contains("ran for 83 ms (20 threads of that name), created by `t0` (")
            && known.sentence.contains("(2 threads of that name)"),
        "{}",
        known.sentence
    );
    assert_eq!(known.culprits[0].mechanism, "short-lived processes");
}

/// Who looks five times a second whether there is something to read is no trouble; who can't open
/// its file is.
#[test]
fn a_look_that_finds_nothing_is_no_failure() {
    let worst = |name: &str, ret: i64| {
        let mut events = vec![switch(0, 0, 0, 0, 11)];
        for at in (1..3000).step_by(200) {
            let (from, until) = (at * MS, (at + 200) * MS - 100_000);
            events.extend([
                enter(from, 0, 11, name),
                exit(from + 10_000, 0, 11, name, ret),
                enter(from + 20_000, 0, 11, "clock_nanosleep"),
                switch(from + 30_000, 0, 11, 1, 0),
                waking(until, 0, 0, 11, WakeContext::Hardirq),
                switch(until + 10_000, 0, 0, 0, 11),
                exit(until + 20_000, 0, 11, "clock_nanosleep", 0),
            ]);
        }
        story(&events, 3000 * MS, &[]).worst(&Subject::default(), &Plainly)
    };
    assert_eq!(worst("read", -11), None);
    assert_eq!(worst("openat", -2), Some(11));
}
