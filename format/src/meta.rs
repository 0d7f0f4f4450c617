//! The recording's metadata: what a reader needs to make sense of the pages on any machine.
//!
//! It is one JSON document, unknown fields ignored, cut into chunks that stand in pages of lane
//! `meta`: [`CHUNK_BYTES`] behind each header, bookkeeping in the header's counters
//! ([`crate::abi::page::meta_field`]).
//!
//! The map of these pages is double-buffered: a new generation of the document goes into the half
//! that the present one does not use, so that a reader, or a crash, at any moment finds a whole one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::abi::page::{HEADER_LEN, Lane, MAGIC, PAGE_SIZE, PageHeader, REFUSALS, VERSION, meta_field};
use crate::decode::page::read_header;
use crate::encode::write_header;

/// Bytes of the document in one page.
pub const CHUNK_BYTES: usize = PAGE_SIZE - HEADER_LEN;
/// Pages of the metadata map.
pub const PAGES: usize = 128;
/// Pages that one generation of the document may take.
pub const HALF_PAGES: usize = PAGES / 2;
/// Most chunks that a reader accepts: 16 MB of document.
const CHUNKS_MAX: u64 = 4096;

/// Metadata that can't be written or read.
#[derive(Debug, Error)]
pub enum MetaError {
    /// The document does not fit in its half of the map.
    #[error("the metadata takes {bytes} bytes, {limit} fit: shorten the configuration")]
    TooLarge {
        /// What it takes.
        bytes: usize,
        /// What fits.
        limit: usize,
    },
    /// No generation of the document is there completely and undamaged.
    #[error("no complete metadata of a recording ({pages} of its pages found): use a source that holds them all")]
    Incomplete {
        /// Metadata pages that were found.
        pages: usize,
    },
    /// The document is whole, but not what it should be.
    #[error("the recording's metadata can't be read: {0}")]
    Document(#[from] serde_json::Error),
}

/// Metadata of one recording session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Recording session, as in the page headers.
    pub session: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Host name.
    pub host: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine (`uname -m`).
    pub machine: String,
    /// Version of the recorder that made the session.
    pub recorder: String,
    /// Identity of the probes and of what is frozen into them; a daemon adopts only its own.
    pub program: String,
    /// Form of the system call programs: `tp_btf` or `tracepoint`.
    pub syscall_programs: String,
    /// When the session began, ns of `CLOCK_MONOTONIC`.
    pub started: u64,
    /// `CLOCK_TAI` minus `CLOCK_REALTIME`: its values over the session, in order. A time service
    /// sets it some time after boot.
    pub tai_offsets: Vec<TaiOffset>,
    /// CPUs with rings.
    pub cpus: Vec<u16>,
    /// Bytes of one CPU's ring, by lane.
    pub ring_bytes: [u64; 3],
    /// Whether strings of system calls are recorded.
    pub strings: bool,
    /// Lanes whose events the configuration leaves out, by lane. (Of the task lane, marks and the
    /// recorder's own acts are recorded all the same.)
    pub off: [bool; 3],
    /// The configuration in force, as TOML.
    pub config: String,
    /// Paths of the v2 control groups in their hierarchy, by id; those that are gone stay while there is room.
    pub cgroups: BTreeMap<u64, String>,
    /// Whether there were more control groups than fit.
    pub cgroups_cut: bool,
    /// System calls of the machine's own table.
    pub native: Vec<Syscall>,
    /// System calls of the 32-bit table.
    pub compat: Vec<Syscall>,
}

/// What `CLOCK_TAI` is ahead of `CLOCK_REALTIME`, from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaiOffset {
    /// From when on, ns of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// Seconds.
    pub seconds: i64,
}

/// Most changes of the offset that are kept; a clock that is set more often than that is broken.
const TAI_OFFSETS_MAX: usize = 64;

impl Meta {
    /// `CLOCK_TAI` minus `CLOCK_REALTIME` at a moment, seconds.
    pub fn tai_offset(&self, mono: u64) -> i64 {
        let later = self.tai_offsets.partition_point(|offset| offset.since <= mono);
        self.tai_offsets.get(later.saturating_sub(1)).map_or(0, |offset| offset.seconds)
    }

    /// Enters the present offset, if it has changed.
    pub fn set_tai_offset(&mut self, now: u64, seconds: i64) {
        if self.tai_offset(now) != seconds && self.tai_offsets.len() < TAI_OFFSETS_MAX {
            self.tai_offsets.push(TaiOffset { since: now, seconds });
        }
    }
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syscall {
    /// Its number in its table.
    pub nr: u16,
    /// Its name, as in the manual.
    pub name: String,
    /// Its arguments; `None` where the kernel does not publish them (six are then recorded).
    pub args: Option<Vec<Argument>>,
}

/// One argument, as the kernel's tracepoint format publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Its name in the kernel.
    pub name: String,
    /// Its C type, without `__user`.
    pub ctype: String,
}

