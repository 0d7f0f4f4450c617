//! Makes the sums of each minute from events in the order of time.
//!
//! The rules are those of `flightctl report`, and where they can be, the code is: the states of
//! threads, the reasons of waits, requests, operations, names and failures are the libraries'. So a
//! sum of minutes is the report's over the same time.
//!
//! - A call, a request and a transfer count in the minute in which they end.
//! - A time in a state (running, waiting for a CPU, blocked) is cut at the ends of minutes, so that
//!   times of minutes add up. A wait counts, with its whole length, in the minute in which it ends.
//! - A minute is given when events of some minutes after it are there, as a gap in it may be
//!   noticed late.

mod calls;
mod names;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use flightrec_analysis::reason::{Reason, Wait, is_io_worker};
use flightrec_analysis::stretches::{Stretch, Stretches, Woken};
use flightrec_analysis::syscalls::{Moves, operation_writes};
use flightrec_analysis::{State, Waker};
use flightrec_format::abi::kinds::{BlockComplete, IoComplete, Kind};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::{Gap, is_loss};
use flightrec_reader::holes::Holes;
use flightrec_reader::pipeline::delay::Findings;
use flightrec_reader::pipeline::operations::Operations;
use flightrec_reader::pipeline::requests::{Known, Requests};
use flightrec_reader::threads::Threads;
use rustc_hash::FxHashMap;

use self::calls::{Calls, Ended};
use self::names::{KNOWN_MAX, Names, WaitKind, op_name};
use self::tally::{Tally, Word};
use crate::model::{Period, Table, flags};

/// Length of a period, ns.
pub const MINUTE: u64 = 60_000_000_000;
/// Minutes that are held back, as what is missing in them may be noticed late.
const HELD: usize = 3;
/// As `flightctl report` has it: how long before a wakeup out of an interrupt the end of a request
/// may be that it is due to, ns; and CPUs of which the last request is remembered.
const DISK_NS: u64 = 1_000_000;
const CPUS_MAX: usize = 4096;

/// Places of further sums, by table; reports have the same.
const ERRORS: usize = 0;
const UNTIMED: usize = 1;
const RUNNING: usize = 0;
const HELD_NS: usize = 1;
const BYTES: usize = 0;
const QUEUE: usize = 1;
const QUEUED: usize = 2;
const REQUEST_ERRORS: usize = 3;
const REQUEST_UNTIMED: usize = 4;
const READ: usize = 0;
const WRITTEN: usize = 1;

/// Makes the sums of one recording.
#[derive(Debug)]
pub struct Maker {
    names: Names,
    threads: Threads,
    calls: Calls,
    requests: Requests,
    operations: Operations,
    /// With the second argument of the call that a thread is in.
    stretches: Stretches<Option<u64>>,
    /// By CPU, the request that ended last: when, who had made it, its device and operation.
    disks: FxHashMap<u16, (u64, u32, (u32, u32))>,
    /// Of threads whose state went on at the last end of a period: since when.
    open: FxHashMap<u32, (State, u64)>,
    tally: Tally,
    /// From when on events count, ns of `CLOCK_MONOTONIC`.
    counts: u64,
    /// The present period.
    from: u64,
    until: u64,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`.
    offset: i64,
    /// Time of the last event.
    now: u64,
    /// Up to when events are missing.
    lacks: u64,
    held: VecDeque<Period>,
}

impl Maker {
    /// Of a recording. Events count from `counts` on; those before tell what goes on then.
    /// `offset`: `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, ns.
    pub fn new(meta: &Meta, slots: Vec<TaskSlot>, counts: u64, offset: i64) -> Self {
        let cpus = meta.cpus.iter().max().map_or(0, |cpu| usize::from(*cpu) + 1);
        let mut maker = Self {
            names: Names::new(meta),
            threads: Threads::before(std::iter::empty(), slots.into_iter(), cpus),
            calls: Calls::new(meta),
            requests: Requests::new(Holes::default()),
            operations: Operations::new(Holes::default()),
            stretches: Stretches::new(0, false, false),
            disks: FxHashMap::default(),
            open: FxHashMap::default(),
            tally: Tally::default(),
            counts,
            from: counts,
            until: 0,
            offset,
            now: 0,
            lacks: 0,
            held: VecDeque::new(),
        };
        maker.stretches.know(meta);
        maker.until = maker.end_of(counts);
        if maker.until - counts < MINUTE - MINUTE / 60 {
            maker.tally.flags |= flags::PART;
        }
        maker
    }

