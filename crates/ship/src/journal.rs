//! What became of each item: `STATE_DIR/journal/YYYY-MM-DD.json`, a file for each day, written anew
//! by rename for each change.
//!
//! - An item is an hour of sums, or a snapshot; it belongs to the hour of its moment.
//! - It is entered when it is first seen, so that one that vanishes before it was made is told.
//! - The journal needs no more than to be true of a moment that was: an item that it takes for
//!   waiting is made again, and uploaded under the same names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::files::{self, FileError};
use crate::hour::Hour;

/// The directory in the state directory.
const DIRECTORY: &str = "journal";
/// What names end in.
const ENDING: &str = ".json";

/// Which item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The hour that it belongs to.
    pub hour: Hour,
    /// Which one of that.
    pub name: Name,
}

/// Which item of an hour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The sums of its minutes.
    Sums,
    /// The snapshot of this id.
    Snapshot(String),
}

/// What became of an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is to be made.
    #[default]
    Waiting,
    /// It is made, and waits in the spool.
    Spooled,
    /// All of it is in the storage.
    Shipped,
    /// It was there, and is not any more: what it was is lost.
    Dropped,
    /// It can't be made.
    Failed,
    /// There is nothing: no sums of this hour.
    Absent,
}

impl State {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting | Self::Spooled => "waiting",
            Self::Shipped => "shipped",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
            Self::Absent => "absent",
        }
    }
}

/// An item.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Item {
    /// What became of it.
    pub state: State,
    /// Why it is not shipped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// A snapshot's cause.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// Its recording; 0: several, or not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub session: u64,
    /// What it is of, ns since 1970: start.
    pub since: i64,
    /// End.
    pub until: i64,
    /// Nothing of that is missing; `None`: not known.
    pub complete: Option<bool>,
    /// Events that are missing; `None`: not known.
    pub missing: Option<u64>,
    /// Time of an hour that there are sums of, ns, as the source's headers tell it.
    #[serde(skip_serializing_if = "is_zero")]
    pub covered: u64,
    /// Periods of an hour, most often minutes.
    #[serde(skip_serializing_if = "is_zero")]
    pub periods: u64,
    /// Objects in the storage.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How often it was tried to make it.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An hour's items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Items {
    /// Its sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sums: Option<Item>,
    /// Its snapshots, by id.
    pub snapshots: BTreeMap<String, Item>,
    /// A checksum of what the table `shipped` in the storage has of it.
    pub told: Option<u32>,
}

/// A day, by the numbers of hours.
type Day = BTreeMap<String, Items>;

/// The journal.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    days: BTreeMap<String, Day>,
}

impl Journal {
    /// Reads what is there. A file that can't be understood is put aside: its items are shipped
    /// again, under the same names.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(state_dir: &Path) -> Result<Self, FileError> {
        let dir = state_dir.join(DIRECTORY);
        files::make_dir(&dir)?;
        let mut days = BTreeMap::new();
        for entry in fs::read_dir(&dir).map_err(FileError::of(&dir))? {
            let path = entry.map_err(FileError::of(&dir))?.path();
            let Some(date) = date(&path) else { continue };
            let Some(bytes) = files::read(&path)? else { continue };
            match serde_json::from_slice::<Day>(&bytes) {
                Ok(day) => _ = days.insert(date, day),
                Err(e) => {
                    let aside = path.with_extension("damaged");
                    warn!("{}: {e}: put aside as {}", path.display(), aside.display());
                    fs::rename(&path, &aside).map_err(FileError::of(&path))?;
                }
            }
        }
        Ok(Self { dir, days })
    }

    /// An item.
    pub fn get(&self, key: &Key) -> Option<&Item> {
        let items = self.items(key.hour)?;
        match &key.name {
            Name::Sums => items.sums.as_ref(),
            Name::Snapshot(id) => items.snapshots.get(id),
        }
    }

    /// The items of an hour.
    pub fn items(&self, hour: Hour) -> Option<&Items> {
        self.days.get(&hour.date())?.get(&hour.number())
    }

    /// Enters what became of an item.
    ///
    /// # Errors
    /// The file system's; the journal has it all the same, and the next change writes it.
    pub fn set(&mut self, key: &Key, item: Item) -> Result<(), FileError> {
        self.change(key.hour, |items| match &key.name {
            Name::Sums => items.sums = Some(item),
            Name::Snapshot(id) => _ = items.snapshots.insert(id.clone(), item),
        })
    }

    /// The table `shipped` in the storage has an hour as this checksum says.
    ///
    /// # Errors
    /// As of [`Self::set`].
    pub fn told(&mut self, hour: Hour, checksum: u32) -> Result<(), FileError> {
        self.change(hour, |items| items.told = Some(checksum))
    }

    fn change(&mut self, hour: Hour, change: impl FnOnce(&mut Items)) -> Result<(), FileError> {
        let date = hour.date();
        let day = self.days.entry(date.clone()).or_default();
        change(day.entry(hour.number()).or_default());
        let path = self.dir.join(format!("{date}{ENDING}"));
        // There is nothing in it that could not be written.
        files::replace(&path, &serde_json::to_vec(&*day).unwrap_or_default())
    }

    /// All items, in the order of hours, sums before snapshots.
    pub fn all(&self) -> impl Iterator<Item = (Key, &Item)> {
        self.hours().flat_map(|(hour, items)| {
            let sums = items.sums.iter().map(move |item| (Key { hour, name: Name::Sums }, item));
            let snapshots = items
                .snapshots
                .iter()
                .map(move |(id, item)| (Key { hour, name: Name::Snapshot(id.clone()) }, item));
            sums.chain(snapshots)
        })
    }

    /// All hours that have any, in order.
    pub fn hours(&self) -> impl Iterator<Item = (Hour, &Items)> {
        self.days.iter().flat_map(|(date, day)| {
            let hour = move |number: &String| format!("{date}T{number}").parse().ok();
            day.iter().filter_map(move |(number, items)| Some((hour(number)?, items)))
        })
    }

    /// Forgets days before that of `hour`, but for those of `kept` and those in which anything
    /// waits.
    ///
    /// # Errors
    /// The file system's.
    pub fn forget(&mut self, hour: Hour, kept: &BTreeSet<String>) -> Result<(), FileError> {
        let first = hour.date();
        let waits = |day: &Day| {
            let is_open = |item: &Item| matches!(item.state, State::Waiting | State::Spooled);
            day.values().any(|of| of.sums.iter().chain(of.snapshots.values()).any(is_open))
        };
        let old: Vec<String> = self
            .days
            .iter()
            .filter(|(date, day)| **date < first && !kept.contains(*date) && !waits(day))
            .map(|(date, _)| date.clone())
            .collect();
        for date in old {
            let path = self.dir.join(format!("{date}{ENDING}"));
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError::of(&path)(e));
                }
                _ => _ = self.days.remove(&date),
            }
        }
        Ok(())
    }
}

