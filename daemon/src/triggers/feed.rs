//! What is new in the rings since it was looked last.

use std::collections::BTreeMap;
use std::sync::Arc;

use flightrec_format::abi::page::{Lane, REFUSALS};
use flightrec_format::control::Position;
use flightrec_format::decode::Page;
use flightrec_format::live;

/// Most new pages of a ring that are looked at: 4 MiB. Of more, the newest.
const PAGES_MOST: u32 = 1024;

/// How far a ring is read.
#[derive(Debug, Clone, Copy, Default)]
struct ReadPosition {
    seq: u64,
    used: u32,
    /// Events of that page that were seen.
    events: usize,
    refused: [u64; REFUSALS],
}

/// A page, and how many of its events were seen before.
#[derive(Debug)]
pub struct New {
    /// The page.
    pub page: Page,
    /// Events of it that are not new.
    pub seen: usize,
}

/// The new pages of a lane.
#[derive(Debug, Default)]
pub struct News {
    /// By CPU, in the order of each ring.
    pub rings: Vec<Vec<New>>,
    /// Something is missing between what was seen before and this, or was refused: what was
    /// concluded from events is not sure.
    pub broken: bool,
}

/// Follows the rings of a recording.
#[derive(Debug)]
pub struct Feed {
    live: Arc<live::Recording>,
    places: BTreeMap<(Lane, u16), ReadPosition>,
}

impl Feed {
    /// From now on.
    pub fn new(live: Arc<live::Recording>) -> Self {
        let mut feed = Self { live, places: BTreeMap::new() };
        for lane in Lane::RINGS {
            for cpu in feed.live.cpus() {
                let seq = feed.live.newest(lane, cpu);
                feed.places.insert((lane, cpu), ReadPosition { seq, ..ReadPosition::default() });
            }
        }
        // What is on the newest pages already is not new.
        for lane in Lane::RINGS {
            feed.take(lane);
        }
        feed
    }

    /// What is new of a lane.
    pub fn take(&mut self, lane: Lane) -> News {
        let mut news = News::default();
        for cpu in self.live.cpus() {
            let place = self.places.entry((lane, cpu)).or_default();
            let after = Position { lane: lane as u8, cpu, seq: place.seq, used: place.used };
            let mut since = self.live.since(&after, PAGES_MOST);
            let mut ring = Vec::new();
            while let Some(bytes) = self.live.advance_since(&mut since) {
                let Ok(page) = Page::copy_from(&bytes) else { continue };
                news.broken |= place.follow(page, &mut ring);
            }
            place.stay(&ring);
            news.rings.push(ring);
        }
        news
    }
}

impl ReadPosition {
    /// Goes on to a page; whether something is missing before it.
    fn follow(&mut self, page: Page, ring: &mut Vec<New>) -> bool {
        let header = page.header();
        let seen = if header.seq == self.seq { self.events } else { 0 };
        let gap = self.seq != 0 && header.seq > self.seq.saturating_add(1);
        // The recorder's own are left out on purpose.
        let [busy, throttled, _] = header.refused;
        let refused = self.seq != 0 && (busy, throttled) != (self.refused[0], self.refused[1]);
        *self = Self { seq: header.seq, used: header.used, events: seen, refused: header.refused };
        ring.push(New { page, seen });
        gap || refused
    }

    /// Notes how much of the last page was seen: it alone may come again.
    fn stay(&mut self, ring: &[New]) {
        if let Some(New { page, .. }) = ring.last() {
            self.events = usize::try_from(page.summary().counts.total()).unwrap_or(usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::decode::{Body, Event};
    use flightrec_format::encode::PageWriter;

    use super::*;

    fn ring(events: u64) -> Vec<Page> {
        let mut writer = PageWriter::new(7, Lane::Sched, 0, 0);
        for time in 1..=events {
            let body = Body::Migrate { thread: 1, prio: 120, from: 0, to: 1 };
            writer.push(&Event { time, cpu: 0, tid: 5, body }).unwrap();
        }
        writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
    }

    #[test]
    fn each_event_is_new_once_and_gaps_are_told() {
        let (short, long) = (ring(100), ring(2000));
        let (mut place, mut new) = (ReadPosition::default(), Vec::new());
        assert!(!place.follow(short.last().unwrap().clone(), &mut new));
        place.stay(&new);
        for page in &long {
            assert!(!place.follow(page.clone(), &mut new));
        }
        let times: Vec<u64> = new
            .iter()
            .flat_map(|new| new.page.events().skip(new.seen).map(|event| event.time))
            .collect();
        assert_eq!(times, (1..=2000).collect::<Vec<_>>());
        let (mut place, mut new) = (ReadPosition::default(), Vec::new());
        assert!(!place.follow(long[0].clone(), &mut new));
        assert!(place.follow(long[2].clone(), &mut new), "a page is missing");
    }
}
