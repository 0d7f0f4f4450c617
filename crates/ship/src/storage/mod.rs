//! The storage: opened as the configuration says (`open`), written to in bounded memory, and its
//! errors in words that say what to do (`explain`).

pub(crate) mod explain;
mod open;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload};

pub use explain::{Kind, Problem};

use crate::config::{self, Target};

/// What is greater goes in parts of this size: S3 takes no smaller ones than 5 MiB.
pub const PART: u64 = 8 << 20;

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: Path,
    /// Its bytes.
    pub bytes: u64,
    /// What tells it from what is there by this name later: the storage's own, or its time.
    pub mark: String,
}

/// A storage.
#[derive(Debug)]
pub struct Storage {
    store: Arc<dyn ObjectStore>,
    target: Target,
    /// Where it is, for messages.
    place: String,
}

impl Storage {
    /// Opens it; nothing is sent.
    ///
    /// # Errors
    /// What of the configuration can't be.
    pub fn open(target: Target, config: &config::Storage) -> Result<Self, Problem> {
        let place = match config.endpoint.as_str() {
            "" => target.place(),
            endpoint => format!("{} at {endpoint}", target.place()),
        };
        let store =
            open::open(&target, config).map_err(|e| explain::explain(&e, &target, &place))?;
        Ok(Self { store, target, place })
    }

    /// Where it is.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Which one it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Uploads a file. `pace`: waits until so many bytes may go out.
    ///
    /// # Errors
    /// The storage's, or the file's.
    pub async fn put(
        &self,
        name: &Path,
        file: &FilePath,
        mut pace: impl AsyncFnMut(u64),
    ) -> Result<(), Problem> {
        let unreadable = |e: io::Error| Problem::of_file(file, &e);
        let mut source = File::open(file).map_err(unreadable)?;
        let size = source.metadata().map_err(unreadable)?.len();
        self.clean(name);
        if size <= PART {
            let bytes = chunk(&mut source, size).map_err(unreadable)?;
            pace(bytes.len() as u64).await;
            let put = self.store.put(name, PutPayload::from_bytes(bytes)).await;
            return put.map(drop).map_err(|e| self.problem(&e));
        }
        let mut upload = self.store.put_multipart(name).await.map_err(|e| self.problem(&e))?;
        let sent = self.parts(&mut *upload, &mut source, file, &mut pace).await;
        if sent.is_err() {
            // The storage's own rule removes what can't be removed now (docs/ship.md).
            drop(tokio::time::timeout(ABORT, upload.abort()).await);
        }
        sent
    }

    async fn parts(
        &self,
        upload: &mut dyn MultipartUpload,
        source: &mut File,
        file: &FilePath,
        pace: &mut impl AsyncFnMut(u64),
    ) -> Result<(), Problem> {
        loop {
            let bytes = chunk(source, PART).map_err(|e| Problem::of_file(file, &e))?;
            if bytes.is_empty() {
                break;
            }
            pace(bytes.len() as u64).await;
            let part = upload.put_part(PutPayload::from_bytes(bytes));
            part.await.map_err(|e| self.problem(&e))?;
        }
        upload.complete().await.map(drop).map_err(|e| self.problem(&e))
    }

    /// Writes an object of some bytes.
    ///
    /// # Errors
    /// The storage's.
    pub async fn write(&self, name: &Path, bytes: Vec<u8>) -> Result<(), Problem> {
        self.clean(name);
        let put = self.store.put(name, PutPayload::from(bytes)).await;
        put.map(drop).map_err(|e| self.problem(&e))
    }

    /// Reads an object, which is short.
    ///
    /// # Errors
    /// The storage's.
    pub async fn read(&self, name: &Path) -> Result<Bytes, Problem> {
        let got = self.store.get(name).await.map_err(|e| self.problem(&e))?;
        got.bytes().await.map_err(|e| self.problem(&e))
    }

