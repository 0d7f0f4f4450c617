//! Writes sums, and keeps them within their limits.
//!
//! - Only one [`Keeper`] writes a directory. Each begins a file of its own; what is written never
//!   changes, but for files whose periods are joined: such a file is written anew beside the old
//!   one, and takes its name.
//! - Minutes, periods of ten minutes and hours have a share of the room each ([`SHARES`]). Where
//!   one has too much, the periods of its oldest file are joined; the oldest hours are deleted. So
//!   what is near is told by the minute, and what is far by the hour, within any limit.
//! - What could not be written is told as an error, and stays for the next attempt. Nothing is lost
//!   where the maker waits: the events are in the files of the recording.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flightrec_store::disk::SystemDisk;

use crate::dir::{self, UNFINISHED};
use crate::file::{self, Header, SumsFile};
use crate::model::Period;

/// Modes, as those of the recording's files.
const DIR_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;
/// Lengths of periods, s.
pub const STEPS: [u32; 3] = [60, 600, 3600];
/// What minutes, periods of ten minutes and hours may take, in hundredths of all. The rest is for
/// the file that is written anew.
pub const SHARES: [u64; 3] = [36, 24, 34];
/// Periods that are written together, as neighbours compress well; until then they are in memory,
/// and after a crash are made again.
const TOGETHER: usize = 15;
/// A file is followed by another at this part of all room, and at this age, ns, when an hour is
/// over, so that hours can be joined; and at that part of all room whatever the hour.
const PARTS: u64 = 64;
const PARTS_LEAST: u64 = 8;
const AGE: i64 = 6 * 3600 * 1_000_000_000;

/// The limits of all sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of all files.
    pub max_size: u64,
    /// Sums that are older are deleted, ns; `None`: only for room.
    pub keep: Option<u64>,
}

/// A file that is there.
#[derive(Debug, Clone)]
struct Kept {
    path: PathBuf,
    step: u32,
    bytes: u64,
    /// End of its last period, ns since 1970.
    until: i64,
}

/// The file that is written.
#[derive(Debug)]
struct Current {
    file: File,
    kept: Kept,
    created: i64,
    /// The hour of its last period.
    hour: i64,
}

/// Writes sums, and keeps them within their limits.
#[derive(Debug)]
pub struct Keeper {
    state_dir: PathBuf,
    limits: Limits,
    group: Option<u32>,
    files: Vec<Kept>,
    current: Option<Current>,
    next_number: u32,
    /// Of which recording those are that wait to be written.
    of: ([u8; 16], u64),
    waiting: Vec<Period>,
    /// By boot and session, up to when sums are in the files.
    reached: Vec<(([u8; 16], u64), u64)>,
}

