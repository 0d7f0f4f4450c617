//! Lines on their way out.

use std::io::{self, Write};

use flightrec_format::decode::Event;

use crate::render::{Context, Renderer};

/// Bytes that are written at once.
pub(super) const BUFFER: usize = 256 << 10;
/// Room for one more event's lines beyond [`BUFFER`], so that the buffer hardly ever grows.
const LINE: usize = 8 << 10;

/// Makes lines, and writes many at once.
pub(super) struct Lines {
    renderer: Renderer,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn new(renderer: Renderer) -> Self {
        Self { renderer, buffer: Vec::with_capacity(BUFFER + LINE) }
    }

    /// Takes the next event that is shown.
    #[inline]
    pub(super) fn event<W: Write>(&mut self, event: &Event, cx: &Context<'_>, out: &mut W) -> io::Result<()> {
        self.renderer.event(event, cx, &mut self.buffer);
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is complete.
    pub(super) fn flush<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        out.flush()
    }

    /// No more events come: writes what is left to say behind all lines, too.
    pub(super) fn end<W: Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.renderer.end(&mut self.buffer);
        self.flush(out)
    }
}
