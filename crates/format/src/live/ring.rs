//! Copying pages out of a ring while the probes write it.
//!
//! The probes open a page by `used` = 0, then `seq`, then the rest, and publish each record by
//! the store of `used` (`abi::page::RawHeader`; the page opening in probes-ebpf). So a copy is
//! whole when `seq` was the same before and after it, and `used`, loaded before the copying
//! began, was not 0: whatever was published by then is in it.

use std::fmt;
use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use super::map::ArrayMap;
use super::recording::LiveRings;
use crate::abi::page::{COPY_MAGIC, Lane, MAGIC, PAGE_SIZE, RawHeader, UNIT};
use crate::control::Position;
use crate::identity::public_id;

/// A page in a ring, as it was when the ring was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRef {
    /// Its sequence number.
    pub(super) seq: u64,
    /// When it was opened, ns of `CLOCK_MONOTONIC`.
    pub(super) base: u64,
    /// Value of the lane's map that it stands in.
    pub(super) index: usize,
}

/// What stands after magic and session.
const BODY: usize = offset_of!(RawHeader, version);
const SEQ: usize = offset_of!(RawHeader, seq);
const USED: usize = offset_of!(RawHeader, used);
const BASE: usize = offset_of!(RawHeader, base_mono);
const SESSION: usize = offset_of!(RawHeader, session);

/// Copies the first bytes of a page with as much as is in use, if the page stays
/// `seq` (or whatever it is, if 0) meanwhile. What is not in use comes out zero.
fn copy(
    place: &RingPlace<'_>,
    index: usize,
    seq: u64,
    limit: usize,
    out: &mut [u8; PAGE_SIZE],
) -> Option<u64> {
    let map = place.map;
    let word = map.u64(index, SEQ)?;
    let before = word.load(Ordering::Acquire);
    if before == 0 || seq != 0 && before != seq {
        return None;
    }
    let used = map.u32(index, USED)?.load(Ordering::Acquire);
    if used == 0 {
        return None;
    }
    let bytes = (used as usize * UNIT).min(limit);
    // By words, of which the last may be half in use.
    if !copy_words(map, place.ids, index, bytes.next_multiple_of(8), out) {
        return None;
    }
    out.get_mut(bytes..bytes.next_multiple_of(8))?.fill(0);
    // Pairs with the page opening: if any word above came from the next use of this page, so
    // does the sequence number below.
    fence(Ordering::Acquire);
    if word.load(Ordering::Relaxed) != before {
        return None;
    }
    // The copy's own may be newer than what it was copied for.
    out.get_mut(USED..USED + 4)?.copy_from_slice(&used.to_le_bytes());
    Some(before)
}

/// Copies the first bytes of what stands in a map as a page, as a copy ([`COPY_MAGIC`]) with the
/// session's public id; `false` where none does, or one of another session. At no moment is there a
/// second page of its magic in memory, and the secret is not in what comes out.
pub(super) fn copy_words(
    map: &ArrayMap,
    ids: Ids,
    index: usize,
    bytes: usize,
    out: &mut [u8; PAGE_SIZE],
) -> bool {
    let Some((head, rest)) =
        out.get_mut(..bytes).and_then(|out| out.split_first_chunk_mut::<BODY>())
    else {
        return false;
    };
    if map.load(index, 0) != MAGIC
        || map.load(index, SESSION) != ids.secret
        || !map.read(index, BODY, rest)
    {
        return false;
    }
    *head = (u128::from(COPY_MAGIC) | u128::from(ids.public) << 64).to_le_bytes();
    true
}

/// Copies a page, if it is still the one that was looked at.
fn copy_page(place: &RingPlace<'_>, page: &PageRef) -> Option<Box<[u8; PAGE_SIZE]>> {
    // Not `Box::new` of an array: that goes by way of the stack.
    let mut out: Box<[u8; PAGE_SIZE]> = vec![0; PAGE_SIZE].into_boxed_slice().try_into().ok()?;
    copy(place, page.index, page.seq, PAGE_SIZE, &mut out).map(|_| out)
}

