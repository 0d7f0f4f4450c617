//! The two tables beside the rings: metadata, and the thread slots.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use super::error::LiveError;
use super::map::ArrayMap;
use super::ring::{Ids, copy_words};
use crate::abi::page::{HEADER_LEN, Lane, MAGIC, PAGE_SIZE, RawHeader};
use crate::abi::slot::{SLOTS_PER_PAGE, TaskSlot};
use crate::decode::page::read_header;
use crate::meta::{self, Meta, MetaError};
use crate::{chunks, kept};

/// How often a table is read again that changed under the reading.
const TRIES: usize = 16;
const USED: usize = offset_of!(RawHeader, used);
const SESSION: usize = offset_of!(RawHeader, session);
const SEQ: usize = offset_of!(RawHeader, seq);
/// The word that ends in the header's length.
const VERSION: usize = offset_of!(RawHeader, version);
const SLOT: usize = size_of::<TaskSlot>();

/// Reads the metadata; `map` is the map of [`meta::PAGES`].
pub fn read_meta(map: &ArrayMap) -> Result<Meta, LiveError> {
    read_identified(map).map(|(_, meta)| meta)
}

/// The metadata, and whose they are: the secret is learned from their pages.
pub(super) fn read_identified(map: &ArrayMap) -> Result<(Ids, Meta), LiveError> {
    let (ids, _, meta) = read_generation(map)?;
    // Builds before this had one id for both.
    if meta.session != ids.public {
        return Err(LiveError::Layout {
            map: "meta",
            what: "an id that is not the hash of its secret".into(),
        });
    }
    Ok((ids, meta))
}

fn read_generation(map: &ArrayMap) -> Result<(Ids, u64, Meta), LiveError> {
    // A map is of one recording, and so are its pages.
    let secrets =
        (0..map.entries()).filter(|i| map.load(*i, 0) == MAGIC).map(|i| map.load(i, SESSION));
    let Some(secret) = { secrets }.find(|secret| *secret != 0) else {
        return Err(MetaError::Incomplete { pages: 0 }.into());
    };
    let ids = Ids::of(secret);
    let mut tries = TRIES;
    loop {
        let mut pages = Vec::new();
        for i in 0..map.entries() {
            let mut page = [0; PAGE_SIZE];
            if copy_words(map, ids, i, PAGE_SIZE, &mut page) {
                pages.push(page);
            }
        }
        match meta::unpack_generation(&pages) {
            // Both halves were replaced meanwhile.
            Err(MetaError::Incomplete { pages }) if pages > 0 && tries > 0 => tries -= 1,
            other => {
                return other
                    .map(|(generation, meta)| (ids, generation, meta))
                    .map_err(LiveError::from);
            }
        }
    }
}

/// Writes a new generation of the metadata beside the present one, and returns its number; the
/// first is written twice, so that there are two from the beginning on: whoever has lost a page of
/// one, in a memory dump, has the other. `secret` is the recording's ([`crate::identity`]),
/// [`Meta::session`] the public id. There must be one writer only.
pub fn publish_meta(map: &ArrayMap, meta: &Meta, secret: u64) -> Result<u64, LiveError> {
    let write = |generation| write_generation(map, meta, generation, secret);
    match read_generation(map) {
        Ok((_, present, _)) => write(present.wrapping_add(1)),
        // A fresh map, or a first writing that was cut short.
        Err(LiveError::Meta(_)) => write(1).and_then(|_| write(2)),
        Err(e) => Err(e),
    }
}

fn write_generation(
    map: &ArrayMap,
    meta: &Meta,
    generation: u64,
    secret: u64,
) -> Result<u64, LiveError> {
    let half = map.entries() / 2;
    let pages = meta::pack(meta, generation, half)?;
    if write_pages(map, chunks::first_page(generation, half), &pages, secret) {
        Ok(generation)
    } else {
        Err(LiveError::Layout { map: "meta", what: format!("{} pages", map.entries()) })
    }
}

/// Copies of the descriptor snapshots' pages in the map: those of the present one, and what is left
/// of others.
pub(super) fn copy_descriptors(
    map: &ArrayMap,
    ids: Ids,
) -> impl Iterator<Item = [u8; PAGE_SIZE]> + '_ {
    (0..map.entries()).filter_map(move |index| {
        let mut page = [0; PAGE_SIZE];
        let read = copy_words(map, ids, index, PAGE_SIZE, &mut page);
        (read && read_header(&page).is_ok_and(|header| header.lane == Lane::Descriptors as u8))
            .then_some(page)
    })
}

/// Writes the pages of a descriptor snapshot ([`chunks::pack`]) beside the present one. There must
/// be one writer only.
pub(super) fn publish_descriptors(
    map: &ArrayMap,
    generation: u64,
    pages: &[[u8; PAGE_SIZE]],
    secret: u64,
) -> bool {
    write_pages(map, chunks::first_page(generation, map.entries() / 2), pages, secret)
}

