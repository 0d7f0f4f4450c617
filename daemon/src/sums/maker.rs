//! The thread: turns of adding up, and rests between them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use flightrec_format::control::SumsStatus;
use flightrec_sums::keeper::Limits;
use flightrec_sums::worker::{Turn, Worker};
use nix::sys::statvfs::statvfs;
use tracing::{debug, info, warn};

use super::haste::Room;
use super::monitor::SumsMonitor;
use crate::clock;

/// How long to wait where nothing is to be done, and where it could not be.
const IDLE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(30);
/// The last: whoever works goes first.
const NICE: i32 = 19;
/// How many times its share of CPU time it takes where events would be deleted before they are
/// added up.
const HASTE: u64 = 10;

/// The share of CPU time that the thread may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Percent of all CPUs.
    pub(super) percent: u64,
    /// CPUs.
    pub(super) cpus: u64,
}

impl Share {
    /// How long to rest after so much CPU time (ns), to take no more.
    fn rest(self, used: u64) -> Duration {
        let share = self.percent.saturating_mul(self.cpus).clamp(1, 100);
        Duration::from_nanos(used.saturating_mul(100 - share) / share)
    }

    /// In haste.
    fn more(self) -> Self {
        Self { percent: self.percent.saturating_mul(HASTE).min(100), ..self }
    }
}

/// What the thread has.
pub(super) struct Maker {
    state_dir: PathBuf,
    limits: Limits,
    group: Option<u32>,
    live: ([u8; 16], u64),
    share: Share,
    room: Room,
    worker: Option<Worker>,
    monitor: Arc<SumsMonitor>,
    /// The last error, which is told once.
    told: String,
    /// Of which no sums are, as it was told last, ns.
    told_unsummed: u64,
}

impl Maker {
    /// Of a state directory. `live`: boot and session of the recording that runs.
    pub(super) fn new(
        state_dir: PathBuf,
        limits: Limits,
        group: Option<u32>,
        live: ([u8; 16], u64),
        share: Share,
        room: Room,
        monitor: Arc<SumsMonitor>,
    ) -> Self {
        Self {
            state_dir,
            limits,
            group,
            live,
            share,
            room,
            worker: None,
            monitor,
            told: String::new(),
            told_unsummed: 0,
        }
    }

    /// Works until there is nobody who could say that it is to stop.
    pub(super) fn run(mut self, stopped: &Receiver<()>) {
        step_back();
        let mut sleep = IDLE;
        while stopped.recv_timeout(sleep) == Err(RecvTimeoutError::Timeout) {
            let before = clock::thread_cpu();
            let turn = self.turn();
            let used = clock::thread_cpu().saturating_sub(before);
            let hurries = self.is_short();
            let share = if hurries { self.share.more() } else { self.share };
            sleep = match turn {
                Ok(Turn::More) => share.rest(used),
                Ok(Turn::Idle) => IDLE.max(share.rest(used)),
                Err(_) => RETRY,
            };
            let error = turn.err().map(|e| e.to_string());
            self.monitor.tell(self.status(error.clone(), hurries));
            self.tell(error.unwrap_or_default());
        }
        if let Some(worker) = &mut self.worker
            && let Err(e) = worker.flush()
        {
            info!("the last sums of minutes are made at the next start: {e}");
        }
    }

    fn turn(&mut self) -> io::Result<Turn> {
        let worker = match &mut self.worker {
            Some(worker) => worker,
            // The directory may appear later.
            None if !self.state_dir.is_dir() => return Ok(Turn::Idle),
            None => self.worker.insert(Worker::open(&self.state_dir, self.limits, self.group)?),
        };
        worker.turn(Some(self.live))
    }

    /// Whether events would be deleted before they are added up.
    fn is_short(&self) -> bool {
        let Some(worker) = &self.worker else { return false };
        let free = statvfs(&self.state_dir)
            .map_or(u64::MAX, |of| of.blocks_available().saturating_mul(of.fragment_size()));
        self.room.is_short(worker.backlog(), free)
    }

    fn status(&self, failed: Option<String>, hurries: bool) -> SumsStatus {
        let (boot, session) = self.live;
        let worker = self.worker.as_ref();
        let written = worker.and_then(|worker| worker.keeper().reached(boot, session));
        SumsStatus {
            enabled: true,
            looked: true,
            failed,
            added: worker.and_then(|worker| worker.added(boot, session)).unwrap_or(0),
            written: written.unwrap_or(0),
            files: worker.map_or(0, |worker| worker.keeper().count() as u64),
            bytes: worker.map_or(0, |worker| worker.keeper().bytes()),
            events: worker.map_or(0, Worker::events),
            unsummed: worker.map_or(0, Worker::unsummed),
            hurries,
            cpu: clock::thread_cpu(),
        }
    }

    fn tell(&mut self, error: String) {
        let unsummed = self.worker.as_ref().map_or(0, Worker::unsummed);
        if unsummed != self.told_unsummed {
            warn!(
                "events of {} s were deleted before they were added up: there are no sums of \
                 these minutes. Raise [store] max_total or [history] max_cpu_percent",
                unsummed.saturating_sub(self.told_unsummed).div_ceil(1_000_000_000)
            );
            self.told_unsummed = unsummed;
        }
        if error == self.told {
            return;
        }
        if error.is_empty() {
            info!("sums of minutes are made again");
        } else {
            warn!("sums of minutes can't be made, and are made later from the files: {error}");
        }
        self.told = error;
    }
}

/// Lets others run first.
fn step_back() {
    // SAFETY: no memory is involved; 0 is the calling thread (setpriority(2), "C library/kernel
    // differences").
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        debug!("the thread of sums keeps its priority: {}", io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_keeps_to_the_share() {
        // 1 % of 2 CPUs is 2 % of one: 20 ms in a second.
        let share = |percent, cpus| Share { percent, cpus };
        assert_eq!(share(1, 2).rest(20_000_000), Duration::from_millis(980));
        assert_eq!(share(1, 64).rest(20_000_000), Duration::from_micros(11_250));
        assert_eq!(share(100, 1).rest(20_000_000), Duration::ZERO);
        assert_eq!(share(50, 64).rest(20_000_000), Duration::ZERO, "one thread has one CPU");
        // In haste, 10 % of 2 CPUs.
        assert_eq!(share(1, 2).more().rest(20_000_000), Duration::from_millis(80));
        assert_eq!(share(60, 1).more().rest(20_000_000), Duration::ZERO);
    }
}
