//! The recorder's pages out of kernel dumps and memory images.
//!
//! A page explains itself ([`flightrec_format::abi::page`]), so no symbols and no debug information
//! are needed: every 4 KiB-aligned physical page whose first eight bytes are the magic is looked
//! at.
//!
//! [`Dump`] knows the form of the file, [`Scan`] what recordings are in it, [`Session`] which pages
//! each has and where. A scan keeps 64 bytes a page that it finds, never the page: what is wanted
//! is read again by [`Reader`]. What the events in the pages mean is left to others.
//!
//! # Forms
//! | form | written by |
//! | --- | --- |
//! | ELF core file | `/proc/vmcore` itself, `makedumpfile -E`, QEMU's `dump-guest-memory` |
//! | kdump-compressed, header versions 1 to 6 | `makedumpfile -c`, `-l`, `-p`, `-z` or none of them, QEMU's `kdump-zlib` and so on |
//! | either, flattened | `makedumpfile -F`, which is what Debian's kdump-tools and dumps over ssh use; QEMU's kdump forms |
//! | memory image without a header | QEMU's `pmemsave`, hypervisors, `/dev/mem` and the like |
//!
//! # Memory
//! Whatever the file holds or claims: per thread [`UNIT_BYTES`] × 2 and a codec's state; for a
//! flattened file about 70 bytes for each of at most [`BLOCKS_MAX`] blocks; 32 bytes for each of at
//! most [`SEGMENTS_MAX`] segments of an ELF file, and its program headers; 64 bytes for each of at
//! most [`PAGES_MAX`] pages of a recording, some twice while they are sorted into sessions.

mod bytes;
mod dump;
mod elf;
mod error;
mod extents;
mod file;
mod flattened;
mod kdump;
mod layout;
mod page_ref;
mod scan;
mod session;
#[cfg(feature = "synthetic")]
pub mod synthetic;

pub use dump::{Dump, Form, Reader};
pub use elf::SEGMENTS_MAX;
pub use error::VmcoreError;
pub use flattened::BLOCKS_MAX;
pub use layout::{Shortfall, UNIT_BYTES};
pub use page_ref::PageRef;
pub use scan::{PAGES_MAX, Rejected, Scan};
pub use session::{About, LaneCount, Session};
