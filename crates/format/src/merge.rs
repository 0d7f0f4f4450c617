//! Many streams in time order become one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::mem;

use crate::decode::Event;
use crate::ring;

/// Where a stream stands: time and CPU of its first event, and its number.
type StreamPosition = (u64, u16, usize);

/// What has a time and a CPU.
pub trait Timed {
    /// ns of `CLOCK_MONOTONIC`, and the CPU.
    fn when(&self) -> (u64, u16);
}

impl Timed for Event {
    #[inline]
    fn when(&self) -> (u64, u16) {
        (self.time, self.cpu)
    }
}

/// A stream of events in time order.
pub trait Stream {
    /// What an event is.
    type Item: Timed + Default;

    /// Puts its next event where another one was. `false`: there is none, and `into` is any event.
    fn read(&mut self, into: &mut Self::Item) -> bool;
}

impl Stream for ring::Events<'_> {
    type Item = Event;

    #[inline]
    fn read(&mut self, into: &mut Event) -> bool {
        ring::Events::read(self, into)
    }
}

impl Stream for ring::IntoEvents {
    type Item = Event;

    fn read(&mut self, into: &mut Event) -> bool {
        ring::IntoEvents::read(self, into)
    }
}

/// Events of all streams by time, then CPU, then lane (the streams' order). One event of each
/// stream is held, no more; it stays in its box from the page to the line.
pub struct Merge<S: Stream> {
    streams: Vec<(S, Option<Box<S::Item>>)>,
    /// The stream whose turn it is.
    first: Option<usize>,
    /// The others.
    heap: BinaryHeap<Reverse<StreamPosition>>,
    /// Where the first of the others stands: the turn lasts until then.
    until: StreamPosition,
}

/// After all events.
const END: StreamPosition = (u64::MAX, u16::MAX, usize::MAX);

impl<S: Stream> Merge<S> {
    /// Merges streams, each of which is in time order. Events of the same time and CPU come in the
    /// order of their streams here.
    pub fn new(streams: impl IntoIterator<Item = S>) -> Self {
        let mut streams: Vec<_> = streams.into_iter().map(|stream| (stream, None)).collect();
        let mut heap = BinaryHeap::with_capacity(streams.len());
        for (at, (stream, head)) in streams.iter_mut().enumerate() {
            let mut event = Box::<S::Item>::default();
            if stream.read(&mut event) {
                let (time, cpu) = event.when();
                heap.push(Reverse((time, cpu, at)));
                *head = Some(event);
            }
        }
        let mut merge = Self { streams, first: None, heap, until: END };
        merge.turn(None);
        merge
    }

    /// When the next event was.
    pub fn time(&self) -> Option<u64> {
        let (_, head) = self.streams.get(self.first?)?;
        head.as_ref().map(|event| event.when().0)
    }

    /// The next event; `spare` is used for a later one.
    #[inline]
    pub fn read(&mut self, mut spare: Box<S::Item>) -> Option<Box<S::Item>> {
        let at = self.first?;
        let (stream, head) = self.streams.get_mut(at)?;
        if !stream.read(&mut spare) {
            let event = head.take();
            self.turn(None);
            return event;
        }
        let (time, cpu) = spare.when();
        let place = (time, cpu, at);
        let event = head.replace(spare);
        // Most streams go on for a while before it is another's turn.
        if place > self.until {
            self.turn(Some(place));
        }
        event
    }

    /// The streams, for what they know when all is read.
    pub fn into_streams(self) -> impl Iterator<Item = S> {
        self.streams.into_iter().map(|(stream, _)| stream)
    }

    /// The next stream's turn; `last` is where the one stands that had it, if it has more.
    fn turn(&mut self, last: Option<StreamPosition>) {
        let next = match (last, self.heap.peek_mut()) {
            (Some(last), Some(mut top)) => Some(mem::replace(&mut top.0, last)),
            (Some(last), None) => Some(last),
            (None, Some(top)) => Some(PeekMut::pop(top).0),
            (None, None) => None,
        };
        self.first = next.map(|(_, _, at)| at);
        self.until = self.heap.peek().map_or(END, |top| top.0);
    }
}

impl<S: Stream> Iterator for Merge<S> {
    type Item = S::Item;

    fn next(&mut self) -> Option<S::Item> {
        self.read(Box::default()).map(|event| *event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Body;

    fn event(time: u64, cpu: u16, tid: u32) -> Event {
        Event { time, cpu, tid, body: Body::Migrate { thread: tid, prio: 120, from: 0, to: 1 } }
    }

    impl Stream for std::vec::IntoIter<Event> {
        type Item = Event;

        fn read(&mut self, into: &mut Event) -> bool {
            self.next().is_some_and(|event| {
                *into = event;
                true
            })
        }
    }

    #[test]
    fn by_time_then_cpu_then_stream() {
        let a = vec![event(1, 1, 10), event(5, 1, 11)];
        let b = vec![event(1, 0, 12), event(3, 0, 13), event(5, 0, 14)];
        let c = vec![event(5, 1, 15)];
        let tids: Vec<u32> = Merge::new([a, b, c].map(Vec::into_iter)).map(|e| e.tid).collect();
        assert_eq!(tids, [12, 10, 13, 14, 11, 15]);
    }

    #[test]
    fn nothing_from_nothing() {
        assert_eq!(Merge::new(Vec::<std::vec::IntoIter<Event>>::new()).count(), 0);
        assert_eq!(Merge::new([Vec::new().into_iter()]).count(), 0);
    }
}
