//! A window is called complete only where all of it is shown: over recordings whose rings were
//! written over, of which the quiet ring keeps some processes, and whose ids go round.

use std::time::Duration;

use flightrec_format::abi::page::{Lane, PAGE_SIZE, PageHeader, part_flag};
use flightrec_format::abi::record::{Comm, TaskExit};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::control::{CpuTotals, Totals};
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::encode::{PageWriter, write_header};
use flightrec_format::kept::{ANYONE, KeptWriter, LeftOut, YOUNG, YOUNG_NS};
use flightrec_format::meta::{Lanes, Meta, Syscall};
use flightrec_reader::coverage;
use flightrec_reader::pipeline::testing::{Random, call, comm, event, fork};
use flightrec_reader::source::{Collector, PageSet};
use flightrec_reader::window::{Window, with_leads};
use flightrec_reader::windows::Windows;

use super::{reports, spare};
use crate::filter::{FilterPlan, FilterSpec, Reading};
use crate::print;
use crate::text::{Options, Renderer};

const SESSION: u64 = 3;
const STARTED: u64 = 100_000_000_000;
const CPUS: u16 = 2;
/// A thread makes a call that often, ns.
const STEP: u64 = 2_000_000;
const STEPS: u64 = 2500;
const END: u64 = STARTED + STEP * (STEPS + 10);
/// Ids that are handed out, from 1 on.
const IDS: u32 = 12;
/// The call that is made.
const READ: u16 = 0;

/// A thread; a process where it is its own leader.
#[derive(Debug, Clone, Copy)]
struct Thread {
    tid: u32,
    tgid: u32,
    began: u64,
    ended: u64,
    comm: Comm,
}

/// A call that was made.
#[derive(Debug, Clone, Copy)]
struct Made {
    tgid: u32,
    exited: u64,
    took: u64,
    comm: Comm,
}

