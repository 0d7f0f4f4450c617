//! Reads the pages of a window, with what they need: tables, counters, descriptors.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Page, Summary};
use flightrec_format::descriptors::Snapshot;
use flightrec_format::meta::Meta;
use flightrec_format::totals::Totals;

use super::super::FilesError;
use super::super::checkpoints::{between, marks, to_the_marks};
use super::super::edge_pages::{self, Need};
use super::super::pages::{read_pages, streams, weight};
use super::super::pick::Pick;
use super::super::tables::{descriptors, threads};
use super::SessionSource;
use super::damage::{damage, damage_line};
use crate::memory;
use crate::source::PageSet;
use crate::window::Window;

/// What a window's files gave.
#[derive(Debug)]
pub struct FoundWindow {
    /// The session's description.
    pub meta: Meta,
    /// Pages and parts of pages, in no order, and what each comes to.
    pub pages: Vec<(Page, Summary)>,
    /// Threads that lived at some moment; where they contradict, the last one counts.
    pub slots: Vec<TaskSlot>,
    /// As of [`PageSet::tables`].
    pub tables: Vec<(usize, u64)>,
    /// What descriptors stood for at moments of the window, in order.
    pub descriptors: Vec<Snapshot>,
    /// The counters at a moment before the window, if it is known.
    pub before: Option<Totals>,
    /// The counters at a moment after it, or the last that there are.
    pub after: Totals,
    /// The counters at moments between.
    pub marks: Vec<Totals>,
    /// Nothing that was recorded until `after` is missing in the files by damage.
    pub whole: bool,
}

impl SessionSource {
    /// Reads what the window needs, for a recording of its own.
    ///
    /// # Errors
    /// A file of the window can not be read, but for damage, which becomes a gap.
    pub fn read(&mut self, window: Window) -> Result<PageSet, FilesError> {
        self.read_some(window, Pick::Lanes(&Lane::RINGS))
    }

    /// The same with some pages alone.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn read_some(&mut self, window: Window, pick: Pick<'_>) -> Result<PageSet, FilesError> {
        let FoundWindow { meta, pages, slots, tables, descriptors, before, after, marks, whole } =
            self.find(window, pick)?;
        let streams = streams(&meta, pages);
        if !self.end.closed && window.until > self.end.now {
            self.remarks.push(
                "the last file was not closed: the recorder or the machine stopped unexpectedly"
                    .into(),
            );
        }
        // Where something is damaged, only the counters tell what is there.
        let copied = if whole { after.now } else { 0 };
        Ok(PageSet {
            meta,
            streams,
            slots,
            tables,
            descriptors,
            totals: after,
            before,
            marks,
            copied,
            whole_files: whole,
            ..PageSet::default()
        })
    }

    /// Reads what the window needs of some blocks.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn find(&mut self, window: Window, pick: Pick<'_>) -> Result<FoundWindow, FilesError> {
        let chosen = self.chosen(window);
        let meta = self.meta_of(&chosen)?;
        let mut whole = self.in_a_row(&chosen);
        let opened = self.readers(&chosen);
        let told: Vec<String> = opened.iter().flat_map(|reader| damage(reader)).collect();
        whole &= told.is_empty();

        let (before, after) = marks(&opened, window);
        let before = before.map(|mark| mark.totals);
        let after = after.map(|mark| mark.totals).unwrap_or_default();
        let mut asked = window;
        let lanes = pick.lanes();
        let fits = |window| weight(&opened, window, pick) <= memory::to_marks_max();
        if !whole && fits(to_the_marks(window, before.as_ref(), &after)) {
            // The counters tell exactly what damage cost: up to the next moment at which they are
            // known.
            asked = to_the_marks(window, before.as_ref(), &after);
        }
        let mut pages = Vec::new();
        let held = (&*self.superseded, &*self.shared);
        let mut lost = read_pages(&opened, asked, pick, held, &mut pages)?;
        let further = to_the_marks(window, before.as_ref(), &after);
        if asked != further && pick.is_whole() {
            let counters = (before.as_ref(), &after);
            let needs = |lane: &Lane| edge_pages::needs(*lane, window, &pages, &meta, counters);
            let needs: Vec<Vec<Need>> = lanes.iter().map(needs).collect();
            let lacks = !lost.is_empty() || needs.iter().flatten().any(|need| need.is_of_counters);
            if lacks && fits(further) {
                pages = Vec::new();
                lost = read_pages(&opened, further, pick, held, &mut pages)?;
            } else {
                for (lane, needs) in lanes.iter().zip(needs) {
                    lost.extend(edge_pages::read(
                        &opened,
                        (window, further),
                        *lane,
                        &needs,
                        &mut pages,
                    ));
                    edge_pages::trim(*lane, window, &mut pages);
                }
            }
        }
        whole &= lost.is_empty();
        let (slots, tables) = threads(&opened);
        let descriptors = descriptors(&opened, window);
        let read_damage =
            lost.iter().map(|(reader, lost)| damage_line(reader, lost)).collect::<Vec<_>>();
        let marks = between(&opened, further.from, further.until);
        self.remark(told.into_iter().chain(read_damage));
        Ok(FoundWindow { meta, pages, slots, tables, descriptors, before, after, marks, whole })
    }
}
