//! Lines on their way out.

use std::io::{self, Write};

use flightrec_format::decode::Event;
use flightrec_reader::pipeline::{EventContext, Sink};

use crate::render::Render;

/// Bytes that are written at once.
pub(super) const BUFFER: usize = 256 << 10;
/// Room for one more event's lines beyond [`BUFFER`], so that the buffer hardly ever grows.
const LINE: usize = 8 << 10;

/// Makes lines, and writes many at once.
pub(super) struct Lines {
    pub(super) renderer: Box<dyn Render>,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn new(renderer: Box<dyn Render>) -> Self {
        Self { renderer, buffer: Vec::with_capacity(BUFFER + LINE) }
    }

    /// Where the next events' lines go: by way of here to `out`.
    pub(super) fn to<'l, W: Write>(&'l mut self, out: &'l mut W) -> To<'l, W> {
        To { lines: self, out }
    }

    fn write<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is complete.
    pub(super) fn flush<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.write(out)?;
        out.flush()
    }

    /// No more events come: writes what is left to say after all lines, too.
    pub(super) fn end<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.renderer.end(&mut self.buffer);
        self.flush(out)
    }
}

/// [`Lines`] with what they are written to.
pub(super) struct To<'l, W> {
    lines: &'l mut Lines,
    out: &'l mut W,
}

impl<W: Write> Sink for To<'_, W> {
    #[inline]
    fn event(&mut self, event: &Event, cx: &EventContext<'_>) -> io::Result<()> {
        let Self { lines, out } = self;
        lines.renderer.event(event, cx, &mut lines.buffer);
        if lines.buffer.len() < BUFFER { Ok(()) } else { lines.write(out) }
    }
}
