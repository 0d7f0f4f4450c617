//! When system calls, or requests to disks, may be missing.

use flightrec_format::abi::page::Lane;
use flightrec_format::ring::Gap;
use rustc_hash::FxHashMap;

/// Stretches of time in which events of any process may be missing, on any CPU.
/// [`LeftOuts`](crate::left_out::LeftOuts) has what the quiet ring left out, by process; the
/// recorder's own events say when no calls were recorded.
#[derive(Debug, Clone, Default)]
pub struct Holes {
    /// Nothing is known of what was before, ns of `CLOCK_MONOTONIC`.
    begins: u64,
    /// The moment after which the pages of all CPUs are there: see [`Self::whole`].
    whole: u64,
    /// In order; none touch.
    all: Vec<(u64, u64)>,
    /// When recorded calls are missing, by CPU: a call may have its entry there and not its exit,
    /// or the reverse. (A call that was refused has neither.) In order; none touch.
    losses: FxHashMap<u16, Vec<(u64, u64)>>,
    /// When switches of threads may be missing; in order, none touch.
    unscheduled: Vec<(u64, u64)>,
}

impl Holes {
    /// None from `begins` on.
    pub fn new(begins: u64) -> Self {
        Self { begins, ..Self::default() }
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

    /// Goes on with the holes of what is read after `from`.
    pub fn go_on(&mut self, next: Self, from: u64) {
        if next.begins > from {
            (self.begins, self.whole) = (next.begins, next.whole);
        } else {
            self.begins = self.since(from);
        }
        (self.all, self.losses, self.unscheduled) = (next.all, next.losses, next.unscheduled);
    }

    /// Events are missing in a gap.
    pub fn miss(&mut self, gap: &Gap) {
        let moments = [(gap.from, gap.until)];
        match gap.lane {
            Lane::Syscall => {
                self.extend(moments);
                if gap.splits_pairs() {
                    self.lose(gap.cpu, moments);
                }
            }
            Lane::Sched => self.unschedule(moments),
            _ => {}
        }
    }

    /// Recorded calls of a CPU are missing between these moments.
    pub fn lose(&mut self, cpu: u16, losses: impl IntoIterator<Item = (u64, u64)>) {
        let mut losses = losses.into_iter().filter(|(from, until)| from < until).peekable();
        if losses.peek().is_some() {
            let of_cpu = self.losses.entry(cpu).or_default();
            of_cpu.extend(losses);
            crate::left_out::merge(of_cpu);
        }
    }

    /// Switches are not recorded, or not read.
    #[must_use]
    pub fn without_switches(mut self) -> Self {
        self.unschedule([(0, u64::MAX)]);
        self
    }

    /// Switches of threads may be missing between these moments.
    pub fn unschedule(&mut self, gaps: impl IntoIterator<Item = (u64, u64)>) {
        self.unscheduled.extend(gaps.into_iter().filter(|(from, until)| from < until));
        crate::left_out::merge(&mut self.unscheduled);
    }

    /// Forgets what was before a moment, but since when all calls were there.
    pub fn settle(&mut self, now: u64) {
        self.begins = self.since(now);
        self.all.retain(|(_, until)| *until > now);
        for lost in self.losses.values_mut().chain([&mut self.unscheduled]) {
            lost.retain(|(_, until)| *until > now);
            for (from, _) in lost.iter_mut() {
                *from = now.max(*from);
            }
        }
        self.losses.retain(|_, lost| !lost.is_empty());
    }

    /// Whether recorded calls are missing anywhere.
    #[inline]
    pub fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Whether recorded calls are missing between two moments, of a CPU or of any.
    #[inline]
    pub fn loses(&self, from: u64, until: u64, cpu: Option<u16>) -> bool {
        if self.losses.is_empty() {
            return false;
        }
        let has = |losses: &Vec<(u64, u64)>| {
            let first = losses.partition_point(|(_, end)| *end <= from);
            losses.get(first).is_some_and(|(begin, _)| *begin < until)
        };
        match cpu {
            Some(cpu) => self.losses.get(&cpu).is_some_and(has),
            None => self.losses.values().any(has),
        }
    }

    /// Whether all switches of threads between two moments are there.
    pub fn has_switches(&self, from: u64, until: u64) -> bool {
        let first = self.unscheduled.partition_point(|(_, end)| *end <= from);
        self.unscheduled.get(first).is_none_or(|(begin, _)| *begin >= until)
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
    fn losses_are_found_between_two_moments() {
        let mut holes = Holes::new(0);
        assert!(!holes.has_losses() && !holes.loses(0, u64::MAX, None));
        holes.lose(1, [(20, 30), (50, 60), (40, 40)]);
        holes.lose(2, [(40, 40)]);
        assert!(holes.has_losses());
        let found = [(0, 20), (0, 21), (25, 26), (30, 50), (29, 51), (60, 90)];
        for cpu in [Some(1), None] {
            let found = found.map(|(from, until)| holes.loses(from, until, cpu));
            assert_eq!(found, [false, true, true, false, true, false]);
        }
        assert!(!holes.loses(0, 90, Some(2)));
        holes.unschedule([(20, 30)]);
        let has = [(0, 20), (0, 21), (29, 40), (30, 40)];
        let has = has.map(|(from, until)| holes.has_switches(from, until));
        assert_eq!(has, [true, false, false, true]);
        holes.settle(55);
        assert!(!holes.loses(0, 55, None) && holes.loses(0, 90, None));
        assert!(holes.has_switches(0, 90));
        holes.settle(60);
        assert!(!holes.has_losses());
    }

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
