//! Lines on their way out.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;

use flightrec_format::decode::Event;

use super::resolve::Sink;
use crate::render::{Context, Renderer};

/// Bytes that are written at once.
pub(super) const BUFFER: usize = 256 << 10;
/// Room for one more event's lines beyond [`BUFFER`], so that the buffer hardly ever grows.
const LINE: usize = 8 << 10;

/// Makes lines, and writes many at once, in order: those that are made elsewhere, too.
pub(super) struct Lines {
    pub(super) renderer: Renderer,
    /// The latest lines.
    buffer: Vec<u8>,
    /// What comes before those, from the first lines on that are still being made elsewhere.
    before: VecDeque<Chunk>,
    /// Bytes of lines in there.
    waiting: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// Lines that can't be written yet, or are not even there.
enum Chunk {
    Made(Vec<u8>),
    /// The job of this number makes them.
    Coming(u64),
}

impl Lines {
    pub(super) fn new(renderer: Renderer) -> Self {
        let buffer = Vec::with_capacity(BUFFER + LINE);
        Self { renderer, buffer, before: VecDeque::new(), waiting: 0, spare: Vec::new() }
    }

    /// Where the next events' lines go: by way of here to `out`.
    pub(super) fn to<'l, W: Write>(&'l mut self, out: &'l mut W) -> To<'l, W> {
        To { lines: self, out }
    }

    /// A buffer for lines that are made elsewhere.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Job `number` makes the lines that come next.
    pub(super) fn expect<W: Write>(&mut self, number: u64, out: &mut W) -> io::Result<()> {
        if self.before.is_empty() {
            self.write(out)?;
        } else if !self.buffer.is_empty() {
            let next = self.buffer();
            let made = mem::replace(&mut self.buffer, next);
            self.waiting += made.len();
            self.before.push_back(Chunk::Made(made));
        }
        self.before.push_back(Chunk::Coming(number));
        Ok(())
    }

    /// Whether so many lines wait that there should not be more.
    pub(super) fn is_full(&self) -> bool {
        self.waiting + self.buffer.len() >= 4 * BUFFER
    }

    /// The lines of job `number` are made. Writes what has waited for no others.
    pub(super) fn made<W: Write>(&mut self, number: u64, lines: Vec<u8>, out: &mut W) -> io::Result<()> {
        let own = self.before.iter_mut().find(|chunk| matches!(chunk, Chunk::Coming(coming) if *coming == number));
        if let Some(chunk) = own {
            self.waiting += lines.len();
            *chunk = Chunk::Made(lines);
        }
        while let Some(Chunk::Made(lines)) = self.before.front_mut() {
            let mut lines = mem::take(lines);
            self.before.pop_front();
            out.write_all(&lines)?;
            self.waiting -= lines.len();
            lines.clear();
            self.spare.push(lines);
        }
        if self.before.is_empty() && self.buffer.len() >= BUFFER { self.write(out) } else { Ok(()) }
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

    /// No more events come: writes what is left to say behind all lines, too.
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
    fn event(&mut self, event: &Event, cx: &Context<'_>) -> io::Result<()> {
        let Self { lines, out } = self;
        lines.renderer.event(event, cx, &mut lines.buffer);
        if lines.buffer.len() < BUFFER || !lines.before.is_empty() { Ok(()) } else { lines.write(out) }
    }
}
