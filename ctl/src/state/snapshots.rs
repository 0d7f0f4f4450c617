//! Windows that were kept because something happened.

use flightrec_format::control::SnapshotStatus;
use jiff::Timestamp;
use serde::Serialize;

use super::moment;

/// How it stands with the snapshots; counters count from the daemon's start.
#[derive(Debug, Serialize)]
pub struct Snapshots {
    /// Whether any are taken.
    pub enabled: bool,
    /// Those that wait for their windows to pass, or are being made.
    pub pending: u32,
    /// Taken.
    pub taken: u64,
    /// Causes that came again and were counted beside the snapshot that there was.
    pub repeated: u64,
    /// Refused: there were too many.
    pub refused: u64,
    /// Those that could not be made.
    pub failed: u64,
    /// Kept in the directory, of all boots.
    pub kept: u32,
    /// What these take.
    pub bytes: u64,
    /// The last one that was taken since the daemon's start.
    pub last: Option<Last>,
}

/// The last snapshot.
#[derive(Debug, Serialize)]
pub struct Last {
    /// Its id.
    pub id: String,
    /// When its cause happened.
    pub time: Timestamp,
    /// Its cause in a sentence.
    pub reason: String,
}

impl Snapshots {
    /// As the daemon tells it; `wall_offset` as in [`flightrec_format::control::Status`].
    pub(super) fn of(status: SnapshotStatus, wall_offset: i64) -> Self {
        let SnapshotStatus {
            enabled,
            pending,
            taken,
            repeated,
            refused,
            failed,
            kept,
            bytes,
            last,
        } = status;
        let last = last.map(|last| Last {
            id: last.id,
            time: moment(last.time, wall_offset),
            reason: last.reason,
        });
        Self { enabled, pending, taken, repeated, refused, failed, kept, bytes, last }
    }
}
