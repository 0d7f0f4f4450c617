//! What was sent, in numbers: `STATE_DIR/ledger.json`. The bytes of a day are entered before they
//! are sent, so no crash makes them more than the limit allows.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{self, FileError};

/// The file in the state directory.
const FILE: &str = "ledger.json";

/// The numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Numbers {
    /// When flight-ship first ran here, ns since 1970: hours before that are nobody's fault.
    pub begun: i64,
    /// The day (UTC) of `day_bytes`, as in `2026-11-25`.
    pub day: String,
    /// Bytes that were uploaded on that day.
    pub day_bytes: u64,
    /// Bytes that were uploaded at all times.
    pub bytes: u64,
    /// Objects.
    pub objects: u64,
    /// Attempts to upload that failed.
    pub failures: u64,
}

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    numbers: Numbers,
}

impl Ledger {
    /// Reads it; where there is none, it begins `now` (ns since 1970).
    ///
    /// # Errors
    /// The file system's.
    pub fn open(state_dir: &Path, now: i64) -> Result<Self, FileError> {
        let path = state_dir.join(FILE);
        let read = files::read(&path)?;
        let known = read.and_then(|bytes| serde_json::from_slice::<Numbers>(&bytes).ok());
        let is_new = known.is_none();
        let numbers = known.unwrap_or_else(|| Numbers { begun: now, ..Numbers::default() });
        let ledger = Self { path, numbers };
        if is_new {
            ledger.write()?;
        }
        Ok(ledger)
    }

    /// The numbers.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Bytes that were uploaded on a day.
    pub fn on(&self, day: &str) -> u64 {
        if self.numbers.day == day { self.numbers.day_bytes } else { 0 }
    }

    /// An object of so many bytes goes out on that day.
    ///
    /// # Errors
    /// The file system's.
    pub fn charge(&mut self, day: &str, bytes: u64) -> Result<(), FileError> {
        if self.numbers.day != day {
            (self.numbers.day, self.numbers.day_bytes) = (day.to_owned(), 0);
        }
        self.numbers.day_bytes = self.numbers.day_bytes.saturating_add(bytes);
        self.numbers.bytes = self.numbers.bytes.saturating_add(bytes);
        self.write()
    }

    /// Bytes that were charged did not go out: there was no connection. Written with the next one.
    pub fn refund(&mut self, day: &str, bytes: u64) {
        if self.numbers.day == day {
            self.numbers.day_bytes = self.numbers.day_bytes.saturating_sub(bytes);
        }
        self.numbers.bytes = self.numbers.bytes.saturating_sub(bytes);
    }

    /// It is there. Written with the next one.
    pub fn arrived(&mut self) {
        self.numbers.objects += 1;
    }

    /// It is not. Written with the next one.
    pub fn failed(&mut self) {
        self.numbers.failures += 1;
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self) -> Result<(), FileError> {
        files::replace(&self.path, &serde_json::to_vec(&self.numbers).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_anew_and_a_restart_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path(), 5).unwrap();
        ledger.charge("2026-11-25", 10).unwrap();
        ledger.arrived();
        ledger.charge("2026-11-25", 20).unwrap();
        assert_eq!((ledger.on("2026-11-25"), ledger.on("2026-11-26")), (30, 0));
        let mut ledger = Ledger::open(dir.path(), 9).unwrap();
        assert_eq!((ledger.numbers().begun, ledger.on("2026-11-25")), (5, 30));
        assert_eq!(ledger.numbers().objects, 1);
        ledger.charge("2026-11-26", 1).unwrap();
        assert_eq!((ledger.on("2026-11-26"), ledger.numbers().bytes), (1, 31));
        ledger.charge("2026-11-26", 5).unwrap();
        ledger.refund("2026-11-26", 5);
        ledger.refund("2026-11-25", 1);
        assert_eq!((ledger.on("2026-11-26"), ledger.numbers().bytes), (1, 30));
    }
}
