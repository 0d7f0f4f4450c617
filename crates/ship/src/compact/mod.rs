//! `flight-ship compact`: makes few large files of the many small ones that hosts ship.
//!
//! Ten thousand hosts ship 240,000 files of sums a day, which engines open one by one. For each
//! hour, what all hosts shipped becomes a few files ([`Table`]):
//!
//! - The minutes as they are, with the host's name (`sums`), and what is complete (`shipped`).
//! - The sums of the hour (`hours`), and their distributions (`histograms`), which most questions
//!   about many hosts need, at a fraction of the bytes.
//!
//! Nothing is ever there twice, or not at all, whoever is killed: a host is always in the same part
//! of an hour, and a part is replaced as a whole by one write. What an hour was made of is written
//! down after that ([`Done`]); so an hour is made again when a host ships late, and only then.
//! What hosts shipped is only read: the storage's own rules delete it.

mod columns;
mod done;
mod input;
mod merge;
mod names;
mod order;
mod output;
mod rollup;
mod rows;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tracing::{info, warn};

pub use done::{Done, Made, Refused};
pub use tables::Table;

use crate::files::{self, FileError};
use crate::hour::Hour;
use crate::storage::{Found, Kind, Problem, Storage};
use done::{Standing, fingerprint};
use merge::{Input, Merge, Told};
use names::{Host, Names, Part};

/// Objects that are read at once, while others are merged.
const AHEAD: usize = 16;
/// Longest object that is read: an hour of as many groups as flightd tells apart is shorter.
const OBJECT_MAX: u64 = 32 << 20;
/// Most parts of an hour.
const PARTS_MAX: u64 = 999;
/// Bytes that hosts shipped for a part, unless another size is asked for.
pub const PART_BYTES: u64 = 512 << 20;

