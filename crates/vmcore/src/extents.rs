//! Memory that stands in the file as it is: of ELF files and plain images.

use std::iter;

use flightrec_format::abi::page::{MAGIC, PAGE_SIZE};

use crate::file::ReadAt;
use crate::layout::{Layout, Memory, Scanned, Scanner, Shortfall, UNIT_BYTES, Unit};

/// Bytes of a page.
const PAGE: u64 = PAGE_SIZE as u64;

/// Whole pages, one after the other. A unit's numbers are a place in the file and a number of
/// pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where in the file.
    pub(crate) offset: u64,
    /// How many.
    pub(crate) pages: u64,
}

/// Memory in extents.
pub(crate) struct Extents {
    file: Box<dyn ReadAt>,
    list: Vec<Extent>,
    shortfall: Shortfall,
}

impl Extents {
    /// Of these extents, of which what is after the file's end is left out and counted.
    pub(crate) fn new(file: Box<dyn ReadAt>, extents: Vec<Extent>) -> Self {
        let size = file.size();
        let mut shortfall = Shortfall::default();
        let clip = |extent: Extent| {
            let there = size.saturating_sub(extent.offset) / PAGE;
            shortfall.cut = shortfall.cut.saturating_add(extent.pages.saturating_sub(there));
            Extent { pages: extent.pages.min(there), ..extent }
        };
        let list =
            merged(extents.into_iter().map(clip).filter(|extent| extent.pages != 0).collect());
        let (list, left_out) = apart(list);
        shortfall.unreadable = shortfall.unreadable.saturating_add(left_out);
        Self { file, list, shortfall }
    }
}

/// The same pages, each once: a file that names a stretch a thousand times is not to be read a
/// thousand times.
fn merged(mut extents: Vec<Extent>) -> Vec<Extent> {
    // Stretches whose pages begin at other places within 4 KiB have no page in common.
    extents.sort_unstable_by_key(|extent| (extent.offset % PAGE, extent.offset));
    let mut out: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents {
        let (start, end) =
            (extent.offset, extent.offset.saturating_add(extent.pages.saturating_mul(PAGE)));
        match out.last_mut() {
            Some(last)
                if last.offset % PAGE == start % PAGE
                    && start <= last.offset + last.pages * PAGE =>
            {
                last.pages = last.pages.max((end - last.offset) / PAGE);
            }
            _ => out.push(extent),
        }
    }
    out.sort_unstable_by_key(|extent| extent.offset);
    out
}

/// The same, in order, without the pages that another stretch has bytes of, which begin at other
/// places within 4 KiB; and how many these are. No dump has such pages, and a file that names every
/// byte in each of the 4,096 ways is not to be read 4,096 times.
fn apart(extents: Vec<Extent>) -> (Vec<Extent>, u64) {
    let (mut out, mut left_out) = (Vec::with_capacity(extents.len()), 0_u64);
    let mut after = 0_u64;
    for Extent { offset, pages } in extents {
        let shared = after.saturating_sub(offset).div_ceil(PAGE).min(pages);
        left_out = left_out.saturating_add(shared);
        if shared < pages {
            let of = Extent { offset: offset + shared * PAGE, pages: pages - shared };
            after = of.offset.saturating_add(of.pages.saturating_mul(PAGE));
            out.push(of);
        }
    }
    (out, left_out)
}

impl Layout for Extents {
    fn units(&self) -> Box<dyn Iterator<Item = Unit> + Send + '_> {
        const STEP: u64 = UNIT_BYTES as u64 / PAGE;
        let file = self.file.as_ref();
        Box::new(self.list.iter().flat_map(move |extent| {
            let mut done = 0;
            iter::from_fn(move || {
                // Where there are holes, there are no pages of a recording: on to the page in which
                // something stands.
                let at = extent.offset + done * PAGE;
                let (begin, end) = file.data(at)?;
                let first = done + (begin - at) / PAGE;
                let left = extent.pages.checked_sub(first).filter(|left| *left != 0)?;
                let start = extent.offset + first * PAGE;
                let count = (end - start).div_ceil(PAGE).min(STEP).min(left);
                done = first + count;
                Some(Unit { start, count })
            })
        }))
    }

    fn bytes(&self) -> u64 {
        self.list
            .iter()
            .fold(0, |sum: u64, extent| sum.saturating_add(extent.pages.saturating_mul(PAGE)))
    }

    fn shortfall(&self) -> Shortfall {
        self.shortfall
    }

    fn scanner(&self) -> Box<dyn Scanner + '_> {
        Box::new(Raw { file: self.file.as_ref(), buffer: vec![0; UNIT_BYTES] })
    }
}

