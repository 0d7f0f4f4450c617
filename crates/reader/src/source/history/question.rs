//! What is asked of a history.

use std::time::{Duration, SystemTime};

use crate::source::Clock;
use crate::window::{Edge, Window, nanos, with_leads};

/// The window that is asked of a history.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Start of the window.
    pub since: Edge,
    /// End of the window.
    pub until: Edge,
    /// Also read what was recorded before the window. It helps to name what is in the window. The
    /// rings are then read whole, and files from the start of the one in which the window begins.
    pub everything: bool,
}

impl Question {
    /// Everything that is recorded.
    pub const ALL: Self = Self { since: Edge::Open, until: Edge::Open, everything: false };

    /// The last stretch of what is recorded, of this length.
    pub fn last(length: Duration) -> Self {
        Self { since: Edge::Ago(nanos(length)), ..Self::ALL }
    }

    /// From one time of day to another (exclusive), wherever the machine's clock showed such times.
    pub fn between(from: SystemTime, until: SystemTime) -> Self {
        Self { since: Edge::from(from), until: Edge::from(until), ..Self::ALL }
    }

    /// Whether an edge is a time of day, which the wall clock may have shown at any moment.
    pub(super) fn is_by_wall(self) -> bool {
        matches!((self.since, self.until), (Edge::Wall(_), _) | (_, Edge::Wall(_)))
    }

    /// What it means for a boot: a length of time counts back from the newest one's end.
    pub(super) fn of_boot(self, is_newest: bool) -> Option<Self> {
        match (self.since, self.until) {
            _ if is_newest => Some(self),
            (Edge::Ago(_), _) => None,
            (_, Edge::Ago(_)) => Some(Self { until: Edge::Open, ..self }),
            _ => Some(self),
        }
    }

    /// The pages of the rings to ask for. Where the wall clock stood in the past only the pages
    /// tell, so for a time of day all are asked for.
    pub fn of_rings(self, clock: Clock) -> Window {
        if self.is_by_wall() {
            return Window::ALL;
        }
        let since = if self.everything { Edge::Open } else { self.since };
        let edge = |edge, open| {
            if let Edge::Ago(ago) = edge { clock.now.saturating_sub(ago) } else { open }
        };
        with_leads(Window { from: edge(since, 0), until: edge(self.until, u64::MAX) })
    }
}
