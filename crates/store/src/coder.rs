//! Making blocks: content to bytes, bytes to a zstd frame. What a block takes is known before it is
//! written.

use std::io;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Page, Summary};
use flightrec_format::encode::write_slot;
use flightrec_format::meta::{self, Meta};
use flightrec_format::{part, slots};
use zstd::bulk::Compressor;

use crate::block::{BlockHeader, HEAD, Kind, PAGES_MAX, RAW_MAX};
use crate::checkpoint::Checkpoint;
use crate::clocks::Clocks;
use crate::columns::{Encoder, Open};
use crate::summary::BlockSummary;
use crate::{columns, frame, snapshot, summary};

/// A block that is ready to be written.
#[derive(Debug)]
pub struct Block {
    /// Its header; session and number are the file's to give.
    pub(crate) header: BlockHeader,
    /// Room for the header, then the data, then the summary.
    pub(crate) bytes: Vec<u8>,
}

impl Block {
    /// Bytes that it takes in a file.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Events in it.
    pub fn events(&self) -> u64 {
        self.header.events
    }

    /// The same with another summary, or none.
    #[must_use]
    pub fn with_summary(mut self, summary: Option<&BlockSummary>) -> Self {
        self.bytes.truncate(HEAD + self.header.data_len as usize);
        let end = self.bytes.len();
        if let Some(summary) = summary {
            summary::put(summary, self.header.data_crc, &mut self.bytes);
        }
        self.header.summary_len = (self.bytes.len() - end) as u32;
        self
    }
}

/// Makes blocks, with one set of buffers.
pub struct Coder {
    compressor: Compressor<'static>,
    encoder: Encoder,
    open: Open,
    raw: Vec<u8>,
}

impl std::fmt::Debug for Coder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coder").finish_non_exhaustive()
    }
}

/// What a block's header says of its content.
#[derive(Debug, Clone, Copy)]
struct About {
    kind: Kind,
    lane: Option<Lane>,
    first: u64,
    last: u64,
    events: u64,
    pages: u16,
    clocks: Option<Clocks>,
}

impl About {
    /// What holds no pages, at a moment.
    fn at(kind: Kind, time: u64) -> Self {
        Self { kind, lane: None, first: time, last: time, events: 0, pages: 0, clocks: None }
    }
}

impl Coder {
    /// With a zstd level (1 is fast; negative ones are faster).
    pub fn new(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.include_checksum(true)?;
        compressor.include_contentsize(true)?;
        let (encoder, open) = (Encoder::new(), Open::default());
        Ok(Self { compressor, encoder, open, raw: Vec::new() })
    }

    /// The recording's metadata.
    pub fn meta(&mut self, meta: &Meta, now: u64) -> io::Result<Block> {
        let text = meta::to_json(meta).map_err(io::Error::other)?;
        self.raw.clear();
        self.raw.extend(text.as_bytes());
        self.encoder.know(Some(meta));
        self.block(About::at(Kind::Meta, now))
    }

    /// Pages and parts of pages of one lane, at most [`PAGES_MAX`]; best in the order of CPU and
    /// sequence number.
    pub fn pages(&mut self, pages: &[Page]) -> io::Result<Block> {
        self.summed(pages).map(|(block, _)| block)
    }

    /// As [`Self::pages`], with what each of them comes to.
    pub(crate) fn summed(&mut self, pages: &[Page]) -> io::Result<(Block, Vec<Summary>)> {
        let lane = pages.first().map(Page::lane);
        if pages.len() > PAGES_MAX || pages.iter().any(|page| Some(page.lane()) != lane) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a block holds at most 256 pages, of one lane",
            ));
        }
        let clocks = Clocks::of(pages);
        let count = pages.len() as u16;
        let mut about = About {
            kind: Kind::Pages,
            lane,
            first: u64::MAX,
            last: 0,
            events: 0,
            pages: count,
            clocks,
        };
        self.raw.clear();
        let summaries = self.encoder.encode(pages, &mut self.raw);
        for (page, summary) in pages.iter().zip(&summaries) {
            about.first = about.first.min(part::begins(page));
            about.last = about.last.max(summary.last);
            about.events = about.events.saturating_add(summary.counts.total());
        }
        about.first = about.first.min(about.last);
        let block = self.block(about)?;
        let data_len = block.header.data_len as usize;
        let sight = self.encoder.sight(&mut self.open);
        let summary = sight.map(|sight| summary::summary(&summaries, sight, data_len));
        Ok((block.with_summary(summary.as_ref()), summaries))
    }

    /// The threads that live at a moment, from pages of the table: as many blocks as they take.
    pub fn slots(&mut self, time: u64, pages: &[[u8; PAGE_SIZE]]) -> io::Result<Vec<Block>> {
        let mut threads: Vec<TaskSlot> = pages.iter().flat_map(|page| slots::read(page)).collect();
        threads.sort_unstable_by_key(|slot| (slot.tid, slot.start_time));
        let about = About::at(Kind::Slots, time);
        let mut blocks = Vec::new();
        for threads in threads.chunks(RAW_MAX / size_of::<TaskSlot>()) {
            self.raw.clear();
            self.raw.extend(threads.iter().flat_map(write_slot));
            blocks.push(self.block(about)?);
        }
        Ok(blocks)
    }

    /// The open file descriptors at a moment, as [`flightrec_format`] defines their bytes.
    pub fn descriptors(&mut self, time: u64, bytes: &[u8]) -> io::Result<Block> {
        self.raw.clear();
        self.raw.extend(bytes);
        self.block(About::at(Kind::Descriptors, time))
    }

    /// How far the recording is in the files.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) -> io::Result<Block> {
        self.raw = checkpoint.encode();
        let time = checkpoint.time;
        self.block(About::at(Kind::Checkpoint, time))
    }

    /// Why the file is there.
    pub fn snapshot(&mut self, about: &snapshot::About) -> io::Result<Block> {
        self.raw = serde_json::to_vec(about).map_err(io::Error::other)?;
        let time = about.time;
        self.block(About::at(Kind::Snapshot, time))
    }

    /// Compresses the content.
    fn block(&mut self, about: About) -> io::Result<Block> {
        if self.raw.len() > RAW_MAX {
            let what = format!(
                "{} bytes of {} are more than a block holds ({RAW_MAX})",
                self.raw.len(),
                about.kind.name()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let pieces = if about.kind == Kind::Pages {
            columns::pieces(&self.raw)
        } else {
            vec![self.raw.as_slice()]
        };
        let mut bytes = vec![0; HEAD + frame::bound(self.raw.len(), pieces.len())];
        let data = bytes.get_mut(HEAD..).unwrap_or_default();
        let length = frame::compress(self.compressor.context_mut(), &pieces, data)?;
        let data_crc = crc32fast::hash(data.get(..length).unwrap_or_default());
        bytes.truncate(HEAD + length);
        let About { kind, lane, first, last, events, pages, clocks } = about;
        let (raw_len, data_len) = (self.raw.len() as u32, length as u32);
        let (session, number) = (0, 0);
        let header = BlockHeader {
            kind,
            lane,
            session,
            number,
            first,
            last,
            events,
            raw_len,
            data_len,
            data_crc,
            pages,
            clocks,
            summary_len: 0,
        };
        Ok(Block { header, bytes })
    }
}
