//! Rendering on two threads, with the lines in order.
//!
//! The thread that makes events ready hands them over in batches; the other one renders them and writes. The queue
//! between them is short: where it is full, the first thread renders a batch itself and hands over its lines, so
//! that neither waits for the other. What goes through the queue keeps its order, whoever rendered it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use flightrec_format::decode::Event;

use super::shown::Shown;
use super::{BUFFER, LINE};
use crate::json::Aside;
use crate::render::Renderer;

/// Events in a batch.
const BATCH: usize = 512;
/// Batches, or lines of one, that wait at most: with those that are worked on about 2 MiB.
const QUEUE: usize = 4;

/// What is next to be written.
enum Next {
    /// These events' lines.
    Events(Vec<Shown>),
    /// These lines.
    Lines(Vec<u8>),
}

/// The sending end.
pub(super) struct Sender {
    /// Events that are ready, for [`Self::send_full`].
    pub(super) batch: Vec<Shown>,
    renderer: Renderer,
    asides: VecDeque<Aside>,
    to: SyncSender<Next>,
    /// Batches that were written. They come back to the thread that made them, which uses them again.
    spent: Receiver<Vec<Shown>>,
    /// Events out of them.
    #[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
    spare: Vec<Box<Event>>,
}

/// The receiving end.
pub(super) struct Writer {
    renderer: Renderer,
    from: Receiver<Next>,
    spent: SyncSender<Vec<Shown>>,
}

/// The other end has gone; it has said why.
pub(super) struct Gone;

/// Both ends, for the lines of a renderer.
pub(super) fn ordered(mut renderer: Renderer) -> (Sender, Writer) {
    let asides = renderer.take_asides();
    let (to, from) = sync_channel(QUEUE);
    // Room for all that there are, so that giving one back never waits.
    let (give_back, spent) = sync_channel(QUEUE + 2);
    let writer = Writer { renderer: renderer.clone(), from, spent: give_back };
    (Sender { batch: Vec::with_capacity(BATCH), renderer, asides, to, spent, spare: Vec::new() }, writer)
}

impl Sender {
    /// Boxes an event, in a box that was used before where there is one.
    pub(super) fn boxed(&mut self, event: Event) -> Box<Event> {
        match self.spare.pop() {
            Some(mut boxed) => {
                *boxed = event;
                boxed
            }
            None => Box::new(event),
        }
    }

    /// Hands the batch over if it is full.
    pub(super) fn send_full(&mut self) -> Result<(), Gone> {
        if self.batch.len() < BATCH { Ok(()) } else { self.send() }
    }

    /// Hands over all that is left.
    pub(super) fn finish(mut self) -> Result<(), Gone> {
        self.send()?;
        let rest = self.asides.drain(..).flat_map(|aside| aside.line.into_bytes()).collect();
        self.to.send(Next::Lines(rest)).map_err(|_| Gone)
    }

    fn send(&mut self) -> Result<(), Gone> {
        let mut batch = mem::take(&mut self.batch);
        while let Some(aside) = self.asides.front()
            && let Some(at) = batch.iter().position(|shown| shown.event.time >= aside.time)
        {
            let behind = batch.split_off(at);
            self.send_events(mem::replace(&mut batch, behind))?;
            let line = self.asides.pop_front().map(|aside| aside.line.into_bytes());
            self.to.send(Next::Lines(line.unwrap_or_default())).map_err(|_| Gone)?;
        }
        self.send_events(batch)?;
        let spent = self.spent.try_recv().unwrap_or_default();
        self.reuse(spent);
        Ok(())
    }

    /// Takes the boxes out of a batch whose lines are written, and goes on with it.
    fn reuse(&mut self, mut spent: Vec<Shown>) {
        // More than a few batches are not on their way at once, but where calls are merged.
        let room = (QUEUE * BATCH).saturating_sub(self.spare.len());
        self.spare.extend(spent.drain(..).take(room).map(|shown| shown.event));
        spent.reserve(BATCH);
        self.batch = spent;
    }

    fn send_events(&mut self, batch: Vec<Shown>) -> Result<(), Gone> {
        let batch = match self.to.try_send(Next::Events(batch)) {
            Err(TrySendError::Full(Next::Events(batch))) => batch,
            Err(_) => return Err(Gone),
            Ok(()) => return Ok(()),
        };
        let mut lines = Vec::new();
        for shown in &batch {
            self.renderer.event(&shown.event, &shown.context(), &mut lines);
        }
        self.spare.extend(batch.into_iter().map(|shown| shown.event));
        self.to.send(Next::Lines(lines)).map_err(|_| Gone)
    }
}

impl Writer {
    /// Writes all that comes.
    pub(super) fn run<W: Write>(mut self, out: &mut W) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(BUFFER + LINE);
        for next in self.from {
            match next {
                Next::Events(batch) => {
                    for shown in &batch {
                        self.renderer.event(&shown.event, &shown.context(), &mut buffer);
                        if buffer.len() >= BUFFER {
                            out.write_all(&buffer)?;
                            buffer.clear();
                        }
                    }
                    // Where it is not taken any more, it is dropped here.
                    let _ = self.spent.try_send(batch);
                }
                Next::Lines(lines) => {
                    out.write_all(&buffer)?;
                    buffer.clear();
                    out.write_all(&lines)?;
                }
            }
        }
        out.write_all(&buffer)?;
        out.flush()
    }
}
