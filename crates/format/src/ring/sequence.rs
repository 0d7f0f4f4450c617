//! Collecting the pages of one ring: any order, any number of copies.

use std::collections::BTreeMap;

use super::stream::LaneStream;
use crate::abi::page::Lane;
use crate::decode::{Page, Summary};
use crate::{kept, part};

/// The best copy of each page, or part of a page, of one ring of one session.
#[derive(Debug)]
pub struct Sequence {
    session: u64,
    lane: Lane,
    cpu: u16,
    /// In order of their places: most come in it.
    pages: Vec<(Page, Summary)>,
    /// Those that came when one after them was there already.
    late: BTreeMap<Place, (Page, Summary)>,
}

/// Where in its ring a page or part of a page is: sequence number, and where in the page it begins.
type Place = (u64, u32);

fn place(page: &Page) -> Place {
    (page.header().seq, part::start(page.header()))
}

impl Sequence {
    /// No pages yet.
    pub fn new(session: u64, lane: Lane, cpu: u16) -> Self {
        Self { session, lane, cpu, pages: Vec::new(), late: BTreeMap::new() }
    }

    /// Takes a page; `false` (and nothing is kept) where it is of another ring or session.
    pub fn add(&mut self, page: Page) -> bool {
        self.put(page, None)
    }

    /// As [`Self::add`]; the page's summary, where it is known.
    pub(super) fn put(&mut self, page: Page, summary: Option<Summary>) -> bool {
        let header = page.header();
        if header.session != self.session || page.lane() != self.lane || header.cpu != self.cpu {
            return false;
        }
        let here = place(&page);
        let is_next = self.pages.last().is_none_or(|(last, _)| place(last) < here);
        let held = if is_next {
            None
        } else {
            match self.pages.binary_search_by_key(&here, |(page, _)| place(page)) {
                Ok(at) => self.pages.get_mut(at),
                Err(_) => self.late.get_mut(&here),
            }
        };
        if let Some(held) = held {
            if let Some(summary) = better(&page, held) {
                *held = (page, summary);
            }
            return true;
        }
        // What a page comes to is found out now, while a source that is slower brings the next one.
        let summary = summary.unwrap_or_else(|| page.summary());
        if is_next {
            self.pages.push((page, summary));
        } else {
            self.late.insert(here, (page, summary));
        }
        true
    }

    /// No more pages come.
    pub fn finish(self) -> LaneStream {
        let Self { mut pages, late, .. } = self;
        if !late.is_empty() {
            pages.extend(late.into_values());
            pages.sort_by_key(|(page, _)| place(page));
        }
        if pages.iter().any(|(page, _)| kept::is_thinned(page.header())) {
            pages = without_thinned(pages);
        }
        let mut whole: Vec<Page> = Vec::with_capacity(pages.len());
        let mut summaries: Vec<Summary> = Vec::with_capacity(pages.len());
        for (page, summary) in pages {
            match whole.last_mut().zip(summaries.last_mut()) {
                Some((last, sums)) if overlap(last, &page) => {
                    if let Some(whole) = united(last, page) {
                        *sums = whole.summary();
                        *last = whole;
                    }
                }
                _ => {
                    whole.push(page);
                    summaries.push(summary);
                }
            }
        }
        LaneStream::new(self.lane, self.cpu, whole, summaries)
    }
}

/// The pages, which are in order. What a thinned page holds of pages that are there themselves is
/// left out.
fn without_thinned(pages: Vec<(Page, Summary)>) -> Vec<(Page, Summary)> {
    let whole =
        pages.iter().map(|(page, _)| page.header()).filter(|header| !kept::is_thinned(header));
    let whole: Vec<(u64, u64)> = whole.map(|header| (header.seq, header.base_mono)).collect();
    let fitted = |(page, summary): (Page, Summary)| {
        let header = page.header();
        if !kept::is_thinned(header) {
            return Some((page, summary));
        }
        match whole.get(whole.partition_point(|(seq, _)| *seq < header.seq)) {
            Some((seq, _)) if *seq == header.seq => None,
            Some((seq, opened)) if *seq <= kept::through(&page) => {
                let page = kept::before(&page, *seq, *opened)?;
                let summary = page.summary();
                Some((page, summary))
            }
            _ => Some((page, summary)),
        }
    };
    pages.into_iter().filter_map(fitted).collect()
}

/// Whether the second piece begins within the first or where it ends.
fn overlap(first: &Page, second: &Page) -> bool {
    first.header().seq == second.header().seq && part::start(second.header()) <= first.header().used
}

/// Two pieces that overlap or touch as one; `None`: the first holds it all.
fn united(first: &Page, second: Page) -> Option<Page> {
    let (a, b) = (first.header(), second.header());
    if b.used < a.used {
        return None;
    }
    match part::join(first, &second) {
        Some(whole) => (b.used > a.used || held(&whole) > held(first)).then_some(whole),
        // One of the two is damaged. Both would show events twice: the longer one counts.
        None => (held(&second) > held(first)).then_some(second),
    }
}

/// What a copy of a page comes to, where it holds more than another: more words, or, as long as it
/// is the last record that differs, an exit that has since folded in.
fn better(new: &Page, (old, known): &(Page, Summary)) -> Option<Summary> {
    let (a, b) = (new.header().used, old.header().used);
    if a < b || a == b && new.bytes() == old.bytes() {
        return None;
    }
    let summary = new.summary();
    (a > b || events(&summary) > events(known)).then_some(summary)
}

fn held(page: &Page) -> u64 {
    events(&page.summary())
}

fn events(summary: &Summary) -> u64 {
    summary.counts.total()
}
