//! The walk over a page, to columns and back.

use flightrec_format::abi::page::{HEADER_LEN, Lane, PAGE_SIZE};
use flightrec_format::decode::page::{read_counters, read_header};
use flightrec_format::decode::{Page, Summary};
use flightrec_format::encode::{put_header, write_header};

use super::ColumnsError;
use super::column::Column;
use super::header::{Head, Ring, Rings};
use super::item::{At, Item, Models, is_fine};
use super::out::Out;
use super::record::Call;
use super::seen::{Open, Paths, Sight, text_bits};
use super::stream::{Reading, Stream, Writing};

/// All that is known at some point of a block.
pub(super) struct Block {
    rings: Rings,
    models: Models,
    item: Item,
}

/// Codes bytes as they are.
fn raw<S: Stream>(s: &mut S, bytes: &mut [u8]) {
    s.bytes(Column::Raw, bytes);
}

/// Writes the string that `bytes` begin with; returns the bytes after it, and its `aux`.
#[inline]
fn string<'a>(
    (models, item): (&mut Models, &mut Item),
    s: &mut Writing,
    ring: &Ring,
    bytes: &'a [u8],
    counted: &mut Counted,
) -> (&'a [u8], u8) {
    let (length, aux) = models.string_again(s, ring, bytes).unwrap_or_else(|| {
        let length = item.take_string(bytes);
        models.string(s, ring, item);
        (length, item.text_aux())
    });
    counted.all &= is_fine(aux);
    models.seen.text(aux);
    models.seen.odd |= !is_fine(aux);
    (bytes.get(length..).unwrap_or_default(), aux)
}

/// Writes the strings of a call, as [`string`] does; returns what is after them, which of them were
/// read, and which could not be.
#[inline]
fn strings<'a>(
    (models, item): (&mut Models, &mut Item),
    s: &mut Writing,
    ring: &Ring,
    mut bytes: &'a [u8],
    count: u8,
    counted: &mut Counted,
) -> (&'a [u8], u8, u8) {
    let (mut read, mut unreadable) = (0, 0);
    for _ in 0..count {
        let (rest, aux) = string((models, item), s, ring, bytes, counted);
        let (is_read, is_unreadable) = text_bits(aux);
        (bytes, read, unreadable) = (rest, read | is_read, unreadable | is_unreadable);
    }
    (bytes, read, unreadable)
}

/// Whether all of a page so far counts with every reader as it does here.
struct Counted {
    all: bool,
    begun: bool,
}

impl Counted {
    fn new() -> Self {
        Self { all: true, begun: false }
    }

    #[inline]
    fn item(&mut self, as_here: bool) {
        self.all &= as_here;
        self.begun = true;
    }

    #[inline]
    fn string(&mut self, item: &Item) {
        self.all &= item.is_fine_string();
    }

    /// What the page comes to; where that was not counted on the way, by walking over it again.
    fn summary(&self, ring: &Ring, page: &Page) -> Summary {
        ring.summary().filter(|_| self.all).unwrap_or_else(|| page.summary())
    }
}

impl Block {
    pub(super) fn new() -> Self {
        Self { rings: Rings::new(), models: Models::new(), item: Item::new() }
    }

