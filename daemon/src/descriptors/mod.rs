//! What the descriptors of all processes stand for: taken from the kernel again and again, and kept
//! for readers.
//!
//! A snapshot is taken when the daemon starts, when somebody reads (`ASKED_AGE`), and every
//! `PERIOD`, but never for more than `SHARE` of one CPU's time. The latest stands in the map
//! `descriptors`, so that it outlives the daemon and the machine; that and the ones before,
//! `KEPT_PAGES` in all, are here for those who read by the control socket.

mod fit;
mod records;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::chunks::{self, Chunks, TooLarge};
use flightrec_format::control::DescriptorStatus;
use flightrec_format::descriptors::{HALF_PAGES, Snapshot};
use tracing::warn;

use crate::clock;
use crate::recording::Recording;

/// How often a snapshot is taken when nobody asks, ns.
const PERIOD: u64 = 10_000_000_000;
/// Who asks gets a snapshot that is not older, ns.
const ASKED_AGE: u64 = 10_000_000;
/// Snapshots that nobody asked for take one part in so many of one CPU's time.
const SHARE: u64 = 1000;
/// Those that were asked for: one part in so many.
const ASKED_SHARE: u64 = 20;
/// Most pages of snapshots in the daemon's memory: 4 MiB.
const KEPT_PAGES: usize = 1024;

type Page = [u8; PAGE_SIZE];

/// A snapshot that is kept.
#[derive(Debug)]
struct Kept {
    begin: u64,
    end: u64,
    pages: Vec<Page>,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    kept: VecDeque<Kept>,
    /// Of the last that was taken.
    status: DescriptorStatus,
    warned: bool,
}

/// The snapshots of a recording.
#[derive(Debug)]
pub struct Descriptors {
    recording: Arc<Recording>,
    /// The file that runs the walk; `None`: the kernel has none.
    walk: Option<PathBuf>,
    state: Mutex<State>,
}

impl Descriptors {
    /// The snapshots of a recording, whose last one goes on counting.
    pub fn open(recording: Arc<Recording>) -> Self {
        let (live, walk) = (recording.live(), recording.file_walk());
        let mut found = Chunks::new(Lane::Descriptors);
        for page in live.descriptors() {
            found.add(&page);
        }
        let mut state = State::default();
        let session = live.session();
        if let Some(document) = found.documents().find(|document| document.session == session) {
            state.generation = document.generation;
            if let Ok(snapshot) = Snapshot::decode(&document.bytes)
                && let Ok(pages) = pack(session, document.generation, &document.bytes)
            {
                state.kept.push_back(Kept { begin: snapshot.begin, end: snapshot.end, pages });
            }
        }
        // Why there is none, the recording's metadata say.
        let walk = walk.exists().then_some(walk);
        Self { recording, walk, state: Mutex::new(state) }
    }

    /// Takes one if it is time to.
    pub fn keep_up(&self) {
        self.take_after(PERIOD, SHARE);
    }

    /// Takes one for somebody who reads now, if the last is not young enough.
    pub fn asked(&self) {
        self.take_after(ASKED_AGE, ASKED_SHARE);
    }

    fn take_after(&self, age: u64, share: u64) {
        let Some(walk) = &self.walk else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = age.max(state.status.cost.saturating_mul(share));
        if state.status.taken != 0 && clock::mono() < state.status.taken.saturating_add(rest) {
            return;
        }
        let before = clock::thread_cpu();
        match File::open(walk).and_then(|file| self.take(&mut state, file)) {
            Ok(()) => state.warned = false,
            // Again and again the same is said once; the next try is as far away as the next
            // snapshot.
            Err(e) => {
                state.status.taken = clock::mono();
                if !std::mem::replace(&mut state.warned, true) {
                    warn!("taking a snapshot of open descriptors failed: {e}");
                }
            }
        }
        state.status.cost = clock::thread_cpu().saturating_sub(before);
    }

    /// Takes a snapshot, publishes and keeps it.
    fn take(&self, state: &mut State, file: File) -> io::Result<()> {
        let begin = clock::mono();
        let mut taken = walk::read(file, self.recording.names())?;
        (taken.begin, taken.end) = (begin, clock::mono());
        // How many are not seen is not known.
        let unseen = u64::from(!self.recording.sees_all_threads());
        taken.left_out = taken.left_out.saturating_add(unseen);
        let document = fit::encode(&mut taken, HALF_PAGES * chunks::CHUNK_BYTES);
        let generation = state.generation + 1;
        let pages = pack(self.recording.live().session(), generation, &document).map_err(|e| {
            io::Error::other(format!("{} bytes do not fit into {}", e.bytes, e.limit))
        })?;
        if !self.recording.live().publish_descriptors(generation, &pages) {
            return Err(io::Error::other("the recording has no map for it"));
        }
        state.generation = generation;
        state.status = DescriptorStatus {
            available: true,
            taken: taken.end,
            cost: 0,
            processes: taken.tables.iter().map(|table| table.processes.len() as u32).sum(),
            descriptors: taken.tables.iter().map(|table| table.files.len() as u32).sum(),
            left_out: taken.left_out.saturating_sub(unseen),
            kept: 0,
        };
        state.kept.push_back(Kept { begin: taken.begin, end: taken.end, pages });
        while state.kept.iter().map(|kept| kept.pages.len()).sum::<usize>() > KEPT_PAGES {
            state.kept.pop_front();
        }
        state.status.kept = state.kept.len() as u32;
        Ok(())
    }

    /// Pages of those that say something of a window, and from when on they do: events from then on
    /// tell what has changed since.
    pub fn pages(&self, from: u64, until: u64) -> (u64, Vec<Page>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Vec<&Kept> = wanted(&state.kept, from, until).collect();
        let begin = wanted.first().map_or(from, |kept| kept.begin.min(from));
        (begin, wanted.into_iter().flat_map(|kept| kept.pages.iter().copied()).collect())
    }

    /// How it stands.
    pub fn status(&self) -> DescriptorStatus {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        DescriptorStatus { available: self.walk.is_some(), ..state.status.clone() }
    }
}

/// Those that say something of a window: that were taken in it, and the first after it. Where
/// there is none, as in a window shorter than the time since the last one, the latest before it.
fn wanted(kept: &VecDeque<Kept>, from: u64, until: u64) -> impl Iterator<Item = &Kept> {
    let after =
        kept.iter().find(|kept| kept.end >= until).or(kept.back()).map_or(0, |kept| kept.end);
    let told = move |kept: &&Kept| kept.end <= after;
    let latest = kept.iter().rev().find(told).map_or(0, |kept| kept.begin);
    kept.iter().filter(told).filter(move |kept| kept.begin >= from.min(latest))
}

fn pack(session: u64, generation: u64, document: &[u8]) -> Result<Vec<Page>, TooLarge> {
    chunks::pack(Lane::Descriptors, session, generation, HALF_PAGES, document)
}
