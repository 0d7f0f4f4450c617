//! One file, read: any bytes are taken, nothing is changed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flightrec_format::decode::{Page, Summary};
use flightrec_format::file::{OpenError, open};

use crate::block::{BlockHeader, BlockRef, DATA_MAX, HEAD, Kind};
use crate::coder::Block;
use crate::columns::Contents;
use crate::content::{self, Content, PagesDecoder};
use crate::damage::{Damage, What};
use crate::error::StoreError;
use crate::fields::FRAME_HEAD;
use crate::header::{self, FileHeader, unknown_features};
use crate::index::{self, INDEX_MAX, TRAILER, Trailer};
use crate::summary::{self, BlockSummary, SUMMARY_MAX};
use crate::walk::{Walk, Walker};

/// An open file. Opening reads its header, and its index or else the headers of its blocks; nothing
/// is decompressed.
#[derive(Debug)]
pub struct FileReader {
    path: PathBuf,
    file: File,
    size: u64,
    header: FileHeader,
    blocks: Vec<BlockRef>,
    damage: Vec<Damage>,
    complete: bool,
}

impl FileReader {
    /// Opens a file, damaged or still being written as it may be.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_by(path.as_ref(), true)
    }

    /// Opens a file without its index: finds all damage between the blocks.
    pub fn walk(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_by(path.as_ref(), false)
    }

    fn open_by(path: &Path, by_index: bool) -> Result<Self, StoreError> {
        let file = open(path).map_err(OpenError::into_io).map_err(StoreError::io(path))?;
        let metadata = file.metadata().map_err(StoreError::io(path))?;
        if !metadata.is_file() {
            let what = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(StoreError::Io { path: path.into(), source: what });
        }
        let size = metadata.len();
        let opened = read_up_to(&file, 0, (FRAME_HEAD + header::LEN_MAX).min(size as usize));
        let found = FileHeader::parse(&opened.map_err(StoreError::io(path))?);
        if let Some(bits) = found.and_then(|(header, _)| unknown_features(header.incompatible)) {
            return Err(StoreError::Features { path: path.into(), bits });
        }
        let (session, begin) =
            (found.map(|(header, _)| header.session), found.map_or(0, |(_, length)| length as u64));
        let (index, damaged_index) = match by_trailer(&file, size, session) {
            Ok(Some(blocks)) => (Some(blocks), None),
            Ok(None) => (None, None),
            Err(offset) => (None, Some(offset)),
        };
        let complete = index.is_some();
        let walk = || Walker::new(&file, size, session).run(begin).map_err(StoreError::io(path));
        let mut walk = match index {
            Some(blocks) if by_index && found.is_some() => Walk { blocks, ..Walk::default() },
            Some(blocks) => indexed(walk()?, blocks),
            None => walk()?,
        };
        if let Some(offset) = damaged_index.or(walk.index.filter(|_| !complete)) {
            let bytes = size.saturating_sub(offset);
            // What the walk found there is the same.
            walk.damage.retain(|damage| damage.offset < offset);
            walk.damage.push(Damage { offset, bytes, what: What::Index, block: None });
        }
        let header = match (found, walk.blocks.first()) {
            (Some((header, _)), _) => header,
            (None, None) => return Err(StoreError::NoRecording { path: path.into() }),
            (None, Some(first)) => {
                walk.damage.retain(|damage| damage.offset != 0 || damage.block.is_some());
                walk.damage.insert(
                    0,
                    Damage { offset: 0, bytes: first.offset, what: What::Header, block: None },
                );
                FileHeader {
                    compatible: 0,
                    incompatible: 0,
                    boot_id: [0; 16],
                    session: first.header.session,
                    number: 0,
                    created_wall: 0,
                    created_mono: first.header.first,
                    begins: 0,
                }
            }
        };
        let Walk { blocks, damage, .. } = walk;
        Ok(Self { path: path.into(), file, size, header, blocks, damage, complete })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its header. Where that is damaged, what the blocks tell; boot id, number and wall time are
    /// then 0.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Its blocks, in the order in which they were written.
    pub fn blocks(&self) -> &[BlockRef] {
        &self.blocks
    }

    /// Its blocks of one kind.
    pub fn of(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &BlockRef> {
        self.blocks.iter().filter(move |block| block.header.kind == kind)
    }

    /// What is wrong with it, as far as it can be told without reading the blocks' data.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Whether it was closed: it has a good index, and nothing will be appended.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// What a block holds.
    pub fn read(&self, block: &BlockRef) -> Result<Content, Damage> {
        self.decoded(block, content::decode)
    }

    /// The pages that a block holds, with what each comes to, which costs nothing more here
    /// ([`Page::summary`]).
    pub fn pages(&self, block: &BlockRef) -> Result<Vec<(Page, Summary)>, Damage> {
        PagesReader::default().read(self, block, Contents::All)
    }

    /// What is in a block of pages; `None`: it has no summary, or one that is damaged, and may hold
    /// anything.
    pub fn summary(&self, block: &BlockRef) -> Option<BlockSummary> {
        let length = block.header.summary_len as usize;
        if length == 0 || length > SUMMARY_MAX {
            return None;
        }
        let frame = read_up_to(&self.file, block.summary(), length).ok()?;
        summary::parse(&frame, block.header.data_crc)
    }

    /// Whether a block's data are what was written, by their checksum; they are not decompressed.
    /// `buffer`: any, for the data.
    pub fn is_sound(&self, block: &BlockRef, buffer: &mut Vec<u8>) -> bool {
        self.data(block, buffer).is_ok_and(|data| content::check(&block.header, data).is_ok())
    }

    /// A block's data, decoded.
    fn decoded<T>(
        &self,
        block: &BlockRef,
        decode: impl FnOnce(&BlockHeader, &[u8]) -> Result<T, What>,
    ) -> Result<T, Damage> {
        let mut room = Vec::new();
        let data = self.data(block, &mut room)?;
        decode(&block.header, data).map_err(|what| damaged(block, what))
    }

    /// Reads a block's data into `room`, which grows where it has to.
    fn data<'a>(&self, block: &BlockRef, room: &'a mut Vec<u8>) -> Result<&'a [u8], Damage> {
        let len = block.header.data_len.min(DATA_MAX as u32) as usize;
        if room.len() < len {
            room.resize(len, 0);
        }
        let data = room.get_mut(..len).unwrap_or_default();
        self.load(block, data)?;
        Ok(data)
    }

    /// A block as it is, for another file of the same session ([`crate::FileWriter::push`]).
    pub fn block(&self, block: &BlockRef) -> Result<Block, Damage> {
        let length = block.header.data_len.min(DATA_MAX as u32) as usize;
        let mut bytes = vec![0; HEAD + length];
        let data = bytes.get_mut(HEAD..).unwrap_or_default();
        self.load(block, data)?;
        if crc32fast::hash(data) != block.header.data_crc {
            return Err(damaged(block, What::Checksum));
        }
        let header = BlockHeader { summary_len: 0, ..block.header };
        let summary = self.summary(block).map(BlockSummary::elsewhere);
        Ok(Block { header, bytes }.with_summary(summary.as_ref()))
    }

    /// Reads a block's data.
    fn load(&self, block: &BlockRef, data: &mut [u8]) -> Result<(), Damage> {
        if block.header.data_len as usize > DATA_MAX {
            let what = format!("{} bytes are more than a block takes", block.header.data_len);
            return Err(damaged(block, What::Content(what)));
        }
        self.file
            .read_exact_at(data, block.data())
            .map_err(|e| damaged(block, What::Io(e.to_string())))
    }
}

