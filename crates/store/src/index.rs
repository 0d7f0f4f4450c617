//! The index and the trailer: the last two frames of a file that was closed well.

use flightrec_format::abi::page::Lane;

use crate::block::{BLOCKS_MAX, BlockHeader, BlockRef, Kind};
use crate::clocks::Clocks;
use crate::fields::{CRC_LEN, FRAME_HEAD, Fields, checked, frame_len, put_frame};

/// The first eight bytes of an index.
pub const TAG: [u8; 8] = *b"FLTRECIX";
/// The first eight bytes of a trailer.
pub const TRAILER_TAG: [u8; 8] = *b"FLTRECTR";
/// Bytes of an entry, as this release writes it. Later ones may be longer.
pub const ENTRY: usize = 56 + Clocks::LEN;
/// Bytes of a trailer with its frame: the last of the file.
pub const TRAILER: usize = FRAME_HEAD + TRAILER_LEN;
/// Bytes of a trailer's content.
const TRAILER_LEN: usize = 48;
/// Bytes of an index before its entries.
const HEAD: usize = 24;
/// Most bytes of an index with its frame.
pub(crate) const INDEX_MAX: usize = FRAME_HEAD + HEAD + BLOCKS_MAX * ENTRY + CRC_LEN;

/// Where the index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Offset of the index's frame.
    pub(crate) index: u64,
    /// Its bytes.
    pub(crate) length: u32,
    /// Session of the file.
    pub(crate) session: u64,
}

impl Trailer {
    /// The trailer that the file's last [`TRAILER`] bytes are, if they are one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if frame_len(bytes)? as usize != TRAILER_LEN {
            return None;
        }
        let mut fields = Fields(checked(bytes.get(FRAME_HEAD..TRAILER)?)?);
        if fields.array()? != TRAILER_TAG {
            return None;
        }
        Some(Self { index: fields.u64()?, session: fields.u64()?, length: fields.u32()? })
    }
}

/// Appends index and trailer to a file of `offset` bytes.
pub(crate) fn put(blocks: &[BlockRef], session: u64, offset: u64, out: &mut Vec<u8>) {
    let mut content = Vec::with_capacity(HEAD + blocks.len() * ENTRY);
    content.extend(TAG);
    content.extend((ENTRY as u32).to_le_bytes());
    content.extend((blocks.len() as u32).to_le_bytes());
    content.extend(session.to_le_bytes());
    for BlockRef { offset, header } in blocks {
        content.extend(offset.to_le_bytes());
        content.extend([header.kind as u8, header.lane.map_or(0xff, |lane| lane as u8)]);
        content.extend(header.pages.to_le_bytes());
        content.extend(header.number.to_le_bytes());
        for word in [header.first, header.last, header.events] {
            content.extend(word.to_le_bytes());
        }
        for word in [header.raw_len, header.data_len, header.data_crc, header.summary_len] {
            content.extend(word.to_le_bytes());
        }
        Clocks::put(header.clocks, &mut content);
    }
    let before = out.len();
    put_frame(&content, out);
    let length = (out.len() - before) as u32;
    content.clear();
    content.extend(TRAILER_TAG);
    content.extend(offset.to_le_bytes());
    content.extend(session.to_le_bytes());
    content.extend(length.to_le_bytes());
    content.resize(TRAILER_LEN - CRC_LEN, 0);
    put_frame(&content, out);
}

/// The blocks that an index lists, given its frame; `None` where it is damaged. Kinds and lanes
/// that this release does not know are left out.
pub(crate) fn parse(frame: &[u8]) -> Option<Vec<BlockRef>> {
    let length = frame_len(frame)? as usize;
    let content = frame.get(FRAME_HEAD..)?;
    if content.len() != length {
        return None;
    }
    let mut fields = Fields(checked(content)?);
    if fields.array()? != TAG {
        return None;
    }
    let (entry, count) = (fields.u32()? as usize, fields.u32()? as usize);
    let session = fields.u64()?;
    if entry < ENTRY || count > BLOCKS_MAX || entry.checked_mul(count)? != fields.0.len() {
        return None;
    }
    let mut blocks = Vec::with_capacity(count);
    for bytes in fields.0.chunks_exact(entry) {
        blocks.extend(parse_entry(bytes, session));
    }
    // Blocks don't overlap, and stand in order: what else could be told by it is not to be trusted.
    let ordered = blocks.is_sorted_by(|a: &BlockRef, b: &BlockRef| a.end() <= b.offset);
    ordered.then_some(blocks)
}

/// One entry; `None`: of an unknown kind.
fn parse_entry(bytes: &[u8], session: u64) -> Option<BlockRef> {
    let mut fields = Fields(bytes);
    let offset = fields.u64()?;
    let ([kind, lane], pages) = (fields.array()?, fields.u16()?);
    let number = fields.u32()?;
    let (first, last, events) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (raw_len, data_len, data_crc) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let summary_len = fields.u32()?;
    let clocks = Clocks::take(&mut fields);
    let lane = if lane == 0xff { Some(None) } else { Lane::from_u8(lane).map(Some) };
    let (kind, lane) = (Kind::from_u8(kind)?, lane?);
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
        summary_len,
    };
    Some(BlockRef { offset, header })
}
