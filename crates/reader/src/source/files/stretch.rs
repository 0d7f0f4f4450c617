//! Where a window that does not fit into memory is parted.

use crate::window::Window;

/// What blocks of pages weigh, by the time that they are of.
#[derive(Debug, Default)]
pub(super) struct Weights {
    /// When blocks begin, and what those weigh that begin until then.
    begun: Vec<(u64, u64)>,
    /// When blocks end, and what those weigh that end until then.
    ended: Vec<(u64, u64)>,
}

impl Weights {
    /// Of blocks: when each begins and ends, and what it weighs.
    pub(super) fn new(blocks: &[(u64, u64, u64)]) -> Self {
        let sums = |mut blocks: Vec<(u64, u64)>| {
            blocks.sort_unstable();
            let mut sum = 0u64;
            for (_, weight) in &mut blocks {
                sum = sum.saturating_add(*weight);
                *weight = sum;
            }
            blocks
        };
        let begun = sums(blocks.iter().map(|(first, _, weight)| (*first, *weight)).collect());
        let ended = sums(
            blocks.iter().map(|(first, last, weight)| ((*last).max(*first), *weight)).collect(),
        );
        Self { begun, ended }
    }

    /// What the blocks weigh that may hold something of a window.
    pub(super) fn of(&self, window: Window) -> u64 {
        let before = |sums: &[(u64, u64)], moment: u64| {
            let after = sums.partition_point(|(time, _)| *time < moment);
            after.checked_sub(1).and_then(|at| sums.get(at)).map_or(0, |(_, sum)| *sum)
        };
        before(&self.begun, window.until).saturating_sub(before(&self.ended, window.from))
    }

    /// Moments that part a window into stretches of at most `most` bytes each, with what is read
    /// `lead` before each but the first (unless that alone is more than half of them); what
    /// belongs to one moment is never parted. Where a file begins (`begins`, in order) not far
    /// before, it is parted there. The last one leaves room for what is read `after` the window:
    /// what is told of its end must not depend on how it is parted.
    pub(super) fn part(
        &self,
        window: Window,
        (lead, after): (u64, u64),
        begins: &[u64],
        most: u64,
    ) -> Vec<u64> {
        let end = window.until.saturating_add(after);
        let mut cuts = Vec::new();
        let mut from = window.from;
        loop {
            let read = if cuts.is_empty() { from } else { self.lead(from, lead, most) };
            let weight = |until: u64| self.of(Window { from: read, until });
            if weight(window.until) <= most && weight(end) <= with_ends(most) {
                return cuts;
            }
            let next = self.begun.partition_point(|(time, _)| *time <= from);
            let later = self.begun.get(next..).unwrap_or_default();
            let fit =
                later.partition_point(|(time, _)| *time < window.until && weight(*time) <= most);
            // Where not even one fits, that one alone.
            let Some((cut, _)) =
                later.get(fit.saturating_sub(1)).filter(|(cut, _)| *cut < window.until)
            else {
                return cuts;
            };
            let begin =
                begins.iter().rev().find(|begin| (from.saturating_add(1)..=*cut).contains(*begin));
            let cut = *begin.filter(|begin| weight(**begin) >= most / 2).unwrap_or(cut);
            cuts.push(cut);
            from = cut;
        }
    }
}

/// What a stretch of at most `most` bytes may weigh with what is read beside it.
pub(super) fn with_ends(most: u64) -> u64 {
    most.saturating_add(most / 4)
}

impl Weights {
    /// From when on a stretch is read that begins at a moment: `lead` before, unless that is more
    /// than half of what it may be.
    pub(super) fn lead(&self, from: u64, lead: u64, most: u64) -> u64 {
        let early = from.saturating_sub(lead);
        if self.of(Window { from: early, until: from }) <= most / 2 { early } else { from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(begins: &[u64], blocks: &[(u64, u64, u64)], most: u64, lead: u64) -> Vec<u64> {
        Weights::new(blocks).part(Window { from: 0, until: 1000 }, (lead, 0), begins, most)
    }

    #[test]
    fn what_is_read_after_the_window_has_room() {
        let blocks = (0..10).map(|i| (i * 10, i * 10 + 9, 1)).collect::<Vec<_>>();
        let part = |until: u64, after: u64, most: u64| {
            Weights::new(&blocks).part(Window { from: 0, until }, (0, after), &[], most)
        };
        assert_eq!(part(50, 0, 5), [0u64; 0]);
        assert_eq!(part(50, 30, 6), [40], "five, and three after them");
        assert_eq!(part(50, 20, 6), [0u64; 0], "a quarter more than fits");
        assert_eq!(part(90, 10, 4), [40, 80], "the last one and two after");
        assert_eq!(part(50, 50, 2), [20, 40], "more than fits anyhow");
    }

    #[test]
    fn stretches_are_parted_where_files_begin() {
        let blocks = |n: u64| (0..n).map(|i| (i * 10, i * 10 + 9, 1)).collect::<Vec<_>>();
        assert_eq!(part(&[0, 45], &blocks(10), 10, 0), [0u64; 0], "all at once");
        assert_eq!(
            part(&[0, 45], &blocks(10), 8, 0),
            [45],
            "five before, six after, one of them in both"
        );
        assert_eq!(
            part(&[0, 45], &blocks(20), 8, 0),
            [45, 120],
            "no file begins near the second cut"
        );
        assert_eq!(part(&[0, 11], &blocks(10), 8, 0), [80], "too far back");
        assert_eq!(part(&[], &blocks(10), 4, 0), [40, 80]);
    }

    #[test]
    fn what_is_read_before_counts_and_a_moment_is_never_parted() {
        let blocks = (0..10).map(|i| (i * 10, i * 10 + 9, 1)).collect::<Vec<_>>();
        assert_eq!(part(&[], &blocks, 4, 20), [40, 60, 80], "two before, two of its own");
        assert_eq!(part(&[], &blocks, 2, 40), [20, 40, 60, 80], "what is before is too much");
        assert_eq!(part(&[0], &[(5, 5, 9), (5, 5, 9), (6, 6, 9)], 8, 0), [5, 6]);
        let spans = Weights::new(&[(0, 90, 5), (10, 20, 1)]);
        assert_eq!(spans.of(Window { from: 50, until: 60 }), 5, "one that reaches far");
        assert_eq!(spans.of(Window { from: 91, until: 100 }), 0);
    }
}
