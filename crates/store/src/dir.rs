//! The store's directory: `STATE_DIR/<boot id>/<UTC start>-<number>.flight`. Names are made and
//! read here only.
//!
//! Numbers rise over all boots: their order is the order of writing, whatever the clock did. The
//! start is for people.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::error::StoreError;

/// What file names end in.
pub const EXTENSION: &str = "flight";
/// How the start stands in a name: UTC, without characters that are awkward in names.
const START: &str = "%Y%m%dT%H%M%SZ";

/// A file of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Its path.
    pub path: PathBuf,
    /// Boot that it belongs to.
    pub boot: [u8; 16],
    /// Its number.
    pub number: u32,
    /// When it was begun, s since 1970, by the clock of then.
    pub start: i64,
    /// When it was last written to, ns since 1970, by the clock of then.
    pub modified: i64,
    /// Its size.
    pub bytes: u64,
}

/// A boot with files in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// Its id.
    pub id: [u8; 16],
    /// Number of files.
    pub files: usize,
    /// When its first file was begun, s since 1970.
    pub first: i64,
    /// When its last file was last written to, ns since 1970.
    pub last: i64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// The files of a directory, as they were when it was read.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    /// Oldest first, those of a boot together.
    files: Vec<FileInfo>,
}

impl Store {
    /// Reads the directory. What is no file of a recording is passed over.
    pub fn open(state_dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = state_dir.into();
        let mut boots = Vec::new();
        for entry in fs::read_dir(&dir).map_err(StoreError::io(&dir))? {
            let entry = entry.map_err(StoreError::io(&dir))?;
            let Some(boot) = entry.file_name().to_str().and_then(parse_boot) else { continue };
            let path = entry.path();
            let mut files = match boot_files(&path, boot) {
                Ok(files) => files,
                // Removed meanwhile, or not a directory.
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    continue;
                }
                Err(e) => return Err(StoreError::io(&path)(e)),
            };
            files.sort_by_key(|file| file.number);
            boots.push(files);
        }
        // Names of boots are random, their clocks may be wrong: the number of the last file tells
        // their order.
        boots.sort_by_key(|files| files.last().map(|last| (last.number, last.boot)));
        Ok(Self { dir, files: boots.into_iter().flatten().collect() })
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All files, oldest first.
    pub fn all(&self) -> &[FileInfo] {
        &self.files
    }

    /// Its boots, oldest first.
    pub fn boots(&self) -> Vec<Boot> {
        let mut boots: Vec<Boot> = Vec::new();
        for file in &self.files {
            match boots.last_mut().filter(|boot| boot.id == file.boot) {
                Some(boot) => {
                    boot.files += 1;
                    boot.last = file.modified;
                    boot.bytes = boot.bytes.saturating_add(file.bytes);
                }
                None => boots.push(Boot {
                    id: file.boot,
                    files: 1,
                    first: file.start,
                    last: file.modified,
                    bytes: file.bytes,
                }),
            }
        }
        boots
    }

    /// The files of a boot, oldest first.
    pub fn files(&self, boot: &[u8; 16]) -> Vec<FileInfo> {
        self.files.iter().filter(|file| file.boot == *boot).cloned().collect()
    }

    /// The number for the next file.
    pub fn next_number(&self) -> u32 {
        self.files.iter().map(|file| file.number).max().unwrap_or(0).saturating_add(1)
    }
}

/// The files in a boot's directory.
fn boot_files(dir: &Path, boot: [u8; 16]) -> io::Result<Vec<FileInfo>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Some((start, number)) = entry.file_name().to_str().and_then(parse_name) else {
            continue;
        };
        let metadata = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => continue,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        let modified =
            metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        files.push(FileInfo {
            path: entry.path(),
            boot,
            number,
            start,
            modified,
            bytes: metadata.len(),
        });
    }
    Ok(files)
}

/// The path of a file below the state directory.
pub fn path(state_dir: &Path, boot: &[u8; 16], start_ns: i64, number: u32) -> PathBuf {
    let start = Timestamp::from_nanosecond(i128::from(start_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
    state_dir
        .join(boot_name(boot))
        .join(format!("{}-{number:06}.{EXTENSION}", start.strftime(START)))
}

/// Where kdump's hook leaves what it recovers for this state directory: beside it, since root alone
/// may own that, and the state directory is the daemon's user's.
pub fn crash_dir(state_dir: &Path) -> Option<PathBuf> {
    let full;
    let dir = if state_dir.file_name().is_some() {
        state_dir
    } else {
        // `.`, `..` and the like
        full = state_dir.canonicalize().ok()?;
        &full
    };
    let mut name = dir.file_name()?.to_owned();
    name.push("-crash");
    Some(dir.with_file_name(name))
}

/// A file's start (s since 1970) and number from its name.
pub fn parse_name(name: &str) -> Option<(i64, u32)> {
    let (start, number) = name.strip_suffix(EXTENSION)?.strip_suffix('.')?.split_once('-')?;
    if number.len() < 6 || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let start = DateTime::strptime(START, start).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some((start.timestamp().as_second(), number.parse().ok()?))
}

/// A boot id as the kernel writes it: `01234567-89ab-cdef-0123-456789abcdef`.
pub fn boot_name(id: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*id));
    let group = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [group(0..8), group(8..12), group(12..16), group(16..20), group(20..32)].join("-")
}

/// A boot id from [`boot_name`]'s form, exactly.
pub fn parse_boot(name: &str) -> Option<[u8; 16]> {
    let hex: Vec<u8> = name.bytes().filter(|b| *b != b'-').collect();
    let mut id = [0; 16];
    let (pairs, rest) = hex.as_chunks::<2>();
    if pairs.len() != id.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in id.iter_mut().zip(pairs) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
    }
    (boot_name(&id) == name).then_some(id)
}