/// Reads one block of pages after the other, with one set of buffers: memory that was fetched once
/// is not fetched again for each block.
#[derive(Default)]
pub struct PagesReader {
    decoder: Option<PagesDecoder>,
    data: Vec<u8>,
}

impl std::fmt::Debug for PagesReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PagesReader").finish_non_exhaustive()
    }
}

impl PagesReader {
    /// The pages of a block of a file, as [`FileReader::pages`] gives them, with the contents of
    /// arguments and strings or without. What was read before has no influence.
    pub fn read(
        &mut self,
        file: &FileReader,
        block: &BlockRef,
        contents: Contents,
    ) -> Result<Vec<(Page, Summary)>, Damage> {
        let data = file.data(block, &mut self.data)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(PagesDecoder::new().map_err(|what| damaged(block, what))?),
        };
        decoder.decode(&block.header, data, contents).map_err(|what| damaged(block, what))
    }
}

/// Damage of a whole block.
fn damaged(block: &BlockRef, what: What) -> Damage {
    Damage {
        offset: block.offset,
        bytes: block.end() - block.offset,
        what,
        block: Some(Box::new(block.header)),
    }
}

/// A walk's damage, beside the blocks of a good index: these can be read even where their headers
/// can't.
fn indexed(walk: Walk, blocks: Vec<BlockRef>) -> Walk {
    let known =
        |offset| blocks.binary_search_by_key(&offset, |block: &BlockRef| block.offset).is_ok();
    let mend = |damage: Damage| match damage.what {
        What::Bytes if damage.block.is_none() && known(damage.offset) => {
            Damage { bytes: HEAD as u64, what: What::BlockHeader, ..damage }
        }
        _ => damage,
    };
    Walk { damage: walk.damage.into_iter().map(mend).collect(), blocks, ..walk }
}

