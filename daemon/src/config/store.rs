//! `[store]`: the files that the recording is drained into.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Size, Span};

/// How often the open pages may be drained: below, the file is mostly headers; above, a crash costs
/// too much.
const FLUSH: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(10));
/// How often files may be brought to the disk.
const SYNC: (Duration, Duration) = (Duration::from_millis(50), Duration::from_hours(1));
/// Smallest file that makes sense: what explains a file alone takes some tens of KiB.
const FILE_LEAST: Size = Size::kib(256);
/// Shortest age at which a next file is begun.
const FILE_AGE_LEAST: Duration = Duration::from_secs(1);
/// Levels of zstd that keep up with a recording; 20 and above take hundreds of MiB.
const LEVELS: std::ops::RangeInclusive<i32> = -7..=19;

/// Rotating compressed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Whether files are written at all.
    pub enabled: bool,
    /// Most bytes that all files take together.
    pub max_total: Size,
    /// Bytes of the file system that are left free.
    pub keep_free: Size,
    /// Bytes of the newest files that stay, however little is free.
    pub keep_at_least: Size,
    /// Files older than this are deleted; 0: none is for its age.
    pub max_age: Span,
    /// A file of this size is closed, and the next begun.
    pub file_size: Size,
    /// A file of this age is closed, and the next begun.
    pub file_age: Span,
    /// Level of zstd.
    pub level: i32,
    /// How often the pages that are being written are drained.
    pub flush_interval: Span,
    /// How often the files are brought to the disk (`fdatasync`).
    pub sync_interval: Span,
    /// Most bytes a second that are written, on average; 0: any.
    pub max_rate: Size,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            enabled: true,
            max_total: Size::mib(2048),
            keep_free: Size::mib(1024),
            keep_at_least: Size::mib(256),
            max_age: Span::seconds(0),
            file_size: Size::mib(64),
            file_age: Span::seconds(3600),
            level: 1,
            flush_interval: Span::seconds(2),
            sync_interval: Span::seconds(10),
            max_rate: Size::mib(32),
        }
    }
}

impl Store {
    /// Refuses what can't work; names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.file_size < FILE_LEAST {
            return Err((
                "store.file_size",
                format!("{} is too small: give at least {FILE_LEAST}", self.file_size),
            ));
        }
        // One file is being written, which retention spares: with less than two there would be no
        // history left to spare.
        if self.max_total.bytes() / 2 < self.file_size.bytes() {
            let message = format!(
                "{} is less than two files of {}: raise it, or make file_size smaller (enabled = \
                 false writes no files)",
                self.max_total, self.file_size
            );
            return Err(("store.max_total", message));
        }
        if self.file_age.duration() < FILE_AGE_LEAST {
            return Err((
                "store.file_age",
                format!("{} is too short: give at least 1s", self.file_age),
            ));
        }
        if self.max_age.limit().is_some_and(|age| age < self.file_age.duration()) {
            let message =
                format!("{} is less than one file's age of {}", self.max_age, self.file_age);
            return Err(("store.max_age", message));
        }
        if !LEVELS.contains(&self.level) {
            return Err((
                "store.level",
                format!("{} is not within {} to {}", self.level, LEVELS.start(), LEVELS.end()),
            ));
        }
        for (key, span, (least, most)) in [
            ("store.flush_interval", self.flush_interval, FLUSH),
            ("store.sync_interval", self.sync_interval, SYNC),
        ] {
            if !(least..=most).contains(&span.duration()) {
                let (least, most) =
                    (humantime::format_duration(least), humantime::format_duration(most));
                return Err((key, format!("{span} is not within {least} to {most}")));
            }
        }
        Ok(())
    }
}