/// Why an hour is not compacted.
#[derive(Debug, Error)]
pub enum CompactError {
    /// The storage.
    #[error("{0}")]
    Storage(#[from] Problem),
    /// A file of the own.
    #[error("{0}")]
    File(#[from] FileError),
    /// A file that can't be made.
    #[error("a part can't be written: {0}")]
    Made(#[from] ParquetError),
    /// A host ships at this moment.
    #[error("{0} was replaced while it was read: run it again")]
    Changed(String),
    /// The task that merges has ended.
    #[error("the parts can't be made: {0}")]
    Task(#[from] JoinError),
}

/// What became of an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No host shipped anything of it.
    Nothing,
    /// All of it is compacted already.
    Unchanged(Done),
    /// It is compacted now.
    Compacted(Done),
    /// So many of the objects that it was made of are gone, so it stays as it is.
    Closed(usize, Done),
}

/// Compacts hours of a storage.
#[derive(Debug)]
pub struct Compactor {
    storage: Arc<Storage>,
    names: Names,
    /// For files in the making.
    dir: PathBuf,
    part_bytes: u64,
}

impl Compactor {
    /// Of what is below `prefix`; files are made in `dir`, in which nothing else is to be.
    pub fn new(storage: Storage, prefix: &str, dir: PathBuf, part_bytes: u64) -> Self {
        let part_bytes = part_bytes.max(1);
        Self { storage: Arc::new(storage), names: Names::new(prefix), dir, part_bytes }
    }

    /// Compacts an hour, if what hosts shipped of it is not what it was made of; with `again`, in
    /// any case.
    ///
    /// # Errors
    /// See [`CompactError`]; what was there is there then, or is partly replaced by what is newer.
    pub async fn hour(&self, hour: Hour, again: bool) -> Result<Outcome, CompactError> {
        let sums = self.shipped("sums", hour).await?;
        let shipped = self.shipped("shipped", hour).await?;
        let hosts = sums.len() as u64;
        let bytes: u64 = sums.iter().map(|(of, ..)| of.bytes).sum();
        let mut inputs: Vec<_> = sums.into_iter().chain(shipped).collect();
        // By host, so that their rows are written in this order.
        inputs.sort_by(|(_, host, a), (_, other, b)| (host, a).cmp(&(other, b)));
        let all: Vec<Found> = inputs.iter().map(|(of, ..)| of.clone()).collect();
        let known = self.done(hour).await?;
        match known.as_ref().map(|done| (done, done.standing(&all))) {
            None if all.is_empty() => return Ok(Outcome::Nothing),
            Some((done, Standing::Gone(n))) => return Ok(Outcome::Closed(n, done.clone())),
            Some((done, Standing::Unchanged)) if !again => {
                return Ok(Outcome::Unchanged(done.clone()));
            }
            _ => {}
        }
        let parts = match known {
            Some(done) if done.parts > 0 => done.parts,
            _ => self.parts_there(hour).await?.unwrap_or_else(|| {
                u32::try_from(bytes.div_ceil(self.part_bytes).clamp(1, PARTS_MAX)).unwrap_or(1)
            }),
        };
        let mut done = Done::of(hour.to_string(), parts, hosts, &all);
        for number in 0..parts {
            let part = Part { number, of: parts };
            let of_part = inputs.iter().filter(|(_, host, _)| host.part(parts) == number);
            self.part(hour, part, of_part.cloned().collect(), &mut done).await?;
        }
        self.remove_others(hour, parts).await?;
        done.refused.sort();
        for refused in &done.refused {
            warn!("{} is left out: {}", refused.name, refused.why);
        }
        if !done.columns.is_empty() {
            let columns = done.columns.join(", ");
            warn!("{hour}: columns of a later release are left out: {columns}: update flight-ship");
        }
        let text = serde_json::to_vec(&done).unwrap_or_default();
        self.storage.write(&self.names.done(hour), text).await?;
        Ok(Outcome::Compacted(done))
    }

    /// What hosts shipped of a table.
    async fn shipped(
        &self,
        table: &str,
        hour: Hour,
    ) -> Result<Vec<(Found, Host, Table)>, CompactError> {
        let kind = if table == "sums" { Table::Sums } else { Table::Shipped };
        let found = self.storage.list(&self.names.shipped(table, hour)).await?;
        let of_host = |of: Found| Host::of_name(&of.name).map(|host| (of, host, kind));
        Ok(found.into_iter().filter_map(of_host).collect())
    }

    /// What is written down of an hour.
    async fn done(&self, hour: Hour) -> Result<Option<Done>, CompactError> {
        let name = self.names.done(hour);
        let bytes = match self.storage.read(&name).await {
            Err(problem) if problem.kind == Kind::Missing => return Ok(None),
            read => read?,
        };
        let done = serde_json::from_slice(&bytes);
        if let Err(e) = &done {
            info!("{name} is not as flight-ship writes it: {e}; the hour is compacted again");
        }
        Ok(done.ok())
    }

    /// How many parts an hour has that was compacted, if nobody wrote it down.
    async fn parts_there(&self, hour: Hour) -> Result<Option<u32>, CompactError> {
        let found = self.storage.list(&self.names.parts(Table::Hours, hour)).await?;
        Ok(found.iter().filter_map(|of| Part::of_name(&of.name)).map(|part| part.of).max())
    }

    /// Removes parts of another number of parts: two that compacted an hour for the first time at
    /// once can have left them.
    async fn remove_others(&self, hour: Hour, parts: u32) -> Result<(), CompactError> {
        for table in Table::ALL {
            for of in self.storage.list(&self.names.parts(table, hour)).await? {
                if Part::of_name(&of.name).is_some_and(|part| part.of != parts) {
                    self.storage.remove(&of.name).await?;
                }
            }
        }
        Ok(())
    }

    /// Makes the files of a part, and puts them in the place of what is there.
    async fn part(
        &self,
        hour: Hour,
        part: Part,
        inputs: Vec<(Found, Host, Table)>,
        done: &mut Done,
    ) -> Result<(), CompactError> {
        let dir = self.dir.clone();
        fresh(&dir)?;
        let all: Vec<Found> = inputs.iter().map(|(of, ..)| of.clone()).collect();
        let print = fingerprint(&all);
        let (sender, receiver) = mpsc::channel(AHEAD);
        let merged = spawn_blocking(move || merge(hour, &dir, &print, receiver));
        let fed = self.feed(inputs, sender).await;
        // Where the merging has failed, its reason is the better one.
        let told = merged.await?;
        fed?;
        let Told { refused, columns, files } = told?;
        done.refused.extend(refused);
        let mut known: std::collections::BTreeSet<String> = done.columns.drain(..).collect();
        known.extend(columns);
        done.columns = known.into_iter().collect();
        for (table, path, written) in files {
            let name = self.names.part(table, hour, part);
            if written.rows > 0 {
                self.storage.put(&name, &path, async |_| ()).await?;
                done.made.push(Made {
                    name: name.to_string(),
                    bytes: written.bytes,
                    rows: written.rows,
                    groups: written.groups,
                });
            }
            fs::remove_file(&path).map_err(FileError::of(&path))?;
        }
        Ok(())
    }

    /// Reads objects, some ahead, and hands them over in their order.
    async fn feed(
        &self,
        inputs: Vec<(Found, Host, Table)>,
        sender: mpsc::Sender<Input>,
    ) -> Result<(), CompactError> {
        let mut ahead: VecDeque<(Input, Option<Reading>)> = VecDeque::new();
        let mut inputs = inputs.into_iter();
        loop {
            while ahead.len() < AHEAD {
                let Some((of, host, table)) = inputs.next() else { break };
                let name = of.name.to_string();
                let too_long = of.bytes > OBJECT_MAX;
                let why = format!("it has {} bytes: more than an hour can have", of.bytes);
                let input = Input { table, host, name, content: Err(why) };
                let storage = Arc::clone(&self.storage);
                let task = async move { storage.fetch(&of).await };
                ahead.push_back((input, (!too_long).then(|| Reading(tokio::spawn(task)))));
            }
            let Some((mut input, reading)) = ahead.pop_front() else { return Ok(()) };
            if let Some(mut reading) = reading {
                let content = (&mut reading.0).await??;
                let changed = || CompactError::Changed(input.name.clone());
                input.content = Ok(content.ok_or_else(changed)?);
            }
            if sender.send(input).await.is_err() {
                // It has ended, with its reason.
                return Ok(());
            }
        }
    }
}

/// An object that is being read; nobody reads on when nobody waits for it.
struct Reading(JoinHandle<Result<Option<Bytes>, Problem>>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Merges what comes, until no more does.
fn merge(
    hour: Hour,
    dir: &FilePath,
    inputs: &str,
    mut receiver: mpsc::Receiver<Input>,
) -> Result<Told, ParquetError> {
    let mut merge = Merge::new(hour, dir, inputs)?;
    while let Some(input) = receiver.blocking_recv() {
        merge.add(&input)?;
    }
    merge.finish()
}

/// Makes a directory without anything in it.
fn fresh(dir: &FilePath) -> Result<(), FileError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(FileError::of(dir)(e)),
        _ => {}
    }
    files::make_dir(dir)
}

/// How many objects a table has of hours that were compacted, with their bytes and rows.
pub fn by_table(made: &[Made]) -> BTreeMap<&str, (u64, u64, u64)> {
    let mut all = BTreeMap::new();
    for of in made {
        let mut parts = of.name.split('/');
        let table = parts.find_map(|part| part.strip_prefix("table=")).unwrap_or_default();
        let (objects, bytes, rows) = all.entry(table).or_insert((0, 0, 0));
        *objects += 1;
        *bytes += of.bytes;
        *rows += of.rows;
    }
    all
}
