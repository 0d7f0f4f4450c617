//! The writer of a store: it owns the directory and the file being written, and is fed pages.
//!
//! It cuts pages to parts, begins new files, deletes old ones before a limit would be broken, and
//! survives every fault: what failed is given up as it is, and writing goes on in a new file when
//! the time for the next attempt has come. It starts no thread and reads no clock.
//!
//! In rounds: [`StoreWriter::ready`]; look at the clock and the counters; copy what is new after
//! each [`StoreWriter::position`]; [`StoreWriter::append`], once or more; when all of it was handed
//! over, [`StoreWriter::vouch`] with the counters. From time to time [`StoreWriter::sync`], whose
//! job may run on another thread.

mod clock;
mod faults;
mod file;
mod progress;
mod resume;
mod room;
mod state;
mod sync;

use std::collections::BTreeMap;
use std::path::PathBuf;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::decode::Page;
use flightrec_format::meta::Meta;
use flightrec_format::totals::{Position, Totals};

use crate::block::PAGES_MAX;
use crate::checkpoint::RingMark;
use crate::dir::FileInfo;
use crate::disk::{Disk, Handle, Syncer, SystemDisk};
use crate::limits::Limits;
use crate::lock::Lock;
use crate::writer::FileWriter;
use clock::Clock;
use faults::Fault;
use progress::{InFile, Progress};
use state::Health;
pub use state::{Deleted, Gone, Now, State, Stats};
use sync::Syncing;
pub use sync::{SyncJob, Synced};

/// Bytes of data after which a checkpoint is written.
const CHECKPOINT_BYTES: u64 = 4 << 20;
/// Least time between two documents of metadata in a file, ns.
const META_INTERVAL: u64 = 10_000_000_000;
/// Least time that a byte of them takes, ns: a document that changes all the time is to take no more
/// than 2 KiB of the file a second.
const META_BYTE: u64 = 1_000_000_000 / 2048;
/// How often what the descriptors stand for is written, where it is known: ns. Some KiB each time.
const DESCRIPTORS_INTERVAL: u64 = 60_000_000_000;

/// What a writer is to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// The store's directory; made when it is first needed.
    pub state_dir: PathBuf,
    /// Limits of files and store.
    pub limits: Limits,
    /// zstd's level.
    pub level: i32,
    /// Group of the files; `None`: the process's.
    pub group: Option<u32>,
    /// `/proc/sys/kernel/random/boot_id`, as bytes ([`crate::dir::parse_boot`]).
    pub boot_id: [u8; 16],
    /// Recording session: a writer writes one.
    pub session: u64,
}

/// What a file begins with, asked for whenever one is begun.
pub trait Opening {
    /// The recording's metadata, as they are now.
    fn meta(&mut self) -> Meta;
    /// The time (ns of `CLOCK_MONOTONIC`), and the pages of the thread table that hold any thread
    /// then.
    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>);
    /// The time, and the descriptors that are open then; `None` where they are not known.
    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)>;
}

/// The file being written.
#[derive(Debug)]
struct Current {
    path: PathBuf,
    file: FileWriter<Box<dyn Handle>>,
    begun: u64,
    in_file: InFile,
    /// How far the rings were in the files when it was begun.
    before: Progress,
    /// Bytes written when the last checkpoint was.
    checkpoint: u64,
    /// From when on changed metadata are written again.
    meta: u64,
    /// When it was last asked what the descriptors stand for, and of when the last answer written
    /// is.
    asked: u64,
    descriptors: u64,
    /// Whether it holds any pages.
    pages: bool,
}

/// Writes the files of one recording session.
#[derive(Debug)]
pub struct StoreWriter {
    options: Options,
    disk: Box<dyn Disk>,
    lock: Option<Lock>,
    health: Health,
    stats: Stats,
    /// All files, oldest first, once the directory was read; `None` where it can't be.
    files: Option<Vec<FileInfo>>,
    /// Something failed since: it is to be read again.
    stale: bool,
    current: Option<Current>,
    progress: Progress,
    /// How far the rings are on the disk.
    durable: Progress,
    /// Closed or given up, and not on the disk yet.
    unsynced: Vec<Box<dyn Syncer>>,
    syncing: Syncing,
    meta_changed: bool,
    /// The last file that was closed, as long as it should be there.
    predecessor: Option<PathBuf>,
    clock: Clock,
    /// When the files of this boot ended, by number, ns of `CLOCK_MONOTONIC`.
    ended: BTreeMap<u32, u64>,
    /// Number of the last file made, also where it is gone.
    last_number: u32,
    /// Whether it is known where an earlier writer of the session stopped.
    resumed: bool,
}

impl StoreWriter {
    /// Touches nothing yet: the directory may be missing, and may come.
    pub fn open(options: Options) -> Self {
        let disk = Box::new(SystemDisk { group: options.group });
        Self::with_disk(options, disk)
    }

