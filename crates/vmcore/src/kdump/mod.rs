//! kdump-compressed files: every page of memory compressed by itself, in the order of its address.
//!
//! Block 0 is the header, then the sub-header, two bitmaps (which pages there are; which of them
//! are in the file), a descriptor for each page in the file, and the pages (struct
//! disk_dump_header, kdump_sub_header and page_desc, diskdump_mod.h of makedumpfile; dump.h of
//! QEMU). Of a 64-bit, little-endian machine: others record nothing. A page of the machine's memory
//! may be larger than one of a recording (16 and 64 KiB on aarch64): then there are several in it.

mod codec;
mod header;
mod pages;

#[cfg(feature = "synthetic")]
pub(crate) use codec::{Codecs, flag};
pub(crate) use header::{FORM, SIGNATURE};

use crate::error::VmcoreError;
use crate::file::ReadAt;
use crate::layout::{Layout, Scanner, Shortfall, Unit};
use header::Header;
use pages::{DESCRIPTOR, Pages};

use crate::layout::UNIT_BYTES;

/// A kdump-compressed file. A unit's numbers are of descriptors; the place of a recording's page is
/// that of its descriptor, plus its number in the machine's page.
pub(crate) struct Kdump {
    file: Box<dyn ReadAt>,
    /// Bytes of a page of the machine's memory.
    page: usize,
    descriptors_at: u64,
    /// Descriptors that are in the file.
    count: u64,
    shortfall: Shortfall,
}

impl Kdump {
    /// Reads header and bitmaps; also the machine that it is of.
    pub(crate) fn read(file: Box<dyn ReadAt>) -> Result<(Self, String), VmcoreError> {
        let header = Header::read(file.as_ref())?;
        let promised = header.pages(file.as_ref())?;
        let there = file.size().saturating_sub(header.descriptors_at) / DESCRIPTOR as u64;
        let shortfall = Shortfall {
            cut: promised.saturating_sub(there),
            incomplete: header.incomplete,
            ..Shortfall::default()
        };
        let count = promised.min(there);
        let Header { page, descriptors_at, machine, .. } = header;
        Ok((Self { file, page, descriptors_at, count, shortfall }, machine))
    }
}

impl Layout for Kdump {
    fn units(&self) -> Box<dyn Iterator<Item = Unit> + Send + '_> {
        let step = (UNIT_BYTES / self.page) as u64;
        let unit = move |i| Unit { start: i * step, count: step.min(self.count - i * step) };
        Box::new((0..self.count.div_ceil(step)).map(unit))
    }

    fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.page as u64)
    }

    fn shortfall(&self) -> Shortfall {
        self.shortfall
    }

    fn scanner(&self) -> Box<dyn Scanner + '_> {
        Box::new(Pages::new(self.file.as_ref(), self.page, self.descriptors_at))
    }
}
