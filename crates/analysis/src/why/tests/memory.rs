//! Threads that need free memory.

use flightrec_format::abi::kinds::{Compaction, Reclaim};

use super::*;

/// Thread 11 has reclaimed memory for `ns`, as its group (1) or the machine (0) has no more.
fn reclaim(time: u64, ns: u64, limit: u32) -> Event {
    let of = Reclaim { duration: ns, pages: 32, limit, order: 0 };
    plain(time, 11, Kind::Reclaim, &of.bytes())
}

fn compaction(time: u64, ns: u64) -> Event {
    let of = Compaction { duration: ns, order: 9, mode: 1, result: 0, reserved: 0 };
    plain(time, 11, Kind::Compaction, &of.bytes())
}

/// Of 100 ms thread 11 runs for the first `ran` ms, and does this meanwhile.
fn ran_with(ran: u64, deeds: &[Event]) -> Answer {
    let begin = [switch(0, 0, 5, 0, 11)];
    let end = [switch(ran * MS, 0, 11, 0, 12)];
    answer(&[&begin, deeds, &end].concat(), 11, 100 * MS)
}

/// Culprits: what each did, its object and for how long, ms.
fn culprits(answer: &Answer) -> Vec<(&str, Option<&str>, u64)> {
    let of = answer.culprits.iter();
    of.map(|of| (of.mechanism, of.object.as_deref(), of.ns / MS)).collect()
}

#[test]
fn who_mostly_reclaims_memory_does_that() {
    let answer = ran_with(100, &[reclaim(30 * MS, 20 * MS, 1), reclaim(60 * MS, 20 * MS, 1)]);
    assert_eq!(
        answer.sentence,
        "`t1` (11) spent 40 ms in direct reclaim (2 times), as the memory limit of its control \
         group /group7 was reached"
    );
    assert_eq!(culprits(&answer), [("memory reclaim", Some("/group7"), 40)]);
}

/// Filling pages takes longer than to take them from others where the host gave them back.
#[test]
fn a_fair_part_of_what_it_ran_is_told() {
    // A tenth of the 80 ms, not of the window.
    let answer = ran_with(80, &[reclaim(30 * MS, 8 * MS, 1)]);
    assert!(
        answer.sentence.starts_with("`t1` (11) ran on CPU for 80 ms")
            && answer.sentence.ends_with(
                "; it spent 8.0 ms in direct reclaim (1 time), as the memory limit of its control \
                 group /group7 was reached"
            ),
        "{}",
        answer.sentence
    );
    let both = [("on CPU", None, 80), ("memory reclaim", Some("/group7"), 8)];
    assert_eq!(culprits(&answer), both);
    let little = ran_with(80, &[reclaim(30 * MS, 7 * MS, 1)]);
    assert!(!little.sentence.contains("reclaim"), "{}", little.sentence);
    assert_eq!(culprits(&little), [("on CPU", None, 80)]);
}

#[test]
fn what_took_most_of_it_is_the_reason() {
    let answer = ran_with(100, &[reclaim(50 * MS, 39 * MS, 0), reclaim(60 * MS, MS, 1)]);
    assert_eq!(
        answer.sentence,
        "`t1` (11) spent 39 ms in direct reclaim (1 time), as the machine's memory was short"
    );
    assert_eq!(culprits(&answer), [("memory reclaim", None, 39)]);
    let answer = ran_with(100, &[compaction(50 * MS, 50 * MS), reclaim(60 * MS, MS, 1)]);
    assert_eq!(
        answer.sentence,
        "`t1` (11) spent 50 ms in compaction (1 time), as too few free pages lay in a row"
    );
    assert_eq!(culprits(&answer), [("memory compaction", None, 50)]);
}

/// The kernel does not tell whose limit it was.
#[test]
fn a_limit_may_be_that_of_a_group_above() {
    struct Deep;
    impl Names for Deep {
        fn text(&self, bytes: &[u8]) -> String {
            Plainly.text(bytes)
        }
        fn error(&self, number: i32) -> String {
            Plainly.error(number)
        }
        fn kernel(&self, frame: u32) -> String {
            Plainly.kernel(frame)
        }
        fn user(&self, frame: UserFrame, is_inner: bool) -> String {
            Plainly.user(frame, is_inner)
        }
        fn device(&self, device: u32) -> String {
            Plainly.device(device)
        }
        fn signal(&self, number: u32) -> String {
            Plainly.signal(number)
        }
        fn group(&self, _: u64) -> Option<String> {
            Some("/pods/web".to_owned())
        }
        fn operation(&self, op: u32) -> String {
            Plainly.operation(op)
        }
    }
    let events = [switch(0, 0, 5, 0, 11), reclaim(60 * MS, 50 * MS, 1)];
    let sentence = story(&events, 100 * MS, &[]).answer(11, &Deep).sentence;
    assert!(
        sentence.ends_with(
            "as the memory limit of its control group /pods/web, or of one above it, was reached"
        ),
        "{sentence}"
    );
}
