//! Others that had what a thread wanted without waking it; and the end of a thread.

use flightrec_format::abi::kinds::SockState;
use flightrec_format::abi::record::TaskExit;

use super::*;

/// A thread switches away to wait for a disk.
fn io_wait(time: u64, cpu: u16, tid: u32) -> Event {
    let body = Body::Switch {
        prev_prio: 120,
        prev_state: 2,
        preempted: false,
        io_wait: true,
        next: 0,
        next_prio: 120,
    };
    event(time, cpu, tid, body)
}

/// A request to disk 7 is done: by thread 12, as [`story`] knows.
fn done(time: u64) -> Event {
    let of = BlockComplete::read(&[0; 256]).unwrap();
    plain(time, 0, Kind::BlockComplete, &BlockComplete { device: 7, ..of }.bytes())
}

/// Threads 11 and 12 wait in fsync for the disk.
fn at_the_disk(other_ns: u64) -> Answer {
    let woken = |cpu, tid| waking(81 * MS, cpu, 0, tid, WakeContext::Hardirq);
    let events = [
        switch(0, 0, 0, 0, 11),
        switch(0, 1, 0, 0, 12),
        enter(MS, 0, 11, "fsync"),
        io_wait(2 * MS, 0, 11),
        enter(80 * MS - other_ns, 1, 12, "fsync"),
        io_wait(81 * MS - other_ns, 1, 12),
        done(80 * MS),
        woken(0, 11),
        woken(1, 12),
        switch(82 * MS, 0, 0, 0, 11),
        switch(82 * MS, 1, 0, 0, 12),
        exit(83 * MS, 0, 11, "fsync", 0),
        exit(83 * MS, 1, 12, "fsync", 0),
        switch(90 * MS, 0, 11, 1, 0),
    ];
    answer(&events, 11, 90 * MS)
}

#[test]
fn who_waits_for_the_same_disk_is_named() {
    let known = at_the_disk(70 * MS);
    assert!(
        known.sentence.ends_with(
            "for I/O on disk7, where `t2` (12) waited for I/O as well, 70 ms in fsync(/srv/journal)"
        ),
        "{}",
        known.sentence
    );
    assert!(known.culprits.iter().any(|of| of.who.as_ref().is_some_and(|who| who.tid == 12)));
    // Who had a short wait there did not keep it busy.
    let known = at_the_disk(10 * MS);
    assert!(!known.sentence.contains("`t2`"), "{}", known.sentence);
}

#[test]
fn who_receives_makes_room_for_who_sends() {
    let waits_in = |name: &str| {
        let events = [
            switch(0, 0, 5, 0, 11),
            switch(0, 1, 5, 0, 12),
            enter(MS, 0, 11, name),
            switch(2 * MS, 0, 11, 1, 0),
            enter(79 * MS, 1, 12, "recvfrom"),
            waking(80 * MS, 1, 12, 11, WakeContext::Softirq),
            switch(80 * MS, 0, 0, 0, 11),
            exit(81 * MS, 1, 12, "recvfrom", 1),
            exit(81 * MS, 0, 11, name, 1),
            switch(90 * MS, 0, 11, 1, 0),
        ];
        answer(&events, 11, 90 * MS)
    };
    let is_named = |answer: &Answer| answer.chain.iter().any(|link| link.who.tid == 12);
    assert!(is_named(&waits_in("sendto")));
    // Who waits to receive is not helped by others that do.
    assert!(!is_named(&waits_in("recvfrom")));
}