/// Writes pages from the map's page `first` on; `false` where they do not fit.
pub(super) fn write_pages(
    map: &ArrayMap,
    first: usize,
    pages: &[[u8; PAGE_SIZE]],
    secret: u64,
) -> bool {
    pages.iter().enumerate().all(|(i, page)| {
        // As a ring's page: empty first, `used` last.
        let (head, rest) = page.split_at(USED);
        let (used, rest) = rest.split_at(8);
        map.write(first + i, USED, &[0; 8])
            && write_head(map, first + i, head, secret)
            && map.write(first + i, USED + 8, rest)
            && map.write(first + i, USED, used)
    })
}

/// Copies a page of the quiet ring; `None` where none is, or where it changes all the time.
pub(super) fn copy_kept(map: &ArrayMap, ids: Ids, index: usize) -> Option<[u8; PAGE_SIZE]> {
    let state = || {
        let through = kept::through_at((map.load(index, VERSION) >> 48) as u16);
        // A page that is whole has no such word; whatever stands there of it stays as it is.
        let through = if through < PAGE_SIZE { map.load(index, through & !7) } else { 0 };
        (map.load(index, SEQ), map.load(index, USED) as u32, through)
    };
    // Most places are empty on most machines.
    if state().1 == 0 {
        return None;
    }
    let mut out = [0; PAGE_SIZE];
    for _ in 0..TRIES {
        let before = state();
        if before.1 == 0 || !copy_words(map, ids, index, PAGE_SIZE, &mut out) {
            return None;
        }
        fence(Ordering::Acquire);
        if state() == before {
            return read_header(&out).is_ok().then_some(out);
        }
        std::hint::spin_loop();
    }
    None
}

/// Adds what a page has more than the one in the map, which begins as it does: first the records,
/// then how many they are, then up to which page of its ring it reaches. Whoever reads a dump of a
/// machine that stopped between is told of no page whose records are not there.
pub(super) fn extend_kept(map: &ArrayMap, index: usize, page: &[u8; PAGE_SIZE]) -> bool {
    let Ok(header) = read_header(page) else { return false };
    let at = kept::through_at(header.header_len);
    let after = at + 8;
    let (Some(used), Some(through), Some(rest)) =
        (page.get(USED..USED + 8), page.get(at..after), page.get(after..))
    else {
        return false;
    };
    map.write(index, after, rest) && map.write(index, USED, used) && map.write(index, at, through)
}

/// Writes the beginning of a page's header ([`crate::encode::write_header`]), which makes a page of
/// what stands there: of the recording with this secret, whatever session the header says.
pub fn write_head(map: &ArrayMap, index: usize, head: &[u8], secret: u64) -> bool {
    let (Some(magic), Some(session)) = (map.u64(index, 0), map.u64(index, SESSION)) else {
        return false;
    };
    let Some(rest) = head.get(SESSION + 8..) else { return false };
    session.store(secret, Ordering::Release);
    magic.store(MAGIC, Ordering::Release);
    map.write(index, SESSION + 8, rest)
}

/// Copies a slot page, each slot whole; `None` where no thread is in it.
///
/// A slot's `seq` is odd while it is written (`abi::slot::TaskSlot`). One that changes all the
/// time comes out with an odd `seq`, which readers pass over.
pub(super) fn copy_slots(map: &ArrayMap, ids: Ids, index: usize) -> Option<[u8; PAGE_SIZE]> {
    let places = (0..SLOTS_PER_PAGE).map(|i| HEADER_LEN + i * SLOT);
    // Most slots are free: a page of them need not be copied.
    let is_taken = |at: &usize| map.load(index, *at) >> 32 != 0;
    if !places.clone().any(|at| is_taken(&at)) {
        return None;
    }
    let mut out = [0; PAGE_SIZE];
    if !copy_words(map, ids, index, HEADER_LEN, &mut out) {
        return None;
    }
    if read_header(&out).ok()?.lane != Lane::Slots as u8 {
        return None;
    }
    let mut threads = false;
    for at in places.filter(is_taken) {
        threads |= copy_slot(map, index, at, out.get_mut(at..at + SLOT)?)?;
    }
    threads.then_some(out)
}

/// Copies one slot; `Some(false)` where it could not be had whole.
fn copy_slot(map: &ArrayMap, index: usize, at: usize, out: &mut [u8]) -> Option<bool> {
    let seq = map.u32(index, at)?;
    for _ in 0..TRIES {
        let before = seq.load(Ordering::Acquire);
        if before.is_multiple_of(2) && map.read(index, at, out) {
            // Pairs with the slot's last store of `seq` by the probes.
            fence(Ordering::Acquire);
            if seq.load(Ordering::Relaxed) == before {
                return Some(true);
            }
        }
        std::hint::spin_loop();
    }
    *out.first_chunk_mut()? = 1u32.to_le_bytes();
    Some(false)
}
