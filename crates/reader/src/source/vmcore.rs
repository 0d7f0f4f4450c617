//! A kernel dump, or any image of a machine's memory: what was recorded up to its death.

use std::path::{Path, PathBuf};

use thiserror::Error;

use flightrec_format::abi::page::{Lane, PAGE_SIZE, RING_LANES};
use flightrec_format::architecture::Architecture;
use flightrec_format::decode::Page;
use flightrec_format::meta::{Lanes, Meta};
use flightrec_format::totals::{CpuTotals, Totals};
use flightrec_vmcore::{Dump, PageRef, Rejected, Scan, Session, Shortfall, VmcoreError};

use super::trust::{Choice, Files, choose};
use super::{Clock, Collector, PageSet, Source, SourceError};
use crate::memory;
use crate::observe;
use crate::window::Window;
use flightrec_format::human::{bytes, counted};

/// A dump that can't be read, or has nothing of the recorder in it.
#[derive(Debug, Error)]
pub enum DumpError {
    /// No dump, or one that can't be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: VmcoreError,
    },
    /// No page of a recording.
    #[error("{}: no recording in this {what}, in {bytes} of memory{more}", .path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
        /// Its form.
        what: String,
        /// How much was looked at.
        bytes: String,
        /// What may be the cause.
        more: String,
    },
    /// Another session was asked for.
    #[error("{}: no recording {session:016x} in it: --list-sessions lists those that \
             are", .path.display())]
    NoSession {
        /// The file.
        path: PathBuf,
        /// The session.
        session: u64,
    },
    /// More than memory should hold.
    #[error(
        "the window holds {} of pages, more than the {} that are read at once: select less time \
         with --last, --since and --until, or allow more with {}=4GiB in the environment \
         (flightctl recover needs no more for any number of pages)",
        bytes(*.0), bytes(*.1), memory::VARIABLE
    )]
    TooMuch(u64, u64),
}

/// A dump, and what was found in it.
pub struct Image {
    path: PathBuf,
    dump: Dump,
    scan: Scan,
}

impl Image {
    /// Opens a dump, and looks for recordings in it.
    ///
    /// # Errors
    /// The file can not be read, or is no dump of a kind that is known.
    pub fn open(path: &Path) -> Result<Self, DumpError> {
        let unreadable = |error| DumpError::Unreadable { path: path.into(), error };
        observe::reads_files();
        let dump = Dump::open(path).map_err(unreadable)?;
        let progress = observe::begins("looking for the recording in the dump");
        let scan = dump.scan(None, &|bytes| progress.add(bytes)).map_err(unreadable)?;
        drop(progress);
        let image = Self { path: path.into(), dump, scan };
        if image.scan.sessions.is_empty() {
            return Err(image.nothing());
        }
        Ok(image)
    }

    /// The recordings in it, the newest first.
    pub fn sessions(&self) -> &[Session] {
        &self.scan.sessions
    }

    fn nothing(&self) -> DumpError {
        let Rejected { version, lane, damaged } = self.scan.rejected;
        let is_known = |machine: &str| Architecture::of_machine(machine).name() == machine;
        let foreign = self.dump.machine().filter(|machine| !is_known(machine));
        let more = if let Some(machine) = foreign {
            format!("; the machine is {machine}, and flightrec records on x86_64 and aarch64 alone")
        } else if version + lane != 0 {
            let pages = counted(version + lane, "page");
            format!("; {pages} of another release: use the flightctl of the release that recorded")
        } else if damaged != 0 {
            format!("; {} of a recording, but damaged", counted(damaged, "page"))
        } else if !self.scan.shortfall.is_none() {
            format!("; {}", self.missing().join("; "))
        } else {
            ": flightd did not run on that machine, or the dump was taken without its kernel memory"
                .to_owned()
        };
        let flattened = if self.dump.is_flattened() { "flattened " } else { "" };
        let what = format!("{flattened}{}", self.dump.form().name());
        DumpError::Nothing { path: self.path.clone(), what, bytes: bytes(self.dump.bytes()), more }
    }

