//! Brings a report the events of a recording, and the stretches of its threads.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use flightrec_analysis::State;
use flightrec_analysis::groups::Shared;
use flightrec_analysis::reason::is_io_worker;
use flightrec_analysis::stretches::{Ran, Stretch, Stretches, Woken};
use flightrec_format::abi::kinds::{BlockComplete, Kind};
use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::ring::{Gap, LaneStream};
use flightrec_reader::fds::FdNames;
use flightrec_reader::pipeline::{CallFacts, Choice, EventContext, Part as Missing, Sink};
use flightrec_reader::source::PageSet;
use flightrec_reader::threads::{Threads, trim};
use flightrec_reader::window::{Window, with_leads};
use flightrec_reader::windows::Windows;
use rustc_hash::FxHashMap;

use super::origin::Abouts;
use super::{Facts, Key, Part, Report, Seen, Sums, Told};
use crate::filter::{Filter, StretchFacts};

/// How long before a wakeup out of an interrupt the end of a request may be that it is due to, ns:
/// the work between the two is done in the same interrupt.
const DISK_NS: u64 = 1_000_000;
/// CPUs of which the last request is remembered.
const CPUS_MAX: usize = 4096;

/// A choice of all events, which tells the ones that the filter wants.
pub(super) struct Marked {
    filter: Filter,
    is_wanted: Rc<Cell<bool>>,
    needs_arguments: bool,
}

impl Choice for Marked {
    fn wants_whole_ends(&self) -> bool {
        self.needs_arguments || self.filter.wants_whole_ends()
    }

    fn has_paths(&self) -> bool {
        self.filter.has_paths()
    }

    fn wants_path(&self, call: &flightrec_format::decode::Call, fds: FdNames<'_>) -> bool {
        self.filter.wants_path(call, fds)
    }

    fn lacks(
        &self,
        call: &flightrec_format::decode::Call,
        fds: FdNames<'_>,
        alone: bool,
    ) -> Option<Missing> {
        self.filter.lacks(call, fds, alone)
    }

    fn wants(&self, event: &Event, facts: CallFacts, threads: &Threads) -> bool {
        self.is_wanted.set(self.filter.wants(event, facts, threads));
        true
    }
}

/// The state of a pass beside the resolver's.
pub(super) struct Stage {
    filter: Filter,
    is_wanted: Rc<Cell<bool>>,
    names: Threads,
    windows: Windows,
    stretches: Option<Stretches<Told>>,
    /// From when on events of all CPUs are there: older ones of one CPU do not tell what became of
    /// its threads on the others.
    followed_from: u64,
    /// Whether who ran is asked for.
    runs: bool,
    abouts: Abouts,
    /// What the calls that threads are in are about.
    objects: Shared,
    gaps: VecDeque<Gap>,
    /// By CPU, the request that ended last: when, who had made it, its device and operation.
    disks: FxHashMap<u16, (u64, u32, (u32, u32))>,
    /// The time of the last event.
    now: u64,
    /// Time within the window of which it is not known what threads did.
    unknown_ns: u64,
}

impl Stage {
    /// Of a recording.
    pub(super) fn new(
        recording: &PageSet,
        windows: Windows,
        filter: &Filter,
        report: &dyn Report,
        by: &[Key],
    ) -> (Self, Marked) {
        let needs = report.shape().needs;
        let is_wanted = Rc::new(Cell::new(false));
        let marked = Marked {
            filter: filter.clone(),
            is_wanted: is_wanted.clone(),
            needs_arguments: needs.arguments || by.contains(&Key::File),
        };
        let stage = Self {
            filter: filter.clone(),
            is_wanted,
            names: recording.threads(),
            stretches: needs.stretches.then(|| {
                let mut stretches = Stretches::new(0, false, needs.runs);
                stretches.know(&recording.meta);
                stretches
            }),
            followed_from: scheduling_from(recording, with_leads(windows.hull()).from),
            windows,
            runs: needs.runs,
            abouts: Abouts::new(&recording.meta),
            objects: Shared::default(),
            gaps: VecDeque::new(),
            disks: FxHashMap::default(),
            now: 0,
            unknown_ns: 0,
        };
        (stage, marked)
    }

    /// A stretch of pages comes, with these events.
    pub(super) fn expect(&mut self, recording: &PageSet, windows: Windows, read: Window) {
        self.windows = windows;
        if self.stretches.is_some() {
            let gaps = recording.streams.iter().flat_map(LaneStream::gaps);
            let mut gaps: Vec<Gap> =
                gaps.filter(|gap| gap.until > read.from && gap.from < read.until).collect();
            gaps.sort_by_key(|gap| gap.from);
            self.gaps = gaps.into();
        }
    }

    /// Takes an event.
    fn take(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        report: &mut dyn Report,
        sums: &mut Sums,
    ) {
        self.now = event.time;
        let is_within = self.windows.contains(event.time);
        let seen = Seen {
            event,
            known,
            is_wanted: is_within && self.is_wanted.get(),
            names: &self.names,
            abouts: &self.abouts,
        };
        report.event(&seen, sums);
        if self.stretches.is_some() {
            self.follow(event, known);
            self.give(report, sums);
        }
        self.names.apply(event);
    }

