//! Ends of calls with their durations, and nothing else: for who adds up calls.
//!
//! The rules are those of [`pairing`](crate::pairing), and so are the answers, but for two:
//! scheduling is not read, so a call has no duration here whose entry is from before the pages of
//! all CPUs begin, or within which recorded events are missing. Left out is whatever a sum of calls
//! does not need: arguments, names, scheduling, and the order of calls of different threads. A call
//! that is one record is counted where it stands, page by page on all CPUs. Only what pairs two
//! records is put in order, each thread by one of the workers.
//!
//! Memory: 4,096 pages at a time have 32 bytes for each record that is not a whole call.

#[cfg(test)]
mod tests;
mod walk;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Act};
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::merge::{Merge, Stream, Timed};
use flightrec_format::ring::LaneStream;

use self::walk::{Range, Walk};
use super::Since;
use crate::holes::Holes;
use crate::left_out::LeftOuts;
use crate::pairing::{At, CallNumber, Pairing};
use crate::source::PageSet;
use crate::threads::THREADS_MAX;

/// Most workers.
const WORKERS_MAX: usize = 8;
/// Pages of system calls that are put in order at a time.
const SLICE: usize = if cfg!(test) { 8 } else { 4096 };

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    /// When it ended, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The thread that made it.
    pub tid: u32,
    /// The CPU on which it ended.
    pub cpu: u16,
    /// The table of its number.
    pub abi: Abi,
    /// Its number.
    pub nr: u16,
    /// What it returned.
    pub ret: i64,
    /// How long it took, ns; `None`: not known.
    pub took: Option<u64>,
}

/// Takes ends of calls, in any order.
pub trait TakeEnds: Send {
    /// Takes one.
    fn take(&mut self, end: &CallEnd);
}

/// The ends of all calls of a recording, stretch by stretch.
#[derive(Debug)]
pub struct Ends {
    /// By worker: the calls of its threads.
    pairings: Vec<Pairing<()>>,
    begun: bool,
}

/// What a thread comes to.
#[derive(Debug, Clone, Copy, Default)]
enum What {
    /// It is in no call.
    #[default]
    Idle,
    /// It begins a call.
    Enter(CallNumber),
    /// Its call ends, and returns this.
    Exit(CallNumber, i64),
    /// It executed a program; its id before.
    Executed(u32),
    /// It has ended.
    Gone,
    /// Calls are recorded again. What threads did meanwhile is not known.
    Attached,
}

/// When a thread comes to what.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    time: u64,
    tid: u32,
    cpu: u16,
    what: What,
}

impl Timed for Step {
    #[inline]
    fn when(&self) -> (u64, u16) {
        (self.time, self.cpu)
    }
}

/// The steps of a ring that are of one worker's threads: lists, one after the other.
struct Steps<'a> {
    lists: std::vec::IntoIter<&'a [Step]>,
    list: std::slice::Iter<'a, Step>,
}

impl<'a> Steps<'a> {
    fn new(lists: Vec<&'a [Step]>) -> Self {
        Self { lists: lists.into_iter(), list: [].iter() }
    }
}

impl Stream for Steps<'_> {
    type Item = Step;

    #[inline]
    fn read(&mut self, into: &mut Step) -> bool {
        loop {
            if let Some(step) = self.list.next() {
                *into = *step;
                return true;
            }
            let Some(list) = self.lists.next() else { return false };
            self.list = list.iter();
        }
    }
}

/// A ring's steps, by worker and in order of their jobs.
struct Ring {
    by_worker: Vec<Vec<Vec<Step>>>,
}

/// Pages of a ring, for one worker to walk.
struct Job<'a> {
    /// Which of the recording's streams it is of.
    stream: usize,
    cpu: u16,
    pages: &'a [Page],
    range: Range,
}

/// How many workers there are.
pub fn workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX)
}

impl Ends {
    /// Of a recording, by so many workers, one at least. `holes`: when calls may be missing in what
    /// is read of it.
    pub fn new(workers: usize, holes: Holes) -> Self {
        let workers = workers.max(1);
        let holes = holes.without_switches();
        Self { pairings: vec![Pairing::new(holes, THREADS_MAX / workers); workers], begun: false }
    }

    /// Goes on with what comes next of the same recording, from `from` on.
    pub fn go_on(&mut self, holes: &Holes, from: u64) {
        for pairing in &mut self.pairings {
            pairing.go_on(holes.clone().without_switches(), from, |_| ());
        }
    }

