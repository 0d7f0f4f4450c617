//! What a session's files tell of the wall clock.

use flightrec_format::meta::WALL_STEP_NS;
use flightrec_store::{Clocks, FileReader, Kind};

use super::super::catalog::StoredFile;
use super::super::pages::most_blocks;
use super::super::times_of_day::{self, SLACK_NS, Told};
use super::{OpenFile, SessionSource};
use crate::window::{Edge, Window};
use crate::windows::Windows;

/// By how much [`SessionSource::around`] is too wide at either end, where an edge is a time of day
/// and the clock ran evenly.
pub const AROUND_NS: u64 = 2 * SLACK_NS as u64;

impl SessionSource {
    /// The windows in the monotonic clock outside of which nothing of the window can be; `present`
    /// and its `offset` to the wall clock are told by the source where it knows them.
    pub fn around(
        &mut self,
        since: Edge,
        until: Edge,
        present: u64,
        offset: Option<i64>,
    ) -> Windows {
        let is_wall = matches!(since, Edge::Wall(_)) || matches!(until, Edge::Wall(_));
        let stretches = if is_wall {
            let of_present = |at| Told { first: present, opened: present, least: at, greatest: at };
            match self.opened() {
                Some(told) => {
                    times_of_day::opened(told.into_iter().chain(offset.map(of_present)).collect())
                }
                None => vec![times_of_day::ANYWHERE],
            }
        } else {
            Vec::new()
        };
        times_of_day::windows(&stretches, since, until, present)
    }

    /// What all blocks of pages tell of the wall clock; `None` where some do not, or the metadata
    /// can't be read, which have the leap seconds.
    fn opened(&mut self) -> Option<Vec<Told>> {
        let meta = self.meta().ok()?;
        let mut told = Vec::new();
        let mut take = |reader: &FileReader| {
            for block in reader.of(Kind::Pages) {
                let Clocks { opened, least, greatest } = block.header.clocks?;
                let first = block.header.first.min(opened);
                let leaps = meta.tai_range(first, opened);
                let wall =
                    |tai: i64, leap: i64| tai.saturating_sub(leap.saturating_mul(1_000_000_000));
                let (least, greatest) = (wall(least, *leaps.end()), wall(greatest, *leaps.start()));
                told.push(Told { first, opened, least, greatest });
            }
            Some(())
        };
        // Files of the window are to find room beside those that stay open.
        let mut room = (most_blocks() / 2).saturating_sub(self.held_blocks());
        for OpenFile { file, reader, .. } in &mut self.files {
            if let Some(reader) = reader {
                take(reader)?;
                continue;
            }
            // What can't be opened is told when it is read.
            let Ok(opened) = FileReader::open(&file.path) else { continue };
            take(&opened)?;
            if let Some(rest) = room.checked_sub(opened.blocks().len()) {
                room = rest;
                *reader = Some(opened);
            }
        }
        Some(told)
    }

    /// Whether all pages that a window needs tell the same of the wall clock, as its blocks'
    /// headers say: then an event's time does not depend on which of them are read.
    pub fn is_even(&mut self, window: Window) -> bool {
        let chosen = self.chosen(window);
        let Ok(meta) = self.meta_of(&chosen) else { return false };
        let mut told: Option<(i64, i64)> = None;
        for open in chosen.iter().filter_map(|index| self.files.get(*index)) {
            let Some(reader) = &open.reader else { return false };
            for block in reader.of(Kind::Pages) {
                let Some(Clocks { opened, least, greatest }) = block.header.clocks else {
                    return false;
                };
                let leaps = meta.tai_range(block.header.first.min(opened), opened);
                if leaps.start() != leaps.end() {
                    return false;
                }
                let wall =
                    |tai: i64| tai.saturating_sub(leaps.start().saturating_mul(1_000_000_000));
                let (least, greatest) = (wall(least), wall(greatest));
                told =
                    Some(told.map_or((least, greatest), |(l, g)| (l.min(least), g.max(greatest))));
            }
        }
        told.is_some_and(|(least, greatest)| {
            // Where no page is read the file's header tells.
            let of_header = meta.wall_offset(self.clock().wall_offset);
            greatest.saturating_sub(least) < WALL_STEP_NS
                && [least, greatest].map(|of| meta.wall_offset(of)) == [of_header; 2]
        })
    }
}

/// What the wall clock was ahead of `CLOCK_MONOTONIC` when a file was made, ns.
pub(super) fn offset_of(file: &StoredFile) -> i64 {
    file.header.created_wall.saturating_sub_unsigned(file.header.created_mono)
}
