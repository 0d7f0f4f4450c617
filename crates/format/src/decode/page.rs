//! A page and its header, checked once.

use thiserror::Error;

use super::decoder::{Decoder, Summary};
use crate::abi::counts::Counts;
use crate::abi::page::{
    COPY_MAGIC, HEADER_KINDS, HEADER_LEN, Lane, MAGIC, PAGE_SIZE, PageHeader, UNIT, VERSION,
};

/// Why bytes are not a page that this release reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PageError {
    /// Fewer bytes than a header (or, for a whole page, not exactly a page).
    #[error("{0} bytes are not a page of {PAGE_SIZE}")]
    Size(usize),
    /// Something else than a page of a recording.
    #[error("no flightrec page: the magic is missing")]
    Magic,
    /// Written by another release.
    #[error(
        "page format version {0} is not {VERSION}: use a flightctl of the release that recorded it"
    )]
    Version(u16),
    /// The header's own length is impossible.
    #[error("damaged page: a header of {0} bytes")]
    HeaderLen(u16),
    /// More in use than a page has.
    #[error("damaged page: {0} units of {UNIT} bytes in use")]
    Used(u32),
    /// A lane that this release does not know.
    #[error("unknown lane {0}: use a flightctl of the release that recorded it")]
    Lane(u8),
    /// The session id or the sequence number is 0, which no writer gives.
    #[error("damaged page: no session id or no sequence number")]
    Unnumbered,
}

/// Reads and checks the header at the start of `bytes`, which may be longer.
///
/// A page with nothing in it yet (`used` = 0, the state between opening and the first record) is
/// fine; a never-opened one has no magic.
pub fn read_header(bytes: &[u8]) -> Result<PageHeader, PageError> {
    let head: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(PageError::Size(bytes.len()))?;
    let mut header = parse(head);
    if header.magic != MAGIC && header.magic != COPY_MAGIC {
        return Err(PageError::Magic);
    }
    if header.version != VERSION {
        return Err(PageError::Version(header.version));
    }
    let length = usize::from(header.header_len);
    if !(HEADER_LEN..=PAGE_SIZE).contains(&length) || !length.is_multiple_of(UNIT) {
        return Err(PageError::HeaderLen(header.header_len));
    }
    if header.used as usize > PAGE_SIZE / UNIT {
        return Err(PageError::Used(header.used));
    }
    if Lane::from_u8(header.lane).is_none() {
        return Err(PageError::Lane(header.lane));
    }
    if header.session == 0 || header.seq == 0 {
        return Err(PageError::Unnumbered);
    }
    read_counters(&mut header, bytes);
    Ok(header)
}

/// Takes the counters that stand after the header's first bytes; 0 for those that are not there.
pub fn read_counters(header: &mut PageHeader, bytes: &[u8]) {
    let further = bytes.get(HEADER_LEN..header.counters_end()).unwrap_or_default();
    let (words, _) = further.as_chunks::<8>();
    for (count, word) in header.events.iter_mut().skip(HEADER_KINDS).zip(words) {
        *count = u64::from_le_bytes(*word);
    }
}

/// The header's fields, whatever they hold, but for counters after [`HEADER_LEN`].
fn parse(head: &[u8; HEADER_LEN]) -> PageHeader {
    let (words, _) = head.as_chunks::<8>();
    let w = |i: usize| words.get(i).map_or(0, |b| u64::from_le_bytes(*b));
    PageHeader {
        magic: w(0),
        session: w(1),
        version: w(2) as u16,
        lane: (w(2) >> 16) as u8,
        flags: (w(2) >> 24) as u8,
        cpu: (w(2) >> 32) as u16,
        header_len: (w(2) >> 48) as u16,
        seq: w(3),
        base_mono: w(4),
        base_tai: w(5),
        used: w(6) as u32,
        detached: (w(6) >> 32) as u32,
        events: Counts::first([w(7), w(8), w(9), w(10), w(11), w(12)]),
        refused: [w(13), w(14), w(15)],
    }
}

/// One page with a valid header, and always a copy ([`COPY_MAGIC`]). What stands after the header
/// may still be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Apart, for pages move about much.
    header: Box<PageHeader>,
    lane: Lane,
    bytes: Box<[u8; PAGE_SIZE]>,
}

impl Page {
    /// Takes over a page, if its header is valid.
    pub fn new(mut bytes: Box<[u8; PAGE_SIZE]>) -> Result<Self, PageError> {
        let header = PageHeader { magic: COPY_MAGIC, ..read_header(bytes.as_slice())? };
        if let Some(magic) = bytes.first_chunk_mut() {
            *magic = COPY_MAGIC.to_le_bytes();
        }
        let lane = Lane::from_u8(header.lane).ok_or(PageError::Lane(header.lane))?;
        Ok(Self { header: Box::new(header), lane, bytes })
    }

    /// Copies a page out of exactly [`PAGE_SIZE`] bytes.
    pub fn copy_from(bytes: &[u8]) -> Result<Self, PageError> {
        // Not `Box::new` of an array: that goes by way of the stack.
        Self::new(Box::<[u8]>::from(bytes).try_into().map_err(|_| PageError::Size(bytes.len()))?)
    }

    /// Its header.
    pub fn header(&self) -> &PageHeader {
        &self.header
    }

    /// Its lane.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        &self.bytes
    }

    /// The bytes in use after the header.
    pub(super) fn records(&self) -> &[u8] {
        self.bytes
            .get(usize::from(self.header.header_len)..self.header.used_bytes())
            .unwrap_or_default()
    }

    /// Its events, in the order in which they happened.
    pub fn events(&self) -> Decoder<'_> {
        Decoder::new(self)
    }

    /// Kinds and times of its events whose kinds this release does not know: [`Self::events`]
    /// passes over them.
    pub fn unknown_events(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        Decoder::unknown(self)
    }

    /// What its events come to; runs over the whole page.
    pub fn summary(&self) -> Summary {
        Decoder::summary(self)
    }
}
