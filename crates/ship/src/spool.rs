//! What is made and waits to be uploaded: `STATE_DIR/spool/HOUR~ITEM/`, a folder for each item.
//!
//! - A folder is made as `.part-…`, and gets its name when all of it is on the disk; what is left
//!   of others is removed at the start.
//! - A file is removed when its object is in the storage; so what a restart finds is what is still
//!   to be uploaded, and the folder goes when the journal has the item.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::files::{self, FileError};
use crate::hour::Hour;
use crate::journal::{Item, Key, Name};

/// The directory in the state directory.
const DIRECTORY: &str = "spool";
/// What an item's folder says of it.
const MANIFEST: &str = "manifest.json";
/// What names of folders begin with that are being made.
const PART: &str = ".part-";
/// Between the parts of a folder's name.
const BETWEEN: char = '~';
/// What stands in a folder's name for an hour's sums, and before a snapshot's id.
const SUMS: &str = "sums";
const SNAPSHOT: &str = "snapshot~";

/// A file that becomes an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its name in the storage.
    pub name: String,
    /// The file in the folder.
    pub file: String,
    /// Its size.
    pub bytes: u64,
}

/// What is in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// What the journal is to have of the item.
    pub item: Item,
    /// Its objects.
    pub objects: Vec<Object>,
}

/// An item that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooled {
    /// Which one.
    pub key: Key,
    /// What is in its folder.
    pub manifest: Manifest,
    dir: PathBuf,
}

/// The spool.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    items: Vec<Spooled>,
    /// Folders that were begun.
    begun: u64,
}

/// A folder in which an item is being made; it is removed unless it is kept.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
}

impl Part {
    /// Where files are to be made.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It is not there where it was kept. What is left goes at the next start.
        drop(fs::remove_dir_all(&self.path));
    }
}

impl Spool {
    /// Opens it: removes what was being made, and finds what is made.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(state_dir: &Path) -> Result<Self, FileError> {
        let dir = state_dir.join(DIRECTORY);
        files::make_dir(&dir)?;
        let mut items = Vec::new();
        for entry in fs::read_dir(&dir).map_err(FileError::of(&dir))? {
            let path = entry.map_err(FileError::of(&dir))?.path();
            match known(&path) {
                Some(spooled) => items.push(spooled),
                None => remove(&path)?,
            }
        }
        items.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { dir, items, begun: 0 })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// What waits, in the order of hours.
    pub fn items(&self) -> &[Spooled] {
        &self.items
    }

    /// Bytes of what waits.
    pub fn bytes(&self) -> u64 {
        self.items.iter().flat_map(Spooled::left).map(|object| object.bytes).sum()
    }

    /// Begins to make an item.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin(&mut self) -> Result<Part, FileError> {
        self.begun += 1;
        let path = self.dir.join(format!("{PART}{}-{}", std::process::id(), self.begun));
        files::make_dir(&path)?;
        Ok(Part { path })
    }

    /// It is made: all of it is on the disk when this returns.
    ///
    /// # Errors
    /// The file system's; then there is nothing of it.
    pub fn keep(&mut self, part: &Part, key: &Key, manifest: Manifest) -> Result<(), FileError> {
        for object in &manifest.objects {
            let path = part.path.join(&object.file);
            File::open(&path).and_then(|file| file.sync_all()).map_err(FileError::of(&path))?;
        }
        let text = serde_json::to_vec(&manifest).unwrap_or_default();
        files::replace(&part.path.join(MANIFEST), &text)?;
        let dir = self.dir.join(folder(key));
        // Of an attempt that the journal does not know.
        if dir.exists() {
            self.items.retain(|of| of.key != *key);
            remove(&dir)?;
        }
        fs::rename(&part.path, &dir).map_err(FileError::of(&dir))?;
        files::sync_dir(&self.dir).map_err(FileError::of(&self.dir))?;
        let at = self.items.partition_point(|of| of.key < *key);
        self.items.insert(at, Spooled { key: key.clone(), manifest, dir });
        Ok(())
    }

    /// An item is in the storage, and the journal has it.
    ///
    /// # Errors
    /// The file system's.
    pub fn done(&mut self, key: &Key) -> Result<(), FileError> {
        self.items.retain(|of| of.key != *key);
        remove(&self.dir.join(folder(key)))
    }
}

impl Spooled {
    /// The objects that are not in the storage yet.
    pub fn left(&self) -> impl Iterator<Item = &Object> {
        self.manifest.objects.iter().filter(|object| self.file(object).exists())
    }

    /// The file of an object.
    pub fn file(&self, object: &Object) -> PathBuf {
        self.dir.join(&object.file)
    }

    /// An object is in the storage.
    ///
    /// # Errors
    /// The file system's.
    pub fn sent(&self, object: &Object) -> Result<(), FileError> {
        let path = self.file(object);
        fs::remove_file(&path).map_err(FileError::of(&path))
    }
}

