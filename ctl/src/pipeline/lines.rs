//! Lines in order, written by several passes that share the work.
//!
//! What one thread has made, another one gets at only slowly: handing events over from thread to thread was measured
//! to cost as much as rendering them. So nothing is handed over but lines. Each thread goes through all events by
//! itself, which is the smaller part of the work, and renders every other chunk of them; the chunks are the same for
//! all, as they all see the same events.

use std::io::{self, Write};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender};

use flightrec_format::decode::Event;

use super::{BUFFER, LINE};
use crate::render::{Context, Renderer};

/// Events in a chunk.
pub(super) const CHUNK: u64 = 2048;

/// Where lines go.
pub(super) trait Sink {
    /// The buffer is full: takes the lines, if they are to go before the chunk is complete.
    fn spill(&mut self, lines: &mut Vec<u8>) -> io::Result<()>;

    /// A chunk is complete, `mine` or another's. Takes the lines.
    fn chunk(&mut self, mine: bool, lines: &mut Vec<u8>) -> io::Result<()>;
}

/// Which chunks a pass renders: those whose number leaves `index` when it is divided by `of`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) index: u64,
    pub(super) of: u64,
}

impl Share {
    /// All of them.
    pub(super) const WHOLE: Self = Self { index: 0, of: 1 };
}

/// A pass's lines.
pub(super) struct Lines {
    pub(super) renderer: Renderer,
    pub(super) buffer: Vec<u8>,
    share: Share,
    /// Events in the present chunk.
    events: u64,
    /// The present chunk's number.
    chunk: u64,
}

impl Lines {
    pub(super) fn new(renderer: Renderer, share: Share) -> Self {
        Self { renderer, buffer: Vec::with_capacity(BUFFER + LINE), share, events: 0, chunk: 0 }
    }

    /// The lines of another pass, which renders its own share; none are made yet.
    pub(super) fn of_another(&self, share: Share) -> Self {
        Self::new(self.renderer.clone(), share)
    }

    /// Whether the next event is this pass's to render.
    #[inline]
    pub(super) fn are_mine(&self) -> bool {
        self.chunk % self.share.of == self.share.index
    }

    /// Renders the next event.
    #[inline]
    pub(super) fn event<S: Sink>(&mut self, event: &Event, cx: &Context<'_>, sink: &mut S) -> io::Result<()> {
        self.renderer.event(event, cx, &mut self.buffer);
        if self.buffer.len() >= BUFFER {
            sink.spill(&mut self.buffer)?;
        }
        self.count(sink)
    }

    /// Leaves the next event to whose it is.
    #[inline]
    pub(super) fn pass_over<S: Sink>(&mut self, event: &Event, sink: &mut S) -> io::Result<()> {
        self.renderer.pass_over(event);
        self.count(sink)
    }

    fn count<S: Sink>(&mut self, sink: &mut S) -> io::Result<()> {
        self.events += 1;
        if self.events < CHUNK { Ok(()) } else { self.end_chunk(sink) }
    }

    fn end_chunk<S: Sink>(&mut self, sink: &mut S) -> io::Result<()> {
        let mine = self.are_mine();
        self.events = 0;
        self.chunk += 1;
        sink.chunk(mine, &mut self.buffer)
    }

    /// No more events come: ends the last chunk.
    pub(super) fn finish<S: Sink>(&mut self, sink: &mut S) -> io::Result<()> {
        if self.events == 0 { Ok(()) } else { self.end_chunk(sink) }
    }
}

/// An output that takes all lines as they come.
pub(super) struct Direct<'o, W>(pub(super) &'o mut W);

impl<W: Write> Sink for Direct<'_, W> {
    fn spill(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        write(lines, self.0)
    }

    /// Where there is one pass only, its lines may as well wait for more.
    fn chunk(&mut self, _mine: bool, _lines: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

/// The output, for the first of two passes: its own lines, and in their turn the other's.
pub(super) struct Turns<'o, W> {
    pub(super) out: &'o mut W,
    pub(super) others: Receiver<Vec<u8>>,
}

impl<W: Write> Sink for Turns<'_, W> {
    /// All chunks before this one are written.
    fn spill(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        write(lines, self.out)
    }

    fn chunk(&mut self, mine: bool, lines: &mut Vec<u8>) -> io::Result<()> {
        if mine {
            return write(lines, self.out);
        }
        // It sees the same events, so it has this chunk, or has failed.
        let theirs =
            self.others.recv().map_err(|_| io::Error::other("a thread of flightctl failed; please report it"))?;
        self.out.write_all(&theirs)
    }
}

/// The way to the first pass, for the second.
pub(super) struct Other(pub(super) SyncSender<Vec<u8>>);

impl Sink for Other {
    /// They can't go before the other's.
    fn spill(&mut self, _lines: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }

    fn chunk(&mut self, mine: bool, lines: &mut Vec<u8>) -> io::Result<()> {
        if !mine {
            return Ok(());
        }
        let empty = Vec::with_capacity(lines.capacity());
        // Whoever takes no more has said why.
        self.0.send(mem::replace(lines, empty)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

fn write(lines: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    out.write_all(lines)?;
    lines.clear();
    Ok(())
}
