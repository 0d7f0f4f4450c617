//! The first answer: what stands out in a window.
//!
//! It is made by one pass over the events of the snapshot's file, in the order of time. Where the window is larger than
//! [`PAGES_MOST`], the pages nearest to its end are taken, and the answer says so.

mod pass;
#[cfg(test)]
mod tests;

use std::path::Path;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::merge::Merge;
use flightrec_format::meta::Meta;
use flightrec_format::ring::{LaneStream, Rings};
use flightrec_store::block::PAGES_MAX;
use flightrec_store::snapshot::{About, Summary};
use flightrec_store::{BlockRef, Content, FileReader, Kind, StoreError};

use pass::Pass;

/// Most pages that are in memory for it: 32 MiB.
pub const PAGES_MOST: usize = 8192;

/// Makes it of the window of a snapshot's file, as yet without its end. `threads`: those that live now.
pub fn make(path: &Path, about: &About, meta: &Meta, threads: &[TaskSlot]) -> Result<Summary, StoreError> {
    let reader = FileReader::open(path)?;
    let (from, until) = (about.held_from, about.until);
    let mut rings = Rings::new(meta.session);
    let mut left = PAGES_MOST;
    let mut begins = from;
    // What explains the most first; of each lane what is nearest to the end.
    for lane in [Lane::Task, Lane::Sched, Lane::Syscall] {
        let touches = |block: &&BlockRef| {
            let header = &block.header;
            header.lane == Some(lane) && header.last >= from && header.first < until
        };
        // A block has no more pages than that, and one that was written early has fewer.
        for block in reader.of(Kind::Pages).filter(touches).rev() {
            if left < PAGES_MAX {
                begins = begins.max(block.header.last);
                break;
            }
            // What is damaged is missing, as for any reader.
            let Ok(Content::Pages(pages)) = reader.read(block) else { continue };
            left = left.saturating_sub(pages.len());
            for page in pages {
                rings.add(page);
            }
        }
    }
    let streams: Vec<LaneStream> = rings.finish();
    let missing: u64 = streams
        .iter()
        .flat_map(LaneStream::gaps)
        .filter(|gap| gap.until > from && gap.from < until)
        .filter_map(|gap| gap.missing())
        .fold(0, u64::saturating_add);
    let mut pass = Pass::new(begins, until, about, meta, threads);
    for event in Merge::new(streams.iter().map(|stream| stream.events_from(begins))) {
        if event.time >= until {
            break;
        }
        pass.event(&event);
    }
    let mut summary = pass.finish();
    if missing != 0 {
        summary.notes.push(format!("{missing} events of the window are missing"));
    }
    if begins > from {
        let mib = (PAGES_MOST * PAGE_SIZE) >> 20;
        let seconds = (begins - from) as f64 / 1e9;
        summary.notes.push(format!("made of the last {mib} MiB: the first {seconds:.1} s of the window are not in it"));
    }
    Ok(summary)
}
