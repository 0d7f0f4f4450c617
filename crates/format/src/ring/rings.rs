//! All rings of one recording session.

use std::collections::BTreeMap;

use super::{LaneStream, Sequence};
use crate::abi::page::Lane;
use crate::decode::{Page, Summary};

/// Sorts the pages of a session into their rings.
#[derive(Debug)]
pub struct Rings {
    session: u64,
    rings: BTreeMap<(Lane, u16), Sequence>,
}

impl Rings {
    /// The rings of `session`, as yet without pages.
    pub fn new(session: u64) -> Self {
        Self { session, rings: BTreeMap::new() }
    }

    /// Makes a ring known that may hold no page at all, so that its stream comes out too.
    pub fn expect(&mut self, lane: Lane, cpu: u16) {
        let session = self.session;
        self.rings.entry((lane, cpu)).or_insert_with(|| Sequence::new(session, lane, cpu));
    }

    /// Takes a page; `false` where it is of another session, or of no ring.
    pub fn add(&mut self, page: Page) -> bool {
        self.put(page, None)
    }

    /// As [`Self::add`], for a caller that knows what the page comes to ([`Page::summary`]).
    pub fn add_summed(&mut self, page: Page, summary: Summary) -> bool {
        self.put(page, Some(summary))
    }

    fn put(&mut self, page: Page, summary: Option<Summary>) -> bool {
        if page.header().session != self.session || !Lane::RINGS.contains(&page.lane()) {
            return false;
        }
        let (lane, cpu) = (page.lane(), page.header().cpu);
        self.expect(lane, cpu);
        self.rings.get_mut(&(lane, cpu)).is_some_and(|ring| ring.put(page, summary))
    }

    /// The rings' streams, by lane and CPU.
    pub fn finish(self) -> Vec<LaneStream> {
        self.rings.into_values().map(Sequence::finish).collect()
    }
}
