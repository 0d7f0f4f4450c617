//! The drain's thread: when to look, when to drain, when to bring it to the disk, and what to say
//! of it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use flightrec_format::abi::page::RING_LANES;
use flightrec_format::control::{StoreState, StoreStatus};
use flightrec_store::{Deleted, State};
use tracing::{debug, error, field, info, warn};

use super::Bell;
use super::monitor::Monitor;
use super::pacing::Pace;
use super::rate::{Cap, Meter};
use super::round::Rings;
use super::session::Session;
use super::syncer::Syncer;
use super::told::Told;
use crate::{clock, config};

/// Nice value of the thread: behind whoever works, and still a quarter of a CPU against one that
/// does nothing else.
const NICE: i32 = 5;
/// How long to wait at most before it is seen whether files can be written again.
const RETRY: Duration = Duration::from_secs(1);

/// All that the thread has.
#[derive(Debug)]
pub(super) struct Worker {
    /// Recordings that were ended before, the oldest first.
    before: VecDeque<Session>,
    session: Session,
    syncer: Syncer,
    monitor: Arc<Monitor>,
    pace: Pace,
    cap: Cap,
    meter: Meter,
    sync_interval: Duration,
    told: Told,
    /// Of recordings that are done with.
    past: StoreStatus,
    /// Up to when everything is in the files.
    drained: u64,
    /// When the open pages were drained last, ns of `CLOCK_MONOTONIC`.
    flushed: u64,
    /// When the last job for the disk was begun, and up to when everything is on the disk when it
    /// is done.
    asked: u64,
    asked_for: u64,
    synced: u64,
}

impl Worker {
    /// Not yet at work.
    pub(super) fn new(
        config: &config::Store,
        before: VecDeque<Session>,
        session: Session,
        monitor: Arc<Monitor>,
    ) -> io::Result<Self> {
        let now = clock::mono();
        Ok(Self {
            before,
            session,
            syncer: Syncer::start()?,
            monitor,
            pace: Pace::new(config.flush_interval.duration()),
            cap: Cap::new(config.max_rate.bytes()),
            meter: Meter::new(now),
            sync_interval: config.sync_interval.duration(),
            told: Told::default(),
            past: StoreStatus::default(),
            drained: 0,
            flushed: 0,
            asked: now,
            asked_for: 0,
            synced: 0,
        })
    }

    /// Works until the bell rings; then drains the last, and closes the file.
    pub(super) fn run(mut self, bell: &Bell) {
        step_back();
        let end = loop {
            let Some(sleep) = self.turn() else {
                // The daemon ends with this thread: it must not go on as if nothing had happened.
                error!("the thread that waits for the disk has died");
                return;
            };
            if let Some(rings) = bell.wait(sleep) {
                break rings;
            }
        };
        while !self.before.is_empty() && self.finish_before() {}
        if self.session.round(end).is_none() {
            warn!("the last events could not be written");
        }
        self.session.close();
        self.report();
    }

    /// Does what is due; how long to sleep then. `None`: it can't go on.
    fn turn(&mut self) -> Option<Duration> {
        self.monitor.beat();
        if !self.before.is_empty() && !self.finish_before() {
            self.report();
            return Some(RETRY);
        }
        while let Some(synced) = self.syncer.finished() {
            let faults = self.session.writer().stats().faults;
            self.session.writer().synced(synced, super::session::now());
            if self.session.writer().stats().faults == faults {
                self.synced = self.asked_for;
            }
        }
        let now = clock::mono();
        let step = self.pace.step(now, self.flushed, &self.session.sights());
        let mut sleep = step.sleep;
        let wanted = self.monitor.wanted();
        if step.round || wanted > self.drained {
            let wait = self.cap.wait(now);
            sleep = if wait.is_zero() { self.drain(now).unwrap_or(sleep) } else { wait.min(RETRY) };
            self.report();
        }
        // Whoever waits for a moment waits for the checkpoint after it.
        let awaited = wanted > self.asked_for && wanted <= self.drained;
        if awaited || now.saturating_sub(self.asked) >= self.sync_interval.as_nanos() as u64 {
            self.sync(now)?;
        }
        Some(sleep)
    }