impl Keeper {
    /// Makes the directory where it is missing, and looks what is in it. Files get this group.
    pub fn open(state_dir: &Path, limits: Limits, group: Option<u32>) -> io::Result<Self> {
        let directory = dir::directory(state_dir);
        match DirBuilder::new().mode(DIR_MODE).create(&directory) {
            Ok(()) => SystemDisk { group }.give(&File::open(&directory)?)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        dir::clean(state_dir)?;
        let (mut files, mut reached, mut next_number) = (Vec::new(), Vec::new(), 1);
        for info in dir::files(state_dir)? {
            next_number = info.number.saturating_add(1);
            // What can't be read takes room all the same, and goes first.
            let mut kept = Kept { path: info.path, step: STEPS[2], bytes: info.bytes, until: 0 };
            if let Ok(file) = SumsFile::open(&kept.path) {
                kept.step = file.header.step;
                for block in file.blocks() {
                    kept.until = kept.until.max(block.wall_until);
                    reach(&mut reached, (block.boot, block.session), block.until);
                }
            }
            files.push(kept);
        }
        Ok(Self {
            state_dir: state_dir.into(),
            limits,
            group,
            files,
            current: None,
            next_number,
            of: ([0; 16], 0),
            waiting: Vec::new(),
            reached,
        })
    }

    /// Up to when the sums of a recording are in the files, ns of `CLOCK_MONOTONIC`.
    pub fn reached(&self, boot: [u8; 16], session: u64) -> Option<u64> {
        let known = self.reached.iter().find(|(of, _)| *of == (boot, session));
        known.map(|(_, until)| *until)
    }

    /// Takes the next period of a recording.
    pub fn add(&mut self, boot: [u8; 16], session: u64, period: Period) -> io::Result<()> {
        if self.of != (boot, session) {
            self.flush()?;
            self.of = (boot, session);
        }
        if self.waiting.last().is_some_and(|last| hour(last) != hour(&period)) {
            self.flush()?;
        }
        self.waiting.push(period);
        if self.waiting.len() >= TOGETHER { self.flush() } else { Ok(()) }
    }

    /// Writes what could not be written before.
    pub fn catch_up(&mut self) -> io::Result<()> {
        if self.waiting.len() >= TOGETHER { self.flush() } else { Ok(()) }
    }

    /// Writes what waits. What can't be written waits on.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(last) = self.waiting.last() else { return Ok(()) };
        let (until, wall, hour) = (last.until, last.wall_until(), hour(last));
        for block in blocks(self.of, &self.waiting)? {
            if let Err(e) = self.append(&block, wall, hour) {
                // Half a block may be there: the next attempt is in a file of its own.
                self.files.extend(self.current.take().map(|current| current.kept));
                return Err(e);
            }
        }
        self.waiting.clear();
        reach(&mut self.reached, self.of, until);
        self.tidy(wall)
    }

    fn append(&mut self, block: &[u8], wall: i64, hour: i64) -> io::Result<()> {
        let (roll, most) = (self.limits.max_size / PARTS, self.limits.max_size / PARTS_LEAST);
        if self.current.as_ref().is_some_and(|current| {
            let is_due = current.kept.bytes >= roll || wall.saturating_sub(current.created) >= AGE;
            is_due && current.hour != hour || current.kept.bytes >= most
        }) {
            self.files.extend(self.current.take().map(|current| current.kept));
        }
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin(wall)?,
        };
        let written = current.file.write_all(block).and_then(|()| current.file.sync_data());
        current.kept.bytes = current.kept.bytes.saturating_add(block.len() as u64);
        (current.kept.until, current.hour) = (wall, hour);
        self.current = Some(current);
        written
    }

    fn begin(&mut self, wall: i64) -> io::Result<Current> {
        let number = self.next_number;
        let path = dir::path(&self.state_dir, wall, number);
        let header = Header { number, step: STEPS[0], created: wall }.encode();
        let file = create(&path, self.group, &header)?;
        self.next_number = number.saturating_add(1);
        let bytes = header.len() as u64;
        Ok(Current {
            file,
            kept: Kept { path, step: STEPS[0], bytes, until: wall },
            created: wall,
            hour: 0,
        })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let current = self.current.iter().map(|current| current.kept.bytes);
        self.files.iter().map(|file| file.bytes).chain(current).sum()
    }

    /// Joins and deletes until all is within its limits; `now`: ns since 1970.
    fn tidy(&mut self, now: i64) -> io::Result<()> {
        if let Some(keep) = self.limits.keep {
            let oldest = now.saturating_sub(i64::try_from(keep).unwrap_or(i64::MAX));
            let old = self.files.iter().position(|file| file.until >= oldest);
            for file in self.files.drain(..old.unwrap_or(self.files.len())) {
                remove(&file.path)?;
            }
        }
        let max = self.limits.max_size;
        loop {
            let of = |step: u32| {
                let current = self.current.iter().map(|current| &current.kept).chain(&self.files);
                current.filter(|file| file.step == step).map(|file| file.bytes).sum::<u64>()
            };
            let is_over = |at: usize| of(STEPS[at]) > max / 100 * SHARES[at];
            let place = |step: u32| self.files.iter().position(|file| file.step == step);
            if is_over(0)
                && let Some(at) = place(STEPS[0])
            {
                self.join(at, STEPS[1])?;
            } else if is_over(1)
                && let Some(at) = place(STEPS[1])
            {
                self.join(at, STEPS[2])?;
            } else if (is_over(2) || self.bytes() > max) && !self.files.is_empty() {
                remove(&self.files[0].path)?;
                self.files.remove(0);
            } else {
                return Ok(());
            }
        }
    }

    /// Joins the periods of a file to longer ones.
    fn join(&mut self, at: usize, step: u32) -> io::Result<()> {
        let Some(kept) = self.files.get(at).cloned() else { return Ok(()) };
        let file = SumsFile::open(&kept.path).map_err(io::Error::other)?;
        let mut out = Header { step, ..file.header }.encode();
        let blocks_of: Vec<_> = file.blocks().copied().enumerate().collect();
        let mut of = ([0; 16], 0);
        let mut joined: Vec<Period> = Vec::new();
        for (at, block) in blocks_of {
            if of != (block.boot, block.session) {
                blocks(of, &joined)?.iter().for_each(|block| out.extend(block));
                joined.clear();
                of = (block.boot, block.session);
            }
            // Damage is in the old file; it is not carried on.
            for period in file.periods(at).unwrap_or_default() {
                join_to(&mut joined, period, step);
            }
        }
        blocks(of, &joined)?.iter().for_each(|block| out.extend(block));
        let unfinished = kept.path.with_extension(UNFINISHED);
        let written = create(&unfinished, self.group, &out)
            .and_then(|file| file.sync_data())
            .and_then(|()| fs::rename(&unfinished, &kept.path));
        if let Err(e) = written {
            let _ = fs::remove_file(&unfinished);
            return Err(e);
        }
        if let Some(kept) = self.files.get_mut(at) {
            (kept.step, kept.bytes) = (step, out.len() as u64);
        }
        Ok(())
    }

    /// Number of files.
    pub fn count(&self) -> usize {
        self.files.len() + usize::from(self.current.is_some())
    }
}

