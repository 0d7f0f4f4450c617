//! Wall time of events: each page tells both clocks at the moment when it was opened.

use flightrec_format::abi::page::PageHeader;
use flightrec_format::meta::{Meta, WALL_STEP_NS};

use crate::window::{Edge, Window};
use crate::windows::Windows;

/// Differences below this are the time between two readings, not a step of the clock, ns. (The
/// monotonic clock is slewed together with the wall clock, so only steps and sleep part them.)
const STEP_NS: i64 = WALL_STEP_NS;

/// Where the wall clock stands against `CLOCK_MONOTONIC`, over a recording.
#[derive(Debug, Clone)]
pub struct WallClock {
    /// (`CLOCK_MONOTONIC`, what the wall clock is ahead of it from then on), in order, never
    /// empty.
    steps: Vec<(u64, i64)>,
    /// The step that was asked for last: since when it holds, for how long, and what it is. At
    /// first none.
    from: u64,
    length: u64,
    offset: i64,
}

impl WallClock {
    /// Of a recording, from its page headers, in any order; `present` is the offset to use where
    /// there are none. Which of its pages they are makes no difference to an event's time, but
    /// where the clock was set.
    pub fn of<'a>(
        headers: impl Iterator<Item = &'a PageHeader>,
        meta: &Meta,
        present: i64,
    ) -> Self {
        let mut clock = Self::new(headers, |mono| meta.tai_offset(mono), present);
        clock.settle(meta);
        clock
    }

    /// Takes for each step what the recorder knew of it.
    fn settle(&mut self, meta: &Meta) {
        for (_, offset) in &mut self.steps {
            *offset = meta.wall_offset(*offset);
        }
        self.steps.dedup_by_key(|(_, offset)| *offset);
        self.length = 0;
    }

    /// From page headers, in any order; `tai_offset` is `Meta::tai_offset`, `present` the offset to
    /// use where there are no pages.
    fn new<'a>(
        headers: impl Iterator<Item = &'a PageHeader>,
        tai_offset: impl Fn(u64) -> i64,
        present: i64,
    ) -> Self {
        let mut all: Vec<(u64, i64)> = headers
            .filter(|header| header.base_mono != 0)
            .map(|header| {
                let tai = header.base_tai.wrapping_sub(header.base_mono) as i64;
                (
                    header.base_mono,
                    tai.saturating_sub(tai_offset(header.base_mono).saturating_mul(1_000_000_000)),
                )
            })
            .collect();
        all.sort_unstable();
        let mut steps: Vec<(u64, i64)> = Vec::new();
        for (mono, offset) in all {
            if steps
                .last()
                .is_none_or(|(_, last)| offset.saturating_sub(*last).saturating_abs() >= STEP_NS)
            {
                steps.push((mono, offset));
            }
        }
        if steps.is_empty() {
            steps.push((0, present));
        }
        Self { steps, from: 0, length: 0, offset: 0 }
    }

    /// Takes what pages tell that were opened since.
    pub fn learn<'a>(&mut self, headers: impl Iterator<Item = &'a PageHeader>, meta: &Meta) {
        let tai_offset = |mono| meta.tai_offset(mono);
        let (last, known) = self.steps.last().copied().unwrap_or_default();
        // A clock without steps after the last one stays as it is.
        let later = Self::new(headers.filter(|header| header.base_mono > last), tai_offset, known);
        for (mono, offset) in later.steps {
            let known = self.steps.last().map_or(0, |(_, known)| *known);
            if mono > last && offset.saturating_sub(known).saturating_abs() >= STEP_NS {
                self.steps.push((mono, meta.wall_offset(offset)));
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
        let after = self.steps.partition_point(|(from, _)| *from <= mono);
        // Before the first page the clock is taken to have run as it did there.
        let (from, offset) = match after.checked_sub(1).and_then(|at| self.steps.get(at)) {
            Some(step) => *step,
            None => (0, self.steps.first().map_or(0, |(_, offset)| *offset)),
        };
        let until = self.steps.get(after).map_or(u64::MAX, |(from, _)| *from);
        (self.from, self.length, self.offset) = (from, until - from, offset);
    }

    /// The stretches over which the wall clock ran evenly, in order: from when, until when, and
    /// what it was ahead.
    fn stretches(&self) -> impl Iterator<Item = (Window, i64)> + '_ {
        let ends = self.steps.iter().skip(1).map(|(from, _)| *from).chain([u64::MAX]);
        self.steps.iter().zip(ends).enumerate().map(|(i, ((from, offset), until))| {
            // Before the first page the clock is taken to have run as it did there.
            (Window { from: if i == 0 { 0 } else { *from }, until }, *offset)
        })
    }

    /// The first moment at which the wall clock showed `wall` or later.
    fn mono(&self, wall: i64) -> u64 {
        let shown = |(stretch, offset): (Window, i64)| {
            let moment = moment(wall, offset).max(stretch.from);
            (moment < stretch.until).then_some(moment)
        };
        self.stretches().find_map(shown).unwrap_or(u64::MAX)
    }

    /// A window in `CLOCK_MONOTONIC`, `now` being the present: all moments at which the wall clock
    /// showed a time in it. Where there is none, it is empty, and where it would be.
    pub fn windows(&self, since: Edge, until: Edge, now: u64) -> Windows {
        let edge = |edge, open| match edge {
            Edge::Open | Edge::Wall(_) => open,
            Edge::Ago(ago) => now.saturating_sub(ago),
        };
        let limits = Window { from: edge(since, 0), until: edge(until, u64::MAX) };
        if !matches!((since, until), (Edge::Wall(_), _) | (_, Edge::Wall(_))) {
            return limits.into();
        }
        let wall = |edge| if let Edge::Wall(wall) = edge { Some(wall) } else { None };
        let (since, until) = (wall(since), wall(until));
        let within = |(stretch, offset): (Window, i64)| {
            let from = since.map_or(0, |since| moment(since, offset));
            let until = until.map_or(u64::MAX, |until| moment(until, offset));
            Window { from, until }.within(stretch).within(limits)
        };
        Windows::new(self.stretches().map(within), 0).unwrap_or_else(|| {
            let at = since
                .map_or(0, |since| self.mono(since))
                .clamp(limits.from, limits.until.max(limits.from));
            Window { from: at, until: at }.into()
        })
    }

    /// The times at which the wall clock was set within a window, and by how much, ns.
    pub fn steps(&self, window: Window) -> impl Iterator<Item = (u64, i64)> + '_ {
        let pairs = self.steps.iter().zip(self.steps.iter().skip(1));
        let steps = pairs.map(|((_, before), (at, after))| (*at, after.saturating_sub(*before)));
        steps.filter(move |(at, by)| {
            window.from < *at && *at < window.until && by.saturating_abs() >= SET_NS
        })
    }

    /// What the wall clock showed more than once within windows: from, until, ns since 1970.
    pub fn repeated(&self, windows: &Windows) -> Vec<(i64, i64)> {
        let shown = windows.iter().flat_map(|window| {
            let of_stretch = move |(stretch, offset): (Window, i64)| {
                let part = stretch.within(window);
                let shown =
                    |mono: u64| i64::try_from(mono).unwrap_or(i64::MAX).saturating_add(offset);
                (!part.is_empty()).then(|| (shown(part.from), shown(part.until)))
            };
            self.stretches().filter_map(of_stretch)
        });
        let mut ends: Vec<(i64, i32)> =
            shown.flat_map(|(from, until)| [(from, 1), (until, -1)]).collect();
        ends.sort_unstable();
        let (mut depth, mut since, mut repeated) = (0, 0, Vec::<(i64, i64)>::new());
        for (at, change) in ends {
            match (depth, change) {
                (1, 1) => since = at,
                (2, -1) if at.saturating_sub(since) >= SET_NS => repeated.push((since, at)),
                _ => {}
            }
            depth += change;
        }
        repeated
    }
}