    /// As [`Self::open`], with other system calls than the system's own.
    pub fn with_disk(options: Options, disk: Box<dyn Disk>) -> Self {
        Self {
            options,
            disk,
            lock: None,
            health: Health::new(),
            stats: Stats::default(),
            files: None,
            stale: false,
            current: None,
            progress: Progress::default(),
            durable: Progress::default(),
            unsynced: Vec::new(),
            syncing: Syncing::Idle,
            meta_changed: false,
            predecessor: None,
            clock: Clock::default(),
            ended: BTreeMap::new(),
            last_number: 0,
            resumed: false,
        }
    }

    /// Begins a round: whether it makes sense to copy pages now. Looks whether the files are still
    /// there; at first, what an earlier writer of the session has left; after a fault, whether
    /// it is time to try again.
    pub fn ready(&mut self, now: Now) -> bool {
        self.health.torn = false;
        self.clock.look(now);
        if !self.health.may_try(now.mono) {
            return false;
        }
        self.look(now);
        if self.files.is_none() || self.stale {
            if let Err(e) = self.begin() {
                // What it held may be gone.
                self.files = None;
                self.failed(e, now);
                self.health.dir = true;
                return false;
            }
            self.health.begun();
        }
        self.health.may_try(now.mono)
    }

    /// The place up to which a ring is in the files, with its counters there.
    pub fn mark(&self, lane: Lane, cpu: u16) -> RingMark {
        self.progress.mark(lane, cpu)
    }

    /// Where a ring is to be read on.
    pub fn position(&self, lane: Lane, cpu: u16) -> Position {
        self.progress.position(lane, cpu)
    }

    /// Takes copies of pages of any rings of the session, whole as the rings hold them. The newest
    /// of each ring is taken for open. `copied`: `CLOCK_MONOTONIC` from before the copying.
    pub fn append(
        &mut self,
        mut pages: Vec<Page>,
        copied: u64,
        opening: &mut dyn Opening,
        now: Now,
    ) -> &State {
        if !self.health.may_try(now.mono) {
            return &self.health.state;
        }
        pages.retain(|page| {
            page.header().session == self.options.session && Lane::RINGS.contains(&page.lane())
        });
        pages.sort_by_key(|page| (page.lane(), page.header().cpu, page.header().seq));
        let ring = |page: &Page| (page.lane(), page.header().cpu);
        let open: Vec<bool> = (0..pages.len())
            .map(|i| pages.get(i).map(ring) != pages.get(i + 1).map(ring))
            .collect();
        let mut pages = pages.into_iter().zip(open).peekable();
        while let Some(lane) = pages.peek().map(|(page, _)| page.lane()) {
            let next = || pages.next_if(|(page, _)| page.lane() == lane);
            let block = std::iter::from_fn(next).take(PAGES_MAX).collect();
            if let Err(e) = self.block(block, copied, opening, now) {
                self.failed(e, now);
                return &self.health.state;
            }
        }
        if let Err(e) = self.expire(now) {
            self.failed(e, now);
        }
        &self.health.state
    }

    /// Ends a round: all that the rings held when these counters were read was handed over since.
    pub fn vouch(&mut self, totals: &Totals) {
        if !self.health.torn && self.health.state == State::Ready {
            self.progress.vouch(totals);
        }
    }

    /// The metadata have changed: they are written again with the next pages, at most once in 10 s,
    /// and at most 2 KiB a second.
    pub fn meta_changed(&mut self) {
        self.meta_changed = true;
    }

    /// Writes a checkpoint; the job brings it, and everything before it, to the disk. `None` where
    /// there is nothing to do, or an earlier job is not done yet.
    pub fn sync(&mut self, now: Now) -> Option<SyncJob> {
        if self.syncing != Syncing::Idle || self.health.state != State::Ready {
            return None;
        }
        if self.current.is_some()
            && let Err(e) = self.checkpoint()
        {
            self.failed(e, now);
            return None;
        }
        self.job(now)
    }

    /// What came of the job.
    pub fn synced(&mut self, synced: Synced, now: Now) {
        let job = std::mem::replace(&mut self.syncing, Syncing::Idle);
        match synced.result {
            Ok(()) if job == Syncing::Stale => {}
            Ok(()) => self.durable = synced.progress,
            Err(e) => {
                // The kernel may have dropped what it could not write, so all since the last
                // success is written again.
                self.progress = self.durable.clone();
                let fault = Fault::at(&self.options.state_dir, &e);
                self.failed(fault, now);
            }
        }
    }

    /// Closes the file: the last metadata, a checkpoint, the index. The job brings it to the disk.
    pub fn close(&mut self, opening: &mut dyn Opening, now: Now) -> Option<SyncJob> {
        if self.current.is_some() {
            let meta = opening.meta();
            let closed = self.meta(&meta, now).and_then(|()| self.finish(now));
            if let Err(e) = closed {
                self.failed(e, now);
            }
        }
        self.syncing = Syncing::Idle;
        self.job(now)
    }

    /// Whether files are written at present.
    pub fn state(&self) -> &State {
        &self.health.state
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        let files = self.files.as_deref().unwrap_or_default();
        let bytes = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.bytes));
        Stats {
            file: self.current.as_ref().map(|current| current.path.clone()),
            files: self.files.as_ref().map(Vec::len),
            bytes,
            oldest: files.first().map(|file| file.start),
            ..self.stats.clone()
        }
    }
}
