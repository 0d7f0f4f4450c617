//! One ring's pages in order.

use std::collections::{BTreeMap, VecDeque};

use super::gap::{Gap, Reason, difference, is_loss};
use crate::abi::counts::Counts;
use crate::abi::kinds::Kind;
use crate::abi::page::{Lane, REFUSALS};
use crate::decode::{Damage, Decoder, Event, Page, Summary};
use crate::kept::LeftOut;
use crate::{kept, part};

/// The pages of one ring, oldest first, each once, and what they come to.
#[derive(Debug)]
pub struct LaneStream {
    lane: Lane,
    cpu: u16,
    pages: Vec<Page>,
    /// Of each page.
    summaries: Vec<Summary>,
}

impl LaneStream {
    /// `pages`: of one ring, by ascending sequence number (parts of one page that don't touch, by
    /// position), and what each comes to.
    pub(super) fn new(lane: Lane, cpu: u16, pages: Vec<Page>, summaries: Vec<Summary>) -> Self {
        Self { lane, cpu, pages, summaries }
    }

    /// Its lane.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Its CPU.
    pub fn cpu(&self) -> u16 {
        self.cpu
    }

    /// Its pages, oldest first.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// What each of its pages comes to.
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    /// Its pages, oldest first, given away.
    pub fn into_pages(self) -> Vec<Page> {
        self.pages
    }

    /// The first of its pages that doesn't end before `from`.
    fn first_from(&self, from: u64) -> usize {
        self.summaries.iter().position(|s| s.last >= from).unwrap_or(self.pages.len())
    }

    /// Its pages that don't end before `from`.
    pub fn pages_from(&self, from: u64) -> &[Page] {
        self.pages.get(self.first_from(from)..).unwrap_or_default()
    }

    /// Time of the last event before the first page of [`Self::pages_from`], ns; `None`: that is
    /// the first page of all.
    pub fn last_before(&self, from: u64) -> Option<u64> {
        let before = self.first_from(from).checked_sub(1)?;
        self.summaries.get(before).map(|summary| summary.last)
    }

