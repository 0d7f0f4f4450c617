//! Makes the search indexes of files that were closed, one at a time.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flightrec_store::search::{self, SearchError};
use flightrec_store::{FileReader, Store};
use tracing::debug;

/// Which files have been looked at.
#[derive(Debug, Default)]
pub struct Indexer {
    /// Those that have an index, or of which none can be made.
    done: HashSet<PathBuf>,
}

impl Indexer {
    /// Makes the index of the oldest file that was closed and has none, the last excepted. Returns
    /// whether there was one.
    ///
    /// # Errors
    /// The directory can't be read, or the index can't be written.
    pub fn turn(&mut self, state_dir: &Path) -> io::Result<bool> {
        let store = Store::open(state_dir).map_err(io::Error::other)?;
        // The last is being written.
        let files = store.all().split_last().map_or(&[][..], |(_, before)| before);
        self.done.retain(|path| files.iter().any(|file| file.path == *path));
        for file in files {
            if self.done.contains(&file.path) {
                continue;
            }
            let made = match index(&file.path) {
                Ok(made) => made,
                Err(SearchError::Io { source, .. }) => return Err(source),
                Err(error) => {
                    debug!("no search index: {error}");
                    false
                }
            };
            self.done.insert(file.path.clone());
            if made {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether an index was made of a file.
fn index(path: &Path) -> Result<bool, SearchError> {
    if matches!(search::read(&FileReader::open(path)?), Ok(Some(_))) {
        return Ok(false);
    }
    search::write(path, &search::make(path)?)?;
    // Deleted meanwhile, it has left its index.
    if !fs::exists(path).unwrap_or(true) {
        search::remove(path).map_err(|source| SearchError::Io { path: path.into(), source })?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use flightrec_store::{FileHeader, FileWriter};

    use super::*;

    fn file(dir: &Path, number: u32, closed: bool) -> PathBuf {
        let header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: [1; 16],
            session: 7,
            number,
            created_wall: 0,
            created_mono: 0,
            begins: 0,
        };
        let path = flightrec_store::dir::path(dir, &[1; 16], 0, number);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let writer = FileWriter::new(File::create(&path).unwrap(), &header, 1).unwrap();
        if closed {
            writer.finish().unwrap();
        }
        path
    }

    #[test]
    fn closed_files_have_indexes_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let files = [file(dir.path(), 1, true), file(dir.path(), 2, true)];
        let open = file(dir.path(), 3, false);
        let has = |path: &Path| search::path(path).exists();
        let mut indexer = Indexer::default();
        assert!(indexer.turn(dir.path()).unwrap());
        assert_eq!(files.each_ref().map(|path| has(path)), [true, false]);
        assert!(indexer.turn(dir.path()).unwrap());
        assert!(!indexer.turn(dir.path()).unwrap() && has(&files[1]) && !has(&open));
        // Another one finds them; one that is damaged is made anew.
        fs::write(search::path(&files[0]), "damaged").unwrap();
        let mut other = Indexer::default();
        assert!(other.turn(dir.path()).unwrap());
        assert!(!other.turn(dir.path()).unwrap());
        assert!(search::read(&FileReader::open(&files[0]).unwrap()).unwrap().is_some());
    }
}
