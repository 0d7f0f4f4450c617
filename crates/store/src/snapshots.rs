//! The snapshots of a state directory: `STATE_DIR/snapshots/<UTC time>-<cause>.flight`. Names are
//! made and read here only.
//!
//! A snapshot is a file of a recording like any other, and says of itself why it is there
//! ([`crate::snapshot::About`]). It never changes. How often its cause came again stands beside it,
//! in `<name>.repeats`; a page of it for browsers, if one was made, in `<name>.html`. Files whose
//! names begin with a dot are being made.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flightrec_format::file::{OpenError, open};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::block::Kind;
use crate::content::Content;
use crate::dir::EXTENSION;
use crate::error::StoreError;
use crate::reader::FileReader;
use crate::snapshot::About;

/// Name of the directory in the state directory.
pub const DIRECTORY: &str = "snapshots";
/// What the names of the counts end in.
const REPEATS: &str = "repeats";
/// What the names of pages end in.
const PAGE: &str = "html";
/// Longest file of counts that is read, bytes.
const REPEATS_MAX: u64 = 4096;
/// How the time stands in a name: UTC, without characters that are awkward in names.
const TIME: &str = "%Y%m%dT%H%M%SZ";
/// Longest name without its ending, bytes.
const NAME_MAX: usize = 96;

/// A snapshot, by its file alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name without the ending: by this it is asked for.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// Its size, with that of its page.
    pub bytes: u64,
    /// When it was taken, ns since 1970, by the clock of then.
    pub modified: i64,
}

/// How often the cause of a snapshot came again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeats {
    /// How often, the first time not counted.
    pub count: u64,
    /// When it was the last time, ns since 1970.
    pub last: i64,
}

/// The directory of a state directory's snapshots.
pub fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join(DIRECTORY)
}

/// An id for a snapshot that is taken at `wall` (ns since 1970). `nth`: the first has 1; a number
/// is appended to others.
pub fn id(wall: i64, cause: &str, nth: u32) -> String {
    let time = Timestamp::from_nanosecond(i128::from(wall))
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .strftime(TIME);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let cause: String = cause.chars().take(40).map(plain).collect();
    if nth <= 1 { format!("{time}-{cause}") } else { format!("{time}-{cause}-{nth}") }
}

/// The file of an id; `None` where it can be none's: an id has no character that a path could be
/// made with.
pub fn path(dir: &Path, id: &str) -> Option<PathBuf> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let good = !id.is_empty() && id.len() <= NAME_MAX && id.bytes().all(plain);
    good.then(|| dir.join(format!("{id}.{EXTENSION}")))
}

/// The snapshots in a directory, newest first. There are none where the directory is not there.
pub fn list(dir: &Path) -> Result<Vec<Entry>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(StoreError::io(dir))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io(dir))?;
        let name = entry.file_name();
        let Some(id) =
            name.to_str().and_then(|name| name.strip_suffix(EXTENSION)?.strip_suffix('.'))
        else {
            continue;
        };
        if path(dir, id).is_none() {
            continue;
        }
        let metadata = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => continue,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(StoreError::io(&entry.path())(e)),
        };
        let modified =
            metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        found.push(Entry {
            id: id.to_owned(),
            path: entry.path(),
            bytes: metadata.len().saturating_add(page_bytes(&entry.path())),
            modified,
        });
    }
    found.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
    Ok(found)
}

/// What a file says of itself; `None`: it is no snapshot, or that part of it is damaged.
pub fn about(path: &Path) -> Result<Option<About>, StoreError> {
    let reader = FileReader::open(path)?;
    let mut blocks = reader.of(Kind::Snapshot).rev();
    Ok(blocks.find_map(|block| match reader.read(block) {
        Ok(Content::Snapshot(about)) => Some(*about),
        _ => None,
    }))
}

/// How often a snapshot's cause came again, `path` being its file.
pub fn repeats(path: &Path) -> Repeats {
    let mut text = String::new();
    let read = open(&path.with_extension(REPEATS))
        .map_err(OpenError::into_io)
        .and_then(|file| file.take(REPEATS_MAX).read_to_string(&mut text));
    read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Writes that beside it. `make`: makes a file that is not there yet, with the access that it is to
/// have.
pub fn set_repeats(
    path: &Path,
    repeats: Repeats,
    make: impl FnOnce(&Path) -> io::Result<File>,
) -> io::Result<()> {
    let to = path.with_extension(REPEATS);
    let name =
        to.file_name().map(|name| format!(".{}", name.to_string_lossy())).unwrap_or_default();
    let new = to.with_file_name(name);
    // One that a killed daemon left.
    drop(fs::remove_file(&new));
    make(&new)?.write_all(serde_json::to_string(&repeats)?.as_bytes())?;
    fs::rename(new, to)
}

/// Where the page of a snapshot is, if it has one, `path` being its file.
pub fn page(path: &Path) -> PathBuf {
    path.with_extension(PAGE)
}

fn page_bytes(path: &Path) -> u64 {
    page(path).symlink_metadata().map_or(0, |metadata| metadata.len())
}

/// Deletes a snapshot, with what stands beside it.
pub fn remove(entry: &Entry) -> io::Result<()> {
    // It may have neither.
    drop(fs::remove_file(entry.path.with_extension(REPEATS)));
    drop(fs::remove_file(page(&entry.path)));
    fs::remove_file(&entry.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(path: &Path) -> io::Result<File> {
        File::create_new(path)
    }

    const WALL: i64 = 1_795_262_703_500_000_000;

    #[test]
    fn ids_are_names_and_nothing_else() {
        assert_eq!(id(WALL, "core dump", 1), "20261121T120503Z-core-dump");
        assert_eq!(id(WALL, "../../etc", 2), "20261121T120503Z-------etc-2");
        let dir = Path::new("/d");
        let file = path(dir, "20261121T120503Z-oom-kill").unwrap();
        assert_eq!(file, dir.join("20261121T120503Z-oom-kill.flight"));
        for wrong in ["", "..", "a/b", "a.b", &"x".repeat(97), "\u{e4}"] {
            assert_eq!(path(dir, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lists_what_is_there_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(list(&dir.path().join("none")).unwrap(), []);
        for name in ["a-1.flight", "b.flight", ".c.flight", "d.repeats", "e f.flight", "g.txt"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        fs::create_dir(dir.path().join("h.flight")).unwrap();
        let ids =
            || list(dir.path()).unwrap().into_iter().map(|entry| entry.id).collect::<Vec<_>>();
        let old = File::options().write(true).open(dir.path().join("b.flight")).unwrap();
        old.set_modified(UNIX_EPOCH).unwrap();
        assert_eq!(ids(), ["a-1", "b"]);
        let [newest, _] = &list(dir.path()).unwrap()[..] else { panic!() };
        set_repeats(&newest.path, Repeats { count: 7, last: 5 }, make).unwrap();
        set_repeats(&newest.path, Repeats { count: 8, last: 6 }, make).unwrap();
        assert_eq!(repeats(&newest.path), Repeats { count: 8, last: 6 });
        fs::write(page(&newest.path), [0; 1000]).unwrap();
        assert_eq!(list(dir.path()).unwrap()[0].bytes, newest.bytes + 1000);
        remove(newest).unwrap();
        assert!(!page(&newest.path).exists());
        assert_eq!((ids(), repeats(&newest.path)), (vec!["b".to_owned()], Repeats::default()));
    }
}
