//! Readers that need only some of a window's blocks, or of their contents.

use flightrec_format::abi::page::Lane;
use flightrec_store::columns::Contents;

use super::decoded::{Decoded, Decoding};
use super::load;
use super::narrow::Chosen;

/// Which blocks of pages are read.
#[derive(Debug, Clone, Copy)]
pub enum Pick<'a> {
    /// All of these lanes.
    Lanes(&'a [Lane]),
    /// Those of system calls, without the contents of arguments and strings, and of the task lane.
    CallEnds {
        /// It is known that nothing is missing.
        is_sure: bool,
        /// Whoever reads on does so from here: the blocks that reach it are held decoded.
        until: u64,
    },
    /// Those that were chosen. Nothing is missing.
    Chosen(&'a Chosen),
}

impl<'a> Pick<'a> {
    pub(super) fn lanes(self) -> &'a [Lane] {
        match self {
            Self::Lanes(lanes) => lanes,
            Self::CallEnds { .. } => &[Lane::Syscall, Lane::Task],
            Self::Chosen(_) => &Lane::RINGS,
        }
    }

    pub(super) fn has(self, job: &load::Job<'_>) -> bool {
        match self {
            Self::Lanes(_) | Self::CallEnds { .. } => true,
            Self::Chosen(chosen) => chosen.has(job),
        }
    }

    /// How they are decoded; `shared`: what other stretches decoded for this one.
    pub(super) fn decoding(self, shared: &'a Decoded) -> Decoding<'a> {
        match self {
            Self::Lanes(_) => Decoding::ALL,
            Self::CallEnds { until, .. } => {
                Decoding { held: Some(shared), contents: Contents::None, hold_from: until }
            }
            Self::Chosen(chosen) => Decoding { held: Some(chosen.decoded()), ..Decoding::ALL },
        }
    }

    /// Whether what a lane lacks is still to be told.
    pub(super) fn is_whole(self) -> bool {
        !matches!(self, Self::Chosen(_) | Self::CallEnds { is_sure: true, .. })
    }
}
