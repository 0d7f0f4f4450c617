//! The flattened form: a dump cut into blocks that say where they belong, for pipes that can't
//! seek.
//!
//! Written by `makedumpfile -F` (struct makedumpfile_header and makedumpfile_data_header,
//! flattened.h): a header in the first 4096 bytes, then blocks of big-endian place and size and as
//! many bytes, until one with the place -1. It is read through an index of its blocks; no
//! rearranged copy is written.

use std::collections::BTreeMap;
use std::io;

use crate::bytes::be64;
use crate::error::VmcoreError;
use crate::file::{ReadAt, exact};
use crate::layout::UNIT_BYTES;

/// First bytes of the form.
pub(crate) const SIGNATURE: &[u8] = b"makedumpfile\0\0\0\0";
/// Where the first block is (`MAX_SIZE_MDF_HEADER`).
const BLOCKS_AT: u64 = 4096;
/// Bytes of a block's own header.
const HEAD: u64 = 16;
/// The place of the block after the last (`END_FLAG_FLAT_HEADER`).
const END: i64 = -1;
/// Most blocks that are taken. makedumpfile 1.7.2 writes one for 33 KB on the average (`-F -l -d
/// 31`), so these are of a dump of 270 GB.
pub const BLOCKS_MAX: usize = 8 << 20;

/// A block, or what later blocks left of it.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Where its bytes belong.
    place: u64,
    size: u64,
    /// Where they are.
    at: u64,
}

impl Block {
    fn end(&self) -> u64 {
        self.place.saturating_add(self.size)
    }
}

/// The dump that a flattened file stands for. Places that no block has read as zeros, as in a file
/// with holes.
pub(crate) struct Flattened<F> {
    file: F,
    /// By place; none overlaps another.
    blocks: Vec<Block>,
    size: u64,
    /// The file ends without its end mark.
    pub(crate) cut: bool,
}

impl<F: ReadAt> Flattened<F> {
    /// Reads the blocks' headers.
    pub(crate) fn new(file: F) -> Result<Self, VmcoreError> {
        let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
        let mut at = BLOCKS_AT;
        let mut cut = true;
        let mut whole = 0;
        while let Some(head) = exact::<{ HEAD as usize }>(&file, at)? {
            let (place, size) = (be64(&head, 0).unwrap_or(END), be64(&head, 8).unwrap_or(0));
            if place == END {
                cut = false;
                break;
            }
            let (Ok(place), Ok(size)) = (u64::try_from(place), u64::try_from(size)) else {
                return Err(damaged(format!("impossible place or size of the block at byte {at}")));
            };
            if place.checked_add(size).is_none_or(|end| end > i64::MAX as u64) {
                return Err(damaged(format!("impossible place or size of the block at byte {at}")));
            }
            whole = whole.max(place.saturating_add(size));
            at += HEAD;
            let there = size.min(file.size().saturating_sub(at));
            if there != 0 {
                insert(&mut blocks, Block { place, size: there, at });
            }
            if blocks.len() > BLOCKS_MAX {
                let remedy = "rearrange it first, by `makedumpfile -R DUMP < FILE`";
                return Err(VmcoreError::TooMany {
                    what: "blocks in a flattened file",
                    limit: BLOCKS_MAX,
                    remedy,
                });
            }
            at = at.saturating_add(size);
            if there < size {
                break;
            }
        }
        if blocks.is_empty() {
            return Err(damaged("no block of data"));
        }
        Ok(Self { file, blocks: blocks.into_values().collect(), size: whole, cut })
    }
}

fn damaged(reason: impl Into<String>) -> VmcoreError {
    VmcoreError::damaged("flattened dump", reason)
}

/// Enters a block. What was there before it at the same place is overwritten, as it is when the
/// file is rearranged.
fn insert(blocks: &mut BTreeMap<u64, Block>, new: Block) {
    if let Some((_, old)) = blocks.range_mut(..new.place).next_back()
        && old.end() > new.place
    {
        let rest = rest(old, new.end());
        old.size = new.place - old.place;
        blocks.extend(rest.map(|rest| (rest.place, rest)));
    }
    while let Some((&place, &old)) = blocks.range(new.place..new.end()).next() {
        blocks.remove(&place);
        blocks.extend(rest(&old, new.end()).map(|rest| (rest.place, rest)));
    }
    blocks.insert(new.place, new);
}

/// What a block has from `end` on.
fn rest(old: &Block, end: u64) -> Option<Block> {
    let skip = end.checked_sub(old.place)?;
    let size = old.size.checked_sub(skip).filter(|size| *size != 0)?;
    Some(Block { place: end, size, at: old.at + skip })
}

impl<F: ReadAt> ReadAt for Flattened<F> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = self.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        let buf = buf.get_mut(..length).unwrap_or_default();
        buf.fill(0);
        let until = offset.saturating_add(length as u64);
        let first = self.blocks.partition_point(|block| block.end() <= offset);
        for block in self.blocks.iter().skip(first).take_while(|block| block.place < until) {
            let (from, to) = (block.place.max(offset), block.end().min(until));
            let into =
                buf.get_mut((from - offset) as usize..(to - offset) as usize).unwrap_or_default();
            self.file.read_at(into, block.at + (from - block.place))?;
        }
        Ok(length)
    }

    fn data(&self, from: u64) -> Option<(u64, u64)> {
        let first = self.blocks.partition_point(|block| block.end() <= from);
        let mut blocks = self.blocks.iter().skip(first);
        let block = blocks.next()?;
        let (begin, mut end) = (block.place.max(from), block.end());
        // Blocks that touch, as far as anybody reads at once.
        for next in blocks.take_while(|next| next.place - begin < UNIT_BYTES as u64) {
            if next.place != end {
                break;
            }
            end = next.end();
        }
        Some((begin, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Bytes(Vec<u8>);

    impl ReadAt for Bytes {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = self.0.get(offset as usize..).unwrap_or_default();
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }
    }

    proptest! {
        /// The plain model: every block written into a file, one after the other.
        #[test]
        fn reads_what_rearranging_writes(
            blocks in prop::collection::vec(
                (0u64..300, prop::collection::vec(any::<u8>(), 0..80)),
                1..20,
            ),
            reads in prop::collection::vec((0u64..400, 0usize..200), 1..20),
        ) {
            let mut file = vec![0; BLOCKS_AT as usize];
            let mut model = Vec::new();
            for (place, bytes) in &blocks {
                file.extend_from_slice(&place.to_be_bytes());
                file.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
                file.extend_from_slice(bytes);
                let end = *place as usize + bytes.len();
                model.resize(model.len().max(end), 0);
                model[*place as usize..end].copy_from_slice(bytes);
            }
            file.extend_from_slice(&[0xff; 16]);
            let Ok(flattened) = Flattened::new(Bytes(file)) else {
                prop_assert!(blocks.iter().all(|(_, bytes)| bytes.is_empty()));
                return Ok(());
            };
            prop_assert!(!flattened.cut);
            prop_assert_eq!(flattened.size(), model.len() as u64);
            for (offset, length) in reads {
                let mut buf = vec![0xaa; length];
                let n = flattened.read_at(&mut buf, offset).unwrap();
                let expected = model.get(offset as usize..).unwrap_or_default();
                let expected = &expected[..expected.len().min(length)];
                prop_assert_eq!(&buf[..n], expected);
            }
        }
    }
}
