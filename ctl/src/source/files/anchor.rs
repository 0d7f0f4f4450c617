//! Where a time of day may lie in a recording's files, from the two clocks that each file's header carries. Coarse on
//! purpose: the pages that are then read tell it exactly.

use crate::window::{Edge, Window};

/// The wall clock at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Anchor {
    /// `CLOCK_MONOTONIC`, ns.
    pub(super) mono: u64,
    /// What `CLOCK_REALTIME` is ahead of it, ns.
    pub(super) offset: i64,
}

/// The two clocks of an anchor are read one after the other, with whatever the machine does between.
pub(super) const SLACK_NS: i64 = 1_000_000_000;

/// The window, in the monotonic clock, outside of which nothing of it can be. `present` is what times before now count
/// back from. `anchors` are in order; the clock is taken to have run evenly where two neighbours agree, and to have been
/// anywhere between them where they do not.
pub(super) fn window(anchors: &[Anchor], since: Edge, until: Edge, present: u64) -> Window {
    let edge = |edge, open, wall: fn(&[Anchor], i64) -> u64| match edge {
        Edge::Open => open,
        Edge::Ago(ago) => present.saturating_sub(ago),
        Edge::Wall(moment) => wall(anchors, moment),
    };
    Window { from: edge(since, 0, earliest), until: edge(until, u64::MAX, latest) }
}

/// The stretches between anchors: from when to when, and the least and greatest offset.
fn stretches(anchors: &[Anchor]) -> impl Iterator<Item = (u64, u64, i64, i64)> + '_ {
    let ends = anchors.iter().skip(1).map(Some).chain([None]);
    anchors.iter().zip(ends).enumerate().map(|(i, (anchor, end))| {
        let offset = end.map_or(anchor.offset, |end| end.offset);
        let (least, greatest) = (anchor.offset.min(offset), anchor.offset.max(offset));
        // What was recorded before the first file began is in it.
        let from = if i == 0 { 0 } else { anchor.mono };
        let until = end.map_or(u64::MAX, |end| end.mono);
        (from, until, least.saturating_sub(SLACK_NS), greatest.saturating_add(SLACK_NS))
    })
}

/// The first moment at which the clock may have shown `wall` or later.
fn earliest(anchors: &[Anchor], wall: i64) -> u64 {
    let moment = |(from, until, _, greatest): (u64, u64, i64, i64)| {
        let moment = u64::try_from(wall.saturating_sub(greatest)).unwrap_or(0).max(from);
        (moment < until).then_some(moment)
    };
    stretches(anchors).find_map(moment).unwrap_or(u64::MAX)
}

/// A moment at which it surely had.
fn latest(anchors: &[Anchor], wall: i64) -> u64 {
    let moment = |(from, until, least, _): (u64, u64, i64, i64)| {
        let moment = u64::try_from(wall.saturating_sub(least)).unwrap_or(0).max(from);
        (moment < until).then_some(moment)
    };
    stretches(anchors).find_map(moment).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const I: i64 = 1_000_000_000;

    /// Files at 100 s, 200 s and 300 s; the clock was set 1000 s forward in the second.
    fn anchors() -> [Anchor; 3] {
        [(100, 5000), (200, 5000), (300, 6000)].map(|(mono, offset)| Anchor { mono: mono * S, offset: offset * I })
    }

    fn wall(since: i64, until: i64) -> Window {
        window(&anchors(), Edge::Wall(since * I), Edge::Wall(until * I), 400 * S)
    }

    #[test]
    fn an_even_clock_is_looked_up_to_the_second() {
        assert_eq!(wall(5110, 5120), Window { from: 109 * S, until: 121 * S });
        assert_eq!(wall(5010, 5020), Window { from: 9 * S, until: 21 * S }, "before the first file");
        assert_eq!(wall(6350, 6360), Window { from: 349 * S, until: 361 * S });
    }

    #[test]
    fn a_step_may_have_been_anywhere_in_its_file() {
        // 5250 was shown at 250 s if the clock was set later, and first passed when it was set otherwise.
        assert_eq!(wall(5250, 5260), Window { from: 200 * S, until: 261 * S });
        assert_eq!(wall(5900, 5950), Window { from: 200 * S, until: 300 * S });
    }

    #[test]
    fn other_edges_do_not_need_the_clock() {
        assert_eq!(window(&[], Edge::Open, Edge::Open, 7), Window::ALL);
        assert_eq!(window(&[], Edge::Ago(3), Edge::Ago(1), 7), Window { from: 4, until: 6 });
        assert_eq!(window(&[], Edge::Wall(1), Edge::Open, 7).from, u64::MAX, "no file, nothing to find");
    }
}
