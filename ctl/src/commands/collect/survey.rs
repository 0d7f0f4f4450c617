//! What a file that arrived has of its window.

use std::path::PathBuf;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::Refusal;
use flightrec_reader::coverage::{self, Coverage};
use flightrec_reader::source::history::{self, Chapter, Foretold, Go, Question, Visitor};
use flightrec_reader::source::{HistoryPlace, HistoryPlan};
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Edge;
use flightrec_reader::windows::Windows;

use crate::text::coverage::Seam;

/// What files have of their window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Its beginning and end, ns since 1970.
    pub(super) window: Option<(i64, i64)>,
    /// Whether nothing of it is missing.
    pub(super) complete: bool,
    /// Events that are missing or were refused.
    pub(super) missing: u64,
    /// Whether that is all: of some gaps nobody knows how much.
    pub(super) is_counted: bool,
    /// Whether some of them may have been outside of the window.
    pub(super) is_bound: bool,
}

/// Reads files of one host whole.
///
/// # Errors
/// They are no recordings, or damaged beyond reading.
pub(super) fn survey(files: Vec<PathBuf>) -> Result<Held> {
    let place = HistoryPlace::OwnWindows(files);
    let question = Question { since: Edge::Open, until: Edge::Open, everything: false };
    let mut seen = Seen {
        held: Held { complete: true, is_counted: true, ..Held::default() },
        seam: Seam::default(),
        is_told: false,
    };
    history::read(&HistoryPlan { place, boot: None }, question, &mut seen)?;
    Ok(seen.held)
}

/// What has been seen so far.
struct Seen {
    held: Held,
    seam: Seam,
    /// The coverage of the stretches that follow is known.
    is_told: bool,
}

impl Visitor<anyhow::Error> for Seen {
    fn listens(&self) -> bool {
        true
    }

    fn ahead(&mut self, foretold: &Foretold) -> Result<()> {
        let chapter = foretold.chapter();
        let mut wall = chapter.recording.wall_clock(chapter.clock.wall_offset);
        let windows = chapter.windows(&wall);
        if windows.count() == 1
            && let Some(report) = Coverage::foretold(foretold, windows.hull())
        {
            self.add(chapter, &[report], &windows, &mut wall);
            self.is_told = true;
        }
        Ok(())
    }

    fn take(&mut self, chapter: Chapter) -> Result<Go> {
        let goes_on = chapter.joins.is_some_and(|joins| joins.after);
        let is_told = if goes_on { self.is_told } else { std::mem::take(&mut self.is_told) };
        if !is_told || !chapter.is_foretold {
            let mut wall = chapter.recording.wall_clock(chapter.clock.wall_offset);
            let windows = chapter.windows(&wall);
            let told = coverage::told(&windows);
            let report = |window| Coverage::new(&chapter.recording, window, chapter.clock.now);
            let reports: Vec<Coverage> = told.iter().map(report).collect();
            self.add(&chapter, &reports, &windows, &mut wall);
        }
        Ok(Go::On)
    }
}

impl Seen {
    fn add(
        &mut self,
        chapter: &Chapter,
        reports: &[Coverage],
        windows: &Windows,
        wall: &mut WallClock,
    ) {
        let hull = windows.hull();
        // Said nowhere; but it knows whether time is missing between this recording and the last.
        let _ = self.seam.between(chapter, hull, wall, &TimeZone::UTC);
        let held = &mut self.held;
        let (from, until) = (wall.wall(hull.from), wall.wall(hull.until));
        held.window = Some(held.window.map_or((from, until), |(first, _)| (first, until)));
        held.complete &= !self.seam.is_open();
        for report in reports {
            held.complete &= report.is_complete() && report.unknown.lanes.is_empty();
            for gap in report.gaps() {
                held.is_counted &= gap.lost.is_some();
                let lost = gap.lost.map_or(0, |lost| lost.total());
                held.missing = held.missing.saturating_add(lost);
                held.is_bound |= lost != 0 && report.is_beyond(gap);
            }
            for reason in [Refusal::Busy, Refusal::Throttled] {
                let refused = report.refused(reason).into_iter().fold(0, u64::saturating_add);
                held.missing = held.missing.saturating_add(refused);
                held.is_bound |= refused != 0 && report.is_bound(reason);
            }
        }
    }
}

/// A time of a window, for people.
pub(super) fn moment(ns: i64, zone: &TimeZone) -> String {
    let time = timestamp(ns).to_zoned(zone.clone());
    time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// The same, for programs.
pub(super) fn timestamp(ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(Timestamp::UNIX_EPOCH)
}
