//! What files there are: sorted by boot, session and number from their headers alone.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flightrec_store::dir::EXTENSION;
use flightrec_store::{FileHeader, dir, snapshots};

use super::FilesError;
use super::decoded::Decoded;
use super::names::Superseded;
use crate::boots::BootId;

/// A file that is known by its header.
#[derive(Debug, Clone)]
pub struct StoredFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its header says.
    pub header: FileHeader,
    /// Nothing in it is of before this moment that is not in the file before it, ns of
    /// `CLOCK_MONOTONIC`.
    pub begins: u64,
    /// Nothing in it is of after this moment.
    pub ends: u64,
}

impl StoredFile {
    /// Whether it was saved by itself, or recovered from a dump, rather than written by the daemon,
    /// one of a series.
    pub fn is_saved(&self) -> bool {
        self.header.number == 0
    }
}

/// The files of one recording session.
#[derive(Debug, Clone)]
pub struct SessionFiles {
    /// The session.
    pub session: u64,
    /// In the order of writing; never empty.
    pub files: Vec<StoredFile>,
    /// What need not be read for names. All who read these files share it: the stretches of a
    /// window come one after the other.
    pub(super) superseded: Arc<Mutex<Superseded>>,
    /// What one stretch of a window decoded for the next.
    pub(super) decoded: Arc<Decoded>,
}

/// The sessions of one boot.
#[derive(Debug, Clone)]
pub struct BootFiles {
    /// The boot.
    pub id: BootId,
    /// By time; never empty.
    pub sessions: Vec<SessionFiles>,
}

/// Files that could not be taken in, and why.
pub type Refused = Vec<(PathBuf, FilesError)>;

/// The files among and below these paths: of a directory those that are in it, or in a directory of
/// it, and what kdump's hook left beside it. Each once.
///
/// # Errors
/// A path is not there, or a directory can not be read.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FilesError> {
    let mut found = Vec::new();
    for path in paths {
        if !fs::metadata(path).map_err(|e| FilesError::io(path, e))?.is_dir() {
            found.push(path.clone());
            continue;
        }
        let (mut files, dirs) = list(path)?;
        for dir in dirs {
            files.extend(list(&dir)?.0);
        }
        files.sort();
        found.append(&mut files);
        if let Some(crash) = dir::crash_dir(path)
            // It need not be there, or open to this user.
            && fs::read_dir(&crash).is_ok()
        {
            let (mut files, _) = list(&crash)?;
            files.sort();
            found.append(&mut files);
        }
    }
    let mut seen = HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    Ok(found)
}

/// A directory's recordings, and its directories.
fn list(dir: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), FilesError> {
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(|e| FilesError::io(dir, e))? {
        let entry = entry.map_err(|e| FilesError::io(dir, e))?;
        let kind = entry.file_type().map_err(|e| FilesError::io(&entry.path(), e))?;
        let path = entry.path();
        if kind.is_dir() {
            // Copies of what the other files hold; they are read where they are asked for.
            if entry.file_name() != snapshots::DIRECTORY {
                dirs.push(path);
            }
        } else if path.extension().is_some_and(|extension| extension == EXTENSION) {
            files.push(path);
        }
    }
    Ok((files, dirs))
}

/// The files of a store, by boot; the earliest first. Files that are no recordings of this release
/// come back by themselves.
///
/// # Errors
/// The directory, or one below it, can not be read.
pub fn store(dir: &Path) -> Result<(Vec<BootFiles>, Refused), FilesError> {
    let (boots, refused) = sort(find(&[dir.to_owned()])?, true);
    if boots.is_empty() && refused.is_empty() {
        Err(FilesError::Empty(dir.into()))
    } else {
        Ok((boots, refused))
    }
}

/// These files, by boot. Each must be a recording.
///
/// # Errors
/// One of them can not be read, or is no recording.
pub fn files(paths: &[PathBuf]) -> Result<Vec<BootFiles>, FilesError> {
    let found = find(paths)?;
    let (boots, refused) = sort(found, false);
    match refused.into_iter().next() {
        Some((_, error)) => Err(error),
        None if boots.is_empty() => {
            Err(FilesError::Empty(paths.first().cloned().unwrap_or_default()))
        }
        None => Ok(boots),
    }
}

