//! Many gaps of one ring in one line: of a flooded ring there are hundreds.

use std::collections::HashMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::ring::{Gap, Reason};

/// So many gaps of one ring, for one reason, stand for themselves.
const EACH: usize = 4;

/// A gap, or what some come to together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folded {
    /// From the first one's beginning to the last one's end, with the sums.
    pub(super) gap: Gap,
    /// How many.
    pub(super) count: usize,
    /// Sum of their lengths, ns.
    pub(super) length: u64,
}

/// Rows for gaps in the order of time: where more than [`EACH`] are of one ring and reason, one row
/// for them, in the place of the first.
pub(super) fn fold(gaps: &[&Gap]) -> Vec<Folded> {
    let mut counts: HashMap<Key, usize> = HashMap::new();
    for gap in gaps {
        *counts.entry(key(gap)).or_default() += 1;
    }
    let mut rows: Vec<Folded> = Vec::new();
    let mut folded: HashMap<Key, usize> = HashMap::new();
    for gap in gaps {
        let key = key(gap);
        if let Some(row) = folded.get(&key).and_then(|at| rows.get_mut(*at)) {
            row.add(gap);
            continue;
        }
        if counts.get(&key).is_some_and(|count| *count > EACH) {
            folded.insert(key, rows.len());
        }
        rows.push(Folded { gap: **gap, count: 1, length: length(gap) });
    }
    rows
}

impl Folded {
    fn add(&mut self, other: &Gap) {
        self.count += 1;
        self.length = self.length.saturating_add(length(other));
        self.gap.until = self.gap.until.max(other.until);
        self.gap.lost = self.gap.lost.zip(other.lost).map(|(a, b)| a.plus(&b));
        self.gap.refused = sum(self.gap.refused, other.refused);
    }
}

/// What gaps have in common that are one row.
type Key = (Lane, u16, Reason);

fn key(gap: &Gap) -> Key {
    (gap.lane, gap.cpu, gap.reason)
}

fn length(gap: &Gap) -> u64 {
    gap.until.saturating_sub(gap.from)
}

fn sum<const N: usize>(mut a: [u64; N], b: [u64; N]) -> [u64; N] {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.saturating_add(b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::abi::counts::Counts;

    fn gap(cpu: u16, from: u64, lost: u64) -> Gap {
        let reason = Reason::Overwritten;
        Gap {
            lane: Lane::Sched,
            cpu,
            from,
            until: from + 5,
            lost: Some(Counts::first([lost; 6])),
            refused: [1, 0, 2],
            reason,
        }
    }

    #[test]
    fn few_stand_for_themselves() {
        let gaps: Vec<Gap> = (0..EACH as u64).map(|i| gap(0, i * 10, i)).collect();
        let rows = fold(&gaps.iter().collect::<Vec<_>>());
        assert!(
            rows.iter()
                .zip(&gaps)
                .all(|(row, gap)| row.gap == *gap && row.count == 1 && row.length == 5)
        );
        assert_eq!(rows.len(), EACH);
    }

    #[test]
    fn many_of_one_ring_are_one_row_with_exact_sums() {
        let mut gaps: Vec<Gap> = (0..300).map(|i| gap(1, i * 10, i)).collect();
        gaps.insert(7, gap(0, 65, 1000));
        let rows = fold(&gaps.iter().collect::<Vec<_>>());
        let whole = Gap {
            until: 2995,
            lost: Some(Counts::first([300 * 299 / 2; 6])),
            refused: [300, 0, 600],
            ..gap(1, 0, 0)
        };
        assert_eq!(
            rows,
            [
                Folded { gap: whole, count: 300, length: 1500 },
                Folded { gap: gap(0, 65, 1000), count: 1, length: 5 }
            ]
        );
    }

    #[test]
    fn one_unknown_count_makes_the_sum_unknown() {
        let mut gaps: Vec<Gap> = (0..9).map(|i| gap(1, i * 10, i)).collect();
        gaps[3].lost = None;
        assert_eq!(fold(&gaps.iter().collect::<Vec<_>>())[0].gap.lost, None);
    }
}
