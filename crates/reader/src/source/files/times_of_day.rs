//! Where a time of day may lie in a recording's files, as the headers of blocks say of the pages'
//! two clocks. Coarse on purpose: the pages that are then read say it exactly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::window::{Edge, Window};
use crate::windows::Windows;

/// A page's two clocks are read one after the other, with whatever the machine does
/// between.
pub(super) const SLACK_NS: i64 = 1_000_000_000;

/// What is nearer together than this is read at once, ns.
const NEAR_NS: u64 = 5_000_000_000;
/// Most windows that are read one by one.
const WINDOWS_MAX: usize = 64;

/// A stretch of the monotonic clock, and the least and greatest that the wall clock may have been
/// ahead in it.
pub(super) type Stretch = (Window, i64, i64);

/// What a block of pages tells: one of them was opened at `opened`, none before `first`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// ns of `CLOCK_MONOTONIC`.
    pub(super) first: u64,
    /// The same.
    pub(super) opened: u64,
    /// What `CLOCK_REALTIME` was ahead at least when they were opened, ns.
    pub(super) least: i64,
    /// At most.
    pub(super) greatest: i64,
}

/// The windows, in the monotonic clock, outside of which nothing of the window can be. `present` is
/// what times before now count back from. Where there is none, it is empty, and where it would be.
pub(super) fn windows(stretches: &[Stretch], since: Edge, until: Edge, present: u64) -> Windows {
    let edge = |edge, open| match edge {
        Edge::Open | Edge::Wall(_) => open,
        Edge::Ago(ago) => present.saturating_sub(ago),
    };
    let limits = Window { from: edge(since, 0), until: edge(until, u64::MAX) };
    let wall = |edge| if let Edge::Wall(wall) = edge { Some(wall) } else { None };
    let (since, until) = (wall(since), wall(until));
    if since.is_none() && until.is_none() {
        return limits.into();
    }
    let from = |(stretch, _, greatest): &Stretch| {
        let shown = |since| moment(since, greatest.saturating_add(SLACK_NS));
        since.map_or(0, shown).max(stretch.from)
    };
    let of_stretch = |(stretch, least, greatest): &Stretch| {
        let until = until.map_or(u64::MAX, |until| moment(until, least.saturating_sub(SLACK_NS)));
        Window { from: from(&(*stretch, *least, *greatest)), until }.within(*stretch).within(limits)
    };
    let nowhere = || {
        let first = stretches
            .iter()
            .map(|of| (from(of), of.0))
            .find(|(from, stretch)| *from < stretch.until);
        let at = first
            .map_or(u64::MAX, |(from, _)| from)
            .clamp(limits.from, limits.until.max(limits.from));
        Window { from: at, until: at }.into()
    };
    let found = Windows::new(stretches.iter().map(of_stretch), NEAR_NS);
    found.map_or_else(nowhere, |windows| windows.at_most(WINDOWS_MAX))
}

/// When a clock that is `offset` ahead of the monotonic one shows `wall`.
fn moment(wall: i64, offset: i64) -> u64 {
    u64::try_from(wall.saturating_sub(offset)).unwrap_or(0)
}

/// Where nothing is known of the wall clock: it may have been anything at any time.
pub(super) const ANYWHERE: Stretch = (Window::ALL, i64::MIN, i64::MAX);

