//! Lines on their way out.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;

use flightrec_format::decode::Event;

use crate::pipeline::{Known, Sink};
use crate::render::Render;

/// Bytes that are written at once.
pub(super) const BUFFER: usize = 256 << 10;
/// Room for one more event's lines beyond [`BUFFER`], so that the buffer hardly ever grows.
const LINE: usize = 8 << 10;
/// Buffers that are kept to be used again.
const SPARE: usize = 4;

/// Makes lines, and writes many at once, in order: those that are made elsewhere, too.
pub(super) struct Lines {
    pub(super) renderer: Box<dyn Render>,
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
    pub(super) fn new(renderer: Box<dyn Render>) -> Self {
        let buffer = Vec::with_capacity(BUFFER + LINE);
        Self { renderer, buffer, before: VecDeque::new(), waiting: 0, spare: Vec::new() }
    }

    /// Where the next events' lines go: by way of here to `out`.
    pub(super) fn to<'l, W: Write>(&'l mut self, out: &'l mut W) -> To<'l, W> {
        To { lines: self, out }
    }

    /// A buffer for lines that are made elsewhere.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER + LINE))
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
        self.waiting + self.buffer.len() >= 2 * BUFFER
    }

    /// The lines of job `number` are made. Writes what has waited for no others.
    pub(super) fn made<W: Write>(
        &mut self,
        number: u64,
        lines: Vec<u8>,
        out: &mut W,
    ) -> io::Result<()> {
        let own = self
            .before
            .iter_mut()
            .find(|chunk| matches!(chunk, Chunk::Coming(coming) if *coming == number));
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
            // Those of unusually long lines are not all kept.
            if self.spare.len() < SPARE && lines.capacity() <= 2 * BUFFER {
                self.spare.push(lines);
            }
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
    fn event(&mut self, event: &Event, cx: &Known<'_>) -> io::Result<()> {
        let Self { lines, out } = self;
        lines.renderer.event(event, cx, &mut lines.buffer);
        if lines.buffer.len() < BUFFER || !lines.before.is_empty() {
            Ok(())
        } else {
            lines.write(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;
    use flightrec_format::meta::Meta;

    fn lines() -> Lines {
        Lines::new(Box::new(text::Renderer::new(&Meta::default(), text::Options::default())))
    }

    #[test]
    fn lines_come_in_the_order_of_their_events() {
        for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [2, 1, 3]] {
            let (mut lines, mut out) = (lines(), Vec::new());
            lines.buffer.extend_from_slice(b"a ");
            for number in 1..=3 {
                lines.expect(number, &mut out).unwrap();
                // None between the second and the third.
                lines.buffer.extend_from_slice(if number == 2 { b"" } else { b"own " });
            }
            assert_eq!(out, b"a ", "what comes before all that are made elsewhere does not wait");
            for number in order {
                assert!(!lines.before.is_empty());
                lines.made(number, format!("{number} ").into_bytes(), &mut out).unwrap();
            }
            lines.end(&mut out).unwrap();
            assert_eq!(
                String::from_utf8(out).unwrap(),
                "a 1 own 2 3 own ",
                "made in the order {order:?}"
            );
            assert_eq!((lines.waiting, lines.before.len()), (0, 0));
        }
    }

    #[test]
    fn lines_that_wait_are_counted() {
        let (mut lines, mut out) = (lines(), Vec::new());
        lines.expect(1, &mut out).unwrap();
        lines.buffer.resize(BUFFER, b'b');
        lines.expect(2, &mut out).unwrap();
        assert!(!lines.is_full());
        lines.made(2, vec![b'2'; BUFFER], &mut out).unwrap();
        assert!(lines.is_full() && out.is_empty());
        lines.made(1, vec![b'1'; 5], &mut out).unwrap();
        assert!(!lines.is_full());
        assert_eq!(out, [vec![b'1'; 5], vec![b'b'; BUFFER], vec![b'2'; BUFFER]].concat());
    }
}
