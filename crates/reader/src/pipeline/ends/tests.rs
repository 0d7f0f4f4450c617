//! The ends of calls are those that pairing finds, event by event.

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::{Act, Exec, NR_INVALID, StringStatus, TaskExit};
use flightrec_format::control::{CpuTotals, Totals};
use flightrec_format::decode::{Body, Event, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Lanes, Meta, Syscall};
use flightrec_format::ring::Gap;

use super::*;
use crate::holes::Holes;
use crate::pipeline::front::Front;
use crate::pipeline::testing::{Random, call, comm, event, fork};
use crate::source::Collector;

const SESSION: u64 = 5;
const STARTED: u64 = 100_000_000_000;
const CPUS: u64 = 3;
const THREADS: u64 = 12;

/// Threads that run on CPUs, one at a time, and make calls.
struct Machine {
    random: Random,
    syscall: Vec<PageWriter>,
    task: PageWriter,
    /// The call that each thread is in.
    calls: Vec<Option<u16>>,
    /// The thread that each CPU runs.
    running: Vec<u64>,
    time: u64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let writer = |cpu| PageWriter::new(SESSION, Lane::Syscall, cpu as u16, 0);
        Self {
            random: Random(seed),
            syscall: (0..CPUS).map(writer).collect(),
            task: PageWriter::new(SESSION, Lane::Task, 0, 0),
            calls: vec![None; THREADS as usize],
            running: (0..CPUS).collect(),
            time: STARTED,
        }
    }

    fn put(&mut self, cpu: u64, tid: u32, body: Body) {
        let event = event(self.time, cpu as u16, tid, body);
        self.syscall[cpu as usize].push(&event).unwrap();
    }

    fn tell(&mut self, tid: u32, body: Body) {
        self.task.push(&event(self.time, 0, tid, body)).unwrap();
    }

    /// Something happens.
    fn step(&mut self) {
        // Now and then two things happen at once.
        self.time += self.random.below(4) * 100;
        let cpu = self.random.below(CPUS);
        if self.random.below(4) == 0 {
            let next = self.random.below(THREADS);
            if !self.running.contains(&next) {
                self.running[cpu as usize] = next;
                self.time += 1;
            }
        }
        let thread = self.running[cpu as usize];
        let (at, tid) = (thread as usize, 10 + thread as u32);
        let ret = [0, 1, -11, 1 << 40][self.random.below(4) as usize];
        let nr = self.random.below(3) as u16;
        match (self.random.below(40), self.calls[at]) {
            (0, _) => {
                let kind = self.random.below(4);
                self.live(kind, tid, at);
            }
            (1..30, Some(nr)) => {
                let nr = if self.random.below(20) == 0 { NR_INVALID } else { nr };
                self.put(cpu, tid, Body::Exit { call: call(nr), ret, entered: None });
                self.calls[at] = None;
            }
            (1..15, None) => {
                self.put(cpu, tid, Body::Enter(call(nr)));
                self.calls[at] = Some(nr);
            }
            (15..39, None) => {
                self.put(cpu, tid, Body::Enter(call(nr)));
                let entered = Some(self.time);
                self.time += 16 * self.random.below(40);
                let ret = self.random.below(100) as i64 - 50;
                self.put(cpu, tid, Body::Exit { call: call(nr), ret, entered });
            }
            // An end without a beginning.
            (39, None) => {
                self.put(cpu, tid, Body::Exit { call: call(nr), ret, entered: None });
            }
            _ => {}
        }
    }

    /// A thread is born, executes a program, ends; or calls are recorded again.
    fn live(&mut self, kind: u64, tid: u32, at: usize) {
        // Not at the same moment as its calls, on another CPU.
        self.time += 1;
        match kind {
            0 => self.tell(1, Body::Fork(fork(1, 1, tid, tid, "new"))),
            1 => {
                // It takes over the id of another one, which has ended.
                let old = if self.random.below(2) == 0 {
                    at
                } else {
                    self.random.below(THREADS) as usize
                };
                if self.running.contains(&(old as u64)) && old != at {
                    return;
                }
                self.calls[at] = self.calls[old];
                if old != at {
                    self.calls[old] = None;
                }
                let exec = Exec {
                    tid,
                    old_tid: 10 + old as u32,
                    tgid: tid,
                    args_len: 0,
                    cgroup: 0,
                    comm: comm("run"),
                };
                self.tell(tid, Body::Exec { exec, file: None, args: None });
                return;
            }
            2 => {
                let comm = comm("old");
                let exit = TaskExit { tid, tgid: tid, code: 0, left: 0, start_time: 1, comm };
                self.tell(tid, Body::TaskExit(exit));
            }
            _ => {
                let status = StringStatus::Whole;
                let line = Text { index: 0, status, bytes: b"again".as_slice().into() };
                self.tell(0, Body::Act(Act::Attached as u16, line));
                return;
            }
        }
        self.calls[at] = None;
    }

    /// What is recorded, without one of so many pages.
    fn recording(mut self, lost: u64) -> PageSet {
        let native = (0..3).map(|nr| Syscall { nr, name: format!("call{nr}"), args: None });
        let meta = Meta {
            session: SESSION,
            started: STARTED,
            cpus: (0..CPUS as u16).collect(),
            native: native.collect(),
            lanes: Lanes::new([1 << 24; 4], [false; 4]),
            ..Meta::default()
        };
        let totals = Totals {
            now: self.time,
            cpus: (0..CPUS as u16)
                .map(|cpu| CpuTotals { cpu, recorded: true, ..CpuTotals::default() })
                .collect(),
            ..Totals::default()
        };
        let mut collector = Collector::new(meta);
        for writer in self.syscall.iter_mut().chain([&mut self.task]) {
            let pages: Vec<Box<[u8; PAGE_SIZE]>> =
                writer.take().into_iter().chain(writer.current()).collect();
            for page in pages {
                if lost == 0 || self.random.below(lost) != 0 {
                    collector.add(page.as_slice()).unwrap();
                }
            }
        }
        collector.finish(totals)
    }
}