    /// Begins another block: knows nothing again, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.rings = Rings::new();
        self.models.clear();
        self.item.clear();
    }

    /// Writes a page.
    pub(super) fn encode(&mut self, s: &mut Writing, page: &Page) -> Summary {
        let header = *page.header();
        let first = usize::from(header.header_len);
        let before = page.bytes().get(HEADER_LEN..first).unwrap_or_default();
        // The counters are foretold.
        let after = page.bytes().get(header.counters_end()..first).unwrap_or_default();
        let mut head = Head { header, before: after.iter().any(|byte| *byte != 0) };
        let ring = self.rings.code(s, &mut head);
        if head.before {
            raw(s, &mut before.to_vec());
        }
        let mut at = At::begin(&header);
        let mut left = page.bytes().get(first..header.used_bytes()).unwrap_or_default();
        let mut counted = Counted::new();
        while !left.is_empty() {
            // What a page begins with tells its thread first.
            if counted.begun
                && header.lane == Lane::Syscall as u8
                && let Some(written) = self.models.call(s, &at, ring, left)
            {
                counted.all &= written.fine;
                self.models.seen.odd |= !written.fine;
                let own = (&mut self.models, &mut self.item);
                let after = left.get(written.length..).unwrap_or_default();
                let (rest, read, unreadable) = match written.strings {
                    0 => (after, 0, 0),
                    count => strings(own, s, ring, after, count, &mut counted),
                };
                if written.paths & !read != 0 || written.ends && written.paths != 0 {
                    let mut call = Call::NONE;
                    call.take(left);
                    self.models.seen.strings(&call, &at, read, unreadable);
                }
                left = rest;
                continue;
            }
            let item = &mut self.item;
            let (taken, mut rest) = left.split_at(item.take(&at, left).min(left.len()));
            self.models.code(s, &mut at, ring, item);
            self.models.seen.odd |= item.is_odd(&at);
            counted.item(item.is_counted(header.lane, !counted.begun));
            if item.is_tail() {
                raw(s, &mut taken.to_vec());
            }
            if let Some(call) = item.call(header.lane).copied() {
                let own = (&mut self.models, item);
                let count = call.what.strings();
                let (after, read, unreadable) = strings(own, s, ring, rest, count, &mut counted);
                self.models.seen.strings(&call, &at, read, unreadable);
                rest = after;
            }
            left = rest;
        }
        counted.summary(ring, page)
    }

    /// What was seen in the block; `None`: not all of it is known.
    pub(super) fn sight(&mut self, open: &mut Open) -> Option<Sight<'_>> {
        let mut sight = self.models.sight(open)?;
        sight.cpus.extend(self.rings.cpus());
        Some(sight)
    }

    /// Which arguments of calls are paths.
    pub(super) fn know(&mut self, paths: Paths) {
        self.models.seen.know(paths);
    }

    /// Reads a page.
    pub(super) fn decode<const CONTENTS: bool>(
        &mut self,
        s: &mut Reading<'_, CONTENTS>,
    ) -> Result<(Page, Summary), ColumnsError> {
        let (models, item) = (&mut self.models, &mut self.item);
        let mut head = Head::NONE;
        let ring = self.rings.code(s, &mut head);
        if s.failed() {
            return Err(ColumnsError::Content);
        }
        let mut header = head.header;
        // Where its records may stand.
        read_header(&write_header(&header))?;
        let mut page = Box::new([0; PAGE_SIZE]);
        put_header(&header, &mut page);
        let first = usize::from(header.header_len);
        if head.before {
            raw(s, page.get_mut(HEADER_LEN..first).unwrap_or_default());
            read_counters(&mut header, page.as_slice());
            ring.correct(&header);
        }
        let mut at = At::begin(&header);
        let left = page.get_mut(first..header.used_bytes()).unwrap_or_default();
        let mut out = Out { left, over: false };
        let mut counted = Counted::new();
        while !out.left.is_empty() {
            models.code(s, &mut at, ring, item);
            if item.is_tail() {
                raw(s, std::mem::take(&mut out.left));
            } else {
                item.put::<CONTENTS>(at.lane, &mut out);
            }
            counted.item(item.is_counted(at.lane, !counted.begun));
            for _ in 0..item.strings(at.lane) {
                models.string(s, ring, item);
                counted.string(item);
                item.put_string::<CONTENTS>(&mut out);
            }
            if s.failed() || out.over {
                return Err(ColumnsError::Content);
            }
        }
        if s.failed() {
            return Err(ColumnsError::Content);
        }
        let page = Page::new(page)?;
        let summary = counted.summary(ring, &page);
        Ok((page, summary))
    }
}