    /// A round; where it can't be, how long to wait until it may be tried again.
    fn drain(&mut self, now: u64) -> Option<Duration> {
        let before = self.session.writer().stats().bytes_written;
        let drained = self.session.round(Rings::Live);
        let written = self.session.writer().stats().bytes_written.saturating_sub(before);
        self.cap.spend(now, written);
        if let Some(drained) = drained {
            (self.drained, self.flushed) = (drained, now);
            return None;
        }
        match self.session.writer().state() {
            State::Failed { retry_at, .. } => {
                Some(Duration::from_nanos(retry_at.saturating_sub(now)).min(RETRY))
            }
            State::Ready => Some(RETRY),
        }
    }

    /// Has everything so far brought to the disk, by the other thread; not where that is still at
    /// it.
    fn sync(&mut self, now: u64) -> Option<()> {
        if let Some(job) = self.session.writer().sync(super::session::now()) {
            (self.asked, self.asked_for) = (now, self.drained);
            return self.syncer.start_job(job).then_some(());
        }
        Some(())
    }

    /// Writes what an ended recording holds, and lets it go; `false` where it can't be written now.
    fn finish_before(&mut self) -> bool {
        let Some(session) = self.before.front_mut() else { return true };
        if session.round(Rings::Ended).is_none() {
            return false;
        }
        session.close();
        let (written, lost) = (session.losses().written(), session.losses().lost());
        let stats = session.writer().stats();
        let file = stats.file.as_ref().map(|file| file.display());
        info!(
            file = file.map(field::display),
            "all events of the ended recording are in its \
                                                files"
        );
        self.past.written_bytes += stats.bytes_written;
        self.past.failures += stats.faults;
        for (sum, (files, bytes)) in self.past.deleted.iter_mut().zip(deleted(&stats.deleted)) {
            *sum = (sum.0.saturating_add(files), sum.1.saturating_add(bytes));
        }
        for (sums, counts) in
            [(&mut self.past.written_events, written), (&mut self.past.lost_events, lost)]
        {
            for (sum, n) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(n);
            }
        }
        self.before.pop_front();
        true
    }

    /// Tells the status, and the journal what has changed.
    fn report(&mut self) {
        let (drained, synced) = (self.drained, self.synced);
        let session = self.before.front_mut().unwrap_or(&mut self.session);
        let (written, lost) = (session.losses().written(), session.losses().lost());
        let (stats, state) = (session.writer().stats(), session.writer().state().clone());
        let add = |a: [u64; RING_LANES], b: [u64; RING_LANES]| -> [u64; RING_LANES] {
            std::array::from_fn(|i| a[i].saturating_add(b[i]))
        };
        let past = &self.past;
        let lost = add(past.lost_events, lost);
        let failures = past.failures + stats.faults;
        self.told.state(&state, failures, stats.last_fault.as_deref(), stats.file.as_deref());
        let (a, b) = (past.deleted, deleted(&stats.deleted));
        let deleted =
            std::array::from_fn(|i| (a[i].0.saturating_add(b[i].0), a[i].1.saturating_add(b[i].1)));
        self.told.lost(lost, clock::mono());
        self.told.deleted(deleted, clock::mono());
        let written_bytes = past.written_bytes + stats.bytes_written;
        let rate = self.meter.update(clock::mono(), written_bytes);
        let status = StoreStatus {
            state: match state {
                State::Ready => StoreState::Writing,
                State::Failed { since, error, .. } => StoreState::Failed { since, reason: error },
            },
            directory: String::new(),
            file: stats.file.map(|file| file.display().to_string()),
            files: stats.files.map(|files| files as u64),
            bytes: stats.bytes,
            oldest: stats.oldest.map(|start| start.saturating_mul(1_000_000_000)),
            drained,
            synced,
            written_bytes,
            rate,
            written_events: add(past.written_events, written),
            lost_events: lost,
            deleted,
            failures,
            cpu: clock::thread_cpu().saturating_add(self.syncer.cpu()),
        };
        self.monitor.update(|told| {
            let directory = std::mem::take(&mut told.directory);
            *told = status;
            told.directory = directory;
        });
    }
}

/// Files and bytes deleted, in the order of [`flightrec_format::control::DELETED_FOR`].
fn deleted(deleted: &Deleted) -> [(u64, u64); 3] {
    [deleted.total, deleted.free, deleted.age].map(|gone| (gone.files, gone.bytes))
}

/// Lets others run first.
fn step_back() {
    // SAFETY: no memory is involved; 0 is the calling thread (setpriority(2), "C library/kernel
    // differences").
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        debug!("the drain thread keeps its priority: {}", io::Error::last_os_error());
    }
}