    /// Where a period ends that begins at a moment: with the wall clock's minute.
    fn end_of(&self, from: u64) -> u64 {
        let wall = i128::from(from) + i128::from(self.offset);
        let within = u64::try_from(wall.rem_euclid(i128::from(MINUTE))).unwrap_or(0);
        let rest = MINUTE - within;
        // What the clock was set by in between does not make a minute of some ms.
        let rest = if rest < MINUTE / 60 { rest + MINUTE } else { rest };
        from.saturating_add(rest)
    }

    /// Newer metadata, and the present offset of the wall clock.
    pub fn know(&mut self, meta: &Meta, offset: i64) {
        self.offset = offset;
        if self.names.session.meta() != meta {
            self.names = Names::new(meta);
        }
    }

    /// Goes past an event of before, of which only the names of threads are wanted.
    pub fn learn(&mut self, event: &Event) {
        self.threads.apply(event);
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        while event.time >= self.until {
            self.end_period(self.until);
        }
        self.now = event.time;
        let counts = event.time >= self.counts;
        let ended = self.calls.take(event);
        if let Some(ended) = ended
            && counts
        {
            self.call(event, &ended);
        }
        let found = Findings { entered: ended.and_then(|of| of.entered), ..Findings::default() };
        let request = self.requests.take(event, &found);
        let mut issued_by = None;
        if let Body::Plain(plain) = &event.body {
            match plain.kind() {
                Kind::BlockComplete => {
                    let request = match request {
                        Some(Known::Request(request)) => Some(request),
                        _ => None,
                    };
                    issued_by = request.and_then(|request| request.issued_by);
                    if let Some(done) = BlockComplete::read(plain.bytes())
                        && counts
                    {
                        self.request(event, &done, request.unwrap_or_default());
                    }
                }
                Kind::IoComplete => {
                    let by = self.operations.take(event).map(|of| of.submitted_by);
                    if let Some(done) = IoComplete::read(plain.bytes())
                        && counts
                    {
                        self.operation(event, &done, by);
                    }
                }
                _ => {}
            }
        } else if matches!(event.body, Body::IoSubmit { .. }) {
            self.operations.take(event);
        }
        self.stretches.take(event, || match &event.body {
            Body::Enter(call) => call.args.get(1).copied().filter(|_| call.nargs > 1),
            _ => None,
        });
        self.woken(event, issued_by);
        self.give(counts);
        self.threads.apply(event);
    }

    /// What is known of the end of a wait.
    fn woken(&mut self, event: &Event, issued_by: Option<u32>) {
        match &event.body {
            Body::Plain(plain) if plain.kind() == Kind::BlockComplete => {
                if let (Some(by), Some(of)) = (issued_by, BlockComplete::read(plain.bytes()))
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
                let call = if by_thread { self.stretches.call(event.tid) } else { None };
                let comm = self.threads.comm(event.tid, event.cpu, event.time);
                let by_io_worker = by_thread && is_io_worker(comm);
                self.stretches.note_woken(*wakee, Woken { call, disk, by_io_worker });
            }
            _ => {}
        }
    }

    fn unit_of(&mut self, tid: u32, time: u64) -> Word {
        let cgroup = self.threads.cgroup(tid, time);
        self.names.unit(cgroup, &mut self.tally)
    }

    #[inline]
    fn call(&mut self, event: &Event, ended: &Ended) {
        let Ended { nr, abi, ret, ns, .. } = *ended;
        let unit = self.unit_of(event.tid, event.time);
        let named = self.names.call(abi, nr, &mut self.tally);
        let failure = self.names.session.failures().failure(abi, nr, ret);
        let cell = self.tally.cell(Table::Calls, [unit, named.word, 0]);
        if let Some(ns) = ns {
            cell.add(ns);
        } else {
            cell.count = cell.count.saturating_add(1);
            cell.extra(UNTIMED, 1);
        }
        if let Some(error) = failure {
            cell.extra(ERRORS, 1);
            let error = self.tally.word(error.to_string().as_bytes());
            let cell = self.tally.cell(Table::Errors, [unit, named.word, error]);
            cell.count = cell.count.saturating_add(1);
        }
        if named.moves == Moves::default() {
            return;
        }
        if let Ok(bytes @ 1..) = u64::try_from(ret) {
            for (moves, is_write) in [(named.moves.reads, false), (named.moves.writes, true)] {
                if moves.is_some() {
                    self.transfer(unit, named.word, is_write, bytes);
                }
            }
        }
    }

    fn transfer(&mut self, unit: Word, call: Word, is_write: bool, bytes: u64) {
        let op = self.tally.word(if is_write { b"write" } else { b"read" });
        let cell = self.tally.cell(Table::Bytes, [unit, call, op]);
        cell.add(bytes);
        cell.extra(if is_write { WRITTEN } else { READ }, bytes);
    }

