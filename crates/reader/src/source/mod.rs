//! Where pages come from. Every command works on every source, and does not know which it is.

mod daemon;
mod detached;
pub mod files;
pub mod history;
mod live;
pub mod names;
pub mod origin;
mod pinned;
pub mod snapshots;
pub mod state_dir;
pub mod sure;
pub mod trust;
pub mod vmcore;

use std::sync::Arc;

use thiserror::Error;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::slot::{BLOCKED, TaskSlot};
use flightrec_format::chunks::Chunks;
use flightrec_format::decode::Page;
use flightrec_format::descriptors::Snapshot;
use flightrec_format::live::LiveError;
use flightrec_format::merge::Merge;
use flightrec_format::meta::{LaneMeta, Meta, MetaError};
use flightrec_format::ring::{LaneStream, Rings};
use flightrec_format::slots;
use flightrec_format::totals::Totals;

pub use daemon::DaemonSource;
pub use detached::detached;
pub use live::{Live, News, Stacks};
pub use origin::{FilesPlan, HistoryPlace, HistoryPlan, Origin, STATE_DIR};
pub use pinned::PinnedSource;
pub use sure::{Skip, Sure};
pub use vmcore::VmcoreSource;

use crate::control::ControlError;
use crate::observe::note;
use crate::redact::{self, Strings};
use crate::threads::Threads;
use crate::wall::WallClock;
use crate::window::Window;

/// What is known of time before anything is read.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// `CLOCK_MONOTONIC`, ns.
    pub now: u64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns.
    pub wall_offset: i64,
}

/// A source of pages.
pub trait Source {
    /// The present. What happened before it, [`Source::read`] gives.
    fn clock(&self) -> Clock;

    /// Reads the pages that may hold events of the window, and whatever the names of threads need.
    ///
    /// # Errors
    /// The source can not be read, or gives more pages than a recording has.
    fn read(&mut self, window: Window) -> Result<PageSet, SourceError>;
}

/// What a source gave.
#[derive(Debug, Default)]
pub struct PageSet {
    /// The recording's own description.
    pub meta: Meta,
    /// Each ring's pages, by lane and CPU.
    pub streams: Vec<LaneStream>,
    /// The threads that were alive: tables of one moment or several.
    pub slots: Vec<TaskSlot>,
    /// Where in `slots` each table begins, and of which moment it is, ns of `CLOCK_MONOTONIC`;
    /// `u64::MAX`: of when the pages were read.
    pub tables: Vec<(usize, u64)>,
    /// What descriptors stood for: snapshots in the order in which they were taken.
    pub descriptors: Vec<Snapshot>,
    /// The counters, read after the pages.
    pub totals: Totals,
    /// The counters at a moment before the pages, where the source knows them.
    pub before: Option<Totals>,
    /// The counters at moments between, where the source knows them.
    pub marks: Vec<Totals>,
    /// Everything that was recorded before this moment was in the source when it was read, if it
    /// is not after the source's present; 0 where that is not known.
    pub copied: u64,
    /// Whether files are part of the source, and all that was written to them is there.
    pub whole_files: bool,
    /// How often a thread found no place in the table, as the table's pages tell.
    pub slot_misses: u64,
    /// Other recordings that claim to be the same machine's last, where nothing decides
    /// ([`trust`]).
    pub disputed_by: Vec<u64>,
    /// Where it is known beside the pages that nothing is missing.
    pub sure: Option<Sure>,
    /// Where it is a stretch of a window, and another follows: events from this moment on belong to
    /// that one.
    pub stretch_until: Option<u64>,
    /// Where events are read again after some that are not, in order.
    pub skips: Arc<[Skip]>,
}