    /// Its events, in order, decoded page by page.
    pub fn events(&self) -> Events<'_> {
        Events { pages: self.pages.iter(), page: None, only: None }
    }

    /// Its events from `from` on: pages that end before are not decoded.
    pub fn events_from(&self, from: u64) -> Events<'_> {
        Events { pages: self.pages_from(from).iter(), page: None, only: None }
    }

    /// Its events from `from` on, as [`Self::events_from`] gives them, with the pages given away:
    /// each is dropped once it is decoded.
    pub fn into_events_from(self, from: u64) -> IntoEvents {
        let first = self.first_from(from);
        let mut pages = self.pages.into_iter();
        pages.by_ref().take(first).for_each(drop);
        IntoEvents { pages, events: VecDeque::new() }
    }

    /// Events decoded, by kind.
    pub fn recorded(&self) -> Counts {
        self.summaries.iter().fold(Counts::ZERO, |all, s| all.plus(&s.counts))
    }

    /// Events of [`from`, `until`) whose kinds this release does not know, by the kinds' numbers:
    /// [`Self::events`] passes over them.
    pub fn unknown(&self, from: u64, until: u64) -> BTreeMap<u8, u64> {
        let is_unknown = |(index, _)| Kind::counted(self.lane, index).is_none();
        let of_pages = self.known().filter(|(_, summary)| summary.counts.present().any(is_unknown));
        let mut kinds = BTreeMap::new();
        for (kind, time) in of_pages.flat_map(|(page, _)| page.unknown_events()) {
            if (from..until).contains(&time) {
                *kinds.entry(kind).or_default() += 1;
            }
        }
        kinds
    }

    /// What is left out of its pages, in order. A page that stands for others ends where the next
    /// one that is there begins, so nothing is left out after that.
    pub fn left_out(&self) -> impl Iterator<Item = LeftOut> + '_ {
        let ends = self.pages.iter().skip(1).map(part::begins).chain([u64::MAX]);
        self.pages.iter().zip(ends).flat_map(|(page, end)| {
            let within = move |of: LeftOut| LeftOut { until: of.until.min(end), ..of };
            kept::left_out(page).into_iter().map(within)
        })
    }

    /// The first of its pages that is none of the quiet ring's.
    pub fn first_of_ring(&self) -> Option<&Page> {
        self.pages.iter().find(|page| !kept::is_kept(page.header()))
    }

    /// The first fault of each damaged page, with the page's sequence number.
    pub fn damage(&self) -> impl Iterator<Item = (u64, Damage)> + '_ {
        self.known().filter_map(|(page, summary)| Some((page.header().seq, summary.damage?)))
    }

    /// Time of the last event (or of the last page's opening).
    pub fn last(&self) -> Option<u64> {
        self.summaries.last().map(|s| s.last)
    }

    /// Pages with their summaries.
    pub(super) fn known(&self) -> impl DoubleEndedIterator<Item = (&Page, &Summary)> + Clone {
        self.pages.iter().zip(&self.summaries)
    }

    /// Gaps between the first page and the last, in order, and the last page's own damage. Each is
    /// from one page to the next that is there: its counts are exact, and do not depend on
    /// which other pages are.
    pub fn gaps(&self) -> Vec<Gap> {
        let pairs = self.known().zip(self.pages.iter().skip(1));
        let mut gaps: Vec<Gap> = pairs.flat_map(|(page, next)| self.between(page, next)).collect();
        if let Some((_, Summary { damage: Some(damage), last, .. })) = self.known().next_back() {
            let until = damage.after.max(*last).saturating_add(1);
            gaps.push(self.gap(damage.after, until, None, [0; 3], Reason::Damaged));
        }
        gaps
    }

    /// What is missing between a page and the next that is there.
    ///
    /// The next page's totals, less this page's totals and what it decodes to, is what was
    /// recorded and is not here; exact, whatever the cause.
    /// Of a thinned page that is the two apart: what was left out, and what was refused.
    fn between(
        &self,
        (page, summary): (&Page, &Summary),
        next: &Page,
    ) -> impl Iterator<Item = Gap> + use<> {
        let mut gap = self.gap_between((page, summary), next);
        let is_thinned = kept::is_thinned(page.header());
        let is_next = next.header().seq == kept::through(page).saturating_add(1);
        if let Some(gap) = gap.as_mut().filter(|_| is_thinned) {
            // What was left out may have been at any time since the page's beginning.
            gap.from = page.header().base_mono;
        }
        let split = gap.filter(|gap| is_thinned && is_next && gap.reason == Reason::Missing);
        let left_out =
            split.map(|gap| Gap { refused: [0; REFUSALS], reason: Reason::LeftOut, ..gap });
        let refused = split.filter(|gap| is_loss(&gap.refused)).map(|gap| Gap {
            from: page.header().base_mono,
            lost: Some(Counts::ZERO),
            reason: Reason::Refused,
            ..gap
        });
        gap.xor(split).into_iter().chain(left_out).chain(refused)
    }

    fn gap_between(&self, (page, summary): (&Page, &Summary), next: &Page) -> Option<Gap> {
        let (a, b) = (page.header(), next.header());
        let lost = b.events.since(&a.events.plus(&summary.counts));
        let refused = difference(&b.refused, &a.refused);
        let nothing = lost == Some(Counts::ZERO);
        let until = part::begins(next);
        Some(match (summary.damage, lost, refused) {
            (Some(damage), ..) => {
                self.gap(damage.after, until, lost, refused.unwrap_or_default(), Reason::Damaged)
            }
            // Totals that run backwards: one of the two headers is damaged.
            (None, None, _) | (None, _, None) => {
                self.gap(summary.last, until, None, refused.unwrap_or_default(), Reason::Damaged)
            }
            (None, Some(_), Some(refused)) if !nothing => {
                self.gap(summary.last, until, lost, refused, Reason::Missing)
            }
            (None, Some(_), Some(refused)) if is_loss(&refused) => {
                self.gap(a.base_mono, until, lost, refused, Reason::Refused)
            }
            _ => return None,
        })
    }

    pub(super) fn gap(
        &self,
        from: u64,
        until: u64,
        lost: Option<Counts>,
        refused: [u64; 3],
        reason: Reason,
    ) -> Gap {
        Gap { lane: self.lane, cpu: self.cpu, from, until: until.max(from), lost, refused, reason }
    }
}

/// The events of a [`LaneStream`].
#[derive(Clone)]
pub struct Events<'a> {
    pages: std::slice::Iter<'a, Page>,
    page: Option<Decoder<'a>>,
    only: Option<&'a [u32]>,
}

impl<'a> Events<'a> {
    /// The same without system calls of other threads than these ([`Decoder::only`]).
    #[must_use]
    pub fn only(self, threads: Option<&'a [u32]>) -> Self {
        Self { only: threads, ..self }
    }

    /// The next event, as [`Decoder::read`] gives it.
    #[inline]
    pub fn read(&mut self, into: &mut Event) -> bool {
        loop {
            if self.page.as_mut().is_some_and(|page| page.read(into)) {
                return true;
            }
            let Some(page) = self.pages.next() else { return false };
            self.page = Some(page.events().only(self.only));
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        self.read(&mut event).then_some(event)
    }
}

/// The events of a [`LaneStream`] that is given away. A page is decoded at once, as its events
/// borrow nothing of it.
pub struct IntoEvents {
    pages: std::vec::IntoIter<Page>,
    events: VecDeque<Event>,
}

impl IntoEvents {
    /// Puts the next event where another one was. `false`: there is none.
    pub fn read(&mut self, into: &mut Event) -> bool {
        while self.events.is_empty() {
            let Some(page) = self.pages.next() else { return false };
            self.events.extend(page.events());
        }
        self.events.pop_front().map(|event| *into = event).is_some()
    }
}
