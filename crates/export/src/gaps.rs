//! Gaps and coverage in words and numbers, for every format.

use std::collections::VecDeque;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::ring::{Gap, Reason};
use flightrec_reader::coverage::Coverage;
use flightrec_reader::window::Window;
use rustc_hash::FxHashMap;

/// Most gaps whose ends are still to come, of a CPU.
const PENDING_MAX: usize = 65_536;

/// What a gap lost: each kind's name with its count, and what was refused, by reason.
pub fn lost(gap: &Gap) -> impl Iterator<Item = (String, u64)> + '_ {
    // What the probes refused was never recorded: none of it is missing from the rings.
    let kinds = gap.lost.filter(|_| gap.reason != Reason::Refused);
    let kinds = kinds.into_iter().flat_map(|lost: Counts| {
        let named = |(index, n): (usize, u64)| {
            let name = Kind::counted(gap.lane, index).map_or("unknown", Kind::name);
            (format!("lost_{name}"), n)
        };
        lost.present().map(named).collect::<Vec<_>>()
    });
    let refused = [(Refusal::Busy, "refused_busy"), (Refusal::Throttled, "refused_throttled")];
    let refused = refused.into_iter().filter_map(|(reason, name)| {
        let n = *gap.refused.get(reason as usize)?;
        (n != 0).then(|| (name.to_owned(), n))
    });
    kinds.chain(refused)
}

/// How many events a gap lacks, refused ones included; `None`: nobody can tell.
pub fn missing(gap: &Gap) -> Option<u64> {
    let refused = [Refusal::Busy, Refusal::Throttled]
        .into_iter()
        .filter_map(|reason| gap.refused.get(reason as usize))
        .fold(0u64, |sum, n| sum.saturating_add(*n));
    match gap.reason {
        Reason::Refused => Some(refused),
        _ => gap.missing().map(|lost| lost.saturating_add(refused)),
    }
}

/// What each lane has of a window: `complete`, `complete on CPUs 0, 2 of 4`, `left out`.
pub fn lanes(report: &Coverage) -> impl Iterator<Item = (&'static str, String)> + '_ {
    Lane::RINGS.into_iter().map(|lane| {
        let (complete, all) = (report.complete_cpus(lane), report.cpus(lane));
        let text = if report.is_off(lane) {
            "left out by the configuration".to_owned()
        } else if complete.len() == all {
            "complete".to_owned()
        } else if complete.is_empty() {
            format!("incomplete on all {all} CPUs")
        } else {
            let cpus: Vec<String> = complete.iter().map(ToString::to_string).collect();
            format!("complete on CPUs {} of {all}", cpus.join(", "))
        };
        (lane.name(), text)
    })
}

/// From when until when a gap is in a window.
pub fn within(gap: &Gap, window: Window) -> (u64, u64) {
    let from = gap.from.max(window.from);
    (from, gap.until.min(window.until).max(from))
}

/// A gap whose end is still to come, with what a format tells of it then.
#[derive(Debug)]
pub struct Ended<T> {
    /// The end, ns of `CLOCK_MONOTONIC`.
    pub until: u64,
    /// How many events it lacks; `None`: nobody can tell.
    pub missing: Option<u64>,
    /// What is told.
    pub told: T,
}

/// Gaps for formats that tell them where events are there again. Of each CPU at most 65,536 are
/// held: what further ones lack is added to the last.
#[derive(Debug)]
pub struct Pending<T>(FxHashMap<u16, VecDeque<Ended<T>>>);

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T> Pending<T> {
    /// A gap of a CPU.
    pub fn add(&mut self, cpu: u16, gap: Ended<T>) {
        let gaps = self.0.entry(cpu).or_default();
        if gaps.len() < PENDING_MAX {
            let place = gaps.partition_point(|other| other.until <= gap.until);
            gaps.insert(place, gap);
        } else if let Some(last) = gaps.back_mut() {
            last.until = last.until.max(gap.until);
            let sum = last.missing.zip(gap.missing);
            last.missing = sum.map(|(one, other)| one.saturating_add(other));
        }
    }

    /// Those of a CPU that end until `time`, the earliest first.
    pub fn end(&mut self, cpu: u16, time: u64) -> Vec<Ended<T>> {
        let Some(gaps) = self.0.get_mut(&cpu).filter(|gaps| !gaps.is_empty()) else {
            return Vec::new();
        };
        let count = gaps.partition_point(|gap| gap.until <= time);
        gaps.drain(..count).collect()
    }

    /// The CPUs of which there were any, in order.
    pub fn cpus(&self) -> Vec<u16> {
        let mut cpus: Vec<u16> = self.0.keys().copied().collect();
        cpus.sort_unstable();
        cpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_come_by_their_ends_and_none_is_dropped() {
        let mut pending = Pending::default();
        let gap = |until, missing, told| Ended { until, missing, told };
        pending.add(1, gap(20, Some(2), "b"));
        pending.add(1, gap(10, None, "a"));
        pending.add(0, gap(5, Some(1), "c"));
        let ended = |gaps: Vec<Ended<&'static str>>| {
            gaps.into_iter().map(|gap| (gap.until, gap.missing, gap.told)).collect::<Vec<_>>()
        };
        assert_eq!(pending.cpus(), [0, 1]);
        assert_eq!(ended(pending.end(1, 9)), []);
        assert_eq!(ended(pending.end(1, 10)), [(10, None, "a")]);
        assert_eq!(ended(pending.end(1, u64::MAX)), [(20, Some(2), "b")]);
        for at in 0..PENDING_MAX as u64 + 10 {
            pending.add(2, gap(at, Some(1), ""));
        }
        let all = pending.end(2, u64::MAX);
        let missing: u64 = all.iter().filter_map(|gap| gap.missing).sum();
        assert_eq!((all.len(), missing), (PENDING_MAX, PENDING_MAX as u64 + 10));
    }
}
