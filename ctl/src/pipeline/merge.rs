//! Many streams in time order become one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use flightrec_format::decode::Event;

/// Events of all streams by time, then CPU, then lane (the streams' order). One event of each
/// stream is held, no more.
pub struct Merge<I> {
    streams: Vec<(I, Option<Event>)>,
    heap: BinaryHeap<Reverse<(u64, u16, usize)>>,
}

impl<I: Iterator<Item = Event>> Merge<I> {
    /// Merges streams, each of which is in time order. Events of the same time and CPU come in the order
    /// of their streams here.
    pub fn new(streams: impl IntoIterator<Item = I>) -> Self {
        let mut streams: Vec<_> = streams.into_iter().map(|stream| (stream, None)).collect();
        let mut heap = BinaryHeap::with_capacity(streams.len());
        for (at, (stream, head)) in streams.iter_mut().enumerate() {
            if let Some(event) = stream.next() {
                heap.push(Reverse((event.time, event.cpu, at)));
                *head = Some(event);
            }
        }
        Self { streams, heap }
    }

    /// The streams, for what they know when all is read.
    pub fn into_streams(self) -> impl Iterator<Item = I> {
        self.streams.into_iter().map(|(stream, _)| stream)
    }
}

impl<I: Iterator<Item = Event>> Iterator for Merge<I> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut top = self.heap.peek_mut()?;
        let (stream, head) = self.streams.get_mut(top.0.2)?;
        let event = head.take();
        // Replacing the top in place costs one comparison while this stream stays the earliest.
        if let Some(next) = stream.next() {
            top.0.0 = next.time;
            top.0.1 = next.cpu;
            *head = Some(next);
        } else {
            PeekMut::pop(top);
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::testing::enter;

    #[test]
    fn by_time_then_cpu_then_stream() {
        let a = vec![enter(1, 1, 10, 0), enter(5, 1, 11, 0)];
        let b = vec![enter(1, 0, 12, 0), enter(3, 0, 13, 0), enter(5, 0, 14, 0)];
        let c = vec![enter(5, 1, 15, 0)];
        let tids: Vec<u32> = Merge::new([a, b, c].map(Vec::into_iter)).map(|e| e.tid).collect();
        assert_eq!(tids, [12, 10, 13, 14, 11, 15]);
    }

    #[test]
    fn nothing_from_nothing() {
        assert_eq!(Merge::new(Vec::<std::vec::IntoIter<Event>>::new()).count(), 0);
        assert_eq!(Merge::new([Vec::new().into_iter()]).count(), 0);
    }
}
