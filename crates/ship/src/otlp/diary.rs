//! Which snapshots were told, and how much in all: `STATE_DIR/otlp.json`, replaced by rename after
//! each request that was taken.
//!
//! A kill between an answer and that is the one moment after which something is told twice: the
//! record has the same `log.record.uid` then, and spans have the same ids.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::files::{self, FileError};

/// The file in the state directory.
const FILE: &str = "otlp.json";
/// ns of the stretch in which so many records may be sent.
const MINUTE: i64 = 60_000_000_000;
/// Most snapshots that are remembered: flightd keeps fewer.
const TOLD_MAX: usize = 100_000;

/// What of a snapshot was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Told {
    /// Its record, and not its spans yet.
    Record,
    /// All of it.
    All,
    /// Nothing, and nothing will be.
    LeftOut,
}

/// The diary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Diary {
    /// When it began, ns since 1970.
    pub begun: i64,
    /// Snapshots, by id.
    told: BTreeMap<String, Told>,
    /// When records of the last minute were sent, ns since 1970.
    recent: Vec<i64>,
    /// Snapshots that were left out since the last record that said so.
    pub to_say: u64,
    /// Records that were taken.
    pub records: u64,
    /// Spans that were.
    pub spans: u64,
    /// Points of metrics that were.
    pub points: u64,
    /// Snapshots that were left out.
    pub left_out: u64,
    /// Spans that were, as there were more than may be told.
    pub spans_left_out: u64,
    /// What the collector said that it did not take of requests that it took.
    pub rejected: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that failed, and were sent again.
    pub failures: u64,
    /// When a request was taken last, ns since 1970; 0: not yet.
    pub last: i64,
    #[serde(skip)]
    path: PathBuf,
}

impl Diary {
    /// Reads it; where there is none, it begins `now` (ns since 1970).
    ///
    /// # Errors
    /// The file system's.
    pub fn open(state_dir: &Path, now: i64) -> Result<Self, FileError> {
        let path = state_dir.join(FILE);
        let read = files::read(&path)?;
        let mut diary = Self { begun: now, ..Self::default() };
        if let Some(bytes) = read {
            match serde_json::from_slice(&bytes) {
                Ok(read) => diary = read,
                Err(e) => warn!("{}: {e}: it begins anew", path.display()),
            }
        }
        diary.path = path;
        Ok(diary)
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self) -> Result<(), FileError> {
        // There is nothing in it that could not be written.
        files::replace(&self.path, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// What of a snapshot was told; `None`: nothing yet.
    pub fn told(&self, id: &str) -> Option<Told> {
        self.told.get(id).copied()
    }

    /// Something of a snapshot was told.
    pub fn tell(&mut self, id: &str, told: Told) {
        if self.told.len() >= TOLD_MAX && !self.told.contains_key(id) {
            // Ids begin with their time.
            self.told.pop_first();
        }
        self.told.insert(id.to_owned(), told);
    }

    /// A snapshot will not be told.
    pub fn leave_out(&mut self, id: &str) {
        self.tell(id, Told::LeftOut);
        self.left_out += 1;
        self.to_say += 1;
    }

    /// Forgets snapshots that are not there any more.
    pub fn forget(&mut self, found: &BTreeSet<&str>) {
        self.told.retain(|id, _| found.contains(id.as_str()));
    }

    /// For how long no record may be sent, ns, where so many a minute are allowed.
    pub fn wait(&mut self, a_minute: u32, now: i64) -> i64 {
        // A clock that was set back must not hold everything up.
        self.recent.retain(|at| (0..MINUTE).contains(&now.saturating_sub(*at)));
        let oldest = self.recent.len().checked_sub(a_minute as usize).map(|at| self.recent.get(at));
        oldest.flatten().map_or(0, |at| at.saturating_add(MINUTE).saturating_sub(now).max(1))
    }

    /// A record is sent.
    pub fn sends(&mut self, now: i64) {
        self.recent.push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut diary = Diary::open(dir.path(), 5).unwrap();
        diary.tell("a", Told::Record);
        diary.leave_out("b");
        diary.records = 7;
        diary.sends(10);
        diary.write().unwrap();
        let again = Diary::open(dir.path(), 9).unwrap();
        assert_eq!(again, diary);
        assert_eq!((again.begun, again.left_out, again.to_say), (5, 1, 1));
        assert_eq!((again.told("a"), again.told("b")), (Some(Told::Record), Some(Told::LeftOut)));
        std::fs::write(dir.path().join(FILE), "{\"records\":").unwrap();
        assert_eq!(Diary::open(dir.path(), 9).unwrap().begun, 9);
    }

    #[test]
    fn so_many_records_a_minute() {
        let mut diary = Diary::default();
        for at in [10, 20, 30] {
            assert_eq!(diary.wait(3, at), 0);
            diary.sends(at);
        }
        assert_eq!(diary.wait(3, 40), MINUTE - 30);
        assert_eq!(diary.wait(3, MINUTE + 10), 0);
        diary.sends(MINUTE + 10);
        assert_eq!(diary.wait(3, MINUTE + 15), 5);
        // Fewer are allowed now.
        assert_eq!(diary.wait(1, MINUTE + 15), MINUTE - 5);
        // The clock was set back.
        assert_eq!(diary.wait(3, 5), 0);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut diary = Diary::default();
        for n in 0..TOLD_MAX + 3 {
            diary.tell(&format!("{n:08}"), Told::All);
        }
        assert_eq!(diary.told.len(), TOLD_MAX);
        assert_eq!(diary.told("00000002"), None);
        diary.forget(&BTreeSet::from(["00000009"]));
        assert_eq!(diary.told.len(), 1);
    }
}
