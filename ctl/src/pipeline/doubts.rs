//! Events of which it is not known whether they are wanted, since the recorder gave up what the
//! filter asks for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Event;
use flightrec_format::ring::LaneStream;

use super::front::Front;
use super::resolve::{Resolver, Sink};
use super::{events, with_leads};
use crate::fds::{Fds, Naming};
use crate::filter::{Filter, Part};
use crate::render::Context;
use crate::source::Recording;
use crate::text::{Options, Renderer};
use crate::window::Window;
use crate::windows::Windows;

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

/// Nothing is made of what is shown.
struct Nowhere;

impl Sink for Nowhere {
    fn event(&mut self, _event: &Event, _cx: &Context<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// What of a recording the filter can't decide; `told` are the windows by which it is told.
///
/// A quick look at the pages says whether there is anything: mostly there is not. Else the whole
/// pass is made once more, and nothing written.
pub fn doubts(recording: &Recording, windows: &Windows, told: &Windows, filter: &Filter) -> Doubts {
    let doubts = Doubts::new(told.iter());
    let hull = windows.hull();
    if !filter.can_doubt() || hull.is_empty() {
        return doubts;
    }
    let calls = recording.streams.iter().filter(|stream| stream.lane() == Lane::Syscall);
    let pages =
        calls.flat_map(LaneStream::pages).filter(|page| page.header().base_mono < hull.until);
    // Descriptors may have been opened where events are missing.
    let is_lost = filter.has_paths() && Fds::of(recording, true).is_lost_in(hull);
    if !is_lost && !filter.may_doubt(pages) {
        return doubts;
    }
    count(recording, windows, doubts, filter)
}

/// Makes the pass.
fn count(recording: &Recording, windows: &Windows, doubts: Doubts, filter: &Filter) -> Doubts {
    let hull = windows.hull();
    let renderer =
        Renderer::new(&recording.meta, Options { fds: Naming::Off, ..Options::default() });
    let mut resolver = Resolver::new(
        recording,
        windows.clone(),
        filter,
        recording.wall_clock(0),
        &renderer.into(),
    );
    resolver.doubts = Some(doubts);
    let mut front = Front::new(recording);
    let each = &mut |item: &mut super::delay::Item, _| {
        // Nothing is written, so nothing fails.
        let _ = resolver.take(&mut item.event, &item.found, &mut Nowhere);
        Ok::<(), Infallible>(())
    };
    let Ok(()) =
        front.all(events(recording, hull, filter.has_paths()), with_leads(hull).until, each);
    let Ok(()) = front.end(each);
    resolver.doubts.take().unwrap_or_default()
}

#[cfg(test)]
mod tests;
