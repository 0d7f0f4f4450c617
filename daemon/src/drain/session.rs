//! One recording on its way into its files.

use std::sync::Arc;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::chunks::Chunks;
use flightrec_format::descriptors::Snapshot;
use flightrec_format::live;
use flightrec_format::meta::Meta;
use flightrec_store::{Now, Opening, Options, StoreWriter};

use super::losses::Losses;
use super::monitor::Monitor;
use super::pacing::Sight;
use super::round::{Rings, round};
use super::source::Source;
use crate::clock;
use crate::recording::{Ended, Recording};

/// What is drained.
#[derive(Debug)]
pub(super) enum Subject {
    /// The recording that runs.
    Live(Arc<Recording>),
    /// One that was ended by its successor.
    Ended(Box<Ended>),
}

impl Subject {
    /// Its metadata, as they are now.
    pub(super) fn meta(&self) -> Meta {
        match self {
            Self::Live(recording) => Meta::clone(&recording.meta()),
            Self::Ended(ended) => ended.meta.clone(),
        }
    }

    fn live(&self) -> &live::LiveRings {
        match self {
            Self::Live(recording) => recording.live(),
            Self::Ended(ended) => &ended.live,
        }
    }

    fn changes(&self) -> u64 {
        match self {
            Self::Live(recording) => recording.meta_changes(),
            Self::Ended(_) => 0,
        }
    }
}

/// What each of its files begins with.
struct Explanation<'a>(&'a Subject);

impl Opening for Explanation<'_> {
    fn meta(&mut self) -> Meta {
        self.0.meta()
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        (clock::mono(), self.0.live().slots().collect())
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        let live = self.0.live();
        let mut chunks = Chunks::new(Lane::Descriptors);
        live.descriptors().for_each(|page| chunks.add(&page));
        let latest = chunks.documents().find(|document| document.session == live.session())?;
        Some((Snapshot::decode(&latest.bytes).ok()?.end, latest.bytes))
    }
}

/// The clocks.
pub(super) fn now() -> Now {
    let mono = clock::mono();
    Now { mono, wall: (mono as i64).saturating_add(clock::wall_offset()) }
}

/// A recording, the writer of its files, and what is known of both.
#[derive(Debug)]
pub(super) struct Session {
    subject: Subject,
    writer: StoreWriter,
    losses: Losses,
    /// Changes of the metadata that the writer knows of.
    changes: u64,
    /// The rings with their sizes, which do not change.
    rings: Vec<(Lane, u16, u64)>,
    monitor: Arc<Monitor>,
}

impl Session {
    /// Touches no file yet.
    pub(super) fn new(subject: Subject, options: Options, monitor: Arc<Monitor>) -> Self {
        let (rings, changes) = (subject.live().rings(), subject.changes());
        Self {
            subject,
            writer: StoreWriter::open(options),
            losses: Losses::default(),
            changes,
            rings,
            monitor,
        }
    }

    /// The writer of its files.
    pub(super) fn writer(&mut self) -> &mut StoreWriter {
        &mut self.writer
    }

    /// What was written and lost.
    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// How full its rings are.
    pub(super) fn sights(&self) -> Vec<Sight> {
        let live = self.subject.live();
        let sight = |&(lane, cpu, pages): &(_, _, _)| Sight {
            lane,
            newest: live.newest(lane, cpu),
            drained: self.writer.mark(lane, cpu).seq,
            pages,
        };
        self.rings.iter().map(sight).collect()
    }

    /// Drains its rings once, if files can be written now. Up to when everything recorded is in
    /// them then, ns of `CLOCK_MONOTONIC`.
    pub(super) fn round(&mut self, rings: Rings) -> Option<u64> {
        if !self.writer.ready(now()) {
            return None;
        }
        let changes = self.subject.changes();
        if changes != self.changes {
            self.changes = changes;
            self.writer.meta_changed();
        }
        let mut opening = Explanation(&self.subject);
        // Asked for the time before each batch.
        let now = || {
            self.monitor.beat();
            now()
        };
        round(self.subject.live(), rings, &mut self.writer, &mut opening, &mut self.losses, now)
    }

    /// Closes its file, and waits for the disk.
    pub(super) fn close(&mut self) {
        let job = self.writer.close(&mut Explanation(&self.subject), now());
        if let Some(job) = job {
            self.monitor.beat();
            self.writer.synced(job.run(), now());
        }
    }
}
