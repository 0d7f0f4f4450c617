//! When system calls, or requests to disks, may be missing.

/// Stretches of time in which events of any process may be missing, on any CPU. (What the quiet
/// ring left out, [`crate::left_out::LeftOuts`] tells by process, and when no calls were recorded, the
/// recorder's own events do.)
#[derive(Debug, Clone, Default)]
pub struct Holes {
    /// Nothing is known of what was before, ns of `CLOCK_MONOTONIC`.
    begins: u64,
    /// From when on nothing is missing at the beginning of what is read: see [`Self::whole`].
    whole: u64,
    /// In order; none touch.
    all: Vec<(u64, u64)>,
}

impl Holes {
    /// None from `begins` on.
    pub fn new(begins: u64) -> Self {
        Self { begins, whole: 0, all: Vec::new() }
    }

    /// Adds some.
    pub fn extend(&mut self, holes: impl IntoIterator<Item = (u64, u64)>) {
        self.all.extend(holes);
        self.all.retain(|(from, until)| from < until);
        crate::left_out::merge(&mut self.all);
    }

    /// Nothing before a moment counts.
    pub fn begin(&mut self, from: u64) {
        self.begins = self.begins.max(from);
    }

    /// The pages of all CPUs begin at this moment at the latest.
    #[must_use]
    pub fn with_whole(self, whole: u64) -> Self {
        Self { whole, ..self }
    }

    /// From when on the pages of all CPUs are there. The pages of an idle CPU may begin long before
    /// those of a busy one, which had the same thread later.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Goes on behind `from` with those of what is read from there on.
    pub fn go_on(&mut self, next: Self, from: u64) {
        if next.begins > from {
            (self.begins, self.whole) = (next.begins, next.whole);
        } else {
            self.begins = self.since(from);
        }
        self.all = next.all;
    }

    /// From when on all calls are there, up to a moment; that moment, where some may be missing
    /// then.
    pub fn since(&self, time: u64) -> u64 {
        let before = self.all.partition_point(|(from, _)| *from < time);
        let last = before.checked_sub(1).and_then(|at| self.all.get(at));
        last.map_or(0, |(_, until)| *until).max(self.begins).min(time)
    }

    /// Whether there is one in a stretch of time.
    pub fn within(&self, from: u64, until: u64) -> bool {
        self.since(until) > from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_there_since_the_last_hole() {
        let mut holes = Holes::new(10);
        holes.extend([(20, 30), (25, 40)]);
        assert_eq!([5, 15, 20, 30, 40, 50].map(|time| holes.since(time)), [5, 10, 10, 30, 40, 40]);
        assert!(holes.within(15, 21) && !holes.within(10, 20) && !holes.within(40, 90));
    }

    /// What was read before the next stretch is as whole as it was.
    #[test]
    fn stretches_join() {
        let mut holes = Holes::new(10);
        holes.extend([(20, 40)]);
        let mut next = Holes::new(60);
        next.extend([(70, 80)]);
        holes.go_on(next, 60);
        assert_eq!([65, 75, 90].map(|time| holes.since(time)), [40, 75, 80]);
        holes.go_on(Holes::new(120), 100);
        assert_eq!(holes.since(150), 120, "another recording");
        holes.begin(130);
        assert_eq!(holes.since(150), 130);
    }
}