/// The same, after what `out` holds; `out` is as it was where the page is no longer there.
fn append_page(place: &RingPlace<'_>, page: &PageRef, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.resize(start + PAGE_SIZE, 0);
    let to = out.get_mut(start..).and_then(|rest| rest.first_chunk_mut());
    let copied = to.and_then(|to| copy(place, page.index, page.seq, PAGE_SIZE, to)).map(|_| ());
    if copied.is_none() {
        out.truncate(start);
    }
    copied
}

/// Who a recording is ([`crate::identity`]).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids {
    /// What its pages in the kernel say.
    pub(super) secret: u64,
    /// What copies of them say.
    pub(super) public: u64,
}

impl fmt::Debug for Ids {
    /// The secret gets into no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").field("public", &self.public).finish_non_exhaustive()
    }
}

impl Ids {
    /// Of the recording with this secret.
    pub(super) fn of(secret: u64) -> Self {
        Self { secret, public: public_id(secret) }
    }
}

/// A ring's place in its map.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingPlace<'a> {
    pub(super) map: &'a ArrayMap,
    pub(super) ids: Ids,
    pub(super) first: usize,
    pub(super) pages: usize,
}

impl RingPlace<'_> {
    /// The ring's pages with anything in them, oldest first.
    pub(super) fn scan(&self) -> Vec<PageRef> {
        let mut head = [0; PAGE_SIZE];
        let mut found = Vec::new();
        let end = self.first.saturating_add(self.pages).min(self.map.entries());
        for index in self.first..end {
            // The probes go round the ring from its first page on (`next_page`): after one that
            // was never opened there is nothing yet.
            if self.map.load(index, SEQ) == 0 {
                break;
            }
            let Some(seq) = copy(self, index, 0, BASE + 8, &mut head) else { continue };
            let word = |at: usize| {
                head.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
            };
            found.push(PageRef { seq, base: word(BASE), index });
        }
        found.sort_unstable_by_key(|page| page.seq);
        found
    }

    /// Those that may hold events of [`from`, `until`), with sequence numbers above `after`, and
    /// the first page after the window, whose header proves that nothing is missing at the
    /// window's end.
    pub(super) fn select(&self, from: u64, until: u64, after: u64) -> Vec<PageRef> {
        let all = self.scan();
        // A page ends where the next one begins.
        let ends = all.iter().skip(1).map(|next| next.base).chain([u64::MAX]);
        let begun = all.partition_point(|page| page.base < until);
        all.iter()
            .zip(ends)
            .take(begun + 1)
            .filter(|(page, end)| *end >= from && page.seq > after)
            .map(|(page, _)| *page)
            .collect()
    }
}

/// How often a ring is looked at again when it was written over while it was copied. Each round
/// only fetches what is newer, so all that is needed is to be faster than a whole ring's filling.
const ROUNDS: usize = 8;

/// A position in the copying of one ring's window, for a caller that does it piece by piece: it
/// borrows nothing, [`super::LiveRings::advance`] brings the recording.
#[derive(Debug)]
pub struct Cursor {
    pub(super) lane: Lane,
    pub(super) cpu: u16,
    from: u64,
    until: u64,
    selected: std::vec::IntoIter<PageRef>,
    /// Sequence number of the last page given out.
    last: u64,
    /// A selected page was gone when its turn came.
    lapped: bool,
    rounds: usize,
}

impl Cursor {
    /// Looks at the ring now; without a ring there are no pages.
    pub(super) fn new(
        lane: Lane,
        cpu: u16,
        place: Option<RingPlace<'_>>,
        (from, until): (u64, u64),
    ) -> Self {
        let selected =
            place.map(|place| place.select(from, until, 0)).unwrap_or_default().into_iter();
        Self { lane, cpu, from, until, selected, last: 0, lapped: false, rounds: ROUNDS }
    }