impl PageSet {
    /// The threads that were blocked from before a moment until a table of threads was taken after
    /// it: nothing of them is recorded in between.
    pub fn asleep(&self, from: u64) -> impl Iterator<Item = &TaskSlot> {
        let started = self.meta.started;
        let ends = self.tables.iter().skip(1).map(|(begin, _)| *begin).chain([self.slots.len()]);
        let tables = self.tables.iter().zip(ends).filter(move |((_, moment), _)| *moment >= from);
        let slots = tables.filter_map(|((begin, _), end)| self.slots.get(*begin..end)).flatten();
        slots.filter(move |slot| slot.flags & BLOCKED != 0 && slot.since.max(started) < from)
    }

    /// The threads as they were before its first event.
    pub fn threads(&self) -> Threads {
        let task = self.streams.iter().filter(|stream| stream.lane() == Lane::Task);
        let cpus =
            self.streams.iter().map(|stream| usize::from(stream.cpu()) + 1).max().unwrap_or(0);
        let events = Merge::new(task.map(LaneStream::events));
        Threads::before(events, self.slots.iter().copied(), cpus)
    }

    /// How often a thread found no place in the table, since the start: by the probes' counters, or
    /// by its pages.
    pub fn misplaced(&self) -> u64 {
        self.totals.slot_collisions.max(self.slot_misses)
    }

    /// Takes strings out of all that stands beside the events.
    pub(crate) fn redact(&mut self, strings: Strings) {
        redact::meta(&mut self.meta, strings);
        redact::descriptors(&mut self.descriptors, strings);
    }

    /// The recording's wall time; `present` is the offset to `CLOCK_MONOTONIC` to use without
    /// pages.
    pub fn wall_clock(&self, present: i64) -> WallClock {
        let headers = self.streams.iter().flat_map(LaneStream::pages).map(Page::header);
        WallClock::of(headers, &self.meta, present)
    }
}

/// A source that fails.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The daemon.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The pinned rings.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Files.
    #[error(transparent)]
    Files(#[from] files::FilesError),
    /// Neither rings nor files.
    #[error("{live}; nor are there files of an earlier recording: {files}")]
    Nothing {
        /// What is wrong with the rings.
        live: Box<SourceError>,
        /// What is wrong with the files.
        files: files::FilesError,
    },
    /// A snapshot.
    #[error(transparent)]
    Snapshot(#[from] snapshots::SnapshotError),
    /// A dump.
    #[error(transparent)]
    Dump(#[from] vmcore::DumpError),
    /// The walk over blocked threads.
    #[error(
        "the kernel does not tell the stacks of blocked threads ({0}): `flightctl status` says \
         what it lacks"
    )]
    NoStacks(std::io::Error),
    /// The metadata.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// More pages than the rings have.
    #[error("the source gives more pages than the recording's rings hold: it is damaged")]
    TooManyPages,
}

/// Opens what the plan names.
///
/// # Errors
/// No daemon answers, and no rings are pinned; or they can not be read.
pub fn open(origin: &Origin) -> Result<Box<dyn Source>, SourceError> {
    Ok(open_live(origin)?)
}

/// Opens what the plan names, to follow it.
///
/// # Errors
/// As of [`open`].
pub fn open_live(origin: &Origin) -> Result<Box<dyn Live>, SourceError> {
    match origin {
        Origin::Pinned { bpffs_dir } => Ok(Box::new(PinnedSource::open(bpffs_dir)?)),
        Origin::Daemon { runtime_dir, bpffs_dir } => match DaemonSource::connect(runtime_dir) {
            Ok(source) => Ok(Box::new(source)),
            Err(absent @ ControlError::NotRunning(_)) => {
                // What is wrong is the daemon's absence, so that is what is said if there are no
                // rings either.
                let Ok(source) = PinnedSource::open(bpffs_dir) else { return Err(absent.into()) };
                note(&format!(
                    "flightd is not running; reading the rings pinned in {}",
                    bpffs_dir.display()
                ));
                Ok(Box::new(source))
            }
            Err(e) => Err(e.into()),
        },
    }
}

