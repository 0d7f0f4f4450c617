//! Keeping the limits: which snapshots go.

use std::collections::BTreeSet;
use std::time::Duration;

use flightrec_store::snapshots::Entry;

use super::REQUEST;
use crate::config;

/// What is to be deleted so that a snapshot of `incoming` bytes fits; `None`: it can't be made to
/// fit.
///
/// One that was asked for pushes out none that a trigger took, and such ones take at most half of
/// the room.
pub fn make(
    config: &config::Snapshots,
    held: &[Entry],
    incoming: u64,
    asked: bool,
) -> Option<Vec<usize>> {
    let (most, count) = (config.max_total.bytes(), config.max_count as usize);
    let (most_asked, count_asked) = (most / 2, count / 2);
    let mut gone = BTreeSet::new();
    let left = |gone: &BTreeSet<usize>, of: &dyn Fn(&Entry) -> bool| {
        let left = held.iter().enumerate().filter(|(i, entry)| !gone.contains(i) && of(entry));
        left.fold((0usize, 0u64), |(n, sum), (_, entry)| (n + 1, sum.saturating_add(entry.bytes)))
    };
    let fits = |(n, sum): (usize, u64), count: usize, most: u64| {
        n < count && sum.saturating_add(incoming) <= most
    };
    // The list is newest first: from its end on. Those that were asked for go first.
    for (i, _) in held.iter().enumerate().rev().filter(|(_, entry)| is_asked(entry)) {
        let fit_asked = !asked || fits(left(&gone, &is_asked), count_asked, most_asked);
        if fit_asked && fits(left(&gone, &|_| true), count, most) {
            break;
        }
        gone.insert(i);
    }
    if !asked {
        for (i, _) in held.iter().enumerate().rev() {
            if fits(left(&gone, &|_| true), count, most) {
                break;
            }
            gone.insert(i);
        }
    }
    let fit_asked = !asked || fits(left(&gone, &is_asked), count_asked.max(1), most_asked);
    (fit_asked && fits(left(&gone, &|_| true), count, most)).then(|| gone.into_iter().collect())
}

/// Those that are older than they may be, at `wall` (ns since 1970).
pub fn expired(config: &config::Snapshots, held: &[Entry], wall: i64) -> Vec<usize> {
    let Some(limit) = config.max_age.limit() else { return Vec::new() };
    let age = |entry: &Entry| {
        Duration::from_nanos(u64::try_from(wall.saturating_sub(entry.modified)).unwrap_or(0))
    };
    held.iter().enumerate().filter(|(_, entry)| age(entry) > limit).map(|(i, _)| i).collect()
}

/// Whether somebody asked for it: its name says so.
fn is_asked(entry: &Entry) -> bool {
    entry
        .id
        .split_once('-')
        .is_some_and(|(_, cause)| cause == REQUEST || cause.starts_with("request-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Size, Span};

    const MIB: u64 = 1 << 20;

    fn config() -> config::Snapshots {
        config::Snapshots {
            max_count: 6,
            max_total: Size::mib(100),
            ..config::Snapshots::default()
        }
    }

    /// Newest first.
    fn held(causes: &[(&str, u64)]) -> Vec<Entry> {
        let entry = |(i, (cause, mib)): (usize, &(&str, u64))| Entry {
            id: format!("{i}-{cause}"),
            path: "".into(),
            bytes: mib * MIB,
            modified: 1_000_000_000 * (100 - i as i64),
        };
        causes.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_too_much() {
        let three = held(&[("oom-kill", 30), ("blocked", 30), ("blocked", 30)]);
        assert_eq!(make(&config(), &three, 10 * MIB, false), Some(vec![]));
        assert_eq!(make(&config(), &three, 11 * MIB, false), Some(vec![2]));
        assert_eq!(make(&config(), &three, 90 * MIB, false), Some(vec![0, 1, 2]));
        assert_eq!(make(&config(), &three, 101 * MIB, false), None);
        assert_eq!(make(&config(), &held(&[("blocked", 1); 6]), MIB, false), Some(vec![5]));
    }

    #[test]
    fn requests_push_out_requests_alone() {
        let full = held(&[("blocked", 60), ("request", 20), ("blocked", 1), ("request-2", 15)]);
        assert_eq!(make(&config(), &full, 10 * MIB, true), Some(vec![3]));
        assert_eq!(make(&config(), &full, 39 * MIB, true), Some(vec![1, 3]));
        assert_eq!(make(&config(), &full, 45 * MIB, true), None, "what triggers took stays");
        assert_eq!(make(&config(), &full, 30 * MIB, false), Some(vec![1, 3]), "requests go first");
        let three = held(&[("request", 1); 3]);
        assert_eq!(make(&config(), &three, MIB, true), Some(vec![2]), "half of the number");
    }

    #[test]
    fn the_old_expire() {
        let mut config = config();
        config.max_age = Span::seconds(10);
        let held = held(&[("a", 1), ("b", 1), ("c", 1)]);
        // They were taken at 100 s, 99 s and 98 s.
        assert_eq!(expired(&config, &held, 109_500_000_000), [1, 2]);
        config.max_age = Span::seconds(0);
        assert_eq!(expired(&config, &held, i64::MAX), [0usize; 0]);
    }
}