/// Reads pages as they are.
struct Raw<'a> {
    file: &'a dyn ReadAt,
    buffer: Vec<u8>,
}

impl Raw<'_> {
    /// The pages of a unit one by one, where they could not be read at once.
    fn scan_slowly(&mut self, unit: Unit, found: &mut dyn FnMut(u64, &Memory)) -> Scanned {
        let mut scanned = Scanned { bytes: unit.count * PAGE, ..Scanned::default() };
        for place in (0..unit.count).map(|i| unit.start + i * PAGE) {
            match self.page(place) {
                Some(page) if is_page(page) => found(place, page),
                Some(_) => {}
                None => scanned.shortfall.unreadable += 1,
            }
        }
        scanned
    }
}

impl Scanner for Raw<'_> {
    fn scan(&mut self, unit: Unit, found: &mut dyn FnMut(u64, &Memory)) -> Scanned {
        let bytes = unit.count * PAGE;
        let Some(buffer) = self.buffer.get_mut(..bytes as usize) else { return Scanned::default() };
        let Ok(read) = self.file.read_at(buffer, unit.start) else {
            return self.scan_slowly(unit, found);
        };
        let (pages, _) = buffer.as_chunks::<PAGE_SIZE>();
        let pages = pages.get(..read / PAGE_SIZE).unwrap_or_default();
        for (page, i) in pages.iter().zip(0..) {
            if is_page(page) {
                found(unit.start + i * PAGE, page);
            }
        }
        // The file was there a moment ago: it is being cut while it is read.
        let cut = unit.count - pages.len() as u64;
        Scanned { bytes, shortfall: Shortfall { cut, ..Shortfall::default() } }
    }

    fn page(&mut self, place: u64) -> Option<&Memory> {
        let (page, _) = self.buffer.split_first_chunk_mut()?;
        let n = self.file.read_at(page, place).ok()?;
        (n == PAGE_SIZE).then_some(page)
    }
}

/// Whether these may be a page of a recording.
fn is_page(page: &Memory) -> bool {
    page.first_chunk().is_some_and(|magic| u64::from_le_bytes(*magic) == MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, pages: u64) -> Extent {
        Extent { offset, pages }
    }

    #[test]
    fn no_page_twice_and_none_lost() {
        let all = vec![
            extent(8192, 2),
            extent(0x7c8, 4),
            extent(0, 1),
            extent(4096, 3),
            extent(0x7c8 + 8192, 9),
        ];
        assert_eq!(merged(all), [extent(0, 4), extent(0x7c8, 11)]);
        let two = vec![extent(1 << 20, 1), extent(0, 1)];
        assert_eq!(merged(two), [extent(0, 1), extent(1 << 20, 1)]);
    }

    #[test]
    fn no_byte_is_read_twice() {
        let all = (0..4096).map(|at| extent(at, 100)).collect();
        let (list, left_out) = apart(merged(all));
        // The last page of each begins before the first one's end.
        assert_eq!((list, left_out), (vec![extent(0, 100)], 4095 * 100));
        let all = merged(vec![extent(0, 2), extent(100, 4), extent(1 << 20, 1)]);
        let (list, left_out) = apart(all);
        assert_eq!(list, [extent(0, 2), extent(100 + 2 * PAGE, 2), extent(1 << 20, 1)]);
        assert_eq!(left_out, 2);
    }
}