#[test]
fn a_queue_of_connections_is_whose_who_listens() {
    let listens = |host: &str| {
        let of = SockState::read(&[0; 256]).unwrap();
        let context = WakeContext::Thread as u32;
        let of = SockState { new_state: 10, local_port: 80, context, ..of };
        let retransmit = plain(50 * MS, 0, Kind::TcpRetransmit, &[0; 256]);
        let events = [
            switch(0, 1, 5, 0, 12),
            plain(0, 12, Kind::SockState, &of.bytes()),
            enter(0, 1, 12, "clock_nanosleep"),
            switch(0, 1, 12, 1, 0),
            switch(0, 0, 5, 0, 11),
            enter(MS, 0, 11, "connect"),
            switch(2 * MS, 0, 11, 1, 0),
            retransmit,
            waking(80 * MS, 0, 0, 11, WakeContext::Softirq),
            switch(80 * MS, 0, 0, 0, 11),
            exit(81 * MS, 0, 11, "connect", 0),
            switch(90 * MS, 0, 11, 1, 0),
        ];
        let mut story = Story::new(&meta(), 0, 0, 90 * MS);
        for event in &events {
            let entered = matches!(event.body, Body::Exit { .. }).then_some(MS);
            let (pid, comm) = (event.tid, comm(event.tid));
            let known = Known { pid, comm, entered, ..Known::default() };
            let told = || Told { peer: Some(host.into()), ..Told::default() };
            story.take(event, &known, &mut { told });
        }
        story.finish(|_, _| None);
        story.answer(11, &Plainly)
    };
    let known = listens("127.0.0.1:80");
    assert!(known.sentence.contains("; there listens `t2` (12)"), "{}", known.sentence);
    // Another machine's port is not this one's.
    let known = listens("10.0.0.9:80");
    assert!(!known.sentence.contains("t2"), "{}", known.sentence);
}

/// Thread 11 waits, runs for a moment, and is killed.
fn killed(waits_ns: u64, sender: Option<i32>) -> Answer {
    let signal = |code: i32| {
        let of = SignalGenerate {
            signal: 9,
            code,
            target_tid: 11,
            target_pid: 10,
            scope: 1,
            result: 0,
            target_comm: comm(11),
        };
        plain(85 * MS, 42, Kind::SignalGenerate, &of.bytes())
    };
    let exit = TaskExit::read(&[0; 256]).unwrap();
    let exit = TaskExit { tid: 11, tgid: 10, code: 9, ..exit };
    let mut events = vec![
        switch(70 * MS - waits_ns, 0, 5, 0, 11),
        enter(71 * MS - waits_ns, 0, 11, "futex"),
        switch(71 * MS - waits_ns, 0, 11, 1, 0),
        waking(71 * MS, 1, 42, 11, WakeContext::Thread),
        switch(71 * MS, 0, 0, 0, 11),
        super::exit(71 * MS, 0, 11, "futex", 0),
    ];
    events.extend(sender.map(signal));
    events.push(event(86 * MS, 0, 11, Body::TaskExit(exit)));
    events.push(switch(87 * MS, 0, 11, 0x80, 0));
    answer(&events, 11, 90 * MS)
}

#[test]
fn who_killed_it_is_named() {
    let known = killed(MS / 10, Some(0));
    assert_eq!(known.sentence, "`t1` (11) was killed by signal 9, sent by `t2` (42)");
    assert_eq!(known.culprits[0].who.as_ref().map(|who| who.tid), Some(42), "{known:#?}");
    let known = killed(MS / 10, Some(0x80));
    assert!(known.sentence.ends_with("which the kernel sent"), "{}", known.sentence);
    // A long wait before that stays the answer.
    let known = killed(60 * MS, Some(0));
    assert!(
        known.sentence.starts_with("`t1` (11) waited 60 ms in futex")
            && known.sentence.ends_with("; it was killed by signal 9, sent by `t2` (42)"),
        "{}",
        known.sentence
    );
    // The signal is missing.
    let known = killed(MS / 10, None);
    assert!(known.culprits.is_empty() && !known.complete, "{known:#?}");
    assert!(
        known.doubts.iter().any(|doubt| doubt.contains("who sent signal 9 is not recorded")),
        "{known:#?}"
    );
}

#[test]
fn who_ended_is_in_no_call_any_more() {
    let exit = TaskExit::read(&[0; 256]).unwrap();
    let exit = TaskExit { tid: 11, tgid: 10, ..exit };
    let events = [
        switch(0, 0, 5, 0, 11),
        enter(MS, 0, 11, "exit_group"),
        event(2 * MS, 0, 11, Body::TaskExit(exit)),
        switch(3 * MS, 0, 11, 0x80, 0),
    ];
    let story = story(&events, 900 * MS, &[]);
    let call = story.slowest_call(&Subject::default(), None, 0, &Plainly).unwrap();
    assert_eq!((call.from, call.until), (MS, 3 * MS));
    assert_eq!(story.slowest_call(&Subject::default(), None, 100 * MS, &Plainly), None);
}