    fn request(
        &mut self,
        event: &Event,
        done: &BlockComplete,
        request: flightrec_reader::pipeline::Request,
    ) {
        let unit = request.issued_by.map_or(0, |by| self.unit_of(by, event.time));
        let device = self.tally.word(self.names.device(done.device).as_bytes());
        let op = self.tally.word(op_name(done.op).as_bytes());
        let cell = self.tally.cell(Table::Block, [device, op, unit]);
        cell.extra(BYTES, u64::from(done.bytes));
        cell.extra(REQUEST_ERRORS, u64::from(done.error != 0));
        if done.left != 0 {
            return;
        }
        if let Some(ns) = request.service_ns {
            cell.add(ns);
        } else {
            cell.count = cell.count.saturating_add(1);
            cell.extra(REQUEST_UNTIMED, 1);
        }
        if let Some(ns) = request.queue_ns {
            cell.extra(QUEUE, ns);
            cell.extra(QUEUED, 1);
        }
    }

    fn operation(&mut self, event: &Event, done: &IoComplete, by: Option<u32>) {
        let (Ok(bytes @ 1..), Some(is_write)) =
            (u64::try_from(done.result), operation_writes(done.op))
        else {
            return;
        };
        let unit = self.unit_of(by.unwrap_or(event.tid), event.time);
        self.transfer(unit, 0, is_write, bytes);
    }

    /// Adds up the stretches that are over.
    fn give(&mut self, counts: bool) {
        let done = self.stretches.drain();
        if counts {
            for stretch in &done {
                self.stretch(stretch);
            }
        }
        self.stretches.recycle(done);
    }

    fn stretch(&mut self, stretch: &Stretch<Option<u64>>) {
        let interval = &stretch.interval;
        let from = interval.from.max(self.from);
        let ns = interval.until.saturating_sub(from);
        let tid = interval.tid;
        if interval.state == State::Unknown {
            self.tally.unknown_ns = self.tally.unknown_ns.saturating_add(ns);
            return;
        }
        // Since when the thread is in that state, also where that is before this period.
        let open = self
            .open
            .get(&tid)
            .filter(|(state, _)| interval.from <= self.from && *state == interval.state);
        let began = open.map_or(interval.from, |(_, began)| *began);
        let whole = (!stretch.is_open).then(|| interval.until.saturating_sub(began));
        let unit = self.unit_of(tid, interval.until);
        match interval.state {
            State::Running | State::Held | State::Runnable => {
                let cpu = self.tally.word(interval.cpu.to_string().as_bytes());
                let unit = self.tally.cell(Table::RunQueue, [unit, 0, 0]);
                add_time(unit, interval.state, ns, whole);
                let cpu = self.tally.cell(Table::Cpus, [cpu, 0, 0]);
                add_time(cpu, interval.state, ns, whole);
            }
            State::Blocked(_) | State::Stopped(_) => {
                let (reason, idle) = self.reason(stretch);
                let cell = self.tally.cell(Table::Waits, [unit, reason, idle]);
                cell.sum = cell.sum.saturating_add(ns);
                if let Some(whole) = whole {
                    cell.end(whole);
                }
            }
            State::Unknown | State::Dead => {}
        }
    }

    /// Why a thread waited, and `idle` where it merely had nothing to do.
    fn reason(&mut self, stretch: &Stretch<Option<u64>>) -> (Word, Word) {
        let interval = &stretch.interval;
        let by = interval.waker.and_then(Waker::thread);
        let waker_name: &[u8] =
            by.map_or(b"", |tid| self.threads.comm(tid, interval.cpu, interval.until));
        let command = stretch.told.flatten();
        let is_plain = stretch.frames.is_empty() && stretch.disk().is_none();
        // Of a waker's name only what the rules look at; of a command, whether it is one of locks.
        let state = match interval.state {
            State::Stopped(state) => (true, state),
            State::Blocked(state) => (false, state),
            _ => (false, 0),
        };
        let kind: WaitKind = (
            state,
            interval.call,
            command.is_some_and(|command| matches!(command, 7 | 14 | 38)),
            interval
                .waker
                .map(|waker| (waker.context, by.is_some(), waker_name.starts_with(b"jbd2/"))),
            stretch.io_wait,
        );
        if is_plain && let Some(known) = self.names.reasons.get(&kind) {
            return *known;
        }
        let session = &self.names.session;
        let frames: Vec<&str> = stretch
            .frames
            .iter()
            .filter_map(|frame| session.symbols().find(*frame))
            .map(|frame| frame.function)
            .collect();
        let disk = stretch.disk().map(|(device, op)| (self.names.device(device), op_name(op)));
        let reason = Reason::of(&Wait {
            state: interval.state,
            call: interval.call.and_then(|call| session.call_name(call.abi, call.nr)),
            command,
            object: None,
            frames: &frames,
            disk: disk.as_ref().map(|(device, op)| (&**device, *op)),
            waker: interval.waker,
            waker_name,
            io_wait: stretch.io_wait,
        });
        let word = self.tally.word(reason.to_string().as_bytes());
        let idle = if reason.is_idle() { self.tally.word(b"idle") } else { 0 };
        if is_plain && self.names.reasons.len() < KNOWN_MAX {
            self.names.reasons.insert(kind, (word, idle));
        }
        (word, idle)
    }

