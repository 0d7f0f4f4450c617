//! `flightctl save`: a window of the recording as a file of its own, for any machine.

mod file;

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::path::PathBuf;

use jiff::tz::TimeZone;

use anyhow::{Context, bail};
use flightrec_format::ring::LaneStream;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::source::history::{self, Chapter, Foretold, Go, Visitor};
use flightrec_reader::wall::WallClock;
use flightrec_reader::windows::Windows;

use super::prelude::*;
use crate::clock_offset;
use crate::options::past::{Past, PastArgs};
use crate::options::target::TargetArgs;
use crate::output::OutputError;
use crate::target::Target;
use crate::text::coverage::{Seam, clock_lines, lines as words, unknown_lane};
use file::Saving;
use flightrec_cli::note;
use flightrec_format::human::{bytes, counted};

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
    /// Write files one after the other, in frames, to standard output: for `flightctl collect`.
    #[arg(long, hide = true)]
    frames: bool,
    /// Before that, answer what the time is here, as `flightctl collect` asks.
    #[arg(long, hide = true, requires = "frames")]
    clock: bool,
}

/// A window to save.
#[derive(Debug, PartialEq)]
pub struct SavePlan {
    past: Past,
    target: TargetArgs,
    /// Whether an incomplete window is a failure.
    strict: bool,
    /// Whether files go to standard output in frames.
    frames: bool,
    /// Whether somebody asks for the time first.
    clock: bool,
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
            ("flightctl --ssh web1 save --last 30s -o - > web1.flight", "from another machine"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    };
    type Plan = SavePlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<SavePlan> {
        let Self { past, target, strict, frames, clock } = self;
        if frames && !target.is_standard() {
            bail!("--frames is for standard output: -o -");
        }
        Ok(SavePlan { past: past.plan(&recorder, now)?, target, strict, frames, clock })
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.past.window.remarks(now)
    }

    fn file(&self) -> Option<&Path> {
        self.target.file()
    }
}

impl Plan for SavePlan {
    fn run(&self) -> Result<Exit> {
        Target::check(&self.target)?;
        if self.clock {
            clock_offset::answer(io::stdin().lock(), io::stdout().lock())
                .context("can't tell the time over standard input and output")?;
        }
        let zone = crate::zone::system();
        let mut saved = Saved {
            plan: self,
            zone: &zone,
            saving: None,
            files: 0,
            complete: true,
            seam: Seam::default(),
            is_told: false,
        };
        history::read(&self.past.history, self.past.question(false), &mut saved)?;
        if let Some((_, path)) = saved.saving {
            bail!("{}: the end of the window was not read; save it again", path.display());
        }
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
    /// The file, where another stretch of its window follows.
    saving: Option<(Saving, PathBuf)>,
    files: usize,
    complete: bool,
    seam: Seam,
    /// The coverage of the stretches that follow has been told.
    is_told: bool,
}

impl Visitor<anyhow::Error> for Saved<'_> {
    fn listens(&self) -> bool {
        true
    }

    /// Says what all stretches cover together.
    fn ahead(&mut self, foretold: &Foretold) -> Result<()> {
        let chapter = foretold.chapter();
        let recording = &chapter.recording;
        let mut wall = recording.wall_clock(chapter.clock.wall_offset);
        let windows = chapter.windows(&wall);
        if windows.count() > 1 {
            return Ok(());
        }
        let Some(report) = Coverage::foretold(foretold, windows.hull()) else { return Ok(()) };
        let report = report.with_all_lacking(&recording.meta);
        self.tell(chapter, vec![report], &windows, &mut wall);
        self.is_told = true;
        Ok(())
    }

    /// Saves a chapter, and says so. A file is of one recording, so each has a file.
    fn take(&mut self, chapter: Chapter) -> Result<Go> {
        let recording = &chapter.recording;
        let mut wall = recording.wall_clock(chapter.clock.wall_offset);
        let windows = chapter.windows(&wall);
        let goes_on = chapter.joins.is_some_and(|joins| joins.after);
        let events =
            recording.streams.iter().flat_map(LaneStream::recorded).fold(0, u64::saturating_add);
        let is_told = if goes_on { self.is_told } else { mem::take(&mut self.is_told) };
        let is_stretch = chapter.joins.is_some();
        let is_empty = windows.is_empty() || events == 0 && !is_stretch;
        if !is_told || !chapter.is_foretold {
            let reports = Coverage::of_all(&chapter, &windows);
            if is_empty {
                self.seam.between(&chapter, windows.hull(), &mut wall, self.zone);
            } else {
                self.tell(&chapter, reports, &windows, &mut wall);
            }
        }
        let (mut saving, path) = match self.saving.take() {
            Some(saving) => saving,
            None if is_empty && !is_stretch => return Ok(Go::On),
            None => {
                let path = self.path()?;
                (Saving::begin(self.target(&path)?, self.plan.frames, &chapter)?, path)
            }
        };
        saving.add(&chapter, &windows)?;
        if goes_on {
            self.saving = Some((saving, path));
            return Ok(Go::On);
        }
        if saving.is_empty() {
            return Ok(Go::On);
        }
        let (size, events) = saving.finish(&chapter)?;
        self.files += 1;
        let held = counted(events, "event");
        let saved = if self.plan.target.is_standard() {
            format!("saved to standard output ({held}")
        } else {
            format!("saved {} ({}, {held}", path.display(), bytes(size))
        };
        note(&format!("{saved}, including those that names and durations need)"));
        Ok(Go::On)
    }
}

impl Saved<'_> {
    /// Says what the file has of its window.
    fn tell(
        &mut self,
        chapter: &Chapter,
        mut reports: Vec<Coverage>,
        windows: &Windows,
        wall: &mut WallClock,
    ) {
        let seam = self.seam.between(chapter, windows.hull(), wall, self.zone);
        // Events of kinds that this release does not know are saved with their pages. Lanes that it
        // does not know are not even read.
        let unknown: BTreeSet<String> =
            reports.iter_mut().flat_map(|report| mem::take(&mut report.unknown).lanes).collect();
        self.complete &=
            reports.iter().all(Coverage::is_complete) && !self.seam.is_open() && unknown.is_empty();
        let mut lines: Vec<String> =
            seam.into_iter().chain(clock_lines(windows, wall, self.zone)).collect();
        lines.extend(reports.iter().flat_map(|report| words(report, wall, self.zone)));
        let fate = "not saved: save it with flightctl of that release";
        lines.extend(unknown.iter().map(|lane| unknown_lane(lane, fate)));
        lines.extend(chapter.remarks.iter().cloned());
        for line in &lines {
            note(line);
        }
    }

    /// What the next file is written to.
    fn target(&self, path: &Path) -> Result<Target> {
        let TargetArgs { force, .. } = self.plan.target;
        if !self.plan.target.is_standard() {
            return Ok(Target::make(path, force)?);
        }
        if self.files != 0 && !self.plan.frames {
            bail!(
                "the window reaches over several recordings, and standard output takes one file: \
                 it has the first; name a file with -o to save each, or select less time"
            );
        }
        Ok(Target::standard()?)
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