    /// Gives the ends of the calls of a stretch, from one moment to another, to the workers'
    /// `takers`, of which there have to be as many as workers.
    pub fn stretch<T: TakeEnds>(
        &mut self,
        recording: &PageSet,
        (from, until): (u64, u64),
        takers: &mut [T],
    ) {
        if let Some(left_outs) = LeftOuts::of(recording) {
            self.pairings.iter_mut().for_each(|pairing| pairing.learn(&left_outs, from));
        }
        let streams = &recording.streams;
        let calls = || streams.iter().filter(|stream| stream.lane() == Lane::Syscall);
        // Where events are missing, a thread may have left a call whose end is not recorded.
        let strict = calls().any(|stream| !stream.gaps().is_empty());
        let mut begins: Vec<u64> = calls()
            .flat_map(|stream| stream.pages_from(from))
            .map(|page| page.header().base_mono)
            .filter(|base| *base > from && *base < until)
            .collect();
        begins.sort_unstable();
        begins.dedup();
        let cuts = begins.chunks(SLICE).skip(1).filter_map(|chunk| chunk.first().copied());
        let mut at = from;
        for cut in cuts.chain([until]) {
            self.slice(streams, (at, cut), strict, takers);
            self.begun = true;
            at = cut;
        }
    }

    fn slice<T: TakeEnds>(
        &mut self,
        streams: &[LaneStream],
        (from, until): (u64, u64),
        strict: bool,
        takers: &mut [T],
    ) {
        let workers = self.pairings.len();
        let jobs = self.jobs(streams, from, until);
        let next = AtomicUsize::new(0);
        let work = |taker: &mut T| {
            let mut done = Vec::new();
            // As many as the pages before had: growing the lists would cost more than walking.
            let mut room = 0;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(Job { cpu, pages, range, .. }) = jobs.get(at) else { return done };
                let mut walk = Walk::new(*cpu, *range, strict, (workers, room), taker);
                pages.iter().all(|page| walk.page(page));
                room = walk.steps.iter().map(Vec::len).max().unwrap_or(0);
                done.push((at, walk.steps));
            }
        };
        let mut done: Vec<(usize, Vec<Vec<Step>>)> = thread::scope(|scope| {
            let mut takers = takers.iter_mut();
            let own = takers.next();
            let others: Vec<_> = takers.map(|taker| scope.spawn(|| work(taker))).collect();
            let mut done = own.map(work).unwrap_or_default();
            for other in others {
                match other.join() {
                    Ok(more) => done.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        done.sort_unstable_by_key(|(at, _)| *at);
        let ring = |_| Ring { by_worker: vec![Vec::new(); workers] };
        let mut rings: Vec<Ring> = streams.iter().map(ring).collect();
        for ((_, steps), job) in done.into_iter().zip(&jobs) {
            if let Some(ring) = rings.get_mut(job.stream) {
                ring.by_worker.iter_mut().zip(steps).for_each(|(of, steps)| of.push(steps));
            }
        }
        let mut is_shared = false;
        for (stream, ring) in streams.iter().zip(&mut rings) {
            if stream.lane() == Lane::Task {
                let steps = Since::stretch(stream, from, self.begun);
                is_shared |= ring.take(lives(steps, until));
            }
        }
        self.settle(&rings, is_shared, takers);
    }

    /// What the workers walk over.
    fn jobs<'a>(&self, streams: &'a [LaneStream], from: u64, until: u64) -> Vec<Job<'a>> {
        let range = Range { from: if self.begun { from } else { 0 }, until };
        let mut jobs = Vec::new();
        for (stream, of) in streams.iter().enumerate() {
            if of.lane() == Lane::Syscall {
                let cpu = of.cpu();
                let parts = walk::parts(of, from, range);
                jobs.extend(parts.map(|(pages, range)| Job { stream, cpu, pages, range }));
            }
        }
        jobs
    }

    /// Pairs entries with exits, in order.
    fn settle<T: TakeEnds>(&mut self, rings: &[Ring], is_shared: bool, takers: &mut [T]) {
        let pairings = &mut self.pairings;
        let workers = pairings.len();
        if is_shared {
            // A thread's call goes on under another id, which may be another worker's.
            let Some(taker) = takers.first_mut() else { return };
            let steps = rings.iter().flat_map(|ring| (0..workers).map(|at| ring.of(at)));
            return Settling { pairings, taker }.all(Merge::new(steps));
        }
        thread::scope(|scope| {
            for (worker, (pairing, taker)) in pairings.iter_mut().zip(takers).enumerate() {
                scope.spawn(move || {
                    let pairings = std::slice::from_mut(pairing);
                    let steps = rings.iter().map(|ring| ring.of(worker));
                    Settling { pairings, taker }.all(Merge::new(steps));
                });
            }
        });
    }
}

impl Ring {
    /// The steps of a worker's threads.
    fn of(&self, worker: usize) -> Steps<'_> {
        let lists = self.by_worker.get(worker).map(Vec::as_slice).unwrap_or_default();
        Steps::new(lists.iter().map(Vec::as_slice).collect())
    }

