//! Blocks read: from a zstd frame to what it holds.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Page, Summary};
use flightrec_format::meta::{self, Meta};
use flightrec_format::slots;
use zstd::bulk::Decompressor;

use crate::block::{BlockHeader, Kind, RAW_MAX};
use crate::checkpoint::Checkpoint;
use crate::columns::{self, Contents};
use crate::damage::What;
use crate::snapshot::About;

/// What a block holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// The recording's metadata.
    Meta(Box<Meta>),
    /// Pages and parts of pages.
    Pages(Vec<Page>),
    /// Threads that lived at the block's time.
    Slots(Vec<TaskSlot>),
    /// The descriptors that were open at the block's time.
    Descriptors(Vec<u8>),
    /// How far the recording is in the files.
    Checkpoint(Checkpoint),
    /// Why the file is there.
    Snapshot(Box<About>),
}

/// Whether a block's data, which the caller has read, are what was written.
pub(crate) fn check(header: &BlockHeader, data: &[u8]) -> Result<(), What> {
    let raw_len = header.raw_len as usize;
    if raw_len > RAW_MAX {
        return Err(What::Content(format!("{raw_len} bytes are more than a block holds")));
    }
    if crc32fast::hash(data) != header.data_crc {
        return Err(What::Checksum);
    }
    Ok(())
}

/// A block's data, which the caller has read, decompressed into `room`, which grows where it has
/// to.
fn raw<'a>(
    zstd: &mut Decompressor<'_>,
    header: &BlockHeader,
    data: &[u8],
    room: &'a mut Vec<u8>,
) -> Result<&'a [u8], What> {
    check(header, data)?;
    let raw_len = header.raw_len as usize;
    if room.len() < raw_len {
        room.resize(raw_len, 0);
    }
    let raw = room.get_mut(..raw_len).unwrap_or_default();
    match zstd.decompress_to_buffer(data, raw) {
        Ok(count) if count == raw_len => Ok(raw),
        Ok(count) => Err(What::Content(format!("{count} bytes came out, not {raw_len}"))),
        Err(error) => Err(What::Content(error.to_string())),
    }
}

fn new_decompressor() -> Result<Decompressor<'static>, What> {
    Decompressor::new().map_err(|e| What::Content(e.to_string()))
}

/// What a block's data hold, which the caller has read.
pub(crate) fn decode(header: &BlockHeader, data: &[u8]) -> Result<Content, What> {
    let mut room = Vec::new();
    let raw = raw(&mut new_decompressor()?, header, data, &mut room)?;
    let bad = |what: &str| What::Content(what.into());
    Ok(match header.kind {
        Kind::Meta => {
            let text = std::str::from_utf8(raw).map_err(|e| What::Content(e.to_string()))?;
            Content::Meta(Box::new(
                meta::from_json(text).map_err(|e| What::Content(e.to_string()))?,
            ))
        }
        Kind::Pages => {
            let pages = pages(&mut columns::Decoder::new(), header, raw, Contents::All)?;
            Content::Pages(pages.into_iter().map(|(page, _)| page).collect())
        }
        Kind::Slots => {
            let (slots, rest) = raw.as_chunks::<{ size_of::<TaskSlot>() }>();
            if !rest.is_empty() {
                return Err(bad("half a thread"));
            }
            Content::Slots(slots.iter().map(slots::parse).filter(|slot| slot.tid != 0).collect())
        }
        Kind::Descriptors => Content::Descriptors(raw.to_vec()),
        Kind::Checkpoint => {
            Content::Checkpoint(Checkpoint::decode(raw).ok_or_else(|| bad("no checkpoint"))?)
        }
        Kind::Snapshot => {
            let about = serde_json::from_slice(raw).map_err(|e| What::Content(e.to_string()))?;
            Content::Snapshot(Box::new(about))
        }
    })
}

/// Decodes blocks of pages, with one set of buffers.
pub(crate) struct PagesDecoder {
    zstd: Decompressor<'static>,
    columns: columns::Decoder,
    raw: Vec<u8>,
}

impl PagesDecoder {
    pub(crate) fn new() -> Result<Self, What> {
        let (zstd, columns) = (new_decompressor()?, columns::Decoder::new());
        Ok(Self { zstd, columns, raw: Vec::new() })
    }

    /// The pages that a block's data, which the caller has read, hold, and what each comes to.
    pub(crate) fn decode(
        &mut self,
        header: &BlockHeader,
        data: &[u8],
        contents: Contents,
    ) -> Result<Vec<(Page, Summary)>, What> {
        if header.kind != Kind::Pages {
            return Err(What::Content("no pages".into()));
        }
        let Self { zstd, columns, raw: room } = self;
        pages(columns, header, raw(zstd, header, data, room)?, contents)
    }
}

/// The pages of a block: all of them of its session and lane, or a reader would take them for other
/// rings'.
fn pages(
    decoder: &mut columns::Decoder,
    header: &BlockHeader,
    raw: &[u8],
    contents: Contents,
) -> Result<Vec<(Page, Summary)>, What> {
    let most = header.pages_max();
    let pages =
        decoder.decode(raw, most as u64, contents).map_err(|e| What::Content(e.to_string()))?;
    if header.pages != 0 && pages.len() != usize::from(header.pages) {
        let what =
            format!("{} pages, and not the {} that its header tells", pages.len(), header.pages);
        return Err(What::Content(what));
    }
    let own =
        |page: &Page| Some(page.lane()) == header.lane && page.header().session == header.session;
    let ring = header.lane.is_some_and(|lane| Lane::RINGS.contains(&lane));
    if !pages.iter().all(|(page, _)| own(page)) || !pages.is_empty() && !ring {
        return Err(What::Content("pages of another lane or session than the block's".into()));
    }
    Ok(pages)
}
