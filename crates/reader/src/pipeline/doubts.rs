//! Events of which it is not known whether they are wanted, since the recorder gave up what the
//! filter asks for.

use std::collections::BTreeMap;

use flightrec_format::decode::Event;

use super::choice::Part;
use crate::window::Window;

/// Events of one CPU that lack the same part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// Where they happened.
    pub cpu: u16,
    /// What is missing of them.
    pub part: Part,
    /// When the first one was, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When the last one was.
    pub until: u64,
    /// How many there are.
    pub events: u64,
}

/// They all, by window.
#[derive(Debug, Clone, Default)]
pub struct Doubts {
    windows: Vec<Window>,
    rows: BTreeMap<(usize, u16, Part), Doubt>,
}

impl Doubts {
    /// None yet, in any of these windows, which are in order.
    pub fn new(windows: impl IntoIterator<Item = Window>) -> Self {
        Self { windows: windows.into_iter().collect(), rows: BTreeMap::new() }
    }

    /// An event is not wanted as far as is known, for this is missing of it.
    pub(super) fn add(&mut self, event: &Event, part: Part) {
        let Event { time, cpu, .. } = *event;
        let window = self.windows.partition_point(|window| window.until <= time);
        let none = Doubt { cpu, part, from: time, until: time, events: 0 };
        let row = self.rows.entry((window, cpu, part)).or_insert(none);
        row.until = row.until.max(time);
        row.events += 1;
    }

    /// Those of a window.
    pub fn of(&self, window: Window) -> Vec<Doubt> {
        let at = self.windows.iter().position(|of| *of == window);
        self.rows.iter().filter(|((of, ..), _)| Some(*of) == at).map(|(_, row)| *row).collect()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Doubt> {
        self.rows.values()
    }
}
