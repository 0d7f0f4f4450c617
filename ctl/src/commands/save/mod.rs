//! `flightctl save`: a window of the recording as a file of its own, for any machine.

mod file;

use std::collections::BTreeSet;
use std::mem;
use std::path::PathBuf;

use jiff::tz::TimeZone;

use flightrec_format::ring::LaneStream;

use super::prelude::*;
use crate::coverage::{self, Report};
use crate::human::{bytes, counted};
use crate::options::past::{Past, PastArgs};
use crate::options::target::TargetArgs;
use crate::options::window::WindowArgs;
use crate::output::{OutputError, note};
use crate::source::history::{self, Chapter, Go};
use crate::target::Target;
use crate::text::coverage::{Seam, clock_lines, lines as words, unknown_lane};

/// Arguments of `save`.
#[derive(Debug, clap::Args)]
pub struct SaveArgs {
    /// Which time of which recording.
    #[command(flatten)]
    past: PastArgs,
    /// Where it is saved.
    #[command(flatten)]
    target: TargetArgs,
    /// Exit with status 3 if anything in the window is missing; the rest is saved nevertheless.
    #[arg(long)]
    strict: bool,
}

/// A window to save.
#[derive(Debug, PartialEq)]
pub struct SavePlan {
    past: Past,
    target: TargetArgs,
    /// Whether an incomplete window is a failure.
    strict: bool,
}

impl Arguments for SaveArgs {
    const HELP: Help = Help {
        about: "Save a window of the recording to one file that flightctl can read on any machine",
        examples: &[
            ("flightctl save --last 30s -o incident.flight", "save what just happened"),
            (
                "flightctl save --since 14:03 --until 14:05 -o slow.flight",
                "save what happened at that time today",
            ),
            ("flightctl dump incident.flight", "read it, on any machine"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    };
    type Plan = SavePlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<SavePlan> {
        let Self { past, target, strict } = self;
        Ok(SavePlan { past: past.plan(&recorder, now)?, target, strict })
    }

    fn window(&self) -> Option<&WindowArgs> {
        Some(&self.past.window)
    }
}

impl Plan for SavePlan {
    fn run(&self) -> Result<Exit> {
        Target::check(&self.target)?;
        let zone = crate::zone::system();
        let mut saved =
            Saved { plan: self, zone: &zone, files: 0, complete: true, seam: Seam::default() };
        history::read(&self.past.history, self.past.question(false), &mut |chapter: Chapter| {
            saved.take(&chapter).map(|()| Go::On)
        })?;
        Ok(match saved {
            Saved { files: 0, .. } => {
                note("nothing was recorded in the window, and nothing is saved");
                Exit::Nothing
            }
            Saved { complete: false, .. } if self.strict => Exit::Incomplete,
            _ => Exit::Fine,
        })
    }
}

/// What has been saved so far.
struct Saved<'a> {
    plan: &'a SavePlan,
    zone: &'a TimeZone,
    files: usize,
    complete: bool,
    seam: Seam,
}

impl Saved<'_> {
    /// Saves a chapter, and says so. A file is of one recording, so each has a file.
    fn take(&mut self, chapter: &Chapter) -> Result<()> {
        let recording = &chapter.recording;
        let mut wall = recording.wall_clock(chapter.clock.wall_offset);
        let windows = chapter.windows(&wall);
        let reports = coverage::told(&windows);
        let reports = reports.iter().map(|window| {
            Report::new(recording, window, chapter.clock.now).with_all_lacking(&recording.meta)
        });
        let mut reports: Vec<Report> = reports.collect();
        let seam = self.seam.between(chapter, windows.hull(), &mut wall, self.zone);
        let events =
            recording.streams.iter().flat_map(LaneStream::recorded).fold(0, u64::saturating_add);
        if windows.is_empty() || events == 0 {
            return Ok(());
        }
        // Events of kinds that this release does not know are saved with their pages. Lanes that it
        // does not know are not even read.
        let unknown: BTreeSet<String> =
            reports.iter_mut().flat_map(|report| mem::take(&mut report.unknown).lanes).collect();
        self.complete &=
            reports.iter().all(Report::is_complete) && !self.seam.is_open() && unknown.is_empty();
        let path = self.path()?;
        let hull = windows.hull();
        let about = file::about(&windows, wall.wall(hull.until));
        let size = Target::make(&path, self.plan.target.force)?
            .fill(|out| file::write(out, chapter, &about))?;
        self.files += 1;
        let mut lines: Vec<String> =
            seam.into_iter().chain(clock_lines(&windows, &mut wall, self.zone)).collect();
        lines.extend(reports.iter().flat_map(|report| words(report, &mut wall, self.zone)));
        let fate = "not saved: save it with flightctl of that release";
        lines.extend(unknown.iter().map(|lane| unknown_lane(lane, fate)));
        lines.extend(chapter.remarks.iter().cloned());
        for line in &lines {
            note(line);
        }
        let held = counted(events, "event");
        note(&format!(
            "saved {} ({}, {held}, including those that names and durations need)",
            path.display(),
            bytes(size)
        ));
        Ok(())
    }

    /// `incident.flight`, then `incident-2.flight`.
    fn path(&self) -> Result<PathBuf, OutputError> {
        let path = &self.plan.target.output;
        if self.files == 0 {
            return Ok(path.clone());
        }
        let mut name = path.file_stem().ok_or_else(|| OutputError::Name(path.clone()))?.to_owned();
        name.push(format!("-{}", self.files + 1));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        Ok(path.with_file_name(name))
    }
}
