//! The pages of a window: how many there are, and reading them.

use std::sync::{Mutex, PoisonError};

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Page, Summary};
use flightrec_format::meta::Meta;
use flightrec_format::ring::{LaneStream, Rings};
use flightrec_store::{BlockRef, Damage, FileReader};

use super::decoded::{Decoded, Decoding};
use super::names::Superseded;
use super::pick::Pick;
use super::{FilesError, load, names, select};
use crate::memory;
use crate::window::Window;

/// The rings of a session, of these pages.
pub fn streams(meta: &Meta, pages: impl IntoIterator<Item = (Page, Summary)>) -> Vec<LaneStream> {
    let mut rings = Rings::new(meta.session);
    for lane in Lane::RINGS {
        meta.cpus.iter().for_each(|cpu| rings.expect(lane, *cpu));
    }
    for (page, summary) in pages {
        rings.add_summed(page, summary);
    }
    rings.finish()
}

pub(super) type Lost<'a> = Vec<(&'a FileReader, Damage)>;

/// Reads the pages of the window.
pub(super) fn read_pages<'a>(
    opened: &[&'a FileReader],
    window: Window,
    pick: Pick<'_>,
    (superseded, shared): (&Mutex<Superseded>, &Decoded),
    into: &mut Vec<(Page, Summary)>,
) -> Result<Lost<'a>, FilesError> {
    let mut jobs = match pick {
        Pick::CallEnds { is_sure: true, .. } => select::inside(opened, window, pick.lanes()),
        _ => select::needed(opened, window, pick.lanes()),
    };
    jobs.retain(|job| pick.has(job));
    let too_much = || FilesError::TooMuch(memory::pages_max());
    let most = |held: usize| most_pages().saturating_sub(held);
    let (early, within): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| is_early(job, window));
    let mut lost = if early.iter().map(|job| select::weight(job.block)).fold(0, u64::saturating_add)
        > names::whole_max()
    {
        let mut superseded = superseded.lock().unwrap_or_else(PoisonError::into_inner);
        let (pages, lost) = names::last_said(early, window.from, most(into.len()), &mut superseded)
            .ok_or_else(too_much)?;
        into.extend(pages);
        lost
    } else {
        load::pages(&early, most(into.len()), Decoding::ALL, |pages| into.extend(pages))
            .ok_or_else(too_much)?
    };
    lost.extend(
        load::pages(&within, most(into.len()), pick.decoding(shared), |pages| into.extend(pages))
            .ok_or_else(too_much)?,
    );
    Ok(lost)
}

/// Whether a block is read for the sake of names alone.
fn is_early(job: &load::Job<'_>, window: Window) -> bool {
    job.block.header.lane == Some(Lane::Task) && job.block.header.last < window.from
}

/// Most pages that are held at once.
pub(super) fn most_pages() -> usize {
    usize::try_from(memory::pages_max() / memory::PAGE_WEIGHT).unwrap_or(usize::MAX)
}

/// Most blocks of all files that are open at once: their headers take a quarter of the memory.
pub(super) fn most_blocks() -> usize {
    usize::try_from(memory::limit() / 4).unwrap_or(usize::MAX) / size_of::<BlockRef>()
}

/// Bytes of memory that the pages of a window take, but for those that names need.
pub(super) fn weight(opened: &[&FileReader], window: Window, pick: Pick<'_>) -> u64 {
    let within = select::needed(opened, window, pick.lanes())
        .into_iter()
        .filter(|job| pick.has(job) && !is_early(job, window));
    within.map(|job| select::weight(job.block)).fold(0, u64::saturating_add)
}
