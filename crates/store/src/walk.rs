//! Finding the blocks of a file that has no index: from header to header, and after damage by
//! their tag.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::block::{self, BLOCKS_MAX, BlockHeader, BlockRef, FoundBlock, HEAD};
use crate::damage::{Damage, What};
use crate::fields::{FRAME_HEAD, frame_len};
use crate::index;
use crate::summary::{self, SUMMARY_MAX};

/// Bytes that are looked through at once.
const WINDOW: usize = 1 << 20;
/// Most damages that are told one by one; the last stands for all after it.
const DAMAGES_MAX: usize = 65_536;

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Whole blocks, in order.
    pub(crate) blocks: Vec<BlockRef>,
    /// What stands between them.
    pub(crate) damage: Vec<Damage>,
    /// Where the index begins, if one stands where the blocks end.
    pub(crate) index: Option<u64>,
}

/// A file being walked.
pub(crate) struct Walker<'a> {
    file: &'a File,
    size: u64,
    /// Session of the file, once it is known: blocks of others are none of this file.
    session: Option<u64>,
    walk: Walk,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(file: &'a File, size: u64, session: Option<u64>) -> Self {
        Self { file, size, session, walk: Walk::default() }
    }

    /// Walks from `at` to the end.
    pub(crate) fn run(mut self, mut at: u64) -> io::Result<Walk> {
        while at < self.size {
            if self.walk.blocks.len() >= BLOCKS_MAX {
                self.damaged(at, self.size, What::TooMany, None);
                break;
            }
            at = match self.found(at)? {
                Some(FoundBlock::Block(header)) => {
                    let block = BlockRef { offset: at, header };
                    self.session.get_or_insert(header.session);
                    self.block(block)?
                }
                // Of a later release: stepped over, if something known follows.
                Some(FoundBlock::Unknown(length)) if self.follows(at, length)? => {
                    at + HEAD as u64 + u64::from(length)
                }
                None if self.ends(at)? => {
                    self.walk.index = Some(at);
                    break;
                }
                _ => self.search(at, at + 1)?,
            };
        }
        Ok(self.walk)
    }

    /// Takes a block, if it is whole; returns where to go on.
    fn block(&mut self, block: BlockRef) -> io::Result<u64> {
        let end = block.end();
        if end == self.size || end < self.size && self.is_known(end)? {
            self.walk.blocks.push(block);
            return Ok(end);
        }
        let data_end = block.summary();
        if data_end <= self.size && self.is_intact(&block)? {
            if end <= self.size && self.has_summary(&block)? {
                self.walk.blocks.push(block);
                return Ok(end);
            }
            // Its data are whole; bytes of its summary are not, or are missing.
            let header = BlockHeader { summary_len: 0, ..block.header };
            self.walk.blocks.push(BlockRef { header, ..block });
            let next = self.next(data_end)?;
            let what = match () {
                () if next == self.size && end > self.size => What::Cut,
                () if next <= end => What::Summary,
                () => What::Bytes,
            };
            self.damaged(data_end, next, what, None);
            return Ok(next);
        }
        // Bytes are missing in it, or after it: what comes next may stand anywhere after its
        // header.
        let next = self.next(block.data())?;
        let what = if next == self.size && end > self.size { What::Cut } else { What::Bytes };
        self.damaged(block.offset, next, what, Some(block));
        Ok(next)
    }

    /// Goes on at the next block after bytes that are none.
    fn search(&mut self, damaged: u64, from: u64) -> io::Result<u64> {
        let next = self.next(from)?;
        // A header's beginning at the very end is a cut like one within the data.
        let what =
            if next == self.size && next - damaged < HEAD as u64 { What::Cut } else { What::Bytes };
        self.damaged(damaged, next, what, None);
        Ok(next)
    }

    fn damaged(&mut self, offset: u64, end: u64, what: What, block: Option<BlockRef>) {
        let (bytes, block) =
            (end.saturating_sub(offset), block.map(|block| Box::new(block.header)));
        let full = self.walk.damage.len() >= DAMAGES_MAX;
        match self.walk.damage.last_mut().filter(|_| full) {
            Some(last) => {
                (last.bytes, last.what, last.block) =
                    (end.saturating_sub(last.offset), What::Bytes, None);
            }
            None => self.walk.damage.push(Damage { offset, bytes, what, block }),
        }
    }

    /// The block header at an offset: of this session, and after the blocks before.
    fn found(&self, at: u64) -> io::Result<Option<FoundBlock>> {
        let Some(head) = self.read::<HEAD>(at)? else { return Ok(None) };
        Ok(BlockHeader::parse(&head).filter(|found| match found {
            FoundBlock::Block(header) => {
                let last = self.walk.blocks.last().map(|block| block.header.number);
                self.session.is_none_or(|session| session == header.session)
                    && last < Some(header.number)
            }
            FoundBlock::Unknown(_) => true,
        }))
    }

    /// Whether a block, or the end of the file, stands after data that begin at the block `at`.
    fn follows(&self, at: u64, length: u32) -> io::Result<bool> {
        let end = at + HEAD as u64 + u64::from(length);
        Ok(end == self.size || end < self.size && self.is_known(end)?)
    }

    /// Whether a block header or the index stands there.
    fn is_known(&self, at: u64) -> io::Result<bool> {
        Ok(self.found(at)?.is_some() || self.ends(at)?)
    }

    /// Whether the index stands there.
    fn ends(&self, at: u64) -> io::Result<bool> {
        const LEN: usize = FRAME_HEAD + index::TAG.len();
        let Some(head) = self.read::<LEN>(at)? else { return Ok(false) };
        Ok(frame_len(&head).is_some() && head.ends_with(&index::TAG))
    }

    /// Whether a block's data are what was written.
    fn is_intact(&self, block: &BlockRef) -> io::Result<bool> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; WINDOW.min(block.header.data_len as usize)];
        let mut at = block.data();
        while at < block.summary() {
            let length = buffer.len().min((block.summary() - at) as usize);
            let window = buffer.get_mut(..length).unwrap_or_default();
            self.file.read_exact_at(window, at)?;
            hasher.update(window);
            at += length as u64;
        }
        Ok(hasher.finalize() == block.header.data_crc)
    }

    /// Whether the summary that a block should have is there; a block may have none.
    fn has_summary(&self, block: &BlockRef) -> io::Result<bool> {
        let length = block.header.summary_len as usize;
        if length == 0 || length > SUMMARY_MAX {
            return Ok(length == 0);
        }
        let mut frame = vec![0; length];
        self.file.read_exact_at(&mut frame, block.summary())?;
        Ok(summary::parse(&frame, block.header.data_crc).is_some())
    }

    /// Where the next block header, or the index, begins at or after `from`; the end of the file
    /// where none does.
    fn next(&self, from: u64) -> io::Result<u64> {
        let mut buffer = vec![0; WINDOW.min(self.size.saturating_sub(from) as usize)];
        let mut at = from;
        while at < self.size {
            let length = WINDOW.min((self.size - at) as usize);
            let window = buffer.get_mut(..length).unwrap_or_default();
            self.file.read_exact_at(window, at)?;
            for (i, bytes) in window.windows(block::TAG.len()).enumerate() {
                if bytes != block::TAG && bytes != index::TAG {
                    continue;
                }
                let Some(found) =
                    (at + i as u64).checked_sub(FRAME_HEAD as u64).filter(|found| *found >= from)
                else {
                    continue;
                };
                if self.is_known(found)? {
                    return Ok(found);
                }
            }
            if length < WINDOW {
                break;
            }
            // A tag may stand across the windows.
            at += (length - block::TAG.len() + 1) as u64;
        }
        Ok(self.size)
    }

    /// Bytes at an offset; `None` after the end.
    fn read<const N: usize>(&self, at: u64) -> io::Result<Option<[u8; N]>> {
        if at.saturating_add(N as u64) > self.size {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(Some(bytes))
    }
}
