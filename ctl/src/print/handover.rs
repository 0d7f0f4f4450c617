//! What the two threads give each other: batches of events, from the one that puts them in order to
//! the one that makes lines of them; and back, where the first has nothing to do since the second
//! is behind, a batch to make lines of.
//!
//! Few such jobs wait at a time, and each has a number: the order of the output is that of the
//! batches, whoever made the lines ([`super::lines`]).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::notes::Notes;
use super::packed::Packed;
use crate::render::Render;

/// Batches that may wait for their lines.
pub(super) const WAITING: usize = 4;
/// From so many on that wait, the first thread is far enough ahead to make lines.
const AHEAD: usize = 2;
/// Jobs that are given and not taken back.
const JOBS: usize = 3;

/// A batch, and what is known of its events: all that lines are made of.
#[derive(Debug, Default)]
pub(super) struct Job {
    /// One more than the job before it has.
    pub(super) number: u64,
    pub(super) batch: Box<Packed>,
    pub(super) notes: Notes,
    /// The lines.
    pub(super) lines: Vec<u8>,
}

impl Job {
    /// Makes the lines.
    pub(super) fn make(&mut self, renderer: &mut dyn Render) {
        let Self { batch, notes, lines, .. } = self;
        lines.clear();
        let mut notes = notes.read();
        let Ok(()) = batch.each(|event, found, _| {
            if let Some(cx) = notes.next(event, found) {
                renderer.event(event, &cx, lines);
            }
            Ok::<(), Infallible>(())
        });
    }
}

/// The place where the threads meet.
#[derive(Debug, Default)]
pub(super) struct Handover {
    state: Mutex<State>,
    /// Something changed for the first thread: room for a batch, a job, or nobody takes any more.
    to_front: Condvar,
    /// Something changed for the second: a batch, a job that is done, or no more come.
    to_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Batches that wait for their lines, the earliest first.
    waiting: VecDeque<Box<Packed>>,
    /// Batches to be filled again.
    #[expect(clippy::vec_box, reason = "it is the boxes that go round")]
    spare: Vec<Box<Packed>>,
    /// Jobs that nobody has begun, the earliest first.
    jobs: VecDeque<Box<Job>>,
    /// Jobs that are done.
    made: VecDeque<Box<Job>>,
    /// Jobs that were given and not taken back.
    given: usize,
    /// No more batches come.
    complete: bool,
    front: Thread,
    back: Thread,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Thread {
    #[default]
    Works,
    /// It is to be called when something has changed for it.
    Waits,
    /// It sends and takes nothing any more, and does no job.
    Gone,
}

impl Handover {
    /// What the first thread does here.
    pub(super) fn front(&self, renderer: Box<dyn Render>) -> FrontSide<'_> {
        FrontSide { handover: self, renderer }
    }

    /// What the second does.
    pub(super) fn back(&self) -> BackSide<'_> {
        BackSide { handover: self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panics elsewhere ends the other one by its side's `drop`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something changed for the first thread. Nobody is called who does not wait: that takes a
    /// system call.
    fn call_front(&self, state: &State) {
        if state.front == Thread::Waits {
            self.to_front.notify_one();
        }
    }

    /// The same for the second.
    fn call_back(&self, state: &State) {
        if state.back == Thread::Waits {
            self.to_back.notify_one();
        }
    }
}

/// The first thread's side.
pub(super) struct FrontSide<'h> {
    handover: &'h Handover,
    /// Makes the lines of jobs.
    renderer: Box<dyn Render>,
}

impl FrontSide<'_> {
    /// Sends a batch, as soon as there is room for it, and returns one to be filled; `None`: nobody
    /// takes any more.
    pub(super) fn send(&mut self, batch: Box<Packed>) -> Option<Box<Packed>> {
        let mut state = self.handover.lock();
        while state.back != Thread::Gone {
            if state.waiting.len() < WAITING {
                state.waiting.push_back(batch);
                self.handover.call_back(&state);
                return Some(state.spare.pop().unwrap_or_default());
            }
            state = self.help(state);
        }
        None
    }

    /// No more batches come. Does jobs until all lines are made.
    pub(super) fn end(mut self) {
        let mut state = self.handover.lock();
        state.complete = true;
        self.handover.call_back(&state);
        while state.back != Thread::Gone {
            state = self.help(state);
        }
    }

    /// Does a job, if there is one; else waits until something has changed.
    fn help<'s>(&mut self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let handover = self.handover;
        if let Some(mut job) = state.jobs.pop_front() {
            drop(state);
            job.make(&mut *self.renderer);
            let mut state = handover.lock();
            state.made.push_back(job);
            handover.call_back(&state);
            return state;
        }
        state.front = Thread::Waits;
        let mut state = handover.to_front.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.front = Thread::Works;
        state
    }
}

impl Drop for FrontSide<'_> {
    fn drop(&mut self) {
        let mut state = self.handover.lock();
        (state.complete, state.front) = (true, Thread::Gone);
        self.handover.call_back(&state);
    }
}

/// The second thread's side.
pub(super) struct BackSide<'h> {
    handover: &'h Handover,
}