/// The stretches between the moments at which pages were surely opened. At any moment the wall
/// clock is taken to be what the page tells that was opened last: one of those blocks' that may
/// have a page of then.
pub(super) fn opened(mut all: Vec<Told>) -> Vec<Stretch> {
    let mut moments: Vec<u64> = all.iter().map(|of| of.opened).collect();
    moments.sort_unstable();
    moments.dedup();
    all.sort_unstable_by_key(|of| of.first);
    let mut starting = all.into_iter().peekable();
    // Those that have begun, by what they tell; the ones that ended stay until they come first.
    let (mut least, mut greatest) = (BinaryHeap::new(), BinaryHeap::new());
    let mut out = Vec::with_capacity(moments.len() + 1);
    let ends = moments.iter().copied().chain([u64::MAX]);
    for (from, until) in [0].into_iter().chain(moments.iter().copied()).zip(ends) {
        // Before the first page the clock is taken to have run as it did there.
        while let Some(of) =
            starting.next_if(|of| of.first < until || from == 0 && of.first == until)
        {
            least.push((Reverse(of.least), of.opened));
            greatest.push((of.greatest, of.opened));
        }
        while least.peek().is_some_and(|(_, opened)| *opened < from) {
            least.pop();
        }
        while greatest.peek().is_some_and(|(_, opened)| *opened < from) {
            greatest.pop();
        }
        if let (Some((Reverse(least), _)), Some((greatest, _))) = (least.peek(), greatest.peek()) {
            out.push((Window { from, until }, *least, *greatest));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const I: i64 = 1_000_000_000;

    fn window(from: u64, until: u64) -> Windows {
        Window { from: from * S, until: until * S }.into()
    }

    /// Pages were opened at 100 s, 200 s and 300 s; the clock was set 1000 s forward in the second.
    fn wall(since: i64, until: i64) -> Windows {
        let page = |(at, offset)| Told {
            first: at * S,
            opened: at * S,
            least: offset * I,
            greatest: offset * I,
        };
        let told = opened([(100, 5000), (200, 5000), (300, 6000)].map(page).into());
        windows(&told, Edge::Wall(since * I), Edge::Wall(until * I), 400 * S)
    }

    #[test]
    fn an_even_clock_is_looked_up_to_the_second() {
        assert_eq!(wall(5110, 5120), window(109, 121));
        assert_eq!(wall(5010, 5020), window(9, 21), "before the first page");
        assert_eq!(wall(6350, 6360), window(349, 361));
    }

    #[test]
    fn a_clock_of_which_nothing_is_known_may_have_been_anything() {
        let found = windows(&[ANYWHERE], Edge::Wall(5 * I), Edge::Wall(6 * I), 400 * S);
        assert!(found.contains(0) && found.contains(400 * S), "{found:?}");
    }

    #[test]
    fn other_edges_do_not_need_the_clock() {
        assert_eq!(windows(&[], Edge::Open, Edge::Open, 7), Window::ALL.into());
        assert_eq!(
            windows(&[], Edge::Ago(3), Edge::Ago(1), 7),
            Window { from: 4, until: 6 }.into()
        );
        let nowhere = windows(&[], Edge::Wall(1), Edge::Open, 7);
        assert!(nowhere.is_empty() && nowhere.hull().from == u64::MAX, "no file, nothing to find");
    }

    #[test]
    fn blocks_tell_where_a_clock_was_that_came_back() {
        let block = |first: u64, opened: u64, least: i64, greatest: i64| Told {
            first: first * S,
            opened: opened * S,
            least: least * I,
            greatest: greatest * I,
        };
        // An hour ahead from 120 to 140 s; a ring that opened a page at 110 s, and none since; one
        // that told of both.
        let mut blocks =
            vec![(100, 119, 0, 0), (110, 110, 0, 0), (121, 139, 3600, 3600), (100, 141, 0, 3600)];
        blocks.extend([(142, 150, 0, 0), (151, 300, 0, 0)]);
        let told = opened(
            blocks.into_iter().map(|(a, b, least, most)| block(a, b, least, most)).collect(),
        );
        let of = |since: i64, until: i64| {
            let found = windows(&told, Edge::Wall(since * I), Edge::Wall(until * I), 400 * S);
            found.iter().map(|w| (w.from / S, w.until / S)).collect::<Vec<_>>()
        };
        // Until the next page is known to have been opened; and at the time that is still to come.
        assert_eq!(of(3725, 3735), [(124, 150), (3724, 3736)]);
        // What may be is read: the ring that told of both may have been ahead from the first.
        assert_eq!(of(200, 210), [(0, 150), (199, 211)]);
    }

    #[test]
    fn what_pages_tell_is_never_missed() {
        let mut state = 3u64;
        let mut random = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..200 {
            // Pages of three rings, and blocks of as many in a row of one ring.
            let mut offset = 0;
            let mut pages: Vec<(u64, usize, i64)> = Vec::new();
            for page in 0..60 {
                if random(8) == 0 {
                    offset = random(200) as i64 - 100;
                }
                pages.push((100 + page * 2 + random(2), random(3) as usize, offset));
            }
            let mut blocks = Vec::new();
            for ring in 0..3 {
                let own: Vec<_> = pages.iter().filter(|page| page.1 == ring).collect();
                for chunk in own.chunks(1 + random(6) as usize) {
                    let offsets = chunk.iter().map(|page| page.2 * I);
                    blocks.push(Told {
                        first: chunk[0].0 * S,
                        opened: chunk.last().unwrap().0 * S,
                        least: offsets.clone().min().unwrap(),
                        greatest: offsets.max().unwrap(),
                    });
                }
            }
            let told = opened(blocks);
            let (since, length) = (random(300) as i64, 1 + random(40) as i64);
            let found = windows(&told, Edge::Wall(since * I), Edge::Wall((since + length) * I), 0);
            for mono in pages[0].0..300 {
                let (.., offset) = pages.iter().rfind(|page| page.0 <= mono).unwrap();
                let wall = mono as i64 + offset;
                let inside = since <= wall && wall < since + length;
                assert!(!inside || found.contains(mono * S), "{mono} shows {wall}: {found:?}");
            }
        }
    }
}