    /// Takes the lives of threads; whether a call goes from one worker's thread to another's.
    fn take(&mut self, lives: Vec<Step>) -> bool {
        let workers = self.by_worker.len();
        let mut is_shared = false;
        for (worker, lists) in self.by_worker.iter_mut().enumerate() {
            let is_own = |step: &&Step| match step.what {
                What::Attached => true,
                _ => worker_of(step.tid, workers) == worker,
            };
            lists.push(lives.iter().filter(is_own).copied().collect());
        }
        for step in lives {
            if let What::Executed(old) = step.what {
                is_shared |= worker_of(old, workers) != worker_of(step.tid, workers);
            }
        }
        is_shared
    }
}

/// Whose thread it is.
#[inline]
fn worker_of(tid: u32, workers: usize) -> usize {
    tid as usize % workers
}

/// What the task lane tells of the calls of threads, before a moment.
fn lives(mut events: impl Stream<Item = Event>, until: u64) -> Vec<Step> {
    let (mut steps, mut event) = (Vec::new(), Event::default());
    while events.read(&mut event) && event.time < until {
        let (tid, what) = match &event.body {
            Body::Fork(fork) => (fork.tid, What::Idle),
            Body::Exec { exec, .. } => (exec.tid, What::Executed(exec.old_tid)),
            Body::TaskExit(exit) => (exit.tid, What::Gone),
            Body::Act(act, _) if *act == Act::Attached as u16 => (0, What::Attached),
            _ => continue,
        };
        steps.push(Step { time: event.time, tid, cpu: event.cpu, what });
    }
    steps
}

/// Entries and exits on their way to each other.
struct Settling<'a, T> {
    /// Of one worker, or of all.
    pairings: &'a mut [Pairing<()>],
    taker: &'a mut T,
}

impl<T: TakeEnds> Settling<'_, T> {
    fn all(&mut self, mut steps: Merge<Steps<'_>>) {
        let mut spare = Box::<Step>::default();
        while let Some(step) = steps.read(spare) {
            self.take(&step);
            spare = step;
        }
    }

    fn of(&mut self, tid: u32) -> Option<&mut Pairing<()>> {
        let workers = self.pairings.len();
        self.pairings.get_mut(worker_of(tid, workers))
    }

    fn take(&mut self, step: &Step) {
        let Step { time, tid, cpu, what } = *step;
        let at = At { time, tid, cpu };
        if let What::Attached = what {
            return self.pairings.iter_mut().for_each(|pairing| pairing.attach(time, |_| ()));
        }
        if let What::Executed(old) = what
            && old != tid
        {
            let place = self.of(old).and_then(|pairing| pairing.take(old));
            self.of(tid).and_then(|pairing| pairing.put(tid, place));
        }
        let Some(pairing) = self.of(tid) else { return };
        match what {
            What::Idle => _ = pairing.see(tid, time),
            What::Gone => _ = pairing.leave(tid),
            What::Enter(call) => _ = pairing.enter(at, call, ()),
            What::Executed(_) => pairing.mark_executed(tid),
            What::Exit(call, ret) => {
                let entry = pairing.exit(at, call).entry();
                let (abi, nr) = entry.map_or(call, |entry| entry.call);
                let took = entry.map(|entry| time.saturating_sub(entry.time));
                let took = took.filter(|ns| *ns != 0);
                self.taker.take(&CallEnd { time, tid, cpu, abi, nr, ret, took });
            }
            What::Attached => {}
        }
    }
}