impl BackSide<'_> {
    /// The next batch, and whether the first thread is far ahead. `None`: no more come.
    pub(super) fn next(&mut self) -> Option<(Box<Packed>, bool)> {
        let mut state = self.handover.lock();
        loop {
            if let Some(batch) = state.waiting.pop_front() {
                // It comes for several at a time.
                if state.waiting.len() <= AHEAD {
                    self.handover.call_front(&state);
                }
                return Some((batch, state.waiting.len() >= AHEAD));
            }
            if state.complete {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// Gives back a batch that is done with.
    pub(super) fn give_back(&mut self, mut batch: Box<Packed>) {
        batch.clear();
        self.handover.lock().spare.push(batch);
    }

    /// Whether there may be another job.
    pub(super) fn has_room(&self) -> bool {
        self.handover.lock().given < JOBS
    }

    /// Has lines made. Each job is taken back by [`Self::made`] or [`Self::settle`].
    pub(super) fn give(&mut self, job: Box<Job>) {
        let mut state = self.handover.lock();
        state.given += 1;
        state.jobs.push_back(job);
        self.handover.call_front(&state);
    }

    /// A job that is done.
    pub(super) fn made(&mut self) -> Option<Box<Job>> {
        let mut state = self.handover.lock();
        let job = state.made.pop_front()?;
        state.given -= 1;
        Some(job)
    }

    /// A job, done: by `renderer` if nobody has begun it. `None`: none is given.
    pub(super) fn settle(&mut self, renderer: &mut dyn Render) -> io::Result<Option<Box<Job>>> {
        let mut state = self.handover.lock();
        while state.given > 0 {
            if let Some(job) = state.made.pop_front() {
                state.given -= 1;
                return Ok(Some(job));
            }
            if let Some(mut job) = state.jobs.pop_front() {
                state.given -= 1;
                drop(state);
                job.make(renderer);
                return Ok(Some(job));
            }
            if state.front == Thread::Gone {
                return Err(failed());
            }
            state = self.wait(state);
        }
        Ok(None)
    }

    fn wait<'s>(&self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.back = Thread::Waits;
        let mut state = self.handover.to_back.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.back = Thread::Works;
        state
    }
}

impl Drop for BackSide<'_> {
    fn drop(&mut self) {
        let mut state = self.handover.lock();
        state.back = Thread::Gone;
        self.handover.call_front(&state);
    }
}

/// The other thread has panicked.
pub(super) fn failed() -> io::Error {
    io::Error::other("a thread of flightctl failed; please report it")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::pipeline::delay::Item;
    use crate::pipeline::testing::enter;
    use crate::pipeline::{Known, Sink};
    use crate::text;
    use flightrec_format::meta::Meta;

    fn renderer() -> Box<dyn Render> {
        text::Renderer::new(&Meta::default(), text::Options::default()).into()
    }

    /// A job of some entries, of which every other one is shown, and its lines.
    fn job(number: u64) -> (Box<Job>, Vec<u8>) {
        let (mut job, mut lines) = (Job { number, ..Job::default() }, Vec::new());
        for time in 0..10 {
            let event = enter(time, 0, 7, 1);
            let cx = Known {
                comm: *b"somebody\0\0\0\0\0\0\0\0",
                wall_ns: time as i64 * 1000,
                ..Known::default()
            };
            if time % 2 == 0 {
                job.notes.event(&event, &cx).unwrap();
                renderer().event(&event, &cx, &mut lines);
            }
            job.notes.pass();
            job.batch.push(&mut Item::new(event.into()), time);
        }
        (job.into(), lines)
    }

    #[test]
    fn the_first_thread_does_jobs_when_it_has_sent_all() {
        let handover = Handover::default();
        let (front, mut back) = (handover.front(renderer()), handover.back());
        thread::scope(|scope| {
            scope.spawn(|| front.end());
            for number in 1..=JOBS as u64 {
                back.give(job(number).0);
            }
            assert!(!back.has_room());
            let mut numbers = Vec::new();
            while let Some(done) = back.settle(&mut *renderer()).unwrap() {
                assert_eq!(done.lines, job(0).1);
                numbers.push(done.number);
            }
            numbers.sort_unstable();
            assert_eq!(numbers, [1, 2, 3]);
            assert!(back.has_room() && back.next().is_none());
            drop(back);
        });
    }

    #[test]
    fn a_job_that_nobody_has_begun_is_done_by_whoever_needs_it() {
        let handover = Handover::default();
        let (front, mut back) = (handover.front(renderer()), handover.back());
        back.give(job(1).0);
        assert!(back.made().is_none());
        let done = back.settle(&mut *renderer()).unwrap().unwrap();
        assert_eq!((done.number, done.lines), (1, job(1).1));
        assert!(back.settle(&mut *renderer()).unwrap().is_none());
        drop(front);
    }

    #[test]
    fn a_thread_that_ends_ends_the_other() {
        let handover = Handover::default();
        let (front, mut back) = (handover.front(renderer()), handover.back());
        back.give(job(1).0);
        // Begun, and never done.
        assert!(handover.lock().jobs.pop_front().is_some());
        drop(front);
        assert!(back.next().is_none());
        assert!(back.settle(&mut *renderer()).is_err());

        let handover = Handover::default();
        let (mut front, back) = (handover.front(renderer()), handover.back());
        for _ in 0..WAITING {
            assert!(front.send(Box::default()).is_some());
        }
        drop(back);
        assert!(front.send(Box::default()).is_none(), "nobody waits for room that never comes");
        front.end();
    }
}
