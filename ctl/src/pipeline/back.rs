//! The pass's second half: from complete events to lines.

use std::io::{self, Write};

use flightrec_format::decode::Event;

use super::delay::Found;
use super::lines::Lines;
use super::resolve::Resolver;
use super::wall::WallClock;
use crate::filter::Filter;
use crate::render::Renderer;
use crate::source::Recording;
use crate::window::Window;

/// Shows the events that are wanted.
pub(super) struct Back<'a> {
    pub(super) resolver: Resolver<'a>,
    pub(super) lines: Lines,
}

impl<'a> Back<'a> {
    /// Starts where `recording` does.
    pub(super) fn new(
        recording: &Recording,
        window: Window,
        filter: &'a Filter,
        wall: WallClock,
        renderer: Renderer,
    ) -> Self {
        Self { resolver: Resolver::new(recording, window, filter, wall, &renderer), lines: Lines::new(renderer) }
    }

    /// Takes the next event; moment `before` had come before it was complete. What it leaves in its place is done with.
    #[inline]
    pub(super) fn take<W: Write>(
        &mut self,
        event: &mut Event,
        found: &Found,
        before: u64,
        out: &mut W,
    ) -> io::Result<()> {
        let time = event.time;
        self.release(before, out)?;
        self.resolver.take(event, found, &mut self.lines, out)?;
        self.release(time, out)
    }

    /// It is `now`: shows the events that wait no longer for the rest of their calls.
    #[inline]
    pub(super) fn release<W: Write>(&mut self, now: u64, out: &mut W) -> io::Result<()> {
        self.resolver.release(now, &mut self.lines, out)
    }

    /// No more events come. Everything is written.
    pub(super) fn end<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.release(u64::MAX, out)?;
        self.lines.end(out)
    }
}