/// A machine, and all that happened on it.
struct Machine {
    random: Random,
    syscall: Vec<PageWriter>,
    task: PageWriter,
    threads: Vec<Thread>,
    made: Vec<Made>,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let writer = |cpu| PageWriter::new(SESSION, Lane::Syscall, cpu, 0);
        let mut machine = Self {
            random: Random(seed),
            syscall: (0..CPUS).map(writer).collect(),
            task: PageWriter::new(SESSION, Lane::Task, 0, 0),
            threads: Vec::new(),
            made: Vec::new(),
        };
        for step in 0..STEPS {
            machine.step(STARTED + STEP * step);
        }
        machine
    }

    fn step(&mut self, time: u64) {
        let alive: Vec<usize> =
            (0..self.threads.len()).filter(|i| self.threads[*i].ended > time).collect();
        // More are born than end as long as there are few.
        let odds = if alive.len() < 4 { 10 } else { 200 };
        if self.random.below(odds) == 0 {
            self.birth(time, &alive);
        }
        if alive.is_empty() {
            return;
        }
        let at = alive[self.random.below(alive.len() as u64) as usize];
        let Thread { tid, tgid, began, comm, .. } = self.threads[at];
        let has_threads = alive.iter().any(|i| self.threads[*i].tgid == tid && *i != at);
        if self.random.below(150) == 0 && !has_threads {
            self.threads[at].ended = time;
            let exit = TaskExit { tid, tgid, code: 0, left: 0, start_time: began, comm };
            self.task.push(&event(time, 0, tid, Body::TaskExit(exit))).unwrap();
            return;
        }
        // It sleeps in the call, and may wake up on another CPU.
        let took = 1000 * (1 + self.random.below(1500));
        let cpus = [self.random.below(2) as u16, self.random.below(2) as u16];
        self.enter(time + 100, cpus[0], tid);
        self.exit(time + 100 + took, cpus[1], tid);
        self.made.push(Made { tgid, exited: time + 100 + took, took, comm });
    }

    fn enter(&mut self, time: u64, cpu: u16, tid: u32) {
        // Arguments fill the pages.
        let call = Call { nargs: 6, args: [u64::MAX >> 20; 6], ..call(READ) };
        self.syscall[usize::from(cpu)].push(&event(time, cpu, tid, Body::Enter(call))).unwrap();
    }

    fn exit(&mut self, time: u64, cpu: u16, tid: u32) {
        let body = Body::Exit { call: call(READ), ret: 1 << 40, entered: None };
        self.syscall[usize::from(cpu)].push(&event(time, cpu, tid, body)).unwrap();
    }

    fn birth(&mut self, time: u64, alive: &[usize]) {
        let is_free = |tid: &u32| {
            let of = |i: &usize| [self.threads[*i].tid, self.threads[*i].tgid].contains(tid);
            !alive.iter().any(of)
        };
        let free: Vec<u32> = (1..=IDS).filter(is_free).collect();
        if free.is_empty() {
            return;
        }
        let tid = free[self.random.below(free.len() as u64) as usize];
        let leader = alive.iter().map(|i| self.threads[*i]).find(|of| of.tid == of.tgid);
        let leader = leader.filter(|_| self.random.below(2) == 0);
        let comm = leader
            .map_or_else(|| comm(&format!("name-{}", self.random.below(3))), |leader| leader.comm);
        let tgid = leader.map_or(tid, |leader| leader.tgid);
        let thread = Thread { tid, tgid, began: time, ended: u64::MAX, comm };
        let mut fork = fork(1000, 1000, tid, tgid, "");
        (fork.start_time, fork.comm) = (time, comm);
        self.task.push(&event(time + 1, 0, 1000, Body::Fork(fork))).unwrap();
        self.threads.push(thread);
    }

    /// The process of an event's thread, as the quiet ring names it at the end of a stretch.
    fn process(&self, event: &Event, end: u64) -> u32 {
        let bearer = |tid: u32| {
            let is_there =
                |of: &&Thread| of.tid == tid && of.began <= event.time && event.time <= of.ended;
            self.threads.iter().find(is_there)
        };
        let Some(thread) = bearer(event.tid) else { return ANYONE };
        let leader = bearer(thread.tgid).unwrap_or(thread);
        if leader.began + YOUNG_NS > end { YOUNG } else { thread.tgid }
    }

    /// What a reader finds when the rings have been written over, but for their last pages.
    fn recording(&mut self) -> PageSet {
        let native = vec![Syscall { nr: READ, name: "read".into(), args: None }];
        let meta = Meta {
            session: SESSION,
            started: STARTED,
            cpus: (0..CPUS).collect(),
            native,
            quiet_bytes: 1 << 24,
            lanes: Lanes::new([1 << 24; 4], [false; 4]),
            ..Meta::default()
        };
        let mut totals = Totals { now: END, ..Totals::default() };
        let mut pages: Vec<Box<[u8; PAGE_SIZE]>> = Vec::new();
        for cpu in 0..CPUS {
            let writer = &mut self.syscall[usize::from(cpu)];
            let mut of_cpu = CpuTotals { cpu, recorded: true, ..CpuTotals::default() };
            let lane = Lane::Syscall as usize;
            (of_cpu.events[lane], of_cpu.refused[lane]) = writer.totals();
            if cpu == 0 {
                (of_cpu.events[Lane::Task as usize], _) = self.task.totals();
            }
            totals.cpus.push(of_cpu);
            let ring: Vec<Box<[u8; PAGE_SIZE]>> =
                writer.take().into_iter().chain(writer.current()).collect();
            let ring: Vec<Page> = ring.into_iter().map(|page| Page::new(page).unwrap()).collect();
            // The quiet ring was written before all of these were gone.
            let half = ring.len() as u64 / 2;
            let kept = (half + self.random.below(half.max(1))) as usize;
            let gone = kept - (self.random.below(9) as usize).min(kept);
            pages.extend(self.thin(&ring[..kept]));
            pages.extend(ring[gone..].iter().map(|page| Box::new(*page.bytes())));
        }
        pages.extend(self.task.take());
        pages.extend(self.task.current());
        let mut collector = Collector::new(meta);
        for page in &pages {
            collector.add(page.as_slice()).unwrap();
        }
        let mut recording = collector.finish(totals);
        let alive = self.threads.iter().filter(|thread| thread.ended == u64::MAX);
        recording.slots = alive.map(slot).collect();
        recording
    }

    /// Kept pages, as `flightd` writes them: of each stretch some processes, picked by chance.
    fn thin(&mut self, ring: &[Page]) -> Vec<Box<[u8; PAGE_SIZE]>> {
        let mut pages = Vec::new();
        let mut open: Option<KeptWriter> = None;
        let mut at = 0;
        while at < ring.len() {
            let stretch = &ring[at..(at + 1 + self.random.below(9) as usize).min(ring.len())];
            at += stretch.len();
            let from = stretch[0].header().base_mono;
            let until = stretch[stretch.len() - 1].summary().last + 1;
            let mut processes: Vec<u32> = Vec::new();
            for event in stretch.iter().flat_map(Page::events) {
                let process = self.process(&event, until);
                if !processes.contains(&process) {
                    processes.push(process);
                }
            }
            let odds = 2 + self.random.below(5);
            processes.retain(|_| self.random.below(odds) == 1);
            let left_out = processes.iter().map(|process| {
                let born = if *process == YOUNG { until.saturating_sub(YOUNG_NS) } else { 0 };
                LeftOut { process: *process, events: 1, from, until, born }
            });
            let left_out: Vec<LeftOut> = left_out.collect();
            if let Some(writer) = &mut open {
                writer.leave_out(&left_out);
            }
            for page in stretch {
                let is_kept = |event: &Event| !processes.contains(&self.process(event, until));
                let events: Vec<Event> = page.events().filter(is_kept).collect();
                if open.as_mut().is_some_and(|writer| writer.append(page, &events)) {
                    continue;
                }
                pages.extend(open.take().and_then(|writer| writer.page()));
                let mut writer = KeptWriter::new(page);
                writer.leave_out(&left_out);
                if !left_out.is_empty() && writer.append(page, &events) {
                    open = Some(writer);
                } else {
                    pages.push(whole(page));
                }
            }
        }
        pages.extend(open.and_then(|writer| writer.page()));
        pages
    }
}

