//! A page of the quiet ring, written event by event.

use super::{ANYONE, ENTRY, LEFT_OUT_MAX, LeftOut, through_at};
use crate::abi::page::{Lane, PAGE_SIZE, PageHeader, THINNED_LEN, part_flag};
use crate::decode::{Event, Page};
use crate::encode::PageWriter;

/// A thinned page ([`crate::kept`]) that takes more events as long as there is room.
#[derive(Debug)]
pub struct KeptWriter {
    writer: PageWriter,
    lane: Lane,
    through: u64,
    left_out: Vec<LeftOut>,
}

impl KeptWriter {
    /// Begins with the first page that it stands for; nothing of it is in yet.
    pub fn new(first: &Page) -> Self {
        let header_len = first.header().counters_end() + THINNED_LEN;
        let header = PageHeader {
            flags: part_flag::KEPT,
            header_len: header_len as u16,
            used: 0,
            ..*first.header()
        };
        let lane = first.lane();
        let writer = PageWriter::of_page(header, lane, vec![0; header_len]);
        Self { writer, lane, through: header.seq.saturating_sub(1), left_out: Vec::new() }
    }

    /// Number of the last page that it stands for.
    pub fn through(&self) -> u64 {
        self.through
    }

    /// Takes what is kept of the page after the last one: all of it, or, where it does not fit,
    /// nothing (`false`).
    pub fn append(&mut self, page: &Page, events: &[Event]) -> bool {
        let is_next =
            page.lane() == self.lane && page.header().seq == self.through.saturating_add(1);
        if !is_next || !self.writer.append(events) {
            return false;
        }
        self.through = page.header().seq;
        true
    }

    /// Says what is left out of the pages that come next. What has no room is anyone's.
    pub fn leave_out(&mut self, left_out: &[LeftOut]) {
        for new in left_out {
            let named = self.left_out.iter().position(|old| old.process == new.process);
            let at = match named {
                Some(at) => at,
                None if self.left_out.len() < LEFT_OUT_MAX => {
                    self.left_out.push(LeftOut { events: 0, ..*new });
                    self.left_out.len() - 1
                }
                None => LEFT_OUT_MAX - 1,
            };
            let Some(old) = self.left_out.get_mut(at) else { continue };
            if old.process != new.process {
                (old.process, old.born) = (ANYONE, 0);
            }
            old.born = old.born.min(new.born);
            old.events = old.events.saturating_add(new.events);
            (old.from, old.until) = (old.from.min(new.from), old.until.max(new.until));
        }
    }

    /// The page as it is now: a copy, in the sense of [`crate::identity`].
    pub fn page(&self) -> Option<Box<[u8; PAGE_SIZE]>> {
        let mut page = self.writer.current()?;
        let at = through_at(self.writer.header().header_len);
        page.get_mut(at..at + 8)?.copy_from_slice(&self.through.to_le_bytes());
        let list = page.get_mut(at + 8..at + THINNED_LEN)?;
        for (to, from) in list.chunks_exact_mut(ENTRY).zip(&self.left_out) {
            to.copy_from_slice(&from.bytes());
        }
        Some(page)
    }
}
