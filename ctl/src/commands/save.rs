//! `flightctl save`: a window of the recording as a file of its own, for any machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use jiff::tz::TimeZone;
use thiserror::Error;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{
    COPY_MAGIC, HEADER_LEN, Lane, PAGE_SIZE, PageHeader, REFUSALS, UNIT,
};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::control::Totals;
use flightrec_format::decode::Page;
use flightrec_format::encode::{PageWriter, write_header, write_slot};
use flightrec_format::ring::LaneStream;
use flightrec_store::block::PAGES_MAX;
use flightrec_store::snapshot::About;
use flightrec_store::{Checkpoint, FileHeader, FileWriter, RingMark};

use crate::boots;
use crate::coverage::{self, Report};
use crate::exit::Exit;
use crate::human::{bytes, counted};
use crate::output::note;
use crate::plan::SavePlan;
use crate::progress::Progress;
use crate::source::Recording;
use crate::source::history::{self, Chapter, Go, Question};
use crate::text::coverage::{Seam, clock_lines, lines as words};
use crate::window::Window;
use crate::windows::Windows;

/// zstd's level: a saved file is written once, and kept and sent about.
pub(super) const LEVEL: i32 = 9;

/// A file that can't be saved.
#[derive(Debug, Error)]
pub(super) enum SaveError {
    /// It is there.
    #[error("{} exists: --force replaces it", .0.display())]
    Exists(PathBuf),
    /// It is a directory, or has no name.
    #[error("{} is not a file name", .0.display())]
    Name(PathBuf),
    /// The system refuses.
    #[error("can't write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Saves the window.
pub fn run(plan: &SavePlan) -> Result<Exit> {
    check(&plan.output, plan.force)?;
    let zone = crate::zone::system();
    let question = Question { since: plan.since, until: plan.until, everything: false };
    let mut saved = Saved { plan, zone: &zone, files: 0, complete: true, seam: Seam::default() };
    history::read(&plan.history, question, &mut |chapter: Chapter| {
        saved.take(&chapter).map(|()| Go::On)
    })?;
    Ok(match saved {
        Saved { files: 0, .. } => {
            note("nothing was recorded in the window, and nothing is saved");
            Exit::Nothing
        }
        Saved { complete: false, .. } if plan.strict => Exit::Incomplete,
        _ => Exit::Fine,
    })
}

/// Refuses, before anything is read, a file that is there.
pub(super) fn check(output: &Path, force: bool) -> Result<(), SaveError> {
    if force || output.symlink_metadata().is_err() {
        Ok(())
    } else {
        Err(SaveError::Exists(output.into()))
    }
}

/// Most stretches of a window that a file tells: a clock that is slewed makes many that are near
/// together.
const STRETCHES: usize = 256;

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
        let reports =
            reports.iter().map(|window| Report::new(recording, window, chapter.clock.now));
        let reports: Vec<Report> = reports.collect();
        let seam = self.seam.between(chapter, windows.hull(), &mut wall, self.zone);
        let events =
            recording.streams.iter().flat_map(LaneStream::recorded).fold(0, u64::saturating_add);
        if windows.is_empty() || events == 0 {
            return Ok(());
        }
        self.complete &= reports.iter().all(Report::is_complete) && !self.seam.is_open();
        let path = self.path()?;
        let hull = windows.hull();
        let about = about(&windows, wall.wall(hull.until));
        let size =
            Target::make(&path, self.plan.force)?.fill(|file| write(file, chapter, &about))?;
        self.files += 1;
        let mut lines: Vec<String> =
            seam.into_iter().chain(clock_lines(&windows, &mut wall, self.zone)).collect();
        lines.extend(reports.iter().flat_map(|report| words(report, &mut wall, self.zone)));
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
    fn path(&self) -> Result<PathBuf, SaveError> {
        let path = &self.plan.output;
        if self.files == 0 {
            return Ok(path.clone());
        }
        let mut name = path.file_stem().ok_or_else(|| SaveError::Name(path.clone()))?.to_owned();
        name.push(format!("-{}", self.files + 1));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        Ok(path.with_file_name(name))
    }
}

/// A file in the making, under another name; removed unless it gets its own.
pub(super) struct Target<'a> {
    path: &'a Path,
    making: PathBuf,
    file: File,
    force: bool,
}

impl<'a> Target<'a> {
    /// Begins it, beside `path`.
    pub(super) fn make(path: &'a Path, force: bool) -> Result<Self, SaveError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().ok_or_else(|| SaveError::Name(path.into()))?);
        name.push(format!(".{}", std::process::id()));
        let making = path.with_file_name(name);
        // What is recorded is sensitive: for its owner and group only.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&making);
        let file = file.map_err(|source| SaveError::Io { path: path.into(), source })?;
        Ok(Self { path, making, file, force })
    }