    /// Copies the next page.
    pub(super) fn advance(&mut self, place: &RingPlace<'_>) -> Option<[u8; PAGE_SIZE]> {
        self.next(place, copy_page).map(|page| *page)
    }

    /// Appends the next page; `false`: there is none.
    pub(super) fn append(&mut self, place: &RingPlace<'_>, out: &mut Vec<u8>) -> bool {
        self.next(place, |place, page| append_page(place, page, out)).is_some()
    }

    fn next<T>(
        &mut self,
        place: &RingPlace<'_>,
        mut copy: impl FnMut(&RingPlace<'_>, &PageRef) -> Option<T>,
    ) -> Option<T> {
        loop {
            for page in self.selected.by_ref() {
                if let Some(copy) = copy(place, &page) {
                    self.last = page.seq;
                    return Some(copy);
                }
                self.lapped = true;
            }
            if !self.lapped || self.rounds == 0 {
                return None;
            }
            self.lapped = false;
            self.rounds -= 1;
            self.selected = place.select(self.from, self.until, self.last).into_iter();
        }
    }
}

/// A position in the copying of what is new in one ring. It borrows nothing;
/// [`super::LiveRings::advance_since`] brings the recording.
#[derive(Debug)]
pub struct Since {
    /// `None`: there is no such ring.
    pub(super) lane: Option<Lane>,
    pub(super) cpu: u16,
    after: Position,
    /// Sequence number of the next page to copy.
    next: u64,
    /// Of the last.
    last: u64,
}

impl Since {
    /// `last` is the last page that is wanted, and at most the `newest` pages up to it are.
    pub(super) fn new(lane: Option<Lane>, after: Position, last: u64, newest: u64) -> Self {
        // No ring gets that far; a damaged state must not end in an overflow.
        let last = last.min(u64::MAX - 1);
        let oldest = last.saturating_sub(newest).saturating_add(1);
        Self { lane, cpu: after.cpu, after, next: after.seq.max(oldest).max(1), last }
    }

    /// Copies the next page that is there and is new.
    pub(super) fn advance(&mut self, place: &RingPlace<'_>) -> Option<Box<[u8; PAGE_SIZE]>> {
        self.next(place, copy_page)
    }

    /// Appends it; `false`: there is none.
    pub(super) fn append(&mut self, place: &RingPlace<'_>, out: &mut Vec<u8>) -> bool {
        self.next(place, |place, page| append_page(place, page, out)).is_some()
    }

    fn next<T>(
        &mut self,
        place: &RingPlace<'_>,
        mut copy: impl FnMut(&RingPlace<'_>, &PageRef) -> Option<T>,
    ) -> Option<T> {
        let pages = place.pages as u64;
        // Older ones were overwritten.
        self.next = self.next.max(self.last.saturating_sub(pages).saturating_add(1));
        while self.next <= self.last {
            let seq = self.next;
            self.next += 1;
            // The probes go round the ring from its first page on, which has sequence number 1
            // (`next_page`).
            let index = place.first.saturating_add((seq.saturating_sub(1) % pages.max(1)) as usize);
            let used = place.map.u32(index, USED)?.load(Ordering::Acquire);
            if seq == self.after.seq && used <= self.after.used {
                continue;
            }
            if let Some(copy) = copy(place, &PageRef { seq, base: 0, index }) {
                return Some(copy);
            }
        }
        None
    }
}

/// Copies of a ring's pages, in the order of their sequence numbers.
#[derive(Debug)]
pub struct Pages<'a> {
    pub(super) recording: &'a LiveRings,
    pub(super) cursor: Cursor,
}

impl Iterator for Pages<'_> {
    type Item = [u8; PAGE_SIZE];

    fn next(&mut self) -> Option<[u8; PAGE_SIZE]> {
        self.recording.advance(&mut self.cursor)
    }
}
