//! Descriptors, and the pages that they describe.

use super::codec::Codecs;
use crate::bytes::{le32, le64};
use crate::file::ReadAt;
use crate::layout::{Memory, Scanned, Scanner, Shortfall, UNIT_BYTES, Unit};

/// Bytes of a descriptor: place, size and flags of the page's data, flags of the page.
pub(super) const DESCRIPTOR: usize = 24;
/// Pages' data that stand at most so far apart are read at once.
const APART_MAX: u64 = 1 << 14;

/// Where a page's data are.
#[derive(Debug, Clone, Copy)]
struct Data {
    at: u64,
    size: u32,
    flags: u32,
    /// Its descriptor's number.
    page: u64,
}

impl Data {
    fn end(&self) -> u64 {
        self.at.saturating_add(u64::from(self.size))
    }
}

/// Reads pages; of one thread.
pub(super) struct Pages<'a> {
    file: &'a dyn ReadAt,
    /// Bytes of a page of the machine's memory.
    page: usize,
    descriptors_at: u64,
    descriptors: Vec<u8>,
    data: Vec<Data>,
    buffer: Vec<u8>,
    codecs: Codecs,
}

impl<'a> Pages<'a> {
    pub(super) fn new(file: &'a dyn ReadAt, page: usize, descriptors_at: u64) -> Self {
        let step = UNIT_BYTES / page;
        Self {
            file,
            page,
            descriptors_at,
            descriptors: vec![0; step * DESCRIPTOR],
            data: Vec::with_capacity(step),
            buffer: vec![0; 2 * UNIT_BYTES],
            codecs: Codecs::new(page),
        }
    }

    /// Reads a unit's descriptors into `self.data`, each place of data once, in the order of their
    /// places.
    fn describe(&mut self, unit: Unit, shortfall: &mut Shortfall) {
        self.data.clear();
        let bytes = unit.count as usize * DESCRIPTOR;
        let Some(buffer) = self.descriptors.get_mut(..bytes) else { return };
        let at = self.descriptors_at + unit.start * DESCRIPTOR as u64;
        let read = self.file.read_at(buffer, at).unwrap_or(0);
        let (descriptors, _) = buffer.get(..read).unwrap_or_default().as_chunks::<DESCRIPTOR>();
        shortfall.unreadable += unit.count - descriptors.len() as u64;
        let size = self.file.size();
        for (bytes, page) in descriptors.iter().zip(unit.start..) {
            match parse(bytes, page, self.page) {
                Some(data) if data.at >= size || data.end() > size => shortfall.cut += 1,
                Some(data) => self.data.push(data),
                None => shortfall.unreadable += 1,
            }
        }
        self.data.sort_unstable_by_key(|data| (data.at, data.page));
        // All pages of zeros share their data. A page of a recording is like no other.
        self.data.dedup_by_key(|data| data.at);
    }
}

/// The descriptor's fields; `None` where they can't be: of a page that the writer had no space for,
/// or damaged. `most`: the bytes of a page, which one that does not shrink is kept as; but codecs
/// may make it longer.
fn parse(bytes: &[u8; DESCRIPTOR], page: u64, most: usize) -> Option<Data> {
    let (at, size, flags) = (le64(bytes, 0)?, le32(bytes, 8)?, le32(bytes, 12)?);
    (at != 0 && size != 0 && size as usize <= 2 * most).then_some(Data { at, size, flags, page })
}

impl Scanner for Pages<'_> {
    fn scan(&mut self, unit: Unit, found: &mut dyn FnMut(u64, &Memory)) -> Scanned {
        let mut scanned = Scanned { bytes: unit.count * self.page as u64, ..Scanned::default() };
        self.describe(unit, &mut scanned.shortfall);
        let mut rest = self.data.as_slice();
        while let Some(first) = rest.first() {
            let start = first.at;
            // As many as stand close enough together, and fit.
            let mut end = start;
            let mut count = 0;
            for data in rest {
                if data.end().max(end) - start > self.buffer.len() as u64
                    || data.at > end.saturating_add(APART_MAX)
                {
                    break;
                }
                end = end.max(data.end());
                count += 1;
            }
            let (run, after) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = after;
            let buffer = self.buffer.get_mut(..(end - start) as usize).unwrap_or_default();
            let read = self.file.read_at(buffer, start).unwrap_or(0);
            let buffer = buffer.get(..read).unwrap_or_default();
            for data in run {
                let from = (data.at - start) as usize;
                let Some(bytes) = buffer.get(from..from + data.size as usize) else {
                    scanned.shortfall.unreadable += 1;
                    continue;
                };
                match self.codecs.recorded(data.flags, bytes) {
                    Ok(pages) => {
                        let place = self.descriptors_at + data.page * DESCRIPTOR as u64;
                        for (number, page) in pages {
                            found(place + number, page);
                        }
                    }
                    Err(_) => scanned.shortfall.unreadable += 1,
                }
            }
        }
        scanned
    }

    fn page(&mut self, place: u64) -> Option<&Memory> {
        // A machine's page has fewer of a recording's than a descriptor has bytes.
        let number = place.checked_sub(self.descriptors_at)? % DESCRIPTOR as u64;
        let descriptor = crate::file::exact(self.file, place - number).ok()??;
        let data = parse(&descriptor, 0, self.page)?;
        let buffer = self.buffer.get_mut(..data.size as usize)?;
        let n = self.file.read_at(buffer, data.at).ok()?;
        let whole = self.codecs.whole(data.flags, buffer.get(..n)?).ok()?;
        whole.as_chunks().0.get(number as usize)
    }
}