    /// What the dump lacks, in words.
    pub fn missing(&self) -> Vec<String> {
        let Shortfall { cut, unreadable, incomplete } = self.scan.shortfall;
        let mut lines = Vec::new();
        if self.dump.is_cut() || cut != 0 {
            let pages = counted(cut, "page");
            lines.push(format!(
                "the dump is truncated: at least {pages} of memory are missing at its end"
            ));
        }
        if incomplete {
            lines.push(
                "the dump is incomplete: the program that wrote it ran out of space".to_owned(),
            );
        }
        if unreadable != 0 {
            lines.push(format!(
                "{} of memory in the dump can't be read",
                counted(unreadable, "page")
            ));
        }
        lines
    }
}

/// A recording in a dump.
pub struct VmcoreSource {
    image: Image,
    /// Which of the image's sessions.
    index: usize,
    meta: Meta,
    clock: Clock,
    /// The rings' counters at death, as their newest pages have them.
    totals: Totals,
    /// Others that claim to be the machine's last, while nothing decides.
    disputed_by: Vec<u64>,
    /// What is to be said first: how it was told from others that claim the same.
    first: Option<String>,
    /// What is to be said of it.
    remarks: Vec<String>,
}

impl VmcoreSource {
    /// Opens a dump; the recording `session`, or the one that the files in `state_dir` vouch for,
    /// or the newest.
    ///
    /// # Errors
    /// The dump can not be read, or holds no such recording.
    pub fn open(path: &Path, session: Option<u64>, state_dir: &Path) -> Result<Self, DumpError> {
        let image = Image::open(path)?;
        let no_session = DumpError::NoSession { path: path.into(), session: session.unwrap_or(0) };
        let Some(choice) = choose(image.sessions(), session, &Files::read(state_dir)) else {
            return Err(no_session);
        };
        let Choice { index, disputed_by, remark: first } = choice;
        let Some(session) = image.sessions().get(index) else { return Err(no_session) };
        let mut remarks = image.missing();
        let Rejected { version, lane, .. } = image.scan.rejected;
        if version + lane != 0 {
            let pages = counted(version + lane, "page");
            remarks.push(format!(
                "{pages} of a newer release are left out: use its flightctl to read them"
            ));
        }
        let meta = session.meta(&image.dump).unwrap_or_else(|_| {
            remarks.push(format!(
                "the description of recording {:016x} is not in the dump: arguments of system \
                 calls are bare numbers, and times of day may be some seconds off",
                session.id
            ));
            undescribed(session)
        });
        let (clock, totals) = death(&image, session, &meta);
        Ok(Self { image, index, meta, clock, totals, disputed_by, first, remarks })
    }

    /// Other recordings that claim to be the machine's last, where nothing decides between them and
    /// this one.
    pub fn disputed_by(&self) -> &[u64] {
        &self.disputed_by
    }

