//! What the control socket serves, from a recording.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::iter;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::tracepoint::TracepointCount;
use flightrec_format::control::{
    Account, FunctionCalls, NewProbe, PAGES_MAX, Position, ProbeChoice, ProbeStatus, Status,
    StoreState, ThreadStack, Totals, TracepointStatus, Unpinned,
};
use flightrec_format::live::{Cursor, LiveError, Since};
use flightrec_format::meta::Tracepoint;
use flightrec_format::{meta, slots};
use tracing::{info, warn};

use crate::budget::Settings;
use crate::config::Share;
use crate::control::{Backend, Batches, Meter};
use crate::descriptors::Descriptors;
use crate::drain::Monitor;
use crate::recording::Recording;
use crate::snapshots::Snapshots;
use crate::sums::SumsMonitor;
use crate::uprobes::Probes;
use crate::{clock, pins};

/// A recording, served.
#[derive(Debug)]
pub struct Server {
    recording: Arc<Recording>,
    files: Arc<Monitor>,
    sums: Arc<SumsMonitor>,
    budget: Arc<Settings>,
    descriptors: Descriptors,
    snapshots: Arc<Snapshots>,
    probes: Probes,
    since: u64,
    /// What was told of the pins.
    told: Mutex<Option<Unpinned>>,
}

impl Server {
    /// Serves a recording, which is drained as `files` tells, added up as `sums` tells and kept
    /// within `budget`, for a daemon that began at `since` (ns of `CLOCK_MONOTONIC`).
    pub fn new(
        recording: Arc<Recording>,
        files: Arc<Monitor>,
        sums: Arc<SumsMonitor>,
        budget: Arc<Settings>,
        snapshots: Arc<Snapshots>,
        since: u64,
    ) -> Self {
        let descriptors = Descriptors::open(recording.clone());
        descriptors.keep_up();
        let probes = Probes::new(recording.clone());
        let told = Mutex::new(None);
        Self { recording, files, sums, budget, descriptors, snapshots, probes, since, told }
    }

    /// What is wrong with the pins; told to the log when that changes.
    fn unpinned(&self) -> Option<Unpinned> {
        let unpinned = pins::look(self.recording.dir(), self.recording.live());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != unpinned {
            match &unpinned {
                Some(Unpinned { reason, records: true }) => warn!(
                    "{reason}: the pinned recording is not reachable; it continues while flightd \
                     runs: mount the BPF file system again, and restart flightd"
                ),
                Some(Unpinned { reason, records: false }) => {
                    warn!("{reason}: nothing is recorded any more: restart flightd");
                }
                None => info!("the pinned recording is reachable again"),
            }
            (*told).clone_from(&unpinned);
        }
        unpinned
    }

    /// What is probed.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// The snapshots of what descriptors stand for.
    pub fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }
}

fn tracepoint_status((of, counts): (Tracepoint, TracepointCount)) -> TracepointStatus {
    let (Tracepoint { name, when, .. }, TracepointCount { recorded, refused, left_out }) =
        (of, counts);
    TracepointStatus { name, when, recorded, refused, left_out }
}

impl Backend for Server {
    fn meter(&self) -> &Meter {
        self.budget.readers()
    }

