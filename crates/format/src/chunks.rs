//! A document in pages: cut into chunks of [`CHUNK_BYTES`], one after each page's header, with the
//! bookkeeping in the header's counters ([`meta_field`]). Lanes `meta` and `descriptors` are
//! written so.
//!
//! A map of such pages is double-buffered: a new generation of the document goes into the half that
//! the present one does not use, so that a reader, or a crash, at any moment finds a whole one.

use std::collections::BTreeMap;

use crate::abi::counts::Counts;
use crate::abi::page::{
    COPY_MAGIC, HEADER_LEN, Lane, PAGE_SIZE, PageHeader, REFUSALS, UNIT, VERSION, meta_field,
};
use crate::decode::page::read_header;
use crate::encode::write_header;

/// Bytes of the document in one page.
pub const CHUNK_BYTES: usize = PAGE_SIZE - HEADER_LEN;
/// Most chunks that a reader accepts: 16 MB of document.
const CHUNKS_MAX: u64 = 4096;

/// The document has more bytes than the pages hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// What it has.
    pub bytes: usize,
    /// What fits.
    pub limit: usize,
}

/// Where chunk 0 of a generation goes in a map whose halves have `half` pages; the others follow
/// it.
pub const fn first_page(generation: u64, half: usize) -> usize {
    if generation.is_multiple_of(2) { 0 } else { half }
}

/// The pages of a generation (counted from 1), chunk by chunk; `half`: how many there may be. They
/// are copies of what then stands in a map ([`COPY_MAGIC`]).
pub fn pack(
    lane: Lane,
    session: u64,
    generation: u64,
    half: usize,
    document: &[u8],
) -> Result<Vec<[u8; PAGE_SIZE]>, TooLarge> {
    let chunks = document.len().div_ceil(CHUNK_BYTES);
    if chunks > half {
        return Err(TooLarge { bytes: document.len(), limit: half * CHUNK_BYTES });
    }
    let crc = crc32fast::hash(document);
    let page = |(i, content): (usize, &[u8])| {
        let mut fields = [0; 6];
        fields[meta_field::GENERATION] = generation;
        fields[meta_field::CHUNK] = i as u64;
        fields[meta_field::CHUNKS] = chunks as u64;
        fields[meta_field::LENGTH] = document.len() as u64;
        fields[meta_field::CRC] = u64::from(crc);
        let header = PageHeader {
            magic: COPY_MAGIC,
            session,
            version: VERSION,
            lane: lane as u8,
            flags: 0,
            cpu: 0,
            header_len: HEADER_LEN as u16,
            seq: generation.wrapping_mul(half as u64).wrapping_add(i as u64 + 1),
            base_mono: 0,
            base_tai: 0,
            used: (HEADER_LEN + content.len()).div_ceil(UNIT) as u32,
            detached: 0,
            events: Counts::first(fields),
            refused: [0; REFUSALS],
        };
        let mut out = [0; PAGE_SIZE];
        let (head, body) = out.split_at_mut(HEADER_LEN);
        head.copy_from_slice(&write_header(&header));
        for (to, from) in body.iter_mut().zip(content) {
            *to = *from;
        }
        out
    };
    Ok(document.chunks(CHUNK_BYTES).enumerate().map(page).collect())
}

/// What all pages of one generation agree on: session, generation, chunks, length, CRC.
type Identity = (u64, u64, u64, u64, u64);

/// Collects pages of one lane, in any order, into documents.
#[derive(Debug)]
pub struct Chunks {
    lane: Lane,
    found: BTreeMap<Identity, BTreeMap<u64, Vec<u8>>>,
    pages: usize,
}

/// A document that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Session that it belongs to.
    pub session: u64,
    /// Its generation.
    pub generation: u64,
    /// It.
    pub bytes: Vec<u8>,
}

impl Chunks {
    /// No pages yet.
    pub fn new(lane: Lane) -> Self {
        Self { lane, found: BTreeMap::new(), pages: 0 }
    }

    /// Takes a page; what is none of the lane is passed over.
    pub fn add(&mut self, page: &[u8]) {
        let Ok(header) = read_header(page) else { return };
        if header.lane != self.lane as u8 {
            return;
        }
        let [generation, chunk, chunks, length, crc, ..] = header.events.all();
        let start = usize::from(header.header_len);
        let Some(content) = page.get(start..header.used_bytes()) else { return };
        if chunk >= chunks || chunks > CHUNKS_MAX {
            return;
        }
        self.pages += 1;
        let identity = (header.session, generation, chunks, length, crc);
        self.found.entry(identity).or_default().entry(chunk).or_insert_with(|| content.to_vec());
    }

    /// Pages taken.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The documents that are whole: the greatest session first, and in it the greatest generation.
    pub fn documents(self) -> impl Iterator<Item = Document> {
        self.found.into_iter().rev().filter_map(
            |((session, generation, chunks, length, crc), parts)| {
                if parts.len() as u64 != chunks {
                    return None;
                }
                let mut bytes = parts.into_values().collect::<Vec<_>>().concat();
                if (bytes.len() as u64) < length {
                    return None;
                }
                bytes.truncate(length as usize);
                (u64::from(crc32fast::hash(&bytes)) == crc).then_some(Document {
                    session,
                    generation,
                    bytes,
                })
            },
        )
    }
}