/// The document's text.
pub fn to_json(meta: &Meta) -> Result<String, MetaError> {
    Ok(serde_json::to_string(meta)?)
}

/// The document from its text.
pub fn from_json(text: &str) -> Result<Meta, MetaError> {
    Ok(serde_json::from_str(text)?)
}

/// Where chunk 0 of a generation goes in a map whose halves have `half` pages; the others follow it.
pub const fn first_page(generation: u64, half: usize) -> usize {
    if generation.is_multiple_of(2) { 0 } else { half }
}

/// The pages of a generation (counted from 1), chunk by chunk; `half`: how many there may be,
/// [`HALF_PAGES`] in a map of [`PAGES`].
pub fn pack(meta: &Meta, generation: u64, half: usize) -> Result<Vec<[u8; PAGE_SIZE]>, MetaError> {
    let text = to_json(meta)?;
    let chunks = text.len().div_ceil(CHUNK_BYTES);
    if chunks > half {
        return Err(MetaError::TooLarge { bytes: text.len(), limit: half * CHUNK_BYTES });
    }
    let crc = crc32fast::hash(text.as_bytes());
    let page = |(i, content): (usize, &[u8])| {
        let mut fields = [0; 6];
        fields[meta_field::GENERATION] = generation;
        fields[meta_field::CHUNK] = i as u64;
        fields[meta_field::CHUNKS] = chunks as u64;
        fields[meta_field::LENGTH] = text.len() as u64;
        fields[meta_field::CRC] = u64::from(crc);
        let header = PageHeader {
            magic: MAGIC,
            session: meta.session,
            version: VERSION,
            lane: Lane::Meta as u8,
            flags: 0,
            cpu: 0,
            header_len: HEADER_LEN as u16,
            seq: generation.wrapping_mul(half as u64).wrapping_add(i as u64 + 1),
            base_mono: 0,
            base_tai: 0,
            used: ((HEADER_LEN + content.len()).div_ceil(8)) as u32,
            reserved: 0,
            events: fields,
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
    Ok(text.as_bytes().chunks(CHUNK_BYTES).enumerate().map(page).collect())
}

/// One generation as far as its pages were found.
#[derive(Default)]
struct Found {
    chunks: BTreeMap<u64, Vec<u8>>,
}

/// What all pages of one generation agree on: session, generation, chunks, length, CRC.
type Identity = (u64, u64, u64, u64, u64);

/// Reads the document from any set of pages, in any order; what is no metadata is passed over.
/// The greatest complete generation counts; of several sessions, the one that started last.
pub fn unpack<P: AsRef<[u8]>>(pages: impl IntoIterator<Item = P>) -> Result<Meta, MetaError> {
    unpack_generation(pages).map(|(_, meta)| meta)
}

/// As [`unpack`], with the document's generation. A writer's next one is this plus 1: it then
/// leaves the half alone that holds the only document known to be whole.
pub fn unpack_generation<P: AsRef<[u8]>>(pages: impl IntoIterator<Item = P>) -> Result<(u64, Meta), MetaError> {
    let mut found: BTreeMap<Identity, Found> = BTreeMap::new();
    let mut count = 0;
    for page in pages {
        let bytes = page.as_ref();
        let Ok(header) = read_header(bytes) else { continue };
        if header.lane != Lane::Meta as u8 {
            continue;
        }
        let [generation, chunk, chunks, length, crc, _] = header.events;
        let start = usize::from(header.header_len);
        let Some(content) = bytes.get(start..header.used as usize * 8) else { continue };
        if chunk >= chunks || chunks > CHUNKS_MAX {
            continue;
        }
        count += 1;
        let identity = (header.session, generation, chunks, length, crc);
        found.entry(identity).or_default().chunks.entry(chunk).or_insert_with(|| content.to_vec());
    }
    let mut best: Option<(u64, Meta)> = None;
    let mut failure = None;
    let mut done = None;
    // Greatest session first, and in it the greatest generation: the first whole one of each session is its own.
    for ((session, generation, chunks, length, crc), parts) in found.into_iter().rev() {
        if done == Some(session) {
            continue;
        }
        match parts.document(chunks, length, crc) {
            Some(Ok(meta)) => {
                done = Some(session);
                if best.as_ref().is_none_or(|(_, b)| meta.started > b.started) {
                    best = Some((generation, meta));
                }
            }
            Some(Err(error)) => failure = Some(error),
            None => {}
        }
    }
    best.ok_or_else(|| failure.unwrap_or(MetaError::Incomplete { pages: count }))
}

impl Found {
    /// The document, if all chunks are here and are right.
    fn document(self, chunks: u64, length: u64, crc: u64) -> Option<Result<Meta, MetaError>> {
        if self.chunks.len() as u64 != chunks {
            return None;
        }
        let mut text = self.chunks.into_values().collect::<Vec<_>>().concat();
        if (text.len() as u64) < length {
            return None;
        }
        text.truncate(length as usize);
        (u64::from(crc32fast::hash(&text)) == crc).then(|| Ok(serde_json::from_slice(&text)?))
    }
}
