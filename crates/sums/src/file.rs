//! A file of sums: a header, then blocks. All is zstd: headers are skippable frames.
//!
//! `FORMAT.md` is the specification.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flightrec_format::file::{OpenError, open};
use thiserror::Error;

use crate::codec::{self, RAW_MAX};
use crate::model::Period;

/// First bytes of a skippable frame (RFC 8878).
const SKIPPABLE: u32 = 0x184D_2A5D;
/// Bytes before the content of such a frame.
const FRAME_HEAD: usize = 8;
/// What the header begins with.
const TAG: [u8; 8] = *b"FLTRECSM";
/// What the header of a block begins with.
const BLOCK_TAG: [u8; 8] = *b"FLTRECSB";
/// Bytes of both headers, their checksum included.
const HEADER: usize = 48;
const BLOCK_HEADER: usize = 96;
/// Version of the format.
pub const VERSION: u32 = 1;
/// Most bytes of a file that are read.
pub const FILE_MAX: u64 = 64 << 20;
/// Level of zstd: a minute is some KiB.
const LEVEL: i32 = 12;

/// A file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its number: later files have greater ones.
    pub number: u32,
    /// Length of its periods, s: 60, or more where they were joined.
    pub step: u32,
    /// When it was begun, ns since 1970.
    pub created: i64,
}

/// Of which recording a block is, and of which time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockHeader {
    /// `/proc/sys/kernel/random/boot_id`, as bytes.
    pub boot: [u8; 16],
    /// Recording session.
    pub session: u64,
    /// Start of the first period, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// End of the last.
    pub until: u64,
    /// Start of the first, ns since 1970.
    pub wall: i64,
    /// End of the last.
    pub wall_until: i64,
}

/// Why a file can't be read at all.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file system says so.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else, or its header is damaged.
    #[error("{path} is no file of sums, or its header is damaged")]
    NoSums {
        /// The file.
        path: PathBuf,
    },
    /// A later release wrote it.
    #[error(
        "{path} has version {version} of the format; this release reads {VERSION}: use a newer \
             flightctl"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// A file, read.
#[derive(Debug)]
pub struct SumsFile {
    /// Its header.
    pub header: Header,
    bytes: Vec<u8>,
    blocks: Vec<(BlockHeader, usize, Data)>,
    /// Bytes that are neither header nor block, and where they begin.
    pub damage: Vec<(usize, usize)>,
}

/// The data of a block.
#[derive(Debug, Clone, Copy)]
struct Data {
    raw: usize,
    length: usize,
    crc: u32,
}

fn frame(content: &mut Vec<u8>, length: usize) -> Vec<u8> {
    content.resize(length - 4, 0);
    content.extend(crc32fast::hash(content).to_le_bytes());
    let mut out = Vec::with_capacity(FRAME_HEAD + length);
    out.extend(SKIPPABLE.to_le_bytes());
    out.extend((length as u32).to_le_bytes());
    out.append(content);
    out
}

/// The content of a frame of that length at the beginning of some bytes, if its checksum is right.
fn checked(bytes: &[u8], tag: [u8; 8], length: usize) -> Option<&[u8]> {
    let frame = bytes.get(..FRAME_HEAD + length)?;
    let (head, content) = frame.split_at(FRAME_HEAD);
    let (content, crc) = content.split_at(length - 4);
    let is_right = head.get(..4)? == SKIPPABLE.to_le_bytes()
        && head.get(4..)? == (length as u32).to_le_bytes()
        && crc == crc32fast::hash(content).to_le_bytes()
        && content.starts_with(&tag);
    is_right.then_some(content)
}

fn field<const N: usize>(content: &[u8], at: usize) -> [u8; N] {
    content.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

impl Header {
    /// The header as the first bytes of a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut content = TAG.to_vec();
        content.extend(VERSION.to_le_bytes());
        content.extend(self.number.to_le_bytes());
        content.extend(self.step.to_le_bytes());
        content.extend([0; 4]);
        content.extend(self.created.to_le_bytes());
        frame(&mut content, HEADER)
    }
}

