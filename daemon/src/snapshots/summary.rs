//! The first answer: what stands out in a window.
//!
//! It is made by one pass over the events of the snapshot's file, in the order of time
//! (`slices`), whatever the window's size. Only of a window of more than [`EVENTS_MOST`] events a
//! part is taken, around the cause, and the answer says so.

mod pass;
mod slices;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod windows;

use std::collections::HashMap;
use std::path::Path;

use flightrec_format::abi::slot::{BLOCKED, TaskSlot};
use flightrec_format::meta::Meta;
use flightrec_store::snapshot::{About, Summary};
use flightrec_store::{FileReader, StoreError};

use pass::Pass;
use slices::{Bounds, Seen, Slices};

use super::names;
use crate::clock;
use crate::recording::Recording;

/// Most pages that are in memory for it: 32 MiB.
pub const PAGES_MOST: usize = 8192;
/// Most events that it is made of: some seconds of one CPU.
pub const EVENTS_MOST: u64 = 16 << 20;

/// The threads that live now.
#[derive(Debug, Default)]
pub struct Living {
    /// All of them.
    pub threads: Vec<TaskSlot>,
    /// Where those that were blocked at a moment before waited, by thread id: frames, from the
    /// innermost one out.
    pub stacks: HashMap<u32, Vec<u32>>,
    /// A thread that was blocked at this moment and still is ([`TaskSlot::since`]) has its stack
    /// there, ns of `CLOCK_MONOTONIC`.
    pub stacks_from: u64,
}

impl Living {
    /// Those of a recording; the recording's metadata name the functions of their stacks from then
    /// on.
    pub fn of(recording: &Recording) -> Self {
        let stacks_from = clock::mono();
        // Why there are none, the recording's metadata say.
        let stacks = recording.blocked_stacks().unwrap_or_default();
        let threads = names::threads(recording.live());
        recording.follow();
        let stacks = stacks.into_iter().map(|of| (of.tid, of.frames)).collect();
        Self { threads, stacks, stacks_from }
    }

    /// Where a thread has waited since a moment, if it still does.
    fn stack(&self, tid: u32, since: u64) -> Option<&[u32]> {
        let is_blocked =
            |slot: &&TaskSlot| slot.tid == tid && slot.flags & BLOCKED != 0 && slot.since == since;
        self.threads.iter().find(is_blocked).filter(|slot| slot.since < self.stacks_from)?;
        self.stacks.get(&tid).map(Vec::as_slice)
    }
}

/// Makes it of the window of a snapshot's file, as yet without its end.
pub fn make(
    path: &Path,
    about: &About,
    meta: &Meta,
    living: &Living,
) -> Result<Summary, StoreError> {
    make_within(path, about, meta, living, Bounds { pages: PAGES_MOST, events: EVENTS_MOST })
}

fn make_within(
    path: &Path,
    about: &About,
    meta: &Meta,
    living: &Living,
    bounds: Bounds,
) -> Result<Summary, StoreError> {
    let file = FileReader::open(path)?;
    let window = (about.held_from, about.until);
    let mut slices = Slices::new(&file, meta.session, window, about.time, bounds);
    let (from, until) = slices.range();
    let mut pass = Pass::new(from, until, about, meta, living);
    let left_out = slices.each(|seen| match seen {
        Seen::Event(event) => pass.event(event),
        Seen::Gap(gap) => pass.miss(gap),
    });
    let mut summary = pass.finish();
    let missing = slices.missing();
    if missing != 0 {
        summary.notes.push(format!("{missing} events of the window are missing"));
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    if (from, until) != window {
        let (before, after) = (about.time.saturating_sub(from), until.saturating_sub(about.time));
        summary.notes.push(format!(
            "the window holds more events than a summary can cover: it covers {:.1} s before the \
             cause and {:.1} s after it",
            seconds(before),
            seconds(after)
        ));
    }
    if left_out != 0 {
        let seconds = seconds(left_out);
        summary
            .notes
            .push(format!("the last {seconds:.1} s are not covered: too many pages at one moment"));
    }
    Ok(summary)
}
