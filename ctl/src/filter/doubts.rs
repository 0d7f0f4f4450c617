//! Events of which it is not known whether they are wanted, counted before all else.

use std::convert::Infallible;
use std::io;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Event;
use flightrec_format::ring::LaneStream;

use super::Filter;
use crate::fds::{Fds, Naming};
use crate::pipeline::delay::Item;
use crate::pipeline::front::Front;
use crate::pipeline::{Doubts, Known, Merging, Resolver, Sink, Wants, events};
use crate::source::Recording;
use crate::window::with_leads;
use crate::windows::Windows;

/// Nothing is made of what is shown.
struct Nowhere;

impl Sink for Nowhere {
    fn event(&mut self, _event: &Event, _known: &Known<'_>) -> io::Result<()> {
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
    let calls = || recording.streams.iter().filter(|stream| stream.lane() == Lane::Syscall);
    let pages =
        calls().flat_map(LaneStream::pages).filter(|page| page.header().base_mono < hull.until);
    // An exit may have been parted from its entry.
    let read = with_leads(hull);
    let is_parted = calls()
        .flat_map(LaneStream::left_out)
        .any(|of| of.from < read.until && of.until > read.from);
    // Descriptors may have been opened where events are missing.
    let is_lost = filter.has_paths() && Fds::of(recording, true).is_lost_in(hull);
    if !is_lost && !is_parted && !filter.may_doubt(pages) {
        return doubts;
    }
    count(recording, windows, doubts, filter)
}

/// Makes the pass.
fn count(recording: &Recording, windows: &Windows, doubts: Doubts, filter: &Filter) -> Doubts {
    let hull = windows.hull();
    let wants = Wants { naming: Naming::Off, merging: Merging::Never };
    let wall = recording.wall_clock(0);
    let mut resolver = Resolver::new(recording, windows.clone(), filter.clone(), wall, wants);
    resolver.doubts = Some(doubts);
    let mut front = Front::new(recording);
    let each = &mut |item: &mut Item, _| {
        // Nothing is written, so nothing fails.
        let _ = resolver.take(&mut item.event, &item.found, &mut Nowhere);
        Ok::<(), Infallible>(())
    };
    let events = events(recording, hull, filter.has_paths());
    let Ok(()) = front.all(events, with_leads(hull).until, each);
    let Ok(()) = front.end(each);
    resolver.doubts.take().unwrap_or_default()
}

#[cfg(test)]
mod tests;