    /// Writes it, to the disk, and gives it its name; its size.
    pub(super) fn fill(
        self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<u64, SaveError> {
        let failed = |source| SaveError::Io { path: self.path.into(), source };
        let mut out = BufWriter::with_capacity(1 << 20, &self.file);
        write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
        drop(out);
        self.file.sync_all().map_err(failed)?;
        let size = self.file.metadata().map_err(failed)?.len();
        if self.force {
            fs::rename(&self.making, self.path).map_err(failed)?;
        } else {
            // Unlike a renaming, a link never replaces what has come there meanwhile.
            match fs::hard_link(&self.making, self.path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(SaveError::Exists(self.path.into()));
                }
                // A file system without links.
                Err(_) if self.path.symlink_metadata().is_err() => {
                    fs::rename(&self.making, self.path).map_err(failed)?;
                }
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(size)
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        // It is gone where it was renamed; nothing else can be done about a failure.
        let _ = fs::remove_file(&self.making);
    }
}

/// Why the file is there: for these windows, whose end was at `wall`, ns since 1970.
fn about(windows: &Windows, wall: i64) -> About {
    let Window { from, until } = windows.hull();
    let reason = "saved by flightctl save".to_owned();
    let stretches = windows.at_most(STRETCHES);
    let stretches = (stretches.count() > 1)
        .then(|| stretches.iter().map(|one| (one.from, one.until)).collect());
    About {
        cause: "save".into(),
        reason,
        time: until,
        wall,
        from,
        until,
        held_from: from,
        stretches: stretches.unwrap_or_default(),
        ..About::default()
    }
}

/// A chapter's file.
fn write(out: impl Write, chapter: &Chapter, about: &About) -> io::Result<()> {
    let (recording, clock) = (&chapter.recording, chapter.clock);
    let progress = Progress::start("writing the file");
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: boots::of_meta(&recording.meta),
        session: recording.meta.session,
        number: 0,
        created_wall: clock.wall_offset.saturating_add_unsigned(clock.now),
        created_mono: clock.now,
        begins: 0,
    };
    let mut file = FileWriter::new(out, &header, LEVEL)?;
    file.meta(&recording.meta, clock.now)?;
    file.slots(clock.now, &slot_pages(&recording.slots, recording.meta.session))?;
    for snapshot in &recording.descriptors {
        file.descriptors(snapshot.end, &snapshot.encode())?;
    }
    if let Some(before) = &recording.before {
        file.checkpoint(&Checkpoint {
            time: before.now,
            rings: marks(recording, before, counted_before).collect(),
        })?;
    }
    for lane in Lane::RINGS {
        let of_lane = recording.streams.iter().filter(|stream| stream.lane() == lane);
        let mut pages: Vec<&Page> = of_lane.flat_map(LaneStream::pages).collect();
        // By time, so that a window of the file is a few of its blocks.
        pages.sort_by_key(|page| page.header().base_mono);
        for pages in pages.chunks(PAGES_MAX) {
            file.pages(&pages.iter().map(|page| (*page).clone()).collect::<Vec<_>>())?;
            progress.add((pages.len() * PAGE_SIZE) as u64);
        }
    }
    // What was damaged where this was read from is not made whole by being saved: without a
    // checkpoint, a reader vouches for no more than the pages themselves do.
    if recording.copied != 0 {
        file.checkpoint(&Checkpoint {
            time: clock.now,
            rings: marks(recording, &recording.totals, |stream, known| {
                Some(counted_behind(stream, known))
            })
            .collect(),
        })?;
    }
    file.snapshot(about)?;
    file.finish()?;
    Ok(())
}

/// A ring's counters at a moment.
type Counters = (Counts, [u64; REFUSALS]);

/// The rings' counters for a checkpoint: what `choose` makes of those that are known and of the
/// ring's pages.
fn marks<'a>(
    recording: &'a Recording,
    totals: &'a Totals,
    choose: impl Fn(&LaneStream, Counters) -> Option<Counters> + 'a,
) -> impl Iterator<Item = RingMark> + 'a {
    recording.streams.iter().filter_map(move |stream| {
        let (lane, cpu) = (stream.lane(), stream.cpu());
        let of_cpu = totals.cpus.iter().find(|totals| totals.cpu == cpu)?;
        let known = (*of_cpu.events.get(lane as usize)?, *of_cpu.refused.get(lane as usize)?);
        let (events, refused) = choose(stream, known)?;
        Some(RingMark { events, refused, ..RingMark::new(lane, cpu) })
    })
}

/// Before the pages: only where nothing came between. What did is not in the file, and would be
/// taken for lost.
fn counted_before(stream: &LaneStream, known: Counters) -> Option<Counters> {
    let first = stream.pages().first().map(Page::header);
    first.is_none_or(|first| first.events == known.0).then_some(known)
}

/// Behind them: what they hold themselves, as all of it is in the file.
fn counted_behind(stream: &LaneStream, known: Counters) -> Counters {
    let Some(last) = stream.pages().last() else { return known };
    (last.header().events.plus(&last.summary().counts), known.1)
}

/// The thread table as pages.
fn slot_pages(slots: &[TaskSlot], session: u64) -> Vec<[u8; PAGE_SIZE]> {
    let fit = (PAGE_SIZE - HEADER_LEN) / size_of::<TaskSlot>();
    let page = |(seq, slots): (u64, &[TaskSlot])| {
        let header = PageWriter::new(session, Lane::Slots, 0, 0).header();
        let used = (PAGE_SIZE / UNIT) as u32;
        let header = PageHeader { magic: COPY_MAGIC, seq, used, ..header };
        let mut out = [0; PAGE_SIZE];
        let (head, body) = out.split_at_mut(HEADER_LEN);
        head.copy_from_slice(&write_header(&header));
        for (to, slot) in body.chunks_exact_mut(size_of::<TaskSlot>()).zip(slots) {
            to.copy_from_slice(&write_slot(slot));
        }
        out
    };
    (1..).zip(slots.chunks(fit)).map(page).collect()
}
