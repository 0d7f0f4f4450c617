//! The pass's second half: from complete events to lines.

use std::io::{self, Write};

use flightrec_format::decode::Event;

use super::handover::{BackSide, Job};
use super::lines::Lines;
use super::packed::Packed;
use crate::filter::Filter;
use crate::pipeline::Resolver;
use crate::pipeline::delay::Found;
use crate::render::Render;
use crate::source::Recording;
use crate::wall::WallClock;
use crate::windows::Windows;

/// Shows the events that are wanted.
pub(super) struct Back {
    pub(super) resolver: Resolver<Filter>,
    pub(super) lines: Lines,
}

/// Which batches the first thread is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Some when it is ahead.
    WhenAhead,
    /// As many as can be.
    #[cfg(test)]
    Always,
}

impl Back {
    /// Starts where `recording` does.
    pub(super) fn new(
        recording: &Recording,
        windows: Windows,
        filter: &Filter,
        wall: WallClock,
        renderer: Box<dyn Render>,
    ) -> Self {
        Self {
            resolver: Resolver::new(recording, windows, filter.clone(), wall, renderer.wants()),
            lines: Lines::new(renderer),
        }
    }

    /// Takes the next event; moment `before` had come before it was complete. What it leaves in its
    /// place is done with.
    #[inline]
    pub(super) fn take<W: Write>(
        &mut self,
        event: &mut Event,
        found: &Found,
        before: u64,
        out: &mut W,
    ) -> io::Result<()> {
        self.resolver.pass(event, found, before, &mut self.lines.to(out))
    }

    /// It is `now`: shows the events that wait no longer for the rest of their calls.
    #[inline]
    pub(super) fn release<W: Write>(&mut self, now: u64, out: &mut W) -> io::Result<()> {
        self.resolver.release(now, &mut self.lines.to(out))
    }

    /// Takes all batches. Where the other thread is ahead, it is given some to make lines of.
    pub(super) fn all<W: Write>(
        &mut self,
        mut from: BackSide<'_>,
        share: Share,
        out: &mut W,
    ) -> io::Result<()> {
        let can_share = self.resolver.tells_at_once();
        let mut spare: Vec<Box<Job>> = Vec::new();
        let mut number = 0;
        while let Some((mut batch, is_ahead)) = from.next() {
            while let Some(job) = from.made() {
                spare.push(self.put(job, &mut from, out)?);
            }
            while self.lines.is_full()
                && let Some(job) = from.settle(&mut *self.lines.renderer)?
            {
                spare.push(self.put(job, &mut from, out)?);
            }
            let wanted = can_share && (is_ahead || share != Share::WhenAhead) && from.has_room();
            if wanted && self.lines.renderer.is_alone(batch.last()) {
                number += 1;
                self.lines.expect(number, out)?;
                let mut job = spare.pop().unwrap_or_default();
                (job.number, job.lines) = (number, self.lines.buffer());
                self.note(batch, &mut job)?;
                from.give(job);
                continue;
            }
            batch.each(|event, found, before| self.take(event, found, before, out))?;
            from.give_back(batch);
        }
        while let Some(job) = from.settle(&mut *self.lines.renderer)? {
            self.put(job, &mut from, out)?;
        }
        Ok(())
    }

    /// Finds out what lines of this batch are made of.
    fn note(&mut self, mut batch: Box<Packed>, job: &mut Job) -> io::Result<()> {
        job.notes.clear();
        batch.each(|event, found, _| {
            self.resolver.take(event, found, &mut job.notes)?;
            job.notes.pass();
            io::Result::Ok(())
        })?;
        job.batch = batch;
        Ok(())
    }

    /// Takes the lines of a job; what is left of it can be used again.
    fn put<W: Write>(
        &mut self,
        mut job: Box<Job>,
        from: &mut BackSide<'_>,
        out: &mut W,
    ) -> io::Result<Box<Job>> {
        self.lines.made(job.number, std::mem::take(&mut job.lines), out)?;
        from.give_back(std::mem::take(&mut job.batch));
        Ok(job)
    }

    /// A stretch ends: what is complete is written; all, unless another stretch comes behind it.
    pub(super) fn stop<W: Write>(&mut self, goes_on: bool, out: &mut W) -> io::Result<()> {
        if goes_on { self.lines.flush(out) } else { self.end(out) }
    }

    /// No more events come. Everything is written.
    pub(super) fn end<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.release(u64::MAX, out)?;
        self.lines.end(out)
    }
}
