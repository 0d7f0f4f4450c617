//! Blocks: what a file consists of. A block is a header in a skippable frame and the content in one
//! zstd frame. After the content of a block of pages stands its summary ([`crate::summary`]), in a
//! skippable frame.

use flightrec_format::abi::page::Lane;

use crate::clocks::Clocks;
use crate::fields::{CRC_LEN, FRAME_HEAD, Fields, checked, put_frame};

/// The first eight bytes of a block's header.
pub const TAG: [u8; 8] = *b"FLTRECBK";
/// Bytes of a block header's content, checksum included.
pub const LEN: usize = 96;
/// Bytes of a block header with its frame.
pub const HEAD: usize = FRAME_HEAD + LEN;
/// Most bytes of a block's content before compression.
pub const RAW_MAX: usize = 4 << 20;
/// Most bytes of a block's content compressed: what zstd needs at worst for [`RAW_MAX`], and room.
pub const DATA_MAX: usize = RAW_MAX + (RAW_MAX >> 7) + 1024;
/// Most blocks of a file.
pub const BLOCKS_MAX: usize = 1 << 18;
/// Most pages of a block.
pub const PAGES_MAX: usize = 256;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The recording's metadata, one JSON document; the last of a file counts.
    Meta = 0,
    /// Pages, and parts of pages, of one lane.
    Pages = 1,
    /// The threads that live at a moment; more than one block where they are many.
    Slots = 2,
    /// The open file descriptors at a moment.
    Descriptors = 3,
    /// How far the recording is in the files.
    Checkpoint = 4,
    /// Why the file is there, where it is a snapshot; one JSON document.
    Snapshot = 5,
}

impl Kind {
    /// The kind with this number, if it is known. Readers step over others.
    pub const fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            0 => Kind::Meta,
            1 => Kind::Pages,
            2 => Kind::Slots,
            3 => Kind::Descriptors,
            4 => Kind::Checkpoint,
            5 => Kind::Snapshot,
            _ => return None,
        })
    }

    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Meta => "metadata",
            Kind::Pages => "pages",
            Kind::Slots => "threads",
            Kind::Descriptors => "descriptors",
            Kind::Checkpoint => "checkpoint",
            Kind::Snapshot => "snapshot",
        }
    }
}

/// A block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// What it holds.
    pub kind: Kind,
    /// Lane of its pages; `None` in other kinds.
    pub lane: Option<Lane>,
    /// Recording session.
    pub session: u64,
    /// Its number in the file, from 0.
    pub number: u32,
    /// Time of the earliest of its content, ns of `CLOCK_MONOTONIC`.
    pub first: u64,
    /// Time of the latest.
    pub last: u64,
    /// Events in it, folded exits and unknown kinds included.
    pub events: u64,
    /// Bytes of its content before compression.
    pub raw_len: u32,
    /// Bytes of the zstd frame that follows the header.
    pub data_len: u32,
    /// CRC-32 of that frame.
    pub data_crc: u32,
    /// Pages and parts of pages in it; 0 in other kinds.
    pub pages: u16,
    /// What its pages tell of the wall clock; `None` in other kinds, and where no page tells it.
    pub clocks: Option<Clocks>,
    /// Bytes of the frame after that, with its summary; 0: there is none.
    pub summary_len: u32,
}

/// A block and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Where its header's frame begins in the file.
    pub offset: u64,
    /// Its header.
    pub header: BlockHeader,
}

impl BlockHeader {
    /// Most pages that come out of it.
    pub fn pages_max(&self) -> usize {
        if self.kind == Kind::Pages { PAGES_MAX.min(self.pages.into()) } else { 0 }
    }
}

impl BlockRef {
    /// Where its data begin.
    pub fn data(&self) -> u64 {
        self.offset.saturating_add(HEAD as u64)
    }

    /// Where its data end, and its summary begins.
    pub fn summary(&self) -> u64 {
        self.data().saturating_add(u64::from(self.header.data_len))
    }

    /// Where the next block begins.
    pub fn end(&self) -> u64 {
        self.summary().saturating_add(u64::from(self.header.summary_len))
    }
}

/// What stands where a block is expected.
pub(crate) enum FoundBlock {
    /// A block.
    Block(BlockHeader),
    /// One of a kind that is newer than this release; the length of its data and of what follows
    /// them.
    Unknown(u32),
}

/// A lane's number where there is none.
const NO_LANE: u8 = 0xff;

impl BlockHeader {
    /// The header as a frame.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut content = Vec::with_capacity(LEN);
        content.extend(TAG);
        content.extend((LEN as u32).to_le_bytes());
        content.extend([self.kind as u8, self.lane.map_or(NO_LANE, |lane| lane as u8)]);
        content.extend(self.pages.to_le_bytes());
        content.extend(self.session.to_le_bytes());
        content.extend(self.number.to_le_bytes());
        content.extend(self.summary_len.to_le_bytes());
        for word in [self.first, self.last, self.events] {
            content.extend(word.to_le_bytes());
        }
        for word in [self.raw_len, self.data_len, self.data_crc] {
            content.extend(word.to_le_bytes());
        }
        Clocks::put(self.clocks, &mut content);
        content.resize(LEN - CRC_LEN, 0);
        put_frame(&content, out);
    }

    /// The header in the frame at the beginning of `bytes`; `None` where it is none, or damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<FoundBlock> {
        let mut frame = Vec::with_capacity(HEAD);
        let content = bytes.get(FRAME_HEAD..HEAD)?;
        put_frame(checked(content)?, &mut frame);
        if frame.get(..FRAME_HEAD)? != bytes.get(..FRAME_HEAD)? {
            return None;
        }
        let mut fields = Fields(content);
        if fields.array()? != TAG || fields.u32()? as usize != LEN {
            return None;
        }
        let ([kind, lane], pages) = (fields.array()?, fields.u16()?);
        let (session, number) = (fields.u64()?, fields.u32()?);
        let summary_len = fields.u32()?;
        let (first, last, events) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (raw_len, data_len, data_crc) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let clocks = Clocks::take(&mut fields);
        let lane = if lane == NO_LANE { Some(None) } else { Lane::from_u8(lane).map(Some) };
        let (Some(kind), Some(lane)) = (Kind::from_u8(kind), lane) else {
            return Some(FoundBlock::Unknown(data_len.saturating_add(summary_len)));
        };
        let header = Self {
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
        Some(FoundBlock::Block(header))
    }
}
