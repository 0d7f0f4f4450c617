//! Excerpts: some of a page's events, for who has seen the others.

use std::vec;

use crate::decode::{Decoder, Event, Page};
use crate::merge::Stream;

/// Some of a page's events.
#[derive(Debug, Clone, Copy)]
pub struct Excerpt<'p> {
    /// The page.
    pub page: &'p Page,
    /// Events at its beginning that are left out.
    pub skip: u64,
    /// Most events after these.
    pub take: u64,
}

/// The events of a ring's excerpts, in their order, decoded page by page.
#[derive(Clone)]
pub struct Events<'p> {
    excerpts: vec::IntoIter<Excerpt<'p>>,
    /// The page that is at hand, and how many events of it are left.
    page: Option<(Decoder<'p>, u64)>,
}

impl<'p> Events<'p> {
    /// Of these.
    pub fn new(excerpts: Vec<Excerpt<'p>>) -> Self {
        Self { excerpts: excerpts.into_iter(), page: None }
    }
}

impl Stream for Events<'_> {
    type Item = Event;

    #[inline]
    fn read(&mut self, into: &mut Event) -> bool {
        loop {
            if let Some((decoder, left)) = self.page.as_mut().filter(|(_, left)| *left > 0)
                && decoder.read(into)
            {
                *left -= 1;
                return true;
            }
            let Some(excerpt) = self.excerpts.next() else { return false };
            let mut decoder = excerpt.page.events();
            for _ in 0..excerpt.skip {
                decoder.read(into);
            }
            self.page = Some((decoder, excerpt.take));
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        self.read(&mut event).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::page::Lane;
    use crate::decode::Body;
    use crate::encode::PageWriter;

    fn page(times: impl IntoIterator<Item = u64>) -> Page {
        let mut writer = PageWriter::new(7, Lane::Sched, 0, 0);
        for time in times {
            let body = Body::Migrate { thread: 1, prio: 120, from: 0, to: 1 };
            writer.push(&Event { time, cpu: 0, tid: 5, body }).unwrap();
        }
        Page::new(writer.finish().remove(0)).unwrap()
    }

    #[test]
    fn what_is_left_out_is_left_out() {
        let (a, b, c) = (page(1..=9), page(10..=12), page(20..=25));
        let excerpt = |page, skip, take| Excerpt { page, skip, take };
        let times = |excerpts| Events::new(excerpts).map(|event| event.time).collect::<Vec<u64>>();
        let some =
            vec![excerpt(&a, 7, u64::MAX), excerpt(&b, 0, 0), excerpt(&b, 3, 1), excerpt(&c, 1, 2)];
        assert_eq!(times(some), [8, 9, 21, 22]);
        assert_eq!(times(vec![excerpt(&a, u64::MAX >> 40, 1), excerpt(&b, 0, 1)]), [10]);
        assert!(times(Vec::new()).is_empty());
    }
}
