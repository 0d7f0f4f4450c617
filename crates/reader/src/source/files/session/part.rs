//! Stretches of a window that fit into memory.

use flightrec_format::abi::page::Lane;
use flightrec_store::Kind;

use super::super::stretch::{Weights, with_ends};
use super::super::{checkpoints, select};
use super::SessionSource;
use crate::window::{LEAD_IN_NS, Window};

/// A stretch of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub until: u64,
    /// What is read for it.
    pub read: Window,
    /// Bytes of memory that the pages of that take.
    pub weight: u64,
}

impl SessionSource {
    /// The window parted into stretches, none of which takes more than `most` bytes of pages, with
    /// what is read `lead` before it and `after` it, where there is room for that; the
    /// earliest first. Each begins where the one before ends: where a file begins, if one does
    /// near enough, for it begins with all that a reader needs.
    pub fn parted(&mut self, window: Window, (lead, after): (u64, u64), most: u64) -> Vec<Part> {
        let chosen = self.chosen(window);
        // What can't be opened is told when it is read.
        self.in_a_row(&chosen);
        self.remarks.clear();
        let mut begins: Vec<u64> = Vec::new();
        let mut blocks: Vec<(u64, u64, u64)> = Vec::new();
        let mut first_mark = self.started(&chosen, window.from).unwrap_or(u64::MAX);
        let around = Window { until: window.until.saturating_add(after), ..window };
        for open in chosen.iter().filter_map(|index| self.files.get(*index)) {
            let Some(reader) = &open.reader else { continue };
            begins.push(open.file.header.created_mono);
            let marks = reader.of(Kind::Checkpoint).map(|block| block.header.last);
            let marks = marks.filter(|mark| *mark > window.from.saturating_add(lead));
            first_mark = marks.fold(first_mark, u64::min);
            let pages = select::pages(reader.blocks(), around, &Lane::RINGS);
            blocks.extend(
                pages.map(|block| (block.header.first, block.header.last, select::weight(block))),
            );
        }
        begins.sort_unstable();
        let weights = Weights::new(&blocks);
        let mut cuts = weights.part(window, (lead, after), &begins, most);
        // Of the others little may be read, where it is known with what they begin: what is read
        // before the second begins after the first moment at which the counters are known.
        let first = first_mark.saturating_add(lead.max(LEAD_IN_NS)).saturating_add(1);
        if cuts.first().is_some_and(|cut| first < *cut) {
            cuts.insert(0, first);
        }
        let froms = [window.from].into_iter().chain(cuts.iter().copied());
        let parts = froms.zip(cuts.iter().copied().chain([window.until])).enumerate().map(
            |(number, (from, until))| {
                let first = if number == 0 { from } else { weights.lead(from, lead, most) };
                let read = Window { from: first, until: until.saturating_add(after) };
                let fits = weights.of(read) <= with_ends(most);
                let read = if fits { read } else { Window { until, ..read } };
                Part { from, until, read, weight: weights.of(read) }
            },
        );
        parts.collect()
    }

    /// When the recording began, if that is after `from`, and the files have all from then on.
    fn started(&mut self, chosen: &[usize], from: u64) -> Option<u64> {
        let meta = self.meta_of(chosen).ok().filter(|meta| meta.started >= from)?;
        let reader = self.files.get(*chosen.first()?)?.reader.as_ref()?;
        Some(checkpoints::start(&[reader], &meta)?.totals.now)
    }
}
