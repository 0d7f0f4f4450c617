//! What is new in the rings since it was looked last.

use std::collections::BTreeMap;
use std::sync::Arc;

use flightrec_format::abi::page::{Lane, REFUSALS, Refusal};
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
    /// What is missing among these, and between what was seen before and these.
    pub lack: Lack,
}

/// What is missing of a lane's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lack {
    /// Pages were overwritten or left out, or events found their lane busy: any may be missing.
    pub any: bool,
    /// The budget refused events. Of a call, it refuses the end only if it refused the beginning
    /// (`exit_alone` of `probes-ebpf/src/syscalls.rs`): the end of a call whose beginning is here
    /// is not among these.
    pub throttled: bool,
}

/// Follows the rings of a recording.
#[derive(Debug)]
pub struct Feed {
    live: Arc<live::LiveRings>,
    places: BTreeMap<(Lane, u16), ReadPosition>,
}

impl Feed {
    /// From now on.
    pub fn new(live: Arc<live::LiveRings>) -> Self {
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
                place.follow(page, &mut ring, &mut news.lack);
            }
            place.stay(&ring);
            news.rings.push(ring);
        }
        news
    }
}

impl ReadPosition {
    /// Goes on to a page, and adds what is missing before it.
    fn follow(&mut self, page: Page, ring: &mut Vec<New>, lack: &mut Lack) {
        let header = page.header();
        let seen = if header.seq == self.seq { self.events } else { 0 };
        if self.seq != 0 {
            // The recorder's own are left out on purpose.
            let more = |refusal: Refusal| {
                let at = refusal as usize;
                header.refused.get(at) != self.refused.get(at)
            };
            lack.any |= header.seq > self.seq.saturating_add(1) || more(Refusal::Busy);
            lack.throttled |= more(Refusal::Throttled);
        }
        *self = Self { seq: header.seq, used: header.used, events: seen, refused: header.refused };
        ring.push(New { page, seen });
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
        let mut lack = Lack::default();
        place.follow(short.last().unwrap().clone(), &mut new, &mut lack);
        place.stay(&new);
        for page in &long {
            place.follow(page.clone(), &mut new, &mut lack);
        }
        assert_eq!(lack, Lack::default());
        let times: Vec<u64> = new
            .iter()
            .flat_map(|new| new.page.events().skip(new.seen).map(|event| event.time))
            .collect();
        assert_eq!(times, (1..=2000).collect::<Vec<_>>());
        let (mut place, mut new) = (ReadPosition::default(), Vec::new());
        place.follow(long[0].clone(), &mut new, &mut lack);
        assert_eq!(lack, Lack::default());
        place.follow(long[2].clone(), &mut new, &mut lack);
        assert_eq!(lack, Lack { any: true, throttled: false }, "a page is missing");
    }
}
