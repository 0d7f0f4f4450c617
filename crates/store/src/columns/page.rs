//! The walk over a page, to columns and back.

use flightrec_format::abi::page::{HEADER_LEN, Lane, PAGE_SIZE};
use flightrec_format::decode::page::{read_counters, read_header};
use flightrec_format::decode::{Page, Summary};
use flightrec_format::encode::{put_header, write_header};

use super::ColumnsError;
use super::column::Column;
use super::header::{Head, Ring, Rings};
use super::item::{At, Item, Models};
use super::out::Out;
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

/// Writes the string at the front of what is left of a page; returns what is after it.
#[inline]
fn string<'a>(
    (models, item): (&mut Models, &mut Item),
    s: &mut Writing,
    ring: &Ring,
    bytes: &'a [u8],
    counted: &mut Counted,
) -> &'a [u8] {
    let length = if let Some((length, as_here)) = models.string_again(s, ring, bytes) {
        counted.all &= as_here;
        length
    } else {
        let length = item.take_string(bytes);
        counted.string(item);
        models.string(s, ring, item);
        length
    };
    bytes.get(length..).unwrap_or_default()
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
                && let Some((length, strings, as_here)) = self.models.call(s, &at, ring, left)
            {
                counted.all &= as_here;
                left = left.get(length..).unwrap_or_default();
                for _ in 0..strings {
                    left = string((&mut self.models, &mut self.item), s, ring, left, &mut counted);
                }
                continue;
            }
            let item = &mut self.item;
            let (taken, mut rest) = left.split_at(item.take(&at, left).min(left.len()));
            self.models.code(s, &mut at, ring, item);
            counted.item(item.is_counted(header.lane, !counted.begun));
            if item.is_tail() {
                raw(s, &mut taken.to_vec());
            }
            for _ in 0..item.strings(header.lane) {
                rest = string((&mut self.models, item), s, ring, rest, &mut counted);
            }
            left = rest;
        }
        counted.summary(ring, page)
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
