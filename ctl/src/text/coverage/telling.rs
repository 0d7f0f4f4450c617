//! What the chapters of a window cover, the stretches of one recording told as one.

use flightrec_reader::boots::{self, BootId};
use flightrec_reader::coverage::Coverage;
use flightrec_reader::source::history::Chapter;
use flightrec_reader::wall::WallClock;
use flightrec_reader::windows::Windows;
use jiff::tz::TimeZone;

use super::clock::clock_lines;
use super::lines::lines;
use super::seam::Seam;

/// Coverage in words, chapter by chapter.
#[derive(Debug)]
pub struct Telling<'a> {
    zone: &'a TimeZone,
    seam: Seam,
    lines: Vec<String>,
    /// What the next stretch may go on with.
    going: Option<Going>,
}

/// A report that is not told yet.
#[derive(Debug)]
struct Going {
    recording: (BootId, u64),
    report: Coverage,
    wall: WallClock,
    /// Remarks on its chapters, each once: what a file lacks is found by each stretch that reads
    /// there.
    remarks: Vec<String>,
}

impl<'a> Telling<'a> {
    /// Of no chapter yet; times of day in `zone`.
    pub fn new(zone: &'a TimeZone) -> Self {
        Self { zone, seam: Seam::default(), lines: Vec::new(), going: None }
    }

    /// A chapter, and the reports of its windows.
    pub fn add(
        &mut self,
        chapter: &Chapter,
        reports: Vec<Coverage>,
        windows: &Windows,
        wall: &mut WallClock,
    ) {
        let mut before: Vec<String> =
            self.seam.between(chapter, windows.hull(), wall, self.zone).into_iter().collect();
        before.extend(clock_lines(windows, wall, self.zone));
        if !before.is_empty() {
            self.say(before);
        }
        let meta = &chapter.recording.meta;
        let recording = (boots::of_meta(meta), meta.session);
        for report in reports {
            match &mut self.going {
                Some(going) if going.recording == recording && going.report.goes_on_in(&report) => {
                    going.report.join(report);
                    going.wall = wall.clone();
                }
                _ => {
                    self.tell();
                    let wall = wall.clone();
                    self.going = Some(Going { recording, report, wall, remarks: Vec::new() });
                }
            }
        }
        let to = self.going.as_mut().map_or(&mut self.lines, |going| &mut going.remarks);
        for remark in &chapter.remarks {
            if !to.contains(remark) {
                to.push(remark.clone());
            }
        }
    }

    /// Lines about something else, after what was told.
    pub fn say(&mut self, lines: impl IntoIterator<Item = String>) {
        self.tell();
        self.lines.extend(lines);
    }

    /// What [`Self::add`] would say of a chapter by itself.
    pub fn preview(
        &self,
        chapter: &Chapter,
        reports: &[Coverage],
        windows: &Windows,
        wall: &mut WallClock,
    ) -> Vec<String> {
        let seam = self.seam.clone().between(chapter, windows.hull(), wall, self.zone);
        let mut all: Vec<String> = seam.into_iter().collect();
        all.extend(clock_lines(windows, wall, self.zone));
        all.extend(reports.iter().flat_map(|report| lines(report, wall, self.zone)));
        all.extend(chapter.remarks.iter().cloned());
        all
    }

    /// Whether there is a stretch between the last two chapters of which nothing is known.
    pub fn is_open(&self) -> bool {
        self.seam.is_open()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.going.is_none()
    }

    /// No more chapters come: all lines.
    pub fn finish(mut self) -> Vec<String> {
        self.tell();
        self.lines
    }

    fn tell(&mut self) {
        if let Some(Going { report, mut wall, remarks, .. }) = self.going.take() {
            self.lines.extend(lines(&report, &mut wall, self.zone));
            self.lines.extend(remarks);
        }
    }
}
