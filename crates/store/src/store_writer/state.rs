//! Whether files are written at present, and what was written so far.

use std::path::PathBuf;

/// The two clocks, read together by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// `CLOCK_MONOTONIC`, ns.
    pub mono: u64,
    /// `CLOCK_REALTIME`, ns since 1970.
    pub wall: i64,
}

/// Whether files are written at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// As far as is known; the first file is made with the first pages.
    Ready,
    /// They can't be. The rings hold what happens meanwhile.
    Failed {
        /// Since when, ns of `CLOCK_MONOTONIC`.
        since: u64,
        /// Why, the last time that it was tried: a sentence that says what to do.
        error: String,
        /// When it will be tried again, ns of `CLOCK_MONOTONIC`.
        retry_at: u64,
    },
}

/// What a writer did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// The file being written.
    pub file: Option<PathBuf>,
    /// Files in the store, that one included; `None`: not known, as the directory can't be read.
    pub files: Option<usize>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// When the oldest file was begun, s since 1970, by the clock of then.
    pub oldest: Option<i64>,
    /// Bytes written by this writer.
    pub bytes_written: u64,
    /// Events written by this writer.
    pub events_written: u64,
    /// Files deleted to keep the limits.
    pub deleted: Deleted,
    /// Times that writing failed.
    pub faults: u64,
    /// What failed last.
    pub last_fault: Option<String>,
}

/// Files that were deleted, by the limit that was to be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// [`crate::Limits::max_total`].
    pub total: Gone,
    /// [`crate::Limits::keep_free`], or because the disk was full.
    pub free: Gone,
    /// [`crate::Limits::max_age`].
    pub age: Gone,
}

/// Files that are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gone {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// First and longest pause between two attempts, ns.
const PAUSE: u64 = 1_000_000_000;
const PAUSE_MAX: u64 = 60_000_000_000;

/// The state, and how long the next pause will be.
#[derive(Debug)]
pub(super) struct Health {
    pub(super) state: State,
    /// Something failed in this round: its counters vouch for nothing.
    pub(super) torn: bool,
    /// What failed is the directory, not a write: it is well when the directory is.
    pub(super) dir: bool,
    pause: u64,
}

impl Health {
    pub(super) fn new() -> Self {
        Self { state: State::Ready, torn: false, dir: false, pause: PAUSE }
    }

    /// Something failed: the pauses grow while nothing succeeds between.
    pub(super) fn failed(&mut self, error: String, now: u64) {
        let since = match &self.state {
            State::Failed { since, .. } => *since,
            State::Ready => now,
        };
        self.state = State::Failed { since, error, retry_at: now.saturating_add(self.pause) };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.dir = false;
    }

    /// The directory can be used.
    pub(super) fn begun(&mut self) {
        if self.dir {
            (self.state, self.dir) = (State::Ready, false);
        }
    }

    /// Something was wrong, and can be mended at once.
    pub(super) fn notice(&mut self, error: String, now: u64) {
        self.state = State::Failed { since: now, error, retry_at: now };
    }

    /// Pages were written, to a file that has lasted for so long (ns): one that fails again at once
    /// is no success.
    pub(super) fn succeeded(&mut self, age: u64) {
        self.state = State::Ready;
        if age >= self.pause {
            self.pause = PAUSE;
        }
    }

    /// Whether it may be tried now.
    pub(super) fn may_try(&self, now: u64) -> bool {
        match self.state {
            State::Ready => true,
            State::Failed { retry_at, .. } => now >= retry_at,
        }
    }
}
