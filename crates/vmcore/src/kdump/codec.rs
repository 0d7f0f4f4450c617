//! Pages out of their compressed form, and only those that matter.
//!
//! Nearly no page of a dump is a page of a recording, so what counts is how fast the others are
//! passed over. That takes no more than their first eight bytes, and each codec can be asked for
//! these alone. None of it guesses: where a shortcut can't tell, the page is decompressed.

use flate2::{Decompress, FlushDecompress};
use flightrec_format::abi::page::{MAGIC, PAGE_SIZE};

use crate::layout::Memory;

/// Flags of a page's data (`DUMP_DH_COMPRESSED_…`).
pub(crate) mod flag {
    pub(crate) const ZLIB: u32 = 0x1;
    pub(crate) const LZO: u32 = 0x2;
    pub(crate) const SNAPPY: u32 = 0x4;
    pub(crate) const ZSTD: u32 = 0x20;
}
use flag::{LZO, SNAPPY, ZLIB, ZSTD};

/// What a page of a recording begins with.
const WANTED: [u8; 8] = MAGIC.to_le_bytes();

/// Data that don't make a page.
#[derive(Debug)]
pub(crate) struct Undecodable;

/// One thread's decompressors.
pub(crate) struct Codecs {
    zlib: Decompress,
    snappy: snap::raw::Decoder,
    /// Made when the first page wants it.
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    page: Box<[u8]>,
}

impl Codecs {
    /// For pages of so many bytes.
    pub(crate) fn new(page: usize) -> Self {
        Self {
            zlib: Decompress::new(true),
            snappy: snap::raw::Decoder::new(),
            zstd: None,
            page: vec![0; page].into(),
        }
    }

    /// What in the page begins as pages of a recording do, with numbers. Of a larger page, the
    /// first of them may be another map's or one that is not in use, so all of it is decompressed.
    pub(super) fn recorded(
        &mut self,
        flags: u32,
        data: &[u8],
    ) -> Result<impl Iterator<Item = (u64, &Memory)>, Undecodable> {
        let may_be = match flags & (ZLIB | LZO | SNAPPY | ZSTD) {
            _ if self.page.len() != PAGE_SIZE => true,
            0 => data.starts_with(&WANTED),
            ZLIB => self.zlib_may_be(data)?,
            LZO => lzo_may_be(data),
            SNAPPY => snappy_may_be(data),
            _ => true,
        };
        let whole = if may_be { self.whole(flags, data)? } else { &[] };
        let pages = whole.as_chunks().0.iter();
        Ok((0..).zip(pages).filter(|(_, page): &(u64, &Memory)| page.starts_with(&WANTED)))
    }

    /// The page.
    pub(crate) fn whole(&mut self, flags: u32, data: &[u8]) -> Result<&[u8], Undecodable> {
        let page = &mut self.page;
        let size = match flags & (ZLIB | LZO | SNAPPY | ZSTD) {
            0 => {
                if data.len() != page.len() {
                    return Err(Undecodable);
                }
                page.copy_from_slice(data);
                data.len()
            }
            ZLIB => {
                self.zlib.reset(true);
                self.zlib
                    .decompress(data, page, FlushDecompress::Finish)
                    .map_err(|_| Undecodable)?;
                self.zlib.total_out() as usize
            }
            LZO => lzo::decompress_into(data, page).map_err(|_| Undecodable)?,
            // An own length beyond the page is refused before anything is written.
            SNAPPY => self.snappy.decompress(data, page).map_err(|_| Undecodable)?,
            ZSTD => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(zstd::bulk::Decompressor::new().map_err(|_| Undecodable)?),
                };
                zstd.decompress_to_buffer(data, &mut **page).map_err(|_| Undecodable)?
            }
            _ => return Err(Undecodable),
        };
        if size == page.len() { Ok(page) } else { Err(Undecodable) }
    }

    /// Inflates eight bytes.
    fn zlib_may_be(&mut self, data: &[u8]) -> Result<bool, Undecodable> {
        let mut head = [0; WANTED.len()];
        self.zlib.reset(true);
        self.zlib.decompress(data, &mut head, FlushDecompress::None).map_err(|_| Undecodable)?;
        Ok(head == WANTED)
    }
}

/// Whether an LZO1X stream can begin with the magic. Its eight bytes all differ, so none of them
/// can be a copy of what stands before: they must be literals, and as a run of literals is always
/// followed by a copy, of one run. That is the stream's first instruction (`lzo1x_decompress`).
fn lzo_may_be(data: &[u8]) -> bool {
    let Some((first, rest)) = data.split_first() else { return false };
    let literals = match first {
        // 18 and more: a run of so many less 17. 1 to 15: of so many and 3. Eight are wanted.
        25.. | 5..=15 => Some(rest),
        // A longer one; its length ends with the first byte that is not 0.
        0 => {
            let zeros = rest.iter().take_while(|byte| **byte == 0).count();
            rest.get(zeros + 1..)
        }
        _ => None,
    };
    literals.is_some_and(|bytes| bytes.starts_with(&WANTED))
}

/// Whether a Snappy stream can begin with the magic: by the same reasoning it begins with literals.
/// They may be in several runs, though no compressor does that, so only the first is looked at.
fn snappy_may_be(data: &[u8]) -> bool {
    // The length of the page, seven bits a byte.
    let length = data.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    let Some([tag, rest @ ..]) = data.get(length..) else { return false };
    // Of a long run, the length follows in 1 to 4 bytes.
    let skip = usize::from(tag >> 2).saturating_sub(59);
    tag % 4 == 0 && rest.get(skip) == WANTED.first()
}
