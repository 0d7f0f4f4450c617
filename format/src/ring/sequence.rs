//! Collecting the pages of one ring: any order, any number of copies.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::stream::LaneStream;
use crate::abi::page::Lane;
use crate::decode::{Page, Summary};

/// The best copy of each page of one ring of one session.
#[derive(Debug)]
pub struct Sequence {
    session: u64,
    lane: Lane,
    cpu: u16,
    pages: BTreeMap<u64, (Page, Summary)>,
}

impl Sequence {
    /// No pages yet.
    pub fn new(session: u64, lane: Lane, cpu: u16) -> Self {
        Self { session, lane, cpu, pages: BTreeMap::new() }
    }

    /// Takes a page; `false` (and nothing is kept) where it is of another ring or session.
    pub fn add(&mut self, page: Page) -> bool {
        let header = page.header();
        if header.session != self.session || page.lane() != self.lane || header.cpu != self.cpu {
            return false;
        }
        // What a page comes to is found out now, while a source that is slower brings the next one.
        match self.pages.entry(header.seq) {
            Entry::Vacant(free) => {
                let summary = page.summary();
                free.insert((page, summary));
            }
            Entry::Occupied(mut held) => {
                if let Some(summary) = better(&page, held.get()) {
                    held.insert((page, summary));
                }
            }
        }
        true
    }

    /// No more pages come.
    pub fn finish(self) -> LaneStream {
        LaneStream::new(self.lane, self.cpu, self.pages.into_values())
    }
}

/// What a copy of a page comes to, where it holds more than another: more words, or, as long as it is the last
/// record that differs, an exit that has since folded in.
fn better(new: &Page, (held, known): &(Page, Summary)) -> Option<Summary> {
    let (a, b) = (new.header().used, held.header().used);
    if a < b || a == b && new.bytes() == held.bytes() {
        return None;
    }
    let summary = new.summary();
    (a > b || events(&summary) > events(known)).then_some(summary)
}

fn events(summary: &Summary) -> u64 {
    summary.counts.iter().sum()
}