/// A kept page of which nothing is left out.
fn whole(page: &Page) -> Box<[u8; PAGE_SIZE]> {
    let mut bytes = Box::new(*page.bytes());
    let header = PageHeader { flags: part_flag::KEPT, ..*page.header() };
    *bytes.first_chunk_mut().unwrap() = write_header(&header);
    bytes
}

fn slot(thread: &Thread) -> TaskSlot {
    TaskSlot {
        seq: 0,
        tid: thread.tid,
        tgid: thread.tgid,
        flags: 0,
        start_time: thread.began,
        cgroup: 0,
        comm: thread.comm,
        since: 0,
        state: 0,
        nr: 0,
        args: [0; 6],
        ppid: 1000,
        prio: 120,
        abi: 0,
        known: 0,
    }
}

#[test]
fn what_is_called_complete_lacks_nothing_that_is_asked_for() {
    let (mut complete, mut spared, mut incomplete, mut undecided) = (0, 0, 0, 0);
    for seed in 1..=8 {
        let mut machine = Machine::new(seed);
        let recording = machine.recording();
        for _ in 0..40 {
            let from = STARTED + machine.random.below(STEP * STEPS);
            let until = from + STEP * (1 + machine.random.below(40));
            let made = &machine.made;
            let then: Vec<&Made> =
                made.iter().filter(|made| (from..until).contains(&made.exited)).collect();
            if then.is_empty() {
                continue;
            }
            let one = *then[machine.random.below(then.len() as u64) as usize];
            let least = 1000 * machine.random.below(1500);
            let mut spec = FilterSpec {
                slower_than: Some(Duration::from_nanos(least)),
                ..FilterSpec::default()
            };
            let by_name = machine.random.below(3) == 0;
            if by_name {
                spec.comm =
                    vec![String::from_utf8_lossy(one.comm.trim_ascii_end()).replace('\0', "")];
            } else {
                spec.pid = vec![one.tgid];
            }
            let is_one =
                |of: &Made| if by_name { of.comm == one.comm } else { of.tgid == one.tgid };
            let truth = then.iter().filter(|of| is_one(of) && of.took >= least).count() as u64;
            let filter = FilterPlan::new(spec.clone()).unwrap().resolve(&recording.meta).unwrap();
            let windows = Windows::from(Window { from, until });
            let read = Window { from: with_leads(windows.hull()).from, until: u64::MAX };
            let holes = coverage::holes(&recording, read);
            let reading = Reading { all: false, holes, joins: None };
            let mut told = reports(&recording, &windows, END, &filter, &reading);
            spare(&mut told, &recording, &filter);
            let renderer = Renderer::new(&recording.meta, Options::default());
            let wall = recording.wall_clock(0);
            let shown =
                print::run(&recording, windows, &filter, wall, renderer, &mut Vec::new()).unwrap();
            let doubts: u64 = told[0].doubts.iter().map(|doubt| doubt.events).sum();
            let gaps: u64 = told[0].gaps().iter().filter_map(|gap| gap.missing()).sum();
            let place = format!("seed {seed}, {from} to {until}, {spec:?}: {:?}", told[0]);
            assert!(shown <= truth, "{shown} of {truth}: {place}");
            assert!(truth <= shown + doubts + gaps, "{shown} of {truth}: {place}");
            if told[0].is_complete() {
                assert_eq!(shown, truth, "{place}");
                complete += 1;
                spared += u32::from(told[0].spared() != 0);
            } else {
                incomplete += 1;
            }
            undecided += u32::from(doubts != 0);
        }
    }
    assert!(complete > 100 && spared > 2 && incomplete > 20, "{complete} {spared} {incomplete}");
    println!(
        "{complete} complete, {spared} of them spared, {incomplete} not, {undecided} undecided"
    );
}