    /// What is to be said before all else: how the recording was told from others that claim the
    /// same.
    pub fn first_remark(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// What is to be said beside the coverage.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The recording's description.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The dump.
    pub fn dump(&self) -> &Dump {
        &self.image.dump
    }

    /// What the dump has of the recording.
    ///
    /// # Errors
    /// The dump does not have it any more.
    pub fn session(&self) -> Result<&Session, DumpError> {
        let missing =
            || DumpError::NoSession { path: self.image.path.clone(), session: self.meta.session };
        self.image.sessions().get(self.index).ok_or_else(missing)
    }

    /// The rings' counters at death, where the dump and each ring in it are whole: the machine
    /// stood still, so what the rings hold is all there was. What the probes refused after a
    /// ring's newest page was opened is not in it. Of a recording that may be made up nothing
    /// is known.
    pub fn totals(&self) -> Option<&Totals> {
        let is_whole = self.disputed_by.is_empty()
            && self.image.scan.shortfall.is_none()
            && self.session().ok()?.is_whole(&self.meta.lanes.ring_bytes());
        is_whole.then_some(&self.totals)
    }
}

/// What the pages tell of a recording whose metadata are gone.
fn undescribed(session: &Session) -> Meta {
    let lanes = Lane::RINGS.map(|lane| session.lanes.iter().find(|count| count.lane == lane as u8));
    let ring_bytes = lanes.map(|count| count.map_or(0, |count| count.pages * PAGE_SIZE as u64));
    let started = session.first.unwrap_or(0);
    let lanes = Lanes::new(ring_bytes, [false; RING_LANES]);
    Meta { session: session.id, started, cpus: session.cpus(), lanes, ..Meta::default() }
}

/// The moment after the last event, and the wall clock and the rings' counters then.
fn death(image: &Image, session: &Session, meta: &Meta) -> (Clock, Totals) {
    let mut reader = image.dump.reader();
    let of_cpu = |cpu: &u16| CpuTotals { cpu: *cpu, recorded: true, ..CpuTotals::default() };
    let mut cpus: Vec<CpuTotals> = meta.cpus.iter().map(of_cpu).collect();
    let mut last: Option<(u64, i64)> = None;
    for page in session.newest() {
        let Some(Ok(page)) = reader.page(page).map(|bytes| Page::copy_from(bytes)) else {
            continue;
        };
        let (summary, header) = (page.summary(), page.header());
        let (event, lane) = (summary.last, header.lane as usize);
        let of_ring = cpus.iter_mut().find(|totals| totals.cpu == header.cpu);
        if let Some((events, refused)) = of_ring
            .and_then(|totals| Some((totals.events.get_mut(lane)?, totals.refused.get_mut(lane)?)))
        {
            // Of copies, the one that holds most.
            for ((total, before), count) in events.iter_mut().zip(header.events).zip(summary.counts)
            {
                *total = (*total).max(before.saturating_add(count));
            }
            *refused = header.refused;
        }
        if last.is_none_or(|(latest, _)| event > latest) {
            let offset = meta.tai_offset(header.base_mono).saturating_mul(1_000_000_000);
            let wall = (header.base_tai as i64)
                .saturating_sub(header.base_mono as i64)
                .saturating_sub(offset);
            last = Some((event, wall));
        }
    }
    let (now, wall_offset) = last.unwrap_or((meta.started, 0));
    let now = now.saturating_add(1);
    (Clock { now, wall_offset }, Totals { now, cpus, ..Totals::default() })
}

impl Source for VmcoreSource {
    /// The moment of death, as far as the recording knows: right after its last event.
    fn clock(&self) -> Clock {
        self.clock
    }

    fn read(&mut self, window: Window) -> Result<PageSet, SourceError> {
        let session = self.session()?;
        let pages: Vec<&PageRef> = session.pages(window.from, window.until).collect();
        let most = memory::pages_max() / memory::PAGE_WEIGHT;
        if pages.len() as u64 > most {
            let size = |pages: u64| pages.saturating_mul(PAGE_SIZE as u64);
            return Err(DumpError::TooMuch(size(pages.len() as u64), size(most)).into());
        }
        let mut collector = Collector::new(self.meta.clone());
        let mut reader = self.image.dump.reader();
        let progress = observe::begins("reading the recording");
        for page in pages {
            if let Some(bytes) = reader.page(page) {
                collector.add(bytes)?;
                progress.add(bytes.len() as u64);
            }
        }
        let totals = self.totals();
        let mut recording = collector.finish(totals.cloned().unwrap_or_default());
        recording.copied = if totals.is_some() { self.clock.now } else { 0 };
        recording.disputed_by.clone_from(&self.disputed_by);
        Ok(recording)
    }
}