/// The date in the name of a journal's file.
fn date(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
    format!("{name}T00").parse::<Hour>().ok().map(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hour: &str, name: Name) -> Key {
        Key { hour: hour.parse().unwrap(), name }
    }

    fn item(state: State) -> Item {
        Item { state, bytes: 7, ..Item::default() }
    }

    #[test]
    fn items_are_there_after_a_restart_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        let keys = [
            key("2026-11-24T23", Name::Snapshot("b".into())),
            key("2026-11-25T00", Name::Sums),
            key("2026-11-25T00", Name::Snapshot("a".into())),
            key("2026-11-25T01", Name::Sums),
        ];
        for key in keys.iter().rev() {
            journal.set(key, item(State::Waiting)).unwrap();
        }
        journal.set(&keys[1], item(State::Shipped)).unwrap();
        journal.told(keys[1].hour, 5).unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        assert_eq!(journal.all().map(|(key, _)| key).collect::<Vec<_>>(), keys);
        assert_eq!(journal.get(&keys[1]), Some(&item(State::Shipped)));
        assert_eq!(journal.items(keys[1].hour).unwrap().told, Some(5));
        assert_eq!(journal.get(&key("2026-11-25T02", Name::Sums)), None);
    }

    #[test]
    fn what_is_damaged_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        let one = key("2026-11-24T23", Name::Sums);
        journal.set(&one, item(State::Shipped)).unwrap();
        let file = dir.path().join("journal/2026-11-24.json");
        let text = fs::read(&file).unwrap();
        for length in 0..text.len() {
            fs::write(&file, &text[..length]).unwrap();
            assert_eq!(Journal::open(dir.path()).unwrap().get(&one), None, "{length}");
            assert!(!file.exists());
        }
        assert!(file.with_extension("damaged").exists());
        fs::write(dir.path().join("journal/notes.json"), "{").unwrap();
        Journal::open(dir.path()).unwrap();
    }

    #[test]
    fn old_days_are_forgotten_when_nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        for (hour, state) in [
            ("2026-10-01T00", State::Shipped),
            ("2026-10-02T00", State::Waiting),
            ("2026-10-03T00", State::Dropped),
            ("2026-11-25T00", State::Shipped),
        ] {
            journal.set(&key(hour, Name::Sums), item(state)).unwrap();
        }
        let kept = BTreeSet::from(["2026-10-03".to_owned()]);
        journal.forget("2026-11-01T00".parse().unwrap(), &kept).unwrap();
        let left =
            |journal: &Journal| journal.hours().map(|(hour, _)| hour.date()).collect::<Vec<_>>();
        let dates = ["2026-10-02", "2026-10-03", "2026-11-25"];
        assert_eq!(left(&journal), dates);
        assert_eq!(left(&Journal::open(dir.path()).unwrap()), dates);
    }
}
