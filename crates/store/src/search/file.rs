//! The file of an index: a header in a skippable frame, then the entries, one zstd frame.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Page;
use flightrec_format::file::{OpenError, open};
use thiserror::Error;

use super::code::{RAW_MAX, VERSION, decode, encode};
use super::pairs::Pairs;
use super::{BlockEntry, SearchIndex, maker};
use crate::block::{BLOCKS_MAX, Kind};
use crate::dir::FileInfo;
use crate::error::StoreError;
use crate::fields::{CRC_LEN, FRAME_HEAD, Fields, checked, frame_len, put_frame};
use crate::reader::FileReader;

/// What the names of indexes end in.
pub const EXTENSION: &str = "search";
/// An index has at most this part of its file: one in so many bytes.
pub const SHARE: u64 = 50;
/// So many bytes it may have in any case: what a file takes on a disk at least.
const LEAST: u64 = 4096;
/// The first eight bytes of the header.
const TAG: [u8; 8] = *b"FLTRECSX";
/// Bytes of the header's content, checksum included.
const LEN: usize = 64;
/// Most bytes of an index's file that are read.
const FILE_MAX: u64 = (FRAME_HEAD + LEN + RAW_MAX + (RAW_MAX >> 7) + 1024) as u64;
/// Level of zstd: the entries of blocks are much alike.
const LEVEL: i32 = 9;
/// Access: owner writes, group reads, as of the recording's file.
const MODE: u32 = 0o640;

/// Why there is no index, or it can't be used.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The recording's file can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recording's file is still being written, or was never closed.
    #[error("{}: it was not closed, so it has no search index", path.display())]
    Open {
        /// The recording's file.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The index.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It would take more than its share.
    #[error("{}: its search index would take {bytes} bytes, more than 2 % of it", path.display())]
    TooLarge {
        /// The recording's file.
        path: PathBuf,
        /// What it would take.
        bytes: u64,
    },
    /// It is damaged, or no index.
    #[error("{}: the search index is damaged", path.display())]
    Damaged {
        /// The index.
        path: PathBuf,
    },
    /// A later release wrote it.
    #[error("{}: the search index has version {version}, this release reads {VERSION}", path.display())]
    Version {
        /// The index.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It was made of another file of that name.
    #[error("{}: the search index is of another file", path.display())]
    Other {
        /// The index.
        path: PathBuf,
    },
}

/// Where the index of a recording's file is.
pub fn path(recording: &Path) -> PathBuf {
    recording.with_extension(EXTENSION)
}

/// How many of these files have an index, and the bytes that the indexes take.
pub fn usage(files: &[FileInfo]) -> (u64, u64) {
    let sizes = files.iter().filter_map(|file| Some(fs::metadata(path(&file.path)).ok()?.len()));
    sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes.saturating_add(size)))
}

/// Makes the index of a file that was closed, in memory. A block that can't be read has no entry.
///
/// # Errors
/// The file can't be opened, or was not closed.
pub fn make(recording: &Path) -> Result<SearchIndex, SearchError> {
    let reader = FileReader::open(recording)?;
    if !reader.complete() {
        return Err(SearchError::Open { path: recording.into() });
    }
    Ok(of_file(&reader))
}

/// The index of what a reader has of a file, which may still be written. A block that can't be read
/// has no entry.
pub fn of_file(reader: &FileReader) -> SearchIndex {
    // From when on blocks after another one have records of calls.
    let mut later = u64::MAX;
    let mut begins: Vec<u64> = reader
        .of(Kind::Pages)
        .rev()
        .map(|block| {
            let after = later;
            if block.header.lane == Some(Lane::Syscall) {
                later = later.min(block.header.first);
            }
            after
        })
        .collect();
    let (mut blocks, mut pairs, mut lone) = (Vec::new(), Pairs::default(), Vec::new());
    for block in reader.of(Kind::Pages) {
        let later = begins.pop().unwrap_or(0);
        let Ok(pages) = reader.pages(block) else { continue };
        let data_len = block.header.data_len as usize;
        let entry = maker::entry(pages.iter().map(|(page, _)| page), data_len, &mut lone);
        let (offset, crc) = (block.offset, block.header.data_crc);
        blocks.push(BlockEntry { offset, crc, ..entry });
        if block.header.lane == Some(Lane::Syscall) {
            pairs.add(blocks.len() - 1, lone.drain(..));
            pairs.pass(later, &mut blocks);
        }
        lone.clear();
    }
    pairs.pass(u64::MAX, &mut blocks);
    SearchIndex { session: reader.header().session, size: reader.size(), blocks }
}