    /// The objects below a name, in the order of their names.
    ///
    /// # Errors
    /// The storage's.
    pub async fn list(&self, below: &Path) -> Result<Vec<Found>, Problem> {
        let listed: Vec<ObjectMeta> =
            self.store.list(Some(below)).try_collect().await.map_err(|e| self.problem(&e))?;
        let mut found: Vec<Found> = listed.into_iter().map(found).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Reads an object that was found. `None`: it is not as it was any more.
    ///
    /// # Errors
    /// The storage's.
    pub async fn fetch(&self, of: &Found) -> Result<Option<Bytes>, Problem> {
        let got = match self.store.get(&of.name).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            got => got.map_err(|e| self.problem(&e))?,
        };
        let now = &got.meta;
        let mark = now.e_tag.as_deref().map(unquoted);
        if now.size != of.bytes || mark.is_some_and(|mark| of.mark != mark) {
            return Ok(None);
        }
        got.bytes().await.map(Some).map_err(|e| self.problem(&e))
    }

    /// Removes an object.
    ///
    /// # Errors
    /// The storage's.
    pub async fn remove(&self, name: &Path) -> Result<(), Problem> {
        self.store.delete(name).await.map_err(|e| self.problem(&e))
    }

    fn problem(&self, error: &object_store::Error) -> Problem {
        explain::explain(error, &self.target, &self.place)
    }

    /// Of a directory: removes what a crash left of an object that was being written, which
    /// `object_store` has in `NAME#1`.
    fn clean(&self, name: &Path) {
        let Target::Directory(dir) = &self.target else { return };
        let path: PathBuf = dir.join(name.as_ref());
        let (Some(folder), Some(of)) = (path.parent(), path.file_name()) else { return };
        let begun = format!("{}#", of.to_string_lossy());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&begun) {
                // Writing the object says what is wrong.
                drop(fs::remove_file(entry.path()));
            }
        }
    }
}

fn found(of: ObjectMeta) -> Found {
    let mark = match &of.e_tag {
        Some(tag) => unquoted(tag).to_owned(),
        None => of.last_modified.to_rfc3339(),
    };
    Found { name: of.location, bytes: of.size, mark }
}

/// Some servers quote an object's tag in one place and not in another.
fn unquoted(tag: &str) -> &str {
    tag.trim_matches('"')
}

/// Longest that is waited for a storage that has just failed.
const ABORT: Duration = Duration::from_secs(5);

/// The next bytes of a file, at most so many.
fn chunk(file: &mut File, most: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn put(size: usize) {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::Directory(dir.path().join("lake"));
        let storage = Storage::open(target, &config::Storage::default()).unwrap();
        let file = dir.path().join("file");
        let content: Vec<u8> = (0..size).map(|at| (at / 7) as u8).collect();
        fs::write(&file, &content).unwrap();
        let name = Path::from("schema=1/table=calls/dt=2026-11-25/x.parquet");
        let folder = dir.path().join("lake/schema=1/table=calls/dt=2026-11-25");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x.parquet#1"), "of a crash").unwrap();
        fs::write(folder.join("x.parquet"), "of another upload").unwrap();
        let mut paced = Vec::new();
        storage.put(&name, &file, async |bytes| paced.push(bytes)).await.unwrap();
        assert_eq!(paced.iter().sum::<u64>(), size as u64);
        assert!(paced.iter().all(|bytes| *bytes <= PART));
        let names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["x.parquet"]);
        assert_eq!(fs::read(folder.join("x.parquet")).unwrap(), content);
        assert_eq!(&*storage.read(&name).await.unwrap(), &content[..]);
        storage.remove(&name).await.unwrap();
        assert_eq!(storage.read(&name).await.unwrap_err().kind, Kind::Missing);
    }

    #[tokio::test]
    async fn small_and_large_objects_in_a_directory() {
        put(0).await;
        put(1000).await;
        put(2 * PART as usize + 1).await;
    }

    #[tokio::test]
    async fn a_directory_that_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let target = Target::Directory(file.join("lake"));
        let problem = Storage::open(target, &config::Storage::default()).unwrap_err();
        assert!(problem.message.contains("file/lake"), "{problem}");
        let target = Target::Directory(dir.path().join("lake"));
        let storage = Storage::open(target, &config::Storage::default()).unwrap();
        let gone = storage.put(&Path::from("x"), &dir.path().join("gone"), async |_| ()).await;
        let problem = gone.unwrap_err();
        assert_eq!(problem.kind, Kind::File);
        assert!(problem.message.contains("gone: No such file"), "{problem}");
    }
}