/// The folder of an item.
fn folder(key: &Key) -> String {
    let hour = key.hour;
    match &key.name {
        Name::Sums => format!("{hour}{BETWEEN}{SUMS}"),
        Name::Snapshot(id) => format!("{hour}{BETWEEN}{SNAPSHOT}{id}"),
    }
}

/// The item of a folder's name.
fn key(name: &str) -> Option<Key> {
    let (hour, name) = name.split_once(BETWEEN)?;
    let hour: Hour = hour.parse().ok()?;
    let name = match name.strip_prefix(SNAPSHOT) {
        Some(id) => Name::Snapshot(id.to_owned()),
        None => (name == SUMS).then_some(Name::Sums)?,
    };
    Some(Key { hour, name })
}

/// What is in a folder; `None`: it is not whole.
fn known(dir: &Path) -> Option<Spooled> {
    let key = key(dir.file_name()?.to_str()?)?;
    let bytes = files::read(&dir.join(MANIFEST)).ok()??;
    let manifest: Manifest = match serde_json::from_slice(&bytes) {
        Ok(manifest) => manifest,
        Err(e) => {
            warn!("{}: {e}: it is made again", dir.display());
            return None;
        }
    };
    let is_plain = |object: &Object| Path::new(&object.file).components().count() == 1;
    manifest.objects.iter().all(is_plain).then(|| Spooled { key, manifest, dir: dir.into() })
}

fn remove(path: &Path) -> Result<(), FileError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(FileError::of(path)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums() -> Key {
        Key { hour: "2026-11-25T07".parse().unwrap(), name: Name::Sums }
    }

    fn snapshot() -> Key {
        let name = Name::Snapshot("20261125T060503Z-core-dump".into());
        Key { hour: "2026-11-25T06".parse().unwrap(), name }
    }

    /// Makes an item of two files.
    fn make(spool: &mut Spool, key: &Key, text: &str) {
        let part = spool.begin().unwrap();
        let objects = ["a", "b"].map(|file| {
            fs::write(part.path().join(file), text).unwrap();
            Object { name: format!("t/{file}"), file: file.into(), bytes: text.len() as u64 }
        });
        let manifest = Manifest { item: Item::default(), objects: objects.into() };
        spool.keep(&part, key, manifest).unwrap();
    }

    fn left(spool: &Spool) -> Vec<(Key, usize)> {
        spool.items().iter().map(|of| (of.key.clone(), of.left().count())).collect()
    }

    #[test]
    fn what_is_left_of_an_item_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path()).unwrap();
        make(&mut spool, &sums(), "four");
        make(&mut spool, &snapshot(), "sixsix");
        assert_eq!((left(&spool), spool.bytes()), (vec![(snapshot(), 2), (sums(), 2)], 20));
        let first = spool.items()[0].clone();
        first.sent(first.left().next().unwrap()).unwrap();
        let mut spool = Spool::open(dir.path()).unwrap();
        assert_eq!((left(&spool), spool.bytes()), (vec![(snapshot(), 1), (sums(), 2)], 14));
        // The same once more, as after a crash before the journal had it.
        make(&mut spool, &sums(), "four");
        assert_eq!(left(&spool), [(snapshot(), 1), (sums(), 2)]);
        spool.done(&snapshot()).unwrap();
        assert_eq!(left(&Spool::open(dir.path()).unwrap()), [(sums(), 2)]);
    }

    #[test]
    fn what_is_not_whole_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path()).unwrap();
        make(&mut spool, &sums(), "four");
        let part = spool.begin().unwrap();
        fs::write(part.path().join("a"), "half").unwrap();
        std::mem::forget(part);
        let at = |name: &str| spool.path().join(name);
        fs::create_dir(at("2026-11-25T08~sums")).unwrap();
        fs::create_dir(at("2026-11-25T09~sums")).unwrap();
        fs::write(at("2026-11-25T09~sums").join(MANIFEST), "{").unwrap();
        fs::create_dir(at("2026-11-25T10~sums")).unwrap();
        let outside = r#"{"item":{},"objects":[{"name":"x","file":"../../x","bytes":1}]}"#;
        fs::write(at("2026-11-25T10~sums").join(MANIFEST), outside).unwrap();
        fs::write(at("notes"), "").unwrap();
        assert_eq!(left(&Spool::open(dir.path()).unwrap()), [(sums(), 2)]);
        assert_eq!(fs::read_dir(spool.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path()).unwrap();
        let part = spool.begin().unwrap();
        fs::write(part.path().join("a"), "half").unwrap();
        drop(part);
        assert_eq!(fs::read_dir(spool.path()).unwrap().count(), 0);
    }
}
