//! Wall time of events: each page tells both clocks at the moment when it was opened.

use flightrec_format::abi::page::PageHeader;

use crate::window::{Edge, Window};

/// Differences below this are the time between two readings, not a step of the clock, ns. (The
/// monotonic clock is slewed together with the wall clock, so only steps and sleep part them.)
const STEP_NS: i64 = 1_000_000;

/// Where the wall clock stands against `CLOCK_MONOTONIC`, over a recording.
#[derive(Debug, Clone)]
pub struct WallClock {
    /// (`CLOCK_MONOTONIC`, what the wall clock is ahead of it from then on), in order, never empty.
    steps: Vec<(u64, i64)>,
    /// The step that was asked for last: since when it holds, for how long, and what it is. At first none.
    from: u64,
    length: u64,
    offset: i64,
}

impl WallClock {
    /// From page headers, in any order; `tai_offset` is `Meta::tai_offset`, `present` the offset to
    /// use where there are no pages.
    pub fn new<'a>(
        headers: impl Iterator<Item = &'a PageHeader>,
        tai_offset: impl Fn(u64) -> i64,
        present: i64,
    ) -> Self {
        let mut all: Vec<(u64, i64)> = headers
            .filter(|header| header.base_mono != 0)
            .map(|header| {
                let tai = header.base_tai.wrapping_sub(header.base_mono) as i64;
                (header.base_mono, tai.saturating_sub(tai_offset(header.base_mono).saturating_mul(1_000_000_000)))
            })
            .collect();
        all.sort_unstable();
        let mut steps: Vec<(u64, i64)> = Vec::new();
        for (mono, offset) in all {
            if steps.last().is_none_or(|(_, last)| offset.saturating_sub(*last).saturating_abs() >= STEP_NS) {
                steps.push((mono, offset));
            }
        }
        if steps.is_empty() {
            steps.push((0, present));
        }
        Self { steps, from: 0, length: 0, offset: 0 }
    }

    /// Takes what pages tell that were opened since.
    pub fn learn<'a>(&mut self, headers: impl Iterator<Item = &'a PageHeader>, tai_offset: impl Fn(u64) -> i64) {
        let (last, known) = self.steps.last().copied().unwrap_or_default();
        // A clock without steps behind the last one stays as it is.
        let later = Self::new(headers.filter(|header| header.base_mono > last), tai_offset, known);
        for (mono, offset) in later.steps {
            let known = self.steps.last().map_or(0, |(_, known)| *known);
            if mono > last && offset.saturating_sub(known).saturating_abs() >= STEP_NS {
                self.steps.push((mono, offset));
            }
        }
        self.length = 0;
    }

    /// UNIX time in ns of an event. Fast for times in order.
    #[inline]
    pub fn wall(&mut self, mono: u64) -> i64 {
        if mono.wrapping_sub(self.from) >= self.length {
            self.turn(mono);
        }
        (mono as i64).saturating_add(self.offset)
    }

    /// Another step's turn.
    #[cold]
    fn turn(&mut self, mono: u64) {
        let behind = self.steps.partition_point(|(from, _)| *from <= mono);
        // Before the first page the clock is taken to have run as it did there.
        let (from, offset) = match behind.checked_sub(1).and_then(|at| self.steps.get(at)) {
            Some(step) => *step,
            None => (0, self.steps.first().map_or(0, |(_, offset)| *offset)),
        };
        let until = self.steps.get(behind).map_or(u64::MAX, |(from, _)| *from);
        (self.from, self.length, self.offset) = (from, until - from, offset);
    }

    /// The first moment at which the wall clock showed `wall` or later.
    fn mono(&self, wall: i64) -> u64 {
        for (i, (from, offset)) in self.steps.iter().enumerate() {
            let moment = u64::try_from(wall.saturating_sub(*offset)).unwrap_or(0);
            // Before the first page the clock is taken to have run as it did there.
            let moment = if i == 0 { moment } else { moment.max(*from) };
            if self.steps.get(i + 1).is_none_or(|(next, _)| moment < *next) {
                return moment;
            }
        }
        u64::MAX
    }

    /// A window in `CLOCK_MONOTONIC`, `now` being the present.
    pub fn window(&self, since: Edge, until: Edge, now: u64) -> Window {
        let edge = |edge, open| match edge {
            Edge::Open => open,
            Edge::Ago(ago) => now.saturating_sub(ago),
            Edge::Wall(wall) => self.mono(wall),
        };
        Window { from: edge(since, 0), until: edge(until, u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::abi::page::{MAGIC, VERSION};

    const S: u64 = 1_000_000_000;

    fn page(base_mono: u64, wall: u64) -> PageHeader {
        PageHeader {
            magic: MAGIC,
            session: 1,
            version: VERSION,
            lane: 0,
            flags: 0,
            cpu: 0,
            header_len: 128,
            seq: 1,
            base_mono,
            base_tai: wall + 37 * S,
            used: 16,
            reserved: 0,
            events: [0; 6],
            refused: [0; 3],
        }
    }

    /// Slept for 100 s at 20 s.
    fn slept() -> WallClock {
        let pages = [page(30 * S, 1130 * S), page(10 * S, 1010 * S), page(15 * S + 500, 1015 * S)];
        WallClock::new(pages.iter(), |_| 37, 0)
    }

    #[test]
    fn each_event_has_its_pages_wall_time() {
        let mut clock = slept();
        for (mono, wall) in [(10, 1010), (16, 1016), (30, 1130), (31, 1131), (11, 1011), (5, 1005)] {
            assert_eq!(clock.wall(mono * S), (wall * S) as i64, "{mono}");
        }
    }

    #[test]
    fn times_of_day_are_found_behind_a_sleep() {
        let clock = slept();
        let window =
            |since, until| clock.window(Edge::Wall((since * S) as i64), Edge::Wall((until * S) as i64), 40 * S);
        assert_eq!(window(1012, 1131), Window { from: 12 * S, until: 31 * S });
        // 1100 s was never seen awake; the clock showed it first when it woke.
        assert_eq!(window(1100, 1200), Window { from: 30 * S, until: 100 * S });
    }

    #[test]
    fn ago_is_counted_on_the_recordings_clock() {
        let window = slept().window(Edge::Ago(10 * S), Edge::Open, 40 * S);
        assert_eq!(window, Window { from: 30 * S, until: u64::MAX });
        assert_eq!(slept().window(Edge::Ago(99 * S), Edge::Ago(0), 40 * S), Window { from: 0, until: 40 * S });
    }

    #[test]
    fn a_step_is_learnt() {
        let mut clock = slept();
        let known = [page(10 * S, 1010 * S), page(31 * S, 1131 * S)];
        clock.learn(known.iter(), |_| 37);
        assert_eq!(clock.steps.len(), 2);
        let stepped = [page(41 * S, 2041 * S), page(40 * S, 2040 * S)];
        clock.learn(stepped.iter(), |_| 37);
        assert_eq!(clock.steps.len(), 3);
        assert_eq!((clock.wall(39 * S), clock.wall(45 * S)), ((1139 * S) as i64, (2045 * S) as i64));
    }

    #[test]
    fn without_pages_the_present_offset_serves() {
        let mut clock = WallClock::new(std::iter::empty(), |_| 37, 7);
        assert_eq!(clock.wall(3), 10);
    }
}