/// `in_series`: they are all files of their sessions, so that each begins where the one before
/// ends.
fn sort(paths: Vec<PathBuf>, in_series: bool) -> (Vec<BootFiles>, Refused) {
    let (mut boots, mut refused): (Vec<BootFiles>, Refused) = (Vec::new(), Vec::new());
    for path in paths {
        let header = match flightrec_store::read_header(&path) {
            Ok(header) => header,
            Err(error) => {
                refused.push((path, error.into()));
                continue;
            }
        };
        let file = StoredFile { path, header, begins: 0, ends: u64::MAX };
        let boot = match boots.iter_mut().find(|boot| boot.id == header.boot_id) {
            Some(boot) => boot,
            None => boots.push_mut(BootFiles { id: header.boot_id, sessions: Vec::new() }),
        };
        match boot.sessions.iter_mut().find(|session| session.session == header.session) {
            Some(session) => session.files.push(file),
            None => boot.sessions.push(SessionFiles {
                session: header.session,
                files: vec![file],
                superseded: Arc::default(),
                decoded: Arc::default(),
            }),
        }
    }
    for session in boots.iter_mut().flat_map(|boot| &mut boot.sessions) {
        // What was saved, or recovered from a dump, has no number: it stands beside the series,
        // after its last file.
        session
            .files
            .sort_by_key(|file| (file.is_saved(), file.header.number, file.header.created_mono));
        if in_series {
            session.bound();
        }
    }
    for boot in &mut boots {
        boot.sessions.sort_by_key(SessionFiles::begins);
    }
    if in_series {
        // Numbers rise over all boots of a store, whatever the clock did.
        boots.sort_by_key(BootFiles::number);
    } else {
        boots.sort_by_key(BootFiles::created);
    }
    (boots, refused)
}

impl SessionFiles {
    /// When its first file was made, ns of `CLOCK_MONOTONIC`.
    pub fn begins(&self) -> u64 {
        self.files.first().map_or(0, |file| file.header.created_mono)
    }

    /// Each file of the series ends where the next was made. Where it begins is not where it was
    /// made: a recorder that had fallen behind writes what was then long past. A saved one ends
    /// where it was saved.
    fn bound(&mut self) {
        let in_series = self.files.partition_point(|file| !file.is_saved());
        let (series, saved) = self.files.split_at_mut(in_series);
        for file in saved {
            file.ends = file.header.created_mono;
        }
        let made: Vec<u64> = series.iter().map(|file| file.header.created_mono).collect();
        let after = made.iter().skip(1).chain([&u64::MAX]);
        for (file, after) in series.iter_mut().zip(after) {
            (file.begins, file.ends) = (file.header.begins, *after);
        }
    }
}

impl BootFiles {
    /// When its first file was made, by the wall clock.
    pub fn created(&self) -> i64 {
        let files = self.sessions.iter().flat_map(|session| &session.files);
        files.map(|file| file.header.created_wall).min().unwrap_or(0)
    }

    /// Number of its last file.
    fn number(&self) -> u32 {
        let files = self.sessions.iter().flat_map(|session| &session.files);
        files.map(|file| file.header.number).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hook_of_kdump_left_beside_a_state_directory_is_found_once() {
        let root = tempfile::tempdir().unwrap();
        let (state, crash) = (root.path().join("state"), root.path().join("state-crash"));
        fs::create_dir_all(state.join("boot")).unwrap();
        fs::write(state.join("boot/1.flight"), "").unwrap();
        assert_eq!(find(std::slice::from_ref(&state)).unwrap(), [state.join("boot/1.flight")]);
        fs::create_dir(&crash).unwrap();
        fs::write(crash.join("2.flight"), "").unwrap();
        let both = [state.join("boot/1.flight"), crash.join("2.flight")];
        assert_eq!(find(std::slice::from_ref(&state)).unwrap(), both);
        assert_eq!(find(&[state, crash]).unwrap(), both);
    }
}
