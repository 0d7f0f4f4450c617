//! Threads that need free memory.

use flightrec_format::abi::kinds::{Compaction, Reclaim};

use super::*;

/// A thread of the group 7 that has reclaimed memory for `ns`, as its group has no more.
fn reclaim(time: u64, ns: u64) -> Event {
    let of = Reclaim { duration: ns, pages: 32, limit: 1, order: 0 };
    plain(time, 11, Kind::Reclaim, &of.bytes())
}

fn compaction(time: u64, ns: u64) -> Event {
    let of = Compaction { duration: ns, order: 9, mode: 1, result: 0, reserved: 0 };
    plain(time, 11, Kind::Compaction, &of.bytes())
}

/// Thread 11 runs for 100 ms, and does this meanwhile.
fn ran_with(deeds: &[Event]) -> Answer {
    let begin = [switch(0, 0, 5, 0, 11)];
    let end = [switch(100 * MS, 0, 11, 0, 12)];
    answer(&[&begin, deeds, &end].concat(), 11, 100 * MS)
}

#[test]
fn who_mostly_reclaims_memory_does_that() {
    let answer = ran_with(&[reclaim(30 * MS, 20 * MS), reclaim(60 * MS, 20 * MS)]);
    assert_eq!(
        answer.sentence,
        "`t1` (11) spent 40 ms in direct reclaim (2 times), as the memory limit of its control \
         group /group7 was reached"
    );
    let mechanisms: Vec<&str> = answer.culprits.iter().map(|of| of.mechanism).collect();
    assert_eq!(mechanisms, ["memory reclaim"]);
}

/// Filling pages takes longer than to take them from others where the host gave them back.
#[test]
fn a_fair_part_of_what_it_ran_on_is_told() {
    let answer = ran_with(&[reclaim(30 * MS, 15 * MS)]);
    assert!(
        answer.sentence.starts_with("`t1` (11) ran on CPU for 100 ms")
            && answer.sentence.ends_with(
                "; it spent 15 ms in direct reclaim (1 time), as the memory limit of its control \
                 group /group7 was reached"
            ),
        "{}",
        answer.sentence
    );
    let found: Vec<(&str, Option<&str>, u64)> =
        answer.culprits.iter().map(|of| (of.mechanism, of.object.as_deref(), of.ns)).collect();
    let expected = [("on CPU", None, 100 * MS), ("memory reclaim", Some("/group7"), 15 * MS)];
    assert_eq!(found, expected);
    let little = ran_with(&[reclaim(30 * MS, 9 * MS)]);
    assert!(!little.sentence.contains("reclaim") && little.culprits.len() == 1, "{little:#?}");
}

#[test]
fn compaction_is_no_reclaim() {
    let answer = ran_with(&[compaction(50 * MS, 50 * MS), reclaim(60 * MS, MS)]);
    assert_eq!(
        answer.sentence,
        "`t1` (11) spent 51 ms in direct compaction (2 times), as too few free pages lay in a row"
    );
    assert_eq!(answer.culprits[0].mechanism, "memory compaction");
}