    /// Goes on with the states of threads.
    fn follow(&mut self, event: &Event, known: &EventContext<'_>) {
        let Some(stretches) = &mut self.stretches else { return };
        if event.time < self.followed_from {
            return;
        }
        while self.gaps.front().is_some_and(|gap| gap.begins_before(event.time)) {
            if let Some(gap) = self.gaps.pop_front() {
                stretches.miss(&gap);
            }
        }
        let (abouts, objects) = (&self.abouts, &mut self.objects);
        stretches.take(event, || match &event.body {
            Body::Enter(call) => abouts.told(call, known.fds, objects),
            _ => Told::default(),
        });
        match &event.body {
            Body::Plain(plain) if plain.kind() == Kind::BlockComplete => {
                let by = known.request.and_then(|request| request.issued_by);
                let of = BlockComplete::read(plain.bytes());
                if let (Some(by), Some(of)) = (by, of)
                    && (self.disks.len() < CPUS_MAX || self.disks.contains_key(&event.cpu))
                {
                    self.disks.insert(event.cpu, (event.time, by, (of.device, of.op)));
                }
            }
            Body::Waking { wakee, context, .. } => {
                let disk = self.disks.get(&event.cpu).filter(|(time, by, _)| {
                    by == wakee && event.time.saturating_sub(*time) <= DISK_NS
                });
                let disk = disk.map(|(_, _, of)| *of);
                let by_thread = !context.is_interrupt();
                let call = if by_thread { stretches.call(event.tid) } else { None };
                let by_io_worker = by_thread && is_io_worker(trim(&known.comm));
                stretches.note_woken(*wakee, Woken { call, disk, by_io_worker });
            }
            _ => {}
        }
    }

    /// Gives the stretches that are over.
    fn give(&mut self, report: &mut dyn Report, sums: &mut Sums) {
        let Some(stretches) = &mut self.stretches else { return };
        let done = stretches.drain();
        if done.is_empty() {
            return stretches.recycle(done);
        }
        for stretch in &done {
            self.give_one(stretch, report, sums);
        }
        if let Some(stretches) = &mut self.stretches {
            stretches.recycle(done);
        }
    }

    fn give_one(&mut self, stretch: &Stretch<Told>, report: &mut dyn Report, sums: &mut Sums) {
        let interval = &stretch.interval;
        let whole = Window { from: interval.from, until: interval.until };
        for window in self.windows.iter() {
            let within = whole.within(window);
            if within.is_empty() {
                continue;
            }
            let ns = within.until - within.from;
            let object = stretch.told.as_ref().and_then(|told| told.object.as_deref());
            let facts = StretchFacts {
                tid: interval.tid,
                cpu: interval.cpu,
                time: interval.until,
                ns: interval.ns(),
                call: interval.call,
                object,
            };
            if !self.filter.wants_stretch(&facts, &self.names) {
                continue;
            }
            if interval.state == State::Unknown {
                self.unknown_ns = self.unknown_ns.saturating_add(ns);
                continue;
            }
            let names = &self.names;
            let (pid, comm, cgroup) =
                names.who_and_where(interval.tid, interval.cpu, interval.until);
            let facts = Facts {
                tid: interval.tid,
                pid,
                comm: trim(comm),
                cgroup,
                cpu: interval.cpu,
                call: interval.call,
                file: object,
                ..Facts::default()
            };
            let asked = self.runs && interval.state == State::Runnable;
            let ran = self
                .stretches
                .as_ref()
                .filter(|_| asked)
                .map_or_else(Ran::default, |of| of.ran(stretch, within.from, within.until));
            report.stretch(&Part { stretch, ns, within, facts, ran: &ran, names }, sums);
        }
    }

    /// No more events come: gives what goes on.
    pub(super) fn end(&mut self, report: &mut dyn Report, sums: &mut Sums) {
        if let Some(stretches) = &mut self.stretches {
            for gap in self.gaps.drain(..) {
                stretches.miss(&gap);
            }
            stretches.settle(self.now.max(self.windows.hull().until));
        }
        self.give(report, sums);
        report.end(sums);
    }

    /// Time of threads of which it is not known what they did, where that was asked.
    pub(super) fn unknown_ns(&self) -> Option<u64> {
        self.stretches.is_some().then_some(self.unknown_ns)
    }
}

/// From when on the events of scheduling of all CPUs are there, but for gaps: `lead` at the latest.
fn scheduling_from(recording: &PageSet, lead: u64) -> u64 {
    let streams = recording.streams.iter().rev().filter(|of| of.lane() == Lane::Sched);
    let streams: FxHashMap<u16, &LaneStream> = streams.map(|of| (of.cpu(), of)).collect();
    let begins = recording.meta.cpus.iter().map(|cpu| {
        match streams.get(cpu).and_then(|of| of.pages_from(lead).first()).map(Page::header) {
            Some(header) if header.seq <= 1 => 0,
            Some(header) => header.base_mono,
            None => lead,
        }
    });
    begins.max().unwrap_or(lead).min(lead)
}

/// Where events go.
pub(super) struct To<'a> {
    pub(super) stage: &'a mut Stage,
    pub(super) report: &'a mut dyn Report,
    pub(super) sums: &'a mut Sums,
}

impl Sink for To<'_> {
    fn event(&mut self, event: &Event, known: &EventContext<'_>) -> io::Result<()> {
        self.stage.take(event, known, self.report, self.sums);
        Ok(())
    }
}
