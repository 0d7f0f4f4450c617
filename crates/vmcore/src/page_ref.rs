//! A page of a recording that was found, and where.

use flightrec_format::abi::page::PageHeader;
use flightrec_format::kept;

/// What a page's header says that sorting and choosing pages needs, and where the page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageRef {
    /// Public id of its session.
    pub session: u64,
    /// Lane, by number: of lanes that this release does not know, too.
    pub lane: u8,
    /// CPU.
    pub cpu: u16,
    /// Number in its ring.
    pub seq: u64,
    /// Whether it stands in the quiet ring ([`flightrec_format::kept`]).
    pub kept: bool,
    /// Words in use.
    pub used: u32,
    /// When it was opened, ns of `CLOCK_MONOTONIC`.
    pub base_mono: u64,
    /// The same moment, ns of `CLOCK_TAI`.
    pub base_tai: u64,
    /// Where it is; the dump's own way to count.
    pub(crate) place: u64,
}

impl PageRef {
    /// The page with this header in the kernel's memory; `session`: the public id of its secret.
    pub(crate) fn new(header: &PageHeader, session: u64, place: u64) -> Self {
        let PageHeader { lane, cpu, seq, used, base_mono, base_tai, .. } = *header;
        let kept = kept::is_kept(header);
        Self { session, lane, cpu, seq, kept, used, base_mono, base_tai, place }
    }

    /// What all copies of a page have in common.
    pub fn identity(&self) -> (u64, u8, u16, u64) {
        (self.session, self.lane, self.cpu, self.seq)
    }
}

const _: () = assert!(size_of::<PageRef>() <= 64);