/// Periods of one recording as a block, ready to be appended to a file.
pub fn block(boot: [u8; 16], session: u64, periods: &[Period]) -> io::Result<Vec<u8>> {
    let (Some(first), Some(last)) = (periods.first(), periods.last()) else {
        return Ok(Vec::new());
    };
    let raw = codec::encode(periods);
    if raw.len() > RAW_MAX {
        let what = format!("{} bytes are more than a block of sums holds", raw.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let data = zstd::bulk::compress(&raw, LEVEL)?;
    let mut content = BLOCK_TAG.to_vec();
    content.extend(boot);
    content.extend(session.to_le_bytes());
    content.extend(first.from.to_le_bytes());
    content.extend(last.until.to_le_bytes());
    content.extend(first.wall.to_le_bytes());
    content.extend(last.wall_until().to_le_bytes());
    content.extend((raw.len() as u32).to_le_bytes());
    content.extend((data.len() as u32).to_le_bytes());
    content.extend(crc32fast::hash(&data).to_le_bytes());
    let mut out = frame(&mut content, BLOCK_HEADER);
    out.extend(data);
    Ok(out)
}

fn parse_block(bytes: &[u8]) -> Option<(BlockHeader, Data)> {
    let content = checked(bytes, BLOCK_TAG, BLOCK_HEADER)?;
    let number = |at| u64::from_le_bytes(field(content, at));
    let small = |at| u32::from_le_bytes(field(content, at));
    let header = BlockHeader {
        boot: field(content, 8),
        session: number(24),
        from: number(32),
        until: number(40),
        wall: number(48) as i64,
        wall_until: number(56) as i64,
    };
    let data = Data { raw: small(64) as usize, length: small(68) as usize, crc: small(72) };
    Some((header, data))
}

impl SumsFile {
    /// Reads a file, damaged or still being written as it may be. Nothing is decompressed.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let io = |source| FileError::Io { path: path.into(), source };
        let file: File = open(path).map_err(OpenError::into_io).map_err(io)?;
        let mut bytes = Vec::new();
        file.take(FILE_MAX).read_to_end(&mut bytes).map_err(io)?;
        let content = checked(&bytes, TAG, HEADER);
        let content = content.ok_or_else(|| FileError::NoSums { path: path.into() })?;
        let number = |at| u32::from_le_bytes(field(content, at));
        let version = number(8);
        if version != VERSION {
            return Err(FileError::Version { path: path.into(), version });
        }
        let created = i64::from_le_bytes(field(content, 24));
        let header = Header { number: number(12), step: number(16), created };
        let (mut blocks, mut damage) = (Vec::new(), Vec::new());
        let mut at = FRAME_HEAD + HEADER;
        while at < bytes.len() {
            let rest = bytes.get(at..).unwrap_or_default();
            let begins = FRAME_HEAD + BLOCK_HEADER;
            let found = parse_block(rest).filter(|(_, data)| {
                data.raw <= RAW_MAX && begins.saturating_add(data.length) <= rest.len()
            });
            if let Some((block, data)) = found {
                blocks.push((block, at + begins, data));
                at += begins + data.length;
                continue;
            }
            // The next block is found by its tag.
            let next = rest
                .windows(BLOCK_TAG.len())
                .enumerate()
                .skip(FRAME_HEAD + 1)
                .find(|(_, window)| *window == BLOCK_TAG)
                .map_or(rest.len(), |(found, _)| found - FRAME_HEAD);
            damage.push((at, next));
            at += next;
        }
        Ok(Self { header, bytes, blocks, damage })
    }

    /// The headers of its blocks.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = &BlockHeader> {
        self.blocks.iter().map(|(header, ..)| header)
    }

    /// The periods of a block, by its place; `None` where it is damaged.
    pub fn periods(&self, block: usize) -> Option<Vec<Period>> {
        let (_, at, data) = self.blocks.get(block)?;
        let bytes = self.bytes.get(*at..at.checked_add(data.length)?)?;
        if crc32fast::hash(bytes) != data.crc {
            return None;
        }
        let raw = zstd::bulk::decompress(bytes, data.raw).ok()?;
        codec::decode(&raw).ok()
    }
}