/// What is in the pages of a lane, as if they were a block, of no file.
pub fn of_pages<'p>(pages: impl IntoIterator<Item = &'p Page>) -> BlockEntry {
    let (mut lone, mut pairs) = (Vec::new(), Pairs::default());
    let mut entry = maker::entry(pages, u32::MAX as usize, &mut lone);
    pairs.add(0, lone);
    pairs.pass(u64::MAX, std::slice::from_mut(&mut entry));
    entry
}

/// Writes the index of a recording's file beside it, whole or not at all. Returns its bytes.
///
/// # Errors
/// It takes too much, or the file system refuses.
pub fn write(recording: &Path, index: &SearchIndex) -> Result<u64, SearchError> {
    let path = path(recording);
    let io = |source| SearchError::Io { path: path.clone(), source };
    let raw = encode(&index.blocks);
    let data = zstd::bulk::compress(&raw, LEVEL).map_err(io)?;
    let mut header = Vec::with_capacity(LEN);
    header.extend(TAG);
    header.extend(VERSION.to_le_bytes());
    header.extend((index.blocks.len() as u32).to_le_bytes());
    header.extend(index.session.to_le_bytes());
    header.extend(index.size.to_le_bytes());
    header.extend((raw.len() as u32).to_le_bytes());
    header.extend((data.len() as u32).to_le_bytes());
    header.extend(crc32fast::hash(&data).to_le_bytes());
    header.resize(LEN - CRC_LEN, 0);
    let mut bytes = Vec::with_capacity(FRAME_HEAD + LEN + data.len());
    put_frame(&header, &mut bytes);
    bytes.extend(&data);
    let length = bytes.len() as u64;
    if raw.len() > RAW_MAX || length > LEAST.max(index.size / SHARE) {
        return Err(SearchError::TooLarge { path: recording.into(), bytes: length });
    }
    let owner = fs::metadata(recording).map_err(io)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let written = (|| {
        // Of one that was broken off.
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
        // Who may read the file may read its index; whoever may not give it away keeps it.
        match fchown(&file, Some(owner.uid()), Some(owner.gid())) {
            Err(e) if e.kind() != io::ErrorKind::PermissionDenied => return Err(e),
            _ => {}
        }
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&new, &path)
    })();
    if written.is_err() {
        // The first error is the one that counts.
        let _ = fs::remove_file(&new);
    }
    written.map_err(io)?;
    Ok(length)
}

/// Deletes the index of a recording's file, if there is one.
///
/// # Errors
/// The file system refuses.
pub fn remove(recording: &Path) -> io::Result<()> {
    match fs::remove_file(path(recording)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Reads the index of a file; `None`: there is none.
///
/// # Errors
/// It can't be read, is damaged, or is of another file.
pub fn read(reader: &FileReader) -> Result<Option<SearchIndex>, SearchError> {
    let path = path(reader.path());
    let bytes = match open(&path).map_err(OpenError::into_io).and_then(load) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SearchError::Io { path, source }),
    };
    let Some((version, index)) = parse(&bytes) else { return Err(SearchError::Damaged { path }) };
    match index {
        _ if version != VERSION => Err(SearchError::Version { path, version }),
        None => Err(SearchError::Damaged { path }),
        Some(index) if (index.session, index.size) != (reader.header().session, reader.size()) => {
            Err(SearchError::Other { path })
        }
        Some(index) => Ok(Some(index)),
    }
}

fn load(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The version, and what stands after the header, if that is this release's and undamaged; `None`:
/// there is no header.
fn parse(bytes: &[u8]) -> Option<(u32, Option<SearchIndex>)> {
    if frame_len(bytes)? as usize != LEN {
        return None;
    }
    let mut header = Fields(checked(bytes.get(FRAME_HEAD..FRAME_HEAD + LEN)?)?);
    if header.array()? != TAG {
        return None;
    }
    let (version, count) = (header.u32()?, header.u32()? as usize);
    let (session, size) = (header.u64()?, header.u64()?);
    let (raw_len, data_len, crc) = (header.u32()? as usize, header.u32()? as usize, header.u32()?);
    let blocks = || {
        let data = bytes.get(FRAME_HEAD + LEN..)?;
        let whole = data.len() == data_len && crc32fast::hash(data) == crc;
        if !whole || raw_len > RAW_MAX || count > BLOCKS_MAX {
            return None;
        }
        let raw = zstd::bulk::decompress(data, raw_len).ok()?;
        if raw.len() == raw_len { decode(&raw, count) } else { None }
    };
    let index = if version == VERSION { blocks() } else { None };
    Some((version, index.map(|blocks| SearchIndex { session, size, blocks })))
}
