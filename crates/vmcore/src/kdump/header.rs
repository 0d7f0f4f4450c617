//! Header, sub-header and bitmaps.

use crate::bytes::{array, le32, le64};
use crate::error::{MACHINES, VmcoreError};
use crate::file::{ReadAt, exact};

use flightrec_format::abi::page::PAGE_SIZE;

/// Bytes of the largest pages of a machine's memory (aarch64).
const BLOCK_MAX: usize = 1 << 16;

/// First bytes of the form.
pub(crate) const SIGNATURE: &[u8] = b"KDUMP   ";
/// What this form is called.
pub(crate) const FORM: &str = "kdump-compressed file";
/// The newest version of the header that there is.
const VERSION: u32 = 6;

/// Places in the header, 64-bit machines: `utsname`'s machine, and what stands after the time
/// stamp.
const MACHINE: usize = 12 + 4 * 65;
const STATUS: usize = 424;
const BLOCK_SIZE: usize = 428;
const SUB_HEADER_BLOCKS: usize = 432;
const BITMAP_BLOCKS: usize = 436;
const MAX_MAPNR: usize = 440;
/// The block size where a 32-bit machine's header has it: its time stamp is half as long.
const BLOCK_SIZE_32: usize = 416;
/// Places in the sub-header, 64-bit machines.
const SPLIT: usize = 12;
const MAX_MAPNR_64: usize = 96;
/// `DUMP_DH_COMPRESSED_INCOMPLETE`.
const INCOMPLETE: u32 = 8;

/// Bytes of the bitmap that are read at once.
const CHUNK: usize = 1 << 16;

/// What the header tells.
pub(super) struct Header {
    /// Where the bitmap of the pages in the file is, and its bytes.
    bitmap: (u64, u64),
    /// Pages of memory that the bitmap is of.
    max_mapnr: u64,
    /// Bytes of a page of the machine's memory.
    pub(super) page: usize,
    /// Where the first descriptor is.
    pub(super) descriptors_at: u64,
    /// The writer ran out of space.
    pub(super) incomplete: bool,
    /// `uname -m`.
    pub(super) machine: String,
}

impl Header {
    pub(super) fn read(file: &dyn ReadAt) -> Result<Self, VmcoreError> {
        let cut = || damaged("cut inside its headers");
        let header: [u8; 512] = exact(file, 0)?.ok_or_else(cut)?;
        let number = |at| le32(&header, at).unwrap_or(0);
        let version = number(8);
        if version > VERSION && version.swap_bytes() <= VERSION {
            let what = "a kdump-compressed file of a big-endian machine";
            return Err(VmcoreError::unsupported(what, MACHINES));
        }
        if version > VERSION {
            let what =
                format!("a kdump-compressed file of header version {version}, which is not known");
            return Err(VmcoreError::unsupported(
                what,
                "use a newer flightctl, or `makedumpfile -E` for an ELF file",
            ));
        }
        let machine: [u8; 65] = array(&header, MACHINE).ok_or_else(cut)?;
        let machine = machine.split(|byte| *byte == 0).next().unwrap_or_default();
        let machine = String::from_utf8_lossy(machine).into_owned();
        let page = number(BLOCK_SIZE) as usize;
        if !page.is_power_of_two() || !(PAGE_SIZE..=BLOCK_MAX).contains(&page) {
            if number(BLOCK_SIZE_32) as usize == PAGE_SIZE {
                let what = "a kdump-compressed file of a 32-bit machine";
                return Err(VmcoreError::unsupported(what, MACHINES));
            }
            return Err(damaged(format!("a block size of {page} bytes")));
        }
        let block = page as u64;
        let sub: [u8; 128] = exact(file, block)?.ok_or_else(cut)?;
        // From version 2 on; a part has every n-th stretch of memory, and its bitmap is of all.
        if version >= 2 && le32(&sub, SPLIT) == Some(1) {
            let what = "one part of a dump that makedumpfile --split made";
            return Err(VmcoreError::unsupported(
                what,
                "join its parts, by `makedumpfile --reassemble PART… DUMP`",
            ));
        }
        let wide = le64(&sub, MAX_MAPNR_64).filter(|n| version >= VERSION && *n != 0);
        let max_mapnr = wide.unwrap_or_else(|| u64::from(number(MAX_MAPNR)));
        let bitmaps = block * (1 + u64::from(number(SUB_HEADER_BLOCKS)));
        let all = block * u64::from(number(BITMAP_BLOCKS));
        // Two bitmaps, of which the second counts; old dumps without filtering have but one
        // (crash's diskdump.c).
        let two = all >= max_mapnr.div_ceil(8).div_ceil(block).saturating_mul(2 * block);
        let bitmap = if two { (bitmaps + all / 2, all / 2) } else { (bitmaps, all) };
        if max_mapnr == 0 || all == 0 {
            return Err(damaged("a machine without memory"));
        }
        let incomplete = number(STATUS) & INCOMPLETE != 0;
        let descriptors_at = bitmaps + all;
        Ok(Self { bitmap, max_mapnr, page, descriptors_at, incomplete, machine })
    }

    /// How many pages are in the file.
    pub(super) fn pages(&self, file: &dyn ReadAt) -> Result<u64, VmcoreError> {
        let (start, length) = self.bitmap;
        let mut chunk = vec![0; CHUNK];
        let (mut at, mut count) = (0, 0);
        let length = length.min(self.max_mapnr.div_ceil(8));
        if start.saturating_add(length) > file.size() {
            return Err(damaged("cut inside its bitmaps, before the first page of memory"));
        }
        while at < length {
            // Where the file has holes, no bit is set.
            let Some((data, _)) = file.data(start + at) else { break };
            at = data.saturating_sub(start);
            let want = length.saturating_sub(at).min(CHUNK as u64) as usize;
            let read = file.read_at(chunk.get_mut(..want).unwrap_or_default(), start + at)?;
            let bits = chunk.get(..read).unwrap_or_default();
            count += bits.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
            if read == 0 {
                break;
            }
            at += read as u64;
        }
        Ok(count)
    }
}

fn damaged(reason: impl Into<String>) -> VmcoreError {
    VmcoreError::damaged(FORM, reason)
}