    /// Events are missing after `gap.from`. Call it when all events up to that time were taken,
    /// and before the first one that the gap [begins before](Gap::begins_before).
    pub fn miss(&mut self, gap: &Gap) {
        let is_lost = gap.missing() != Some(0) || is_loss(&gap.refused);
        if !is_lost {
            return;
        }
        self.stretches.miss(gap);
        self.calls.miss(gap);
        if gap.lane == Lane::Kernel {
            let holes = |(from, until)| {
                let mut holes = Holes::new(0);
                holes.extend([(from, until)]);
                holes
            };
            self.requests.go_on(holes((gap.from, gap.until)), gap.from);
            self.operations.go_on(holes((gap.from, gap.until)), gap.from);
        }
        if gap.until <= self.counts {
            return;
        }
        let refused = gap.refused[0].saturating_add(gap.refused[1]);
        if let Some(lost) = self.tally.lost.get_mut(gap.lane as usize) {
            *lost = lost.saturating_add(gap.missing().unwrap_or(0)).saturating_add(refused);
        }
        let untold = if gap.missing().is_none() { flags::LOST_UNTOLD } else { 0 };
        self.tally.flags |= flags::LOST | untold;
        self.lacks = self.lacks.max(gap.until);
        for period in self.held.iter_mut().filter(|period| period.until > gap.from) {
            period.flags |= flags::LOST | untold;
        }
    }

    /// The present period ends at a moment.
    fn end_period(&mut self, at: u64) {
        self.calls.settle(at);
        self.stretches.settle(at);
        let done = self.stretches.drain();
        let mut open = FxHashMap::default();
        for stretch in &done {
            let interval = &stretch.interval;
            if at > self.counts {
                self.stretch(stretch);
            }
            if stretch.is_open {
                let before = self
                    .open
                    .get(&interval.tid)
                    .filter(|(state, _)| interval.from <= self.from && *state == interval.state);
                let began = before.map_or(interval.from, |(_, began)| *began);
                open.insert(interval.tid, (interval.state, began));
            }
        }
        self.stretches.recycle(done);
        self.open = open;
        let wall = i64::try_from(i128::from(self.from) + i128::from(self.offset)).unwrap_or(0);
        // A gap of minutes: their events are counted in the first one.
        if self.from < self.lacks {
            self.tally.flags |= flags::LOST;
        }
        let period = self.tally.end(self.from, at, wall);
        self.held.push_back(period);
        self.from = at;
        self.until = self.end_of(at);
        // Words that are no longer met make room.
        if self.tally.is_crowded || self.names.units.len() >= KNOWN_MAX {
            let meta = self.names.session.meta().clone();
            self.names = Names::new(&meta);
            self.tally = Tally::default();
        }
    }

    /// Takes the next period that is done.
    pub fn next_period(&mut self) -> Option<Period> {
        if self.held.len() > HELD { self.held.pop_front() } else { None }
    }

    /// The recording has ended: the rest, the last period as far as it goes.
    pub fn finish(&mut self) -> Vec<Period> {
        if self.now >= self.from {
            self.tally.flags |= flags::PART;
            self.end_period(self.now.saturating_add(1));
        }
        self.held.drain(..).collect()
    }
}

/// Adds a stretch of running, waiting for a CPU, or being held.
fn add_time(cell: &mut crate::model::Cell, state: State, ns: u64, whole: Option<u64>) {
    match state {
        State::Running => cell.extra(RUNNING, ns),
        State::Held => cell.extra(HELD_NS, ns),
        _ => {
            cell.sum = cell.sum.saturating_add(ns);
            if let Some(whole) = whole {
                cell.end(whole);
            }
        }
    }
}
