//! A window by the wall clock, in the recording's clock: as many stretches as steps of the wall
//! clock make of it.

use crate::window::Window;

/// Stretches of time, in order, none of which touches another. There is at least one, which may be
/// empty: then it says where the window would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    first: Window,
    others: Vec<Window>,
}

impl From<Window> for Windows {
    fn from(window: Window) -> Self {
        Self { first: window, others: Vec::new() }
    }
}

impl Windows {
    /// These, in any order; those that overlap or are less than `gap` ns apart are one. `None`
    /// where all of them are empty.
    pub fn new(windows: impl IntoIterator<Item = Window>, gap: u64) -> Option<Self> {
        let mut all: Vec<Window> =
            windows.into_iter().filter(|window| !window.is_empty()).collect();
        all.sort_unstable_by_key(|window| window.from);
        let mut merged: Vec<Window> = Vec::new();
        for window in all {
            match merged.last_mut() {
                Some(last) if window.from <= last.until.saturating_add(gap) => {
                    last.until = last.until.max(window.until);
                }
                _ => merged.push(window),
            }
        }
        let mut merged = merged.into_iter();
        Some(Self { first: merged.next()?, others: merged.collect() })
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Window> + '_ {
        [self.first].into_iter().chain(self.others.iter().copied())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// From the first one's beginning to the last one's end.
    pub fn hull(&self) -> Window {
        Window { from: self.first.from, until: self.others.last().unwrap_or(&self.first).until }
    }

    /// Whether nothing can be in them.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Whether `time` is inside one.
    #[inline]
    pub fn contains(&self, time: u64) -> bool {
        self.first.contains(time) || !self.others.is_empty() && self.is_in_others(time)
    }

    fn is_in_others(&self, time: u64) -> bool {
        let after = self.others.partition_point(|window| window.from <= time);
        after
            .checked_sub(1)
            .and_then(|at| self.others.get(at))
            .is_some_and(|window| window.contains(time))
    }

    /// What of them is within `limits`; `None` where nothing is.
    pub fn within(&self, limits: Window) -> Option<Self> {
        Self::new(self.iter().map(|window| window.within(limits)), 0)
    }

    /// At most `most` of them, in their place: where there are more, neighbours are one, with what
    /// is between them.
    #[must_use]
    pub fn at_most(&self, most: usize) -> Self {
        let all: Vec<Window> = self.iter().collect();
        let chunks = all.chunks(self.count().div_ceil(most.max(1)));
        let hull = |chunk: &[Window]| {
            Some(Window { from: chunk.first()?.from, until: chunk.last()?.until })
        };
        Self::new(chunks.filter_map(hull), 0).unwrap_or_else(|| self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: u64, until: u64) -> Window {
        Window { from, until }
    }

    #[test]
    fn what_touches_is_one() {
        let windows =
            Windows::new([(30, 40), (10, 20), (20, 25), (7, 7)].map(|(a, b)| window(a, b)), 0);
        let windows = windows.unwrap();
        assert_eq!(windows.iter().collect::<Vec<_>>(), [window(10, 25), window(30, 40)]);
        assert_eq!((windows.count(), windows.hull()), (2, window(10, 40)));
        let inside: Vec<u64> = (0..50).filter(|time| windows.contains(*time)).collect();
        assert_eq!(inside, (10..25).chain(30..40).collect::<Vec<_>>());
        assert_eq!(Windows::new(windows.iter(), 5).unwrap(), window(10, 40).into());
        assert_eq!(
            windows.within(window(24, 31)).unwrap().iter().collect::<Vec<_>>(),
            [window(24, 25), window(30, 31)]
        );
        assert_eq!(windows.within(window(26, 29)), None);
        assert_eq!(Windows::new([window(5, 5)], 0), None);
    }

    #[test]
    fn too_many_are_told_by_their_neighbourhoods() {
        let windows = Windows::new((0..10).map(|i| window(i * 10, i * 10 + 5)), 0).unwrap();
        assert_eq!(windows.at_most(10), windows);
        let few: Vec<Window> = windows.at_most(3).iter().collect();
        assert_eq!(few, [window(0, 35), window(40, 75), window(80, 95)]);
    }
}