/// The blocks by the index of a file that was closed; `None` where it was not. The error is where
/// an index would be.
fn by_trailer(file: &File, size: u64, session: Option<u64>) -> Result<Option<Vec<BlockRef>>, u64> {
    let Some(at) = size.checked_sub(TRAILER as u64) else { return Ok(None) };
    let Ok(bytes) = read_up_to(file, at, TRAILER) else { return Ok(None) };
    let Some(trailer) = Trailer::parse(&bytes) else {
        // Half of its tag is enough to tell that there was one.
        let tagged = bytes.get(FRAME_HEAD..FRAME_HEAD + index::TRAILER_TAG.len())
            == Some(&index::TRAILER_TAG);
        return if tagged { Err(at) } else { Ok(None) };
    };
    let end = trailer.index.checked_add(u64::from(trailer.length));
    if end != Some(at)
        || trailer.length as usize > INDEX_MAX
        || session.is_some_and(|s| s != trailer.session)
    {
        return Err(at);
    }
    let frame =
        read_up_to(file, trailer.index, trailer.length as usize).map_err(|_| trailer.index)?;
    let blocks = index::parse(&frame).ok_or(trailer.index)?;
    if blocks.last().is_some_and(|last| last.end() > trailer.index) {
        return Err(trailer.index);
    }
    Ok(Some(blocks))
}

/// Bytes at an offset, which must be there.
fn read_up_to(file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

/// A file's header alone, which takes one read. Where it is damaged, what [`FileReader::open`]
/// makes up from the blocks.
pub fn read_header(path: impl AsRef<Path>) -> Result<FileHeader, StoreError> {
    let path = path.as_ref();
    let file = open(path).map_err(OpenError::into_io).map_err(StoreError::io(path))?;
    let mut bytes = [0; FRAME_HEAD + header::LEN];
    if file.read_exact_at(&mut bytes, 0).is_ok()
        && let Some((header, _)) = FileHeader::parse(&bytes)
        && unknown_features(header.incompatible).is_none()
    {
        return Ok(header);
    }
    // Longer than this release's, damaged, or nothing that can be read: opening it tells.
    FileReader::open(path).map(|reader| *reader.header())
}