/// Periods as blocks: more than one where they do not fit.
fn blocks(of: ([u8; 16], u64), periods: &[Period]) -> io::Result<Vec<Vec<u8>>> {
    if periods.is_empty() {
        return Ok(Vec::new());
    }
    match file::block(of.0, of.1, periods) {
        Ok(block) => Ok(vec![block]),
        Err(e) if e.kind() == io::ErrorKind::InvalidInput && periods.len() > 1 => {
            let (a, b) = periods.split_at(periods.len() / 2);
            Ok([blocks(of, a)?, blocks(of, b)?].concat())
        }
        Err(e) => Err(e),
    }
}

/// Adds a period to those before it: to the last, if both are of the same ten minutes, or hour, by
/// the wall clock, and nothing is between them.
fn join_to(joined: &mut Vec<Period>, period: Period, step: u32) {
    let slot = |wall: i64| wall.div_euclid(i64::from(step) * 1_000_000_000);
    match joined.last_mut() {
        Some(last)
            if last.until == period.from
                && slot(middle(last)) == slot(middle(&period))
                && (last.flags ^ period.flags) & crate::model::flags::NOT_SUMMED == 0 =>
        {
            last.join(period);
        }
        _ => joined.push(period),
    }
}

/// A moment in a period for certain: a minute may begin a little before the wall clock's.
fn middle(period: &Period) -> i64 {
    period.wall.saturating_add(30_000_000_000)
}

/// The hour of a period, by the wall clock.
fn hour(period: &Period) -> i64 {
    middle(period).div_euclid(3600 * 1_000_000_000)
}

fn reach(reached: &mut Vec<(([u8; 16], u64), u64)>, of: ([u8; 16], u64), until: u64) {
    match reached.iter_mut().find(|(known, _)| *known == of) {
        Some((_, reached)) => *reached = (*reached).max(until),
        None => reached.push((of, until)),
    }
}

fn create(path: &Path, group: Option<u32>, bytes: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    let begun = SystemDisk { group }.give(&file).and_then(|()| file.write_all(bytes));
    if let Err(e) = begun {
        // It would be in the way of the next try.
        let _ = fs::remove_file(path);
        return Err(e);
    }
    Ok(file)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