#[derive(Default)]
struct All(Vec<CallEnd>);

impl TakeEnds for All {
    fn take(&mut self, end: &CallEnd) {
        self.0.push(*end);
    }
}

fn sorted(mut ends: Vec<CallEnd>) -> Vec<CallEnd> {
    ends.sort_unstable_by_key(|end| (end.time, end.cpu, end.tid, end.ret, end.nr, end.took));
    ends
}

/// When calls are missing in a stretch of a recording whose pages are all there from `whole` on.
fn holes(recording: &PageSet, stretch: &[u64], whole: u64) -> Holes {
    let mut holes = Holes::default().with_whole(whole).without_switches();
    let calls = recording.streams.iter().filter(|stream| stream.lane() == Lane::Syscall);
    for gap in calls.flat_map(LaneStream::gaps) {
        let (from, until) = (gap.from.max(stretch[0]), gap.until.min(stretch[1]));
        if from < until {
            holes.miss(&Gap { from, until, ..gap });
        }
    }
    holes
}

/// The ends of a stretch, event by event.
fn by_events(recording: &PageSet, cuts: &[u64], whole: u64) -> Vec<CallEnd> {
    let mut ends = Vec::new();
    let mut each = |item: &mut super::super::delay::Item, _: u64| -> Result<(), ()> {
        let Event { time, cpu, tid, body } = &*item.event;
        if let Body::Exit { call, ret, .. } = body {
            let (time, tid, cpu) = (*time, *tid, *cpu);
            let took = item.found.duration_ns(time);
            ends.push(CallEnd { time, tid, cpu, abi: call.abi, nr: call.nr, ret: *ret, took });
        }
        Ok(())
    };
    let mut front = Front::new(recording, holes(recording, cuts, whole));
    for (number, moments) in cuts.windows(2).enumerate() {
        let streams = recording.streams.iter();
        let streams = streams.map(|stream| Since::stretch(stream, moments[0], number != 0));
        if number != 0 {
            front.go_on(recording, holes(recording, moments, 0), moments[0]);
        }
        front.all(Merge::new(streams), moments[1], &mut each).unwrap();
    }
    front.end(&mut each).unwrap();
    sorted(ends)
}

fn by_ends(recording: &PageSet, cuts: &[u64], whole: u64, workers: usize) -> Vec<CallEnd> {
    let mut ends = Ends::new(workers, holes(recording, cuts, whole));
    let mut takers: Vec<All> = (0..workers).map(|_| All::default()).collect();
    for (number, moments) in cuts.windows(2).enumerate() {
        if number != 0 {
            ends.go_on(&holes(recording, moments, 0), moments[0]);
        }
        ends.stretch(recording, (moments[0], moments[1]), &mut takers);
    }
    sorted(takers.into_iter().flat_map(|taker| taker.0).collect())
}

#[test]
fn ends_are_as_of_all_events() {
    let (mut timed, mut untimed) = (0, 0);
    for seed in 1..=60 {
        let mut machine = Machine::new(seed);
        let steps = 500 + machine.random.below(12_000);
        (0..steps).for_each(|_| machine.step());
        let end = machine.time + 1;
        let mut cuts = vec![STARTED, end];
        cuts.extend(
            (0..machine.random.below(4)).map(|_| STARTED + machine.random.below(end - STARTED)),
        );
        cuts.sort_unstable();
        // The first stretch may begin before the recording, or after its beginning.
        match machine.random.below(3) {
            0 => cuts.insert(0, 0),
            1 if cuts.len() > 2 => drop(cuts.remove(0)),
            _ => {}
        }
        let lost = [0, 9][(seed % 2) as usize];
        let whole = [0, STARTED + machine.random.below(end - STARTED)][(seed % 3 / 2) as usize];
        let recording = machine.recording(lost);
        let told = by_events(&recording, &cuts, whole);
        timed += told.iter().filter(|end| end.took.is_some()).count();
        untimed += told.iter().filter(|end| end.took.is_none()).count();
        for workers in [1, 2, 5] {
            let ends = by_ends(&recording, &cuts, whole, workers);
            let differ = ends.iter().zip(&told).find(|(a, b)| a != b);
            assert_eq!(differ, None, "seed {seed}, {cuts:?}");
            assert_eq!(ends.len(), told.len(), "seed {seed}, {cuts:?}");
        }
    }
    assert!(timed > 10_000 && untimed > 500, "{timed} {untimed}");
}
