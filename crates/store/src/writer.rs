//! One file, written from front to back.

use std::io::{self, Write};

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::decode::Page;
use flightrec_format::meta::Meta;

use crate::block::{BLOCKS_MAX, BlockRef, HEAD};
use crate::checkpoint::Checkpoint;
use crate::coder::{Block, Coder};
use crate::header::FileHeader;
use crate::index;
use crate::snapshot::About;

/// Writes a file. Every block goes out by one `write_all`; after one has failed all others do, for
/// what stands in the file is then unknown.
#[derive(Debug)]
pub struct FileWriter<W> {
    out: W,
    coder: Coder,
    session: u64,
    written: u64,
    blocks: Vec<BlockRef>,
    failed: bool,
}

impl<W: Write> FileWriter<W> {
    /// Begins a file by its header. `level`: of zstd.
    pub fn new(mut out: W, header: &FileHeader, level: i32) -> io::Result<Self> {
        let coder = Coder::new(level)?;
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        out.write_all(&bytes)?;
        let (session, written) = (header.session, bytes.len() as u64);
        Ok(Self { out, coder, session, written, blocks: Vec::new(), failed: false })
    }

    /// Makes blocks for [`Self::push`].
    pub fn coder(&mut self) -> &mut Coder {
        &mut self.coder
    }

    /// Bytes written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Blocks written.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// What it writes to.
    pub fn out(&self) -> &W {
        &self.out
    }

    /// Appends a block.
    pub fn push(&mut self, mut block: Block) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write to this file failed"));
        }
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(io::Error::other("the file has as many blocks as it may have"));
        }
        block.header.session = self.session;
        block.header.number = self.blocks.len() as u32;
        let mut head = Vec::with_capacity(HEAD);
        block.header.put(&mut head);
        if let Some(to) = block.bytes.first_chunk_mut::<HEAD>() {
            to.copy_from_slice(&head);
        }
        self.failed = true;
        self.out.write_all(&block.bytes)?;
        self.failed = false;
        self.blocks.push(BlockRef { offset: self.written, header: block.header });
        self.written += block.size();
        Ok(())
    }

    /// Appends the metadata, as they are at `now` (ns of `CLOCK_MONOTONIC`).
    pub fn meta(&mut self, meta: &Meta, now: u64) -> io::Result<()> {
        let block = self.coder.meta(meta, now)?;
        self.push(block)
    }

    /// Appends pages, and parts of pages, of one lane: at most [`crate::block::PAGES_MAX`].
    pub fn pages(&mut self, pages: &[Page]) -> io::Result<()> {
        let block = self.coder.pages(pages)?;
        self.push(block)
    }

    /// Appends the threads that live at `time`, from pages of their table.
    pub fn slots(&mut self, time: u64, pages: &[[u8; PAGE_SIZE]]) -> io::Result<()> {
        let blocks = self.coder.slots(time, pages)?;
        blocks.into_iter().try_for_each(|block| self.push(block))
    }

    /// Appends the descriptors that are open at `time`.
    pub fn descriptors(&mut self, time: u64, bytes: &[u8]) -> io::Result<()> {
        let block = self.coder.descriptors(time, bytes)?;
        self.push(block)
    }

    /// Appends a checkpoint.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        let block = self.coder.checkpoint(checkpoint)?;
        self.push(block)
    }

    /// Appends why the file is there.
    pub fn snapshot(&mut self, about: &About) -> io::Result<()> {
        let block = self.coder.snapshot(about)?;
        self.push(block)
    }

    /// Bytes of the index and the trailer that [`Self::finish`] writes.
    pub fn ending(&self) -> u64 {
        (self.blocks.len() * index::ENTRY + 256) as u64
    }

    /// Closes the file by its index.
    pub fn finish(mut self) -> io::Result<W> {
        if self.failed {
            return Err(io::Error::other("an earlier write to this file failed"));
        }
        let mut bytes = Vec::new();
        index::put(&self.blocks, self.session, self.written, &mut bytes);
        self.out.write_all(&bytes)?;
        Ok(self.out)
    }
}
