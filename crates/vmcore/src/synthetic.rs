//! Writes dumps of every form that is read: for tests and benches. The counterpart of the readers.

use std::collections::BTreeMap;

use flate2::{Compress, Compression, FlushCompress};
use flightrec_format::abi::page::PAGE_SIZE;

use crate::flattened;
use crate::kdump::{SIGNATURE, flag};

/// Physical memory: pages by number; those that are not there are left out of the dump.
pub type Image = BTreeMap<u64, Box<[u8; PAGE_SIZE]>>;

/// How pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// `makedumpfile -c`
    Zlib,
    /// `makedumpfile -l`
    Lzo,
    /// `makedumpfile -p`
    Snappy,
    /// `makedumpfile -z`
    Zstd,
}

impl Codec {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::None, Self::Zlib, Self::Lzo, Self::Snappy, Self::Zstd];

    /// The flag of a page that it compressed.
    const fn flag(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Zlib => flag::ZLIB,
            Self::Lzo => flag::LZO,
            Self::Snappy => flag::SNAPPY,
            Self::Zstd => flag::ZSTD,
        }
    }

    /// A page's data, and their flag: as they are where compressing does not make them shorter.
    pub fn compress(self, page: &[u8]) -> (Vec<u8>, u32) {
        let data = match self {
            Self::None => None,
            Self::Zlib => {
                let mut out = Vec::with_capacity(2 * page.len());
                let done = Compress::new(Compression::fast(), true).compress_vec(
                    page,
                    &mut out,
                    FlushCompress::Finish,
                );
                done.ok().map(|_| out)
            }
            Self::Lzo => lzokay_native::compress(page).ok(),
            Self::Snappy => snap::raw::Encoder::new().compress_vec(page).ok(),
            Self::Zstd => zstd::bulk::compress(page, 1).ok(),
        };
        match data.filter(|data| data.len() < page.len()) {
            Some(data) => (data, self.flag()),
            None => (page.to_vec(), 0),
        }
    }

    /// Decompresses pages one after the other, to nowhere: what the codec alone takes. Returns how
    /// many came out whole.
    pub fn decompress<'a>(pages: impl IntoIterator<Item = &'a (Vec<u8>, u32)>) -> usize {
        let mut codecs = crate::kdump::Codecs::new(PAGE_SIZE);
        pages.into_iter().filter(|(data, flags)| codecs.whole(*flags, data).is_ok()).count()
    }
}

/// A memory image without a header: what is left out is zeros.
pub fn raw(image: &Image) -> Vec<u8> {
    let pages = image.last_key_value().map_or(0, |(last, _)| last + 1);
    let mut out = vec![0; pages as usize * PAGE_SIZE];
    for (number, page) in image {
        if let Some(to) =
            out.get_mut(*number as usize * PAGE_SIZE..).and_then(|rest| rest.first_chunk_mut())
        {
            *to = **page;
        }
    }
    out
}

/// An ELF core file with a segment for each stretch of pages, as odd as QEMU's: the segments begin
/// at no multiple of anything, and the header's own size is wrong. `offset`: where the first begins
/// at the earliest.
pub fn elf(image: &Image, offset: u64) -> Vec<u8> {
    let mut segments: Vec<(u64, Vec<u8>)> = Vec::new();
    for (number, page) in image {
        match segments.last_mut() {
            Some((first, bytes)) if *first + (bytes.len() / PAGE_SIZE) as u64 == *number => {
                bytes.extend_from_slice(page.as_slice());
            }
            _ => segments.push((*number, page.to_vec())),
        }
    }
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    out.extend([4u16, 62].map(u16::to_le_bytes).concat()); // ET_CORE, EM_X86_64
    out.extend(1u32.to_le_bytes());
    out.extend([0u64, 64, 0].map(u64::to_le_bytes).concat()); // entry, program headers, sections
    out.extend(0u32.to_le_bytes());
    out.extend([8u16, 56, segments.len() as u16, 0, 0, 0].map(u16::to_le_bytes).concat());
    let mut at = offset.max(64 + 56 * segments.len() as u64);
    for (number, bytes) in &segments {
        let physical = number * PAGE_SIZE as u64;
        out.extend([1u32, 0].map(u32::to_le_bytes).concat()); // PT_LOAD
        let size = bytes.len() as u64;
        let fields = [at, physical.wrapping_add(0xffff_8880_0000_0000), physical, size, size, 0];
        out.extend(fields.map(u64::to_le_bytes).concat());
        at += size;
    }
    out.resize(at as usize - segments.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), 0);
    out.extend(segments.into_iter().flat_map(|(_, bytes)| bytes));
    out
}

