//! Events of which it is not known whether they are wanted, counted before all else.

use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::io;

use rustc_hash::FxHashMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Event, FirstCall};
use flightrec_format::ring::LaneStream;
use flightrec_reader::fds::{Fds, Naming};
use flightrec_reader::holes::Holes;
use flightrec_reader::pipeline::delay::Item;
use flightrec_reader::pipeline::front::Front;
use flightrec_reader::pipeline::{
    Doubts, EventContext, Merging, Ongoing, Resolver, Sink, Wants, events,
};
use flightrec_reader::source::PageSet;
use flightrec_reader::threads::THREADS_MAX;
use flightrec_reader::window::{Window, with_leads};
use flightrec_reader::windows::Windows;

use super::Filter;

/// Nothing is made of what is shown.
struct Nowhere;

impl Sink for Nowhere {
    fn event(&mut self, _event: &Event, _known: &EventContext<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// What is read of a recording.
pub struct Reading<'a> {
    /// From its beginning on, whatever the window.
    pub all: bool,
    /// When system calls may be missing in it.
    pub holes: Holes,
    /// Of a stretch that is read after another one: what is known where it begins.
    pub joins: Option<Joined<'a>>,
}

/// What is known where a stretch begins that is read after another one.
#[derive(Clone, Copy)]
pub struct Joined<'a> {
    /// Of threads and calls.
    pub front: &'a Front,
    /// Of calls that go on, and of descriptors.
    pub calls: Ongoing<'a>,
    /// When it begins.
    pub from: u64,
}

impl Reading<'_> {
    /// What a pass begins with that begins with this; and when, where it goes on.
    fn front(&self, recording: &PageSet) -> (Front, u64) {
        match self.joins {
            Some(Joined { front, from, .. }) => {
                let mut front = front.again();
                front.go_on(recording, self.holes.clone(), from);
                (front, from)
            }
            None => (Front::new(recording, self.holes.clone()), 0),
        }
    }
}

/// What of a recording the filter can't decide; `told` are the windows by which it is told.
///
/// A quick look at the pages says whether there is anything: mostly there is not. Else the whole
/// pass is made once more, and nothing written.
pub fn doubts(
    recording: &PageSet,
    windows: &Windows,
    told: &Windows,
    filter: &Filter,
    reading: &Reading<'_>,
) -> Doubts {
    let doubts = Doubts::new(told.iter());
    let hull = windows.hull();
    if !filter.can_doubt() || hull.is_empty() {
        return doubts;
    }
    let calls = || recording.streams.iter().filter(|stream| stream.lane() == Lane::Syscall);
    // Operations of io_uring have to do with paths as calls do.
    let is_told = |stream: &&LaneStream| {
        stream.lane() == Lane::Syscall || stream.lane() == Lane::Kernel && filter.has_paths()
    };
    let pages = recording.streams.iter().filter(is_told).flat_map(LaneStream::pages);
    let pages = pages.filter(|page| page.header().base_mono < hull.until);
    // An exit may have been parted from its entry.
    let read = with_leads(hull);
    let is_parted = calls()
        .flat_map(LaneStream::left_out)
        .any(|of| of.from < read.until && of.until > read.from);
    // Descriptors may have been opened where events are missing, or in a process whose threads have
    // not all the same.
    let is_divided = || recording.descriptors.iter().any(|of| !of.divided.is_empty());
    let is_lost = filter.has_paths() && (is_divided() || Fds::of(recording, true).is_lost_in(hull));
    let mut front = reading.front(recording);
    if !is_lost
        && !is_parted
        && !lacks_entries(recording, hull, filter, &mut front)
        && !filter.may_doubt(pages)
    {
        return doubts;
    }
    count(recording, windows, doubts, filter, reading, front)
}

/// Whether calls may end in a window of which their beginnings would have to be known. Where this
/// says no, all that end without them began so long before that they are decided.
fn lacks_entries(
    recording: &PageSet,
    hull: Window,
    filter: &Filter,
    (front, from): &mut (Front, u64),
) -> bool {
    let Some(limit) = filter.decides_from() else { return false };
    let pairing = front.pairing();
    let since = pairing.whole_since(hull.from);
    if pairing.holes().within(hull.from, hull.until) {
        return true;
    }
    // Of each thread the first that is read of it.
    let mut first: FxHashMap<u32, FirstCall> = FxHashMap::default();
    let calls = recording.streams.iter().filter(|stream| stream.lane() == Lane::Syscall);
    let read = since.max(*from);
    let pages = calls.flat_map(|stream| stream.pages_from(read));
    for call in pages.flat_map(|page| page.first_calls(read)) {
        match first.entry(call.tid) {
            Entry::Occupied(mut known) if call.time < known.get().time => {
                known.insert(call);
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(vacant) => drop(vacant.insert(call)),
        }
        if first.len() > THREADS_MAX {
            return true;
        }
    }
    first.values().any(|call| {
        call.ended.is_some_and(|(abi, nr, ret)| {
            hull.contains(call.time)
                && !pairing.has_seen(call.tid)
                && filter.wants_number(abi, nr)
                && (call.time - since < limit || !pairing.tells((abi, nr), ret))
        })
    })
}

/// Makes the pass.
fn count(
    recording: &PageSet,
    windows: &Windows,
    doubts: Doubts,
    filter: &Filter,
    reading: &Reading<'_>,
    (mut front, from): (Front, u64),
) -> Doubts {
    let hull = windows.hull();
    let wants = Wants { naming: Naming::Off, merging: Merging::Never, traces: false };
    let wall = recording.wall_clock(0);
    let mut resolver = Resolver::new(recording, windows.clone(), filter.clone(), wall, wants);
    resolver.doubts = Some(doubts);
    // A call that goes on, and the last change of a descriptor, may be long before this stretch.
    if let Some(joined) = reading.joins {
        resolver.resume(joined.calls, recording, from);
    }
    let each = &mut |item: &mut Item, _| {
        // Nothing is written, so nothing fails.
        let _ = resolver.take(&mut item.event, &item.found, &mut Nowhere);
        Ok::<(), Infallible>(())
    };
    let until = with_leads(hull).until;
    let mut events = events(recording, hull, reading.all || filter.has_paths());
    while let Some(event) = events.read(front.spare()) {
        if event.time >= until {
            break;
        }
        // What was before is known already.
        if event.time >= from {
            let Ok(()) = front.take(event, each);
        }
    }
    let Ok(()) = front.end(each);
    resolver.doubts.take().unwrap_or_default()
}

#[cfg(test)]
mod tests;
