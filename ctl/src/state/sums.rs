//! The sums of minutes.

use flightrec_format::control::SumsStatus;
use jiff::Timestamp;
use serde::Serialize;

use super::{moment, seconds};

/// Sums of minutes. Counters count from the daemon's start.
#[derive(Debug, Serialize)]
pub struct Sums {
    /// Whether any are made.
    pub enabled: bool,
    /// Why they can't be made now.
    pub reason: Option<String>,
    /// The end of the newest minute of this recording that is in the files of sums.
    pub newest: Option<Timestamp>,
    /// Whole minutes of this recording after that one, which are not in these files yet; none:
    /// flightd has just begun, and does not know.
    pub waiting_minutes: Option<u64>,
    /// How far adding up is behind.
    pub behind_seconds: Option<f64>,
    /// Files of sums of all recordings.
    pub files: u64,
    /// What they take.
    pub bytes: u64,
    /// Events that were added up.
    pub events: u64,
    /// Time of which the events were deleted before they were added up.
    pub unsummed_seconds: f64,
    /// Whether more CPU time than usual is taken, as events that are not added up would be deleted
    /// soon.
    pub hurries: bool,
    /// CPU time of making sums.
    pub cpu_seconds: f64,
}

impl Sums {
    /// Of a recording that began at `since`; ns of `CLOCK_MONOTONIC`.
    pub(super) fn of(sums: SumsStatus, since: u64, now: u64, wall_offset: i64) -> Self {
        let is_known = sums.enabled && sums.looked;
        let behind = |until: u64| is_known.then(|| now.saturating_sub(until.max(since)));
        Self {
            enabled: sums.enabled,
            reason: sums.failed,
            newest: (sums.written != 0).then(|| moment(sums.written, wall_offset)),
            waiting_minutes: behind(sums.written).map(|ns| ns / 60_000_000_000),
            behind_seconds: behind(sums.added.max(sums.written)).map(seconds),
            files: sums.files,
            bytes: sums.bytes,
            events: sums.events,
            unsummed_seconds: seconds(sums.unsummed),
            hurries: sums.hurries,
            cpu_seconds: seconds(sums.cpu),
        }
    }
}