/// A kdump-compressed file, of header version 6.
pub fn kdump(image: &Image, codec: Codec) -> Vec<u8> {
    kdump_of_version(image, codec, 6)
}

/// A kdump-compressed file with another version in its header; what came later is left out.
pub fn kdump_of_version(image: &Image, codec: Codec, version: u32) -> Vec<u8> {
    let blocks = image.iter().map(|(number, page)| (*number, page.to_vec())).collect();
    kdump_of_blocks(&blocks, PAGE_SIZE, "x86_64", codec, version)
}

/// The same of an aarch64 machine, whose pages have so many bytes: a multiple of [`PAGE_SIZE`].
pub fn kdump_of_large_pages(image: &Image, codec: Codec, bytes: usize) -> Vec<u8> {
    let each = (bytes / PAGE_SIZE) as u64;
    let mut blocks: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (number, page) in image {
        let block = blocks.entry(number / each).or_insert_with(|| vec![0; bytes]);
        let at = (number % each) as usize * PAGE_SIZE;
        if let Some(to) = block.get_mut(at..at + PAGE_SIZE) {
            to.copy_from_slice(page.as_slice());
        }
    }
    kdump_of_blocks(&blocks, bytes, "aarch64", codec, 6)
}

/// A kdump-compressed file of whole pages of a machine, of `size` bytes each.
fn kdump_of_blocks(
    image: &BTreeMap<u64, Vec<u8>>,
    size: usize,
    machine: &str,
    codec: Codec,
    version: u32,
) -> Vec<u8> {
    let max_mapnr = image.last_key_value().map_or(1, |(last, _)| last + 1);
    let bitmap_bytes = (max_mapnr.div_ceil(8) as usize).next_multiple_of(size);
    let bitmap_blocks = 2 * bitmap_bytes / size;
    let mut out = SIGNATURE.to_vec();
    out.extend(version.to_le_bytes());
    for name in ["Linux", "host", "6.1.0", "#1 SMP", machine, "(none)"] {
        let end = out.len() + 65;
        out.extend(name.as_bytes());
        out.resize(end, 0);
    }
    out.resize(424, 0);
    let pages = image.len() as u32;
    let fields =
        [codec.flag(), size as u32, 1, bitmap_blocks as u32, max_mapnr as u32, pages, 0, 0, 0, 1];
    out.extend(fields.map(u32::to_le_bytes).concat());
    out.resize(size + 96, 0);
    if version >= 6 {
        out.extend(max_mapnr.to_le_bytes());
    }
    out.resize(2 * size, 0);
    let mut bitmap = vec![0u8; bitmap_bytes];
    for number in image.keys() {
        if let Some(byte) = bitmap.get_mut(*number as usize / 8) {
            *byte |= 1 << (number % 8);
        }
    }
    // The first tells of all memory there is.
    out.extend(vec![0xff; bitmap_bytes]);
    out.extend(bitmap);
    let data_at = (out.len() + 24 * image.len()) as u64;
    let mut data: Vec<u8> = Vec::new();
    let zeros = vec![0; size];
    let mut shared = None;
    for page in image.values() {
        // The pages of zeros share their data, as makedumpfile has it.
        let known = shared.filter(|_| *page == zeros);
        let (at, size, flags) = known.unwrap_or_else(|| {
            let (bytes, flags) = codec.compress(page);
            let at = data_at + data.len() as u64;
            data.extend(&bytes);
            (at, bytes.len() as u32, flags)
        });
        if *page == zeros {
            shared = Some((at, size, flags));
        }
        out.extend(at.to_le_bytes());
        out.extend([size, flags].map(u32::to_le_bytes).concat());
        out.extend(0u64.to_le_bytes());
    }
    out.extend(data);
    out
}

/// The flattened form of a dump, in blocks of `block` bytes, the second half of them before the
/// first, and the first block's place written twice: the end as it is, the start at first with
/// zeros.
pub fn flatten(dump: &[u8], block: usize) -> Vec<u8> {
    let mut out = flattened::SIGNATURE.to_vec();
    out.extend([1u64, 1].map(u64::to_be_bytes).concat());
    out.resize(PAGE_SIZE, 0);
    let mut write = |place: usize, bytes: &[u8]| {
        out.extend([place as u64, bytes.len() as u64].map(u64::to_be_bytes).concat());
        out.extend(bytes);
    };
    let blocks: Vec<(usize, &[u8])> = dump.chunks(block.max(1)).enumerate().collect();
    if let Some((_, first)) = blocks.first() {
        write(0, &vec![0; first.len()]);
    }
    let (early, late) = blocks.split_at(blocks.len() / 2);
    for (i, bytes) in late.iter().chain(early) {
        write(i * block.max(1), bytes);
    }
    out.extend([0xff; 16]);
    out
}
