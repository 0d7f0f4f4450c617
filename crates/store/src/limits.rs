//! How large and how old files and the store may become.

use std::time::Duration;

use crate::block::BLOCKS_MAX;

/// Least size at which a file is followed by another, whatever the limits: below it, what every
/// file begins with would be most of it.
const ROLL_MIN: u64 = 64 << 10;

/// The limits of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together.
    pub max_total: u64,
    /// Bytes that stay free on the file system.
    pub keep_free: u64,
    /// Bytes of the newest files that are never deleted for the sake of [`Self::keep_free`] or of
    /// a full disk; the newest file is not in any case.
    pub keep_at_least: u64,
    /// Files whose last content is older are deleted; `None`: only for room.
    pub max_age: Option<Duration>,
    /// Bytes at which a file is closed and the next begun.
    pub file_size: u64,
    /// Age at which a file is closed and the next begun; `None`: only its size counts.
    pub file_age: Option<Duration>,
}

impl Limits {
    /// Size at which the next file is begun: an eighth of the store at most, so that deleting the
    /// oldest file costs little of the history.
    pub fn roll_size(&self) -> u64 {
        self.file_size.min(self.max_total / 8).max(ROLL_MIN)
    }

    /// Whether a file of that size, number of blocks and age (ns) is to be followed by another.
    pub fn roll(&self, size: u64, blocks: usize, age: u64) -> bool {
        let old = self.file_age.is_some_and(|limit| u128::from(age) >= limit.as_nanos());
        old || size >= self.roll_size() || blocks >= BLOCKS_MAX / 2
    }
}
