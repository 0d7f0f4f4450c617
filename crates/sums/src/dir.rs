//! The directory of sums: `STATE_DIR/sums/<UTC start>-<number>.sums`. Names are made and read here
//! only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// Name of the directory in the state directory.
pub const DIRECTORY: &str = "sums";
/// What file names end in.
pub const EXTENSION: &str = "sums";
/// What the names of files that are being made end in; they are nothing yet.
pub const UNFINISHED: &str = "sums-new";
/// How the start stands in a name: UTC, without characters that are awkward in names.
const START: &str = "%Y%m%dT%H%M%SZ";

/// A file, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Its path.
    pub path: PathBuf,
    /// Its number: they rise in the order of writing.
    pub number: u32,
    /// Its size.
    pub bytes: u64,
}

/// The directory of a state directory's sums.
pub fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join(DIRECTORY)
}

/// The path of a file.
pub fn path(state_dir: &Path, created: i64, number: u32) -> PathBuf {
    let start = Timestamp::from_nanosecond(i128::from(created)).unwrap_or(Timestamp::UNIX_EPOCH);
    directory(state_dir).join(format!("{}-{number:08}.{EXTENSION}", start.strftime(START)))
}

/// The number in a name.
fn number(name: &str) -> Option<u32> {
    let (_, number) = name.strip_suffix(EXTENSION)?.strip_suffix('.')?.rsplit_once('-')?;
    let is_number = number.len() >= 8 && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_number)
}

/// All files, oldest first. Where there is no directory there are none.
pub fn files(state_dir: &Path) -> io::Result<Vec<FileInfo>> {
    let entries = match fs::read_dir(directory(state_dir)) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(number) else { continue };
        match entry.metadata() {
            Ok(of) if of.is_file() => {
                files.push(FileInfo { path: entry.path(), number, bytes: of.len() });
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    files.sort_by_key(|file| file.number);
    Ok(files)
}

/// Removes what was being made when its maker ended.
pub(crate) fn clean(state_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory(state_dir))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == UNFINISHED) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