/// Steps below this are not told of, ns: a clock that is slewed apart from the monotonic one comes
/// to many small ones.
const SET_NS: i64 = 10_000_000;

/// When a clock that is `offset` ahead of `CLOCK_MONOTONIC` shows `wall`.
fn moment(wall: i64, offset: i64) -> u64 {
    u64::try_from(wall.saturating_sub(offset)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::abi::page::{MAGIC, VERSION};
    use flightrec_format::meta::TaiOffset;

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
            detached: 0,
            events: flightrec_format::abi::counts::Counts::ZERO,
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
        for (mono, wall) in [(10, 1010), (16, 1016), (30, 1130), (31, 1131), (11, 1011), (5, 1005)]
        {
            assert_eq!(clock.wall(mono * S), (wall * S) as i64, "{mono}");
        }
    }

    #[test]
    fn times_of_day_are_found_after_a_sleep() {
        let clock = slept();
        let window = |since, until| {
            clock.windows(Edge::Wall((since * S) as i64), Edge::Wall((until * S) as i64), 40 * S)
        };
        assert_eq!(window(1012, 1131), Window { from: 12 * S, until: 31 * S }.into());
        // 1100 s was never seen awake; the clock showed it first when it woke.
        assert_eq!(window(1100, 1200), Window { from: 30 * S, until: 100 * S }.into());
        assert_eq!(
            window(1050, 1100),
            Window { from: 30 * S, until: 30 * S }.into(),
            "never shown"
        );
    }

    #[test]
    fn a_clock_that_was_set_back_shows_a_time_twice() {
        // An hour ahead at 20 s, and back at 30 s, 14 s short of where it was; by 2 ms at 50 s.
        let (hour, back) = (3600 * S, 14 * S);
        let pages = [
            (10, 1010 * S),
            (20, 1020 * S + hour),
            (30, 1030 * S - back),
            (50, 1050 * S - back + 2_000_000),
        ];
        let clock =
            WallClock::new(pages.map(|(mono, wall)| page(mono * S, wall)).iter(), |_| 37, 0);
        let windows = |since: u64, until: u64| {
            clock.windows(Edge::Wall((since * S) as i64), Edge::Wall((until * S) as i64), 99 * S)
        };
        let parts = |windows: &Windows| {
            windows.iter().map(|w| (w.from / S, w.until / S)).collect::<Vec<_>>()
        };
        let twice = windows(1018, 1032);
        assert_eq!(parts(&twice), [(18, 20), (32, 46)]);
        assert_eq!(clock.repeated(&twice), [((1018 * S) as i64, (1020 * S) as i64)]);
        assert_eq!(parts(&windows(1012, 4700)), [(12, 3713)]);
        assert!(clock.repeated(&windows(1021, 1026)).is_empty());
        let steps: Vec<(u64, i64)> = clock.steps(Window::ALL).collect();
        assert_eq!(steps, [(20 * S, hour as i64), (30 * S, -((hour + back) as i64))]);
    }

    #[test]
    fn each_moment_is_in_the_windows_that_its_time_is_in() {
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..300 {
            let set =
                |i: u64, by: u64| page(100 * S + i * 10 * S, 1000 * S + i * 10 * S + by * S / 2);
            let pages: Vec<PageHeader> = (0..=random(8)).map(|i| set(i, random(90))).collect();
            let mut clock = WallClock::new(pages.iter(), |_| 37, 0);
            let (since, length) = (990 + random(150), 1 + random(60));
            let edges = [since, since + length].map(|s| (s * S) as i64);
            let (has_since, has_until) =
                [(true, false), (false, true), (true, true)][random(3) as usize];
            let edge = |is_there, at| if is_there { Edge::Wall(at) } else { Edge::Open };
            let windows =
                clock.windows(edge(has_since, edges[0]), edge(has_until, edges[1]), 500 * S);
            for half in 150..450 {
                let mono = half * S / 2;
                let wall = clock.wall(mono);
                let inside = (!has_since || edges[0] <= wall) && (!has_until || wall < edges[1]);
                assert_eq!(
                    windows.contains(mono),
                    inside,
                    "{mono} shows {wall}: {windows:?} {:?}",
                    clock.steps
                );
            }
        }
    }

    #[test]
    fn ago_is_counted_on_the_recordings_clock() {
        let window = slept().windows(Edge::Ago(10 * S), Edge::Open, 40 * S);
        assert_eq!(window, Window { from: 30 * S, until: u64::MAX }.into());
        let window = slept().windows(Edge::Ago(99 * S), Edge::Ago(0), 40 * S);
        assert_eq!(window, Window { from: 0, until: 40 * S }.into());
    }

    #[test]
    fn a_step_is_learnt() {
        let mut clock = slept();
        let known = [page(10 * S, 1010 * S), page(31 * S, 1131 * S)];
        let offsets = vec![TaiOffset { since: 0, seconds: 37 }];
        let meta = Meta { tai_offsets: offsets, ..Meta::default() };
        clock.learn(known.iter(), &meta);
        assert_eq!(clock.steps.len(), 2);
        let stepped = [page(41 * S, 2041 * S), page(40 * S, 2040 * S)];
        clock.learn(stepped.iter(), &meta);
        assert_eq!(clock.steps.len(), 3);
        assert_eq!(
            (clock.wall(39 * S), clock.wall(45 * S)),
            ((1139 * S) as i64, (2045 * S) as i64)
        );
    }

    #[test]
    fn without_pages_the_present_offset_serves() {
        let mut clock = WallClock::new(std::iter::empty(), |_| 37, 7);
        assert_eq!(clock.wall(3), 10);
    }
}