/// Puts a recording together, page by page, in memory bounded by what the rings can hold.
pub struct Collector {
    meta: Meta,
    rings: Rings,
    slots: Vec<TaskSlot>,
    slot_misses: u64,
    descriptors: Chunks,
    room: u64,
}

/// The snapshots that are whole, in order, none that overlaps another. Names are all that is lost
/// with one that can't be read.
fn snapshots(documents: impl Iterator<Item = Vec<u8>>) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    let mut taken = 0;
    for document in documents.take(SNAPSHOTS_MAX) {
        match Snapshot::decode(&document) {
            Ok(snapshot) => {
                taken += snapshot.weight();
                snapshots.push(snapshot);
            }
            Err(e) => note(&format!("{e}; descriptors that it names are shown as numbers")),
        }
        if taken > SNAPSHOT_BYTES_MAX {
            note(
                "there are more names of descriptors than are read at once; some of the window's \
                 descriptors are shown as numbers",
            );
            break;
        }
    }
    in_order(snapshots)
}

/// Snapshots in the order in which they were taken, each once.
fn in_order(mut snapshots: Vec<Snapshot>) -> Vec<Snapshot> {
    snapshots.sort_by_key(|snapshot| snapshot.begin);
    let mut end = 0;
    snapshots.retain(|snapshot| {
        let after = snapshot.begin >= end;
        end = end.max(snapshot.end);
        after
    });
    snapshots
}

/// Bytes of memory that snapshots may take; the one that exceeds it is the last.
const SNAPSHOT_BYTES_MAX: usize = 48 << 20;
/// Most snapshots of one recording, the newest: more than a daemon keeps.
const SNAPSHOTS_MAX: usize = 1024;
/// Pages beyond those of the rings: the thread table, with room to spare.
const OTHER_PAGES: u64 = 1 << 16;

impl Collector {
    /// For a recording.
    pub fn new(meta: Meta) -> Self {
        let mut rings = Rings::new(meta.session);
        for lane in Lane::RINGS {
            for cpu in &meta.cpus {
                rings.expect(lane, *cpu);
            }
        }
        let ring_pages = |lane: &LaneMeta| lane.ring_bytes.div_ceil(4096);
        let ring_pages = meta.lanes.iter().map(ring_pages).fold(0, u64::saturating_add);
        // Twice, as a ring goes round while it is read.
        let room = ring_pages.saturating_mul(2 * meta.cpus.len() as u64);
        let room = room.saturating_add(meta.quiet_bytes.div_ceil(4096)).saturating_add(OTHER_PAGES);
        Self {
            meta,
            rings,
            slots: Vec::new(),
            slot_misses: 0,
            descriptors: Chunks::new(Lane::Descriptors),
            room,
        }
    }

    /// Takes a page. What is no page of this recording is passed over: coverage tells what is
    /// missing.
    ///
    /// # Errors
    /// There are more pages than the rings of a recording have.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        self.room = self.room.checked_sub(1).ok_or(SourceError::TooManyPages)?;
        let Ok(page) = Page::copy_from(bytes) else { return Ok(()) };
        match page.lane() {
            Lane::Slots if page.header().session == self.meta.session => {
                let [misses, ..] = page.header().refused;
                self.slot_misses = self.slot_misses.saturating_add(misses);
                self.slots.extend(slots::read(bytes));
            }
            Lane::Descriptors if page.header().session == self.meta.session => {
                self.descriptors.add(bytes);
            }
            _ => drop(self.rings.add(page)),
        }
        Ok(())
    }

    /// All pages are there.
    pub fn finish(self, totals: Totals) -> PageSet {
        let Self { meta, rings, slots, slot_misses, descriptors, .. } = self;
        let descriptors = snapshots(descriptors.documents().map(|document| document.bytes));
        PageSet {
            meta,
            streams: rings.finish(),
            tables: vec![(0, u64::MAX)],
            slots,
            descriptors,
            totals,
            copied: u64::MAX,
            slot_misses,
            ..PageSet::default()
        }
    }
}
