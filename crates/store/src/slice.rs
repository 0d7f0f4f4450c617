//! So much of a window as fits into memory.
//!
//! Blocks are no order of time: each is a lane's, and pages of slow rings reach far. So a window is
//! cut where the pages that touch it so far are as many as may be held; blocks that reach over a
//! cut are read again for the next slice.

use flightrec_format::decode::{Page, Summary};
use flightrec_format::part;
use flightrec_format::ring::{LaneStream, Rings};

use crate::block::BlockRef;
use crate::reader::FileReader;

/// The rings of [`begins`, `until`), as far as `most` pages allow, and how far that is; ns of
/// `CLOCK_MONOTONIC`. At most one block more than `most` pages is in memory at a time.
///
/// `blocks` are blocks of pages in the order of their first events; `last` are the last pages of
/// the slice before, after which something may be missing. What is damaged is missing, as for any
/// reader.
pub fn slice<'f>(
    session: u64,
    blocks: impl IntoIterator<Item = (&'f FileReader, &'f BlockRef)>,
    (begins, until): (u64, u64),
    most: usize,
    last: &[Page],
) -> (Vec<LaneStream>, u64) {
    let mut ends = until;
    let mut held: Vec<(u64, Page, Summary)> = Vec::new();
    for (file, block) in blocks {
        if block.header.first >= ends {
            break;
        }
        if block.header.last < begins {
            continue;
        }
        let Ok(pages) = file.pages(block) else { continue };
        let pages = pages.into_iter().map(|(page, sums)| (part::begins(&page), page, sums));
        held.extend(pages.filter(|(first, _, sums)| *first < ends && sums.last >= begins));
        if held.len() > most {
            held.sort_by_key(|(first, ..)| *first);
            // A part of the room stays for what comes.
            ends = held.get(most - most / 4).map_or(ends, |(first, ..)| *first);
            held.retain(|(first, ..)| *first < ends);
        }
    }
    let mut rings = Rings::new(session);
    for page in last {
        rings.add(page.clone());
    }
    for (_, page, sums) in held {
        rings.add_summed(page, sums);
    }
    (rings.finish(), ends)
}
