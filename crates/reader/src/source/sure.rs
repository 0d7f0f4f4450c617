//! What is known of a stretch of a window beside its pages: that nothing of it is missing, and
//! where some of it was left unread.

use std::sync::Arc;

use super::PageSet;

/// A stretch after others of a window of which nothing is missing in the files, whichever of its
/// pages are read.
#[derive(Debug, Clone)]
pub struct Sure {
    /// From when on it is read, ns of `CLOCK_MONOTONIC`.
    pub read_from: u64,
    /// The threads whose system calls are told, in order, where others are read in part; `None`:
    /// all.
    pub threads: Option<Arc<[u32]>>,
}

/// A moment from which on all events are there again, some before it having been left unread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The moment, ns of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// The CPUs that are idle then. Any other CPU goes idle, or switches at least, before an event
    /// is wanted.
    pub idle: Vec<u16>,
}

impl Sure {
    /// When events may be missing: what was before the stretch is known from those before it.
    pub fn holes(&self) -> [(u64, u64); 1] {
        [(0, self.read_from)]
    }
}

/// Moments that are still to come.
#[derive(Debug, Clone, Default)]
pub struct Skips {
    all: Arc<[Skip]>,
    next: usize,
}

impl Skips {
    /// Those of a recording's stretch that is read from `from` on.
    pub fn of(recording: &PageSet, from: u64) -> Self {
        let next = recording.skips.partition_point(|skip| skip.at < from);
        Self { all: recording.skips.clone(), next }
    }

    /// The last of those that have come at `time`.
    #[inline]
    pub fn pass(&mut self, time: u64) -> Option<&Skip> {
        let mut passed = None;
        while self.all.get(self.next).is_some_and(|skip| skip.at <= time) {
            passed = Some(self.next);
            self.next += 1;
        }
        self.all.get(passed?)
    }
}
