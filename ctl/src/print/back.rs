//! The pass's second half: from complete events to lines.

use std::io::{self, Write};

use flightrec_format::decode::Event;
use flightrec_reader::pipeline::Resolver;
use flightrec_reader::pipeline::delay::Findings;
use flightrec_reader::source::PageSet;
use flightrec_reader::wall::WallClock;
use flightrec_reader::windows::Windows;

use super::batch::FromFront;
use super::lines::Lines;
use crate::filter::Filter;
use crate::render::Render;

/// Shows the events that are wanted.
pub(super) struct Back {
    pub(super) resolver: Resolver<Filter>,
    pub(super) lines: Lines,
}

impl Back {
    /// Starts where `recording` does.
    pub(super) fn new(
        recording: &PageSet,
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
        found: &Findings,
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

    /// Takes all that the first half sends.
    pub(super) fn all<W: Write>(&mut self, from: FromFront, out: &mut W) -> io::Result<()> {
        from.each(|batch| batch.each(|event, found, before| self.take(event, found, before, out)))
    }

    /// A stretch ends: what is complete is written; all, unless another stretch comes after it.
    pub(super) fn stop<W: Write>(&mut self, goes_on: bool, out: &mut W) -> io::Result<()> {
        if goes_on { self.lines.flush(out) } else { self.end(out) }
    }

    /// No more events come. Everything is written.
    pub(super) fn end<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.release(u64::MAX, out)?;
        self.lines.end(out)
    }
}