    fn status(&self) -> Status {
        let (recording, live) = (&self.recording, self.recording.live());
        let meta = recording.meta();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            session: meta.session,
            pid: std::process::id(),
            recording_since: meta.started,
            wall_offset: clock::wall_offset(),
            daemon_since: self.since,
            daemon_cpu: clock::process_cpu(),
            syscall_programs: meta.syscall_programs.clone(),
            memory: recording.memory(),
            ring_bytes: meta.lanes.ring_bytes(),
            held: Lane::RINGS.map(|lane| live.held(lane)),
            totals: self.totals(),
            strings: meta.strings,
            threads: live.slots().map(|page| slots::read(&page).count() as u32).sum(),
            budget: live.budget(),
            store: self.files.status(),
            sums: self.sums.status(),
            descriptors: self.descriptors.status(),
            snapshots: self.snapshots.status(),
            unpinned: self.unpinned(),
            switched_off: meta.switched_off.iter().map(|off| off.key.clone()).collect(),
            lacking: meta.lacking.iter().map(|of| (of.what.clone(), of.why.clone())).collect(),
            tracepoints: recording.tracepoint_counts().into_iter().map(tracepoint_status).collect(),
        }
    }

    fn meta(&self) -> String {
        // A unit or a container that has just started is asked for by its name.
        self.recording.follow_for_reader();
        meta::to_json(&self.recording.meta()).unwrap_or_default()
    }

    fn pages(&self, from: u64, until: u64) -> Batches {
        // Before the rings are copied: what happens between the two is then in the rings.
        self.descriptors.asked();
        let (from, descriptors) = self.descriptors.pages(from, until);
        let live = self.recording.live().clone();
        let cpus = self.recording.meta().cpus.clone();
        let mut rings = Lane::RINGS
            .into_iter()
            .flat_map(move |lane| cpus.clone().into_iter().map(move |cpu| (lane, cpu)));
        let tables = live.clone();
        // What files have need not come out of the quiet ring.
        let kept = live.clone();
        let wants_kept = self.files.status().state != StoreState::Writing;
        let kept = iter::once_with(move || {
            kept.kept(0..kept.quiet_pages()).map(|(_, page)| page).collect::<Vec<_>>()
        });
        let mut rest = iter::once_with(move || tables.slots().collect::<Vec<_>>())
            .chain(kept.filter(move |_| wants_kept))
            .flatten()
            .chain(descriptors);
        let mut cursor: Option<Cursor> = None;
        Box::new(move |out| {
            while out.len() < BATCH {
                if let Some(ring) = &mut cursor {
                    if !live.append(ring, out) {
                        cursor = None;
                    }
                } else if let Some((lane, cpu)) = rings.next() {
                    // The task lane is small, and names what the other lanes hold: all of it.
                    let from = if lane == Lane::Task { 0 } else { from };
                    cursor = Some(live.cursor(lane, cpu, from, until));
                } else if let Some(page) = rest.next() {
                    out.extend_from_slice(&page);
                } else {
                    return;
                }
            }
        })
    }

    fn since(&self, session: u64, after: Vec<Position>, newest: u32) -> Option<Batches> {
        let live = self.recording.live().clone();
        if session != live.session() {
            return None;
        }
        // What is new is settled for all rings now: a busy ring goes on while those before it are
        // copied.
        let mut new: VecDeque<Since> =
            after.iter().map(|position| live.since(position, newest)).collect();
        Some(Box::new(move |out| {
            while let Some(since) = new.front_mut().filter(|_| out.len() < BATCH) {
                if !live.append_since(since, out) {
                    new.pop_front();
                }
            }
        }))
    }

    fn totals(&self) -> Totals {
        let live = self.recording.live();
        // What the kernel skipped is asked through the pins; the probes' own counters are in
        // memory.
        live.totals(&self.recording.programs()).unwrap_or_else(|_: LiveError| live.counters())
    }

    fn mark(&self, text: &str, tid: u32) -> Result<(), String> {
        self.recording.mark(text, tid)
    }

    fn account(&self) -> Account {
        self.budget.account()
    }

    fn set_budget(&self, total: Option<u32>, per_cpu: Option<u32>) -> Result<(), String> {
        let share = |millionths: Option<u32>| millionths.map(Share::from_millionths).transpose();
        let (total, per_cpu) = (share(total)?, share(per_cpu)?);
        info!(
            total = total.map(tracing::field::display),
            per_cpu = per_cpu.map(tracing::field::display),
            "the budget was set at run time:{}{}",
            total.map(|share| format!(" total {share}")).unwrap_or_default(),
            per_cpu.map(|share| format!(" per_cpu {share}")).unwrap_or_default()
        );
        self.budget.set(|budget| {
            budget.total = total.unwrap_or(budget.total);
            budget.per_cpu = per_cpu.unwrap_or(budget.per_cpu);
        });
        Ok(())
    }

    fn stacks(&self) -> Result<Vec<ThreadStack>, String> {
        // Why there is none, `flightctl status` says.
        self.recording.blocked_stacks().map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                "this kernel does not tell the stacks of blocked threads: see `flightctl status`"
                    .into()
            }
            _ => format!("the kernel did not tell the stacks of blocked threads: {e}"),
        })
    }

    fn add_probe(&self, new: &NewProbe, events: Vec<OwnedFd>) -> Result<ProbeStatus, String> {
        self.probes.add(new, events)
    }

    fn probes(&self) -> Vec<ProbeStatus> {
        self.probes.list()
    }

    fn takes_files(&self) -> bool {
        self.probes.takes_files()
    }

    fn remove_probes(&self, choice: &ProbeChoice) -> Result<Vec<ProbeStatus>, String> {
        self.probes.remove(choice)
    }

    fn function_calls(&self) -> (Vec<FunctionCalls>, u64) {
        (self.probes.calls(), clock::mono())
    }

    fn snapshot(&self, last: u64, reason: &str, uid: u32) -> Result<String, String> {
        self.snapshots.request(last, reason, uid)
    }
}

/// Bytes of pages that are sent at once: they are still in the processor's cache when they are
/// written to the socket.
const BATCH: usize = 128 * PAGE_SIZE;
const _: () = assert!(BATCH <= PAGES_MAX * PAGE_SIZE);
