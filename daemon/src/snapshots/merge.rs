//! The events of all rings in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flightrec_format::decode::Event;

/// Merges streams, each of which is in order.
#[derive(Debug)]
pub struct Merge<I> {
    streams: Vec<(I, Option<Event>)>,
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<I: Iterator<Item = Event>> Merge<I> {
    /// These streams.
    pub fn new(streams: impl IntoIterator<Item = I>) -> Self {
        let mut merge = Self { streams: Vec::new(), next: BinaryHeap::new() };
        for mut stream in streams {
            let first = stream.next();
            merge.next.extend(first.as_ref().map(|event| Reverse((event.time, merge.streams.len()))));
            merge.streams.push((stream, first));
        }
        merge
    }
}

impl<I: Iterator<Item = Event>> Iterator for Merge<I> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse((_, index)) = self.next.pop()?;
        let (stream, held) = self.streams.get_mut(index)?;
        let event = std::mem::replace(held, stream.next());
        self.next.extend(held.as_ref().map(|event| Reverse((event.time, index))));
        event
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::decode::Body;

    use super::*;

    fn event(time: u64, cpu: u16) -> Event {
        let body = Body::Migrate { thread: 1, prio: 120, from: 0, to: 1 };
        Event { time, cpu, tid: 0, body }
    }

    #[test]
    fn all_come_in_the_order_of_time() {
        let streams = [vec![1, 4, 9], vec![], vec![2, 4, 5, 10]];
        let streams = streams.into_iter().zip(0..).map(|(times, cpu)| times.into_iter().map(move |t| event(t, cpu)));
        let times: Vec<u64> = Merge::new(streams).map(|event| event.time).collect();
        assert_eq!(times, [1, 2, 4, 4, 5, 9, 10]);
    }
}
