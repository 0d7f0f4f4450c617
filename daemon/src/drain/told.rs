//! What the journal is told of the files: changes, and no more, so that a quiet day is a quiet
//! journal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flightrec_format::abi::page::{Lane, RING_LANES};
use flightrec_format::control::DELETED_FOR;
use flightrec_store::State;
use tracing::{debug, field, info, warn};

/// How often a lane's loss is told, at most: a machine that writes more than its disk takes loses
/// all the time.
const LOST_EVERY: Duration = Duration::from_hours(1);

/// How often it is told that files were deleted because others fill the disk, and that they were
/// for limits of their own: that is what happens all the time.
const SQUEEZED_EVERY: Duration = Duration::from_mins(10);
const ROTATED_EVERY: Duration = Duration::from_hours(24);
/// Where `keep_free` is in [`DELETED_FOR`].
const FREE: usize = 1;

/// What it has been told.
#[derive(Debug, Default)]
pub(super) struct Told {
    failed: bool,
    faults: u64,
    /// The last file that was written.
    file: Option<PathBuf>,
    lost: [u64; RING_LANES],
    /// When loss was told last (monotonic, ns).
    lost_at: Option<u64>,
    /// Files deleted, and their bytes, and when it was told last (monotonic, ns), by limit.
    deleted: [(u64, u64); 3],
    deleted_at: [Option<u64>; 3],
}

impl Told {
    /// Tells when files can't be written any more, and when they can again: once each. `file`: the
    /// one being written, if there is one; an entry names the last.
    pub(super) fn state(
        &mut self,
        state: &State,
        faults: u64,
        last: Option<&str>,
        file: Option<&Path>,
    ) {
        let new = faults > self.faults;
        self.faults = faults;
        if let Some(file) = file.filter(|file| self.file.as_deref() != Some(file)) {
            self.file = Some(file.to_owned());
        }
        let file = self.file.as_ref().map(|file| field::display(file.display()));
        match state {
            State::Failed { error, .. } if !self.failed => {
                self.failed = true;
                warn!(
                    file,
                    "files can't be written: {error}; recording continues in the rings, and \
                     flightd keeps trying to write"
                );
            }
            State::Failed { error, .. } if new => {
                debug!(file, "files still can't be written: {error}");
            }
            State::Ready if self.failed => {
                self.failed = false;
                info!(file, "files are written again");
            }
            State::Ready if new => {
                warn!(
                    file,
                    "{}; writing goes on in a new file",
                    last.unwrap_or("a file could not be written")
                );
            }
            _ => {}
        }
    }

    /// Tells what rings lost before it was written; `lost`: events so far, by lane; `now`:
    /// monotonic, ns.
    pub(super) fn lost(&mut self, lost: [u64; RING_LANES], now: u64) {
        for (lane, events) in self.news(lost, now) {
            warn!(
                lane = lane.name(),
                lost = events,
                "{events} events of lane {} were overwritten before they could be written to the \
                 files, and are missing there; larger [rings] hold more while writing is delayed",
                lane.name()
            );
        }
    }

    /// Tells which files were deleted, and why; `deleted`: files and bytes so far, by limit; `now`:
    /// monotonic, ns.
    pub(super) fn deleted(&mut self, deleted: [(u64, u64); 3], now: u64) {
        for (limit, files, bytes) in self.gone(deleted, now) {
            let mib = bytes >> 20;
            if limit == DELETED_FOR[FREE] {
                warn!(
                    limit,
                    deleted = files,
                    bytes,
                    "{files} of the oldest files ({mib} MiB) were deleted because the file system \
                     is nearly full (keep_free); keep_at_least of the newest stay"
                );
            } else {
                info!(
                    limit,
                    deleted = files,
                    bytes,
                    "{files} of the oldest files ({mib} MiB) were deleted for {limit}; this is \
                     logged once a day"
                );
            }
        }
    }

    /// What is to be told of it: limit, files and bytes.
    fn gone(&mut self, deleted: [(u64, u64); 3], now: u64) -> Vec<(&'static str, u64, u64)> {
        let mut news = Vec::new();
        let told = self.deleted.iter_mut().zip(&mut self.deleted_at);
        for (i, ((before, at), (files, bytes))) in told.zip(deleted).enumerate() {
            let every = if i == FREE { SQUEEZED_EVERY } else { ROTATED_EVERY };
            let late = at.is_none_or(|at| u128::from(now.saturating_sub(at)) >= every.as_nanos());
            if files == before.0 || !late {
                continue;
            }
            *at = Some(now);
            let (files_before, bytes_before) = std::mem::replace(before, (files, bytes));
            let limit = DELETED_FOR.get(i).copied().unwrap_or_default();
            news.push((
                limit,
                files.saturating_sub(files_before),
                bytes.saturating_sub(bytes_before),
            ));
        }
        news
    }

    /// What is to be told of it.
    fn news(&mut self, lost: [u64; RING_LANES], now: u64) -> Vec<(Lane, u64)> {
        let every = u64::try_from(LOST_EVERY.as_nanos()).unwrap_or(u64::MAX);
        if lost == self.lost || self.lost_at.is_some_and(|last| now.saturating_sub(last) < every) {
            return Vec::new();
        }
        self.lost_at = Some(now);
        let before = std::mem::replace(&mut self.lost, lost);
        let lanes = (0_u8..).map_while(Lane::from_u8).zip(lost.into_iter().zip(before));
        let news = lanes.filter(|(_, (lost, before))| lost > before);
        news.map(|(lane, (lost, before))| (lane, lost - before)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn loss_is_told_once_an_hour_and_all_of_it() {
        let mut told = Told::default();
        assert_eq!(told.news([0; RING_LANES], 1), []);
        assert_eq!(told.news([5, 0, 1, 0], 2), [(Lane::Syscall, 5), (Lane::Task, 1)]);
        assert_eq!(told.news([5, 0, 1, 0], 2 * HOUR), []);
        assert_eq!(told.news([6, 0, 1, 0], 3 * HOUR), [(Lane::Syscall, 1)]);
        assert_eq!(told.news([7, 8, 1, 0], 3 * HOUR + 5), []);
        assert_eq!(told.news([9, 8, 1, 0], 4 * HOUR), [(Lane::Syscall, 3), (Lane::Sched, 8)]);
    }

    #[test]
    fn deleted_files_are_told_at_once_and_then_in_sums() {
        let mut told = Told::default();
        assert_eq!(told.gone([(0, 0); 3], 1), []);
        assert_eq!(told.gone([(0, 0), (2, 20), (0, 0)], 2), [("keep_free", 2, 20)]);
        assert_eq!(told.gone([(1, 5), (3, 30), (0, 0)], HOUR / 60), [("max_total", 1, 5)]);
        assert_eq!(told.gone([(2, 9), (9, 90), (0, 0)], HOUR / 7), []);
        assert_eq!(
            told.gone([(2, 9), (9, 90), (1, 1)], HOUR),
            [("keep_free", 7, 70), ("max_age", 1, 1)]
        );
        assert_eq!(told.gone([(7, 20), (9, 90), (1, 1)], 25 * HOUR), [("max_total", 6, 15)]);
    }
}
