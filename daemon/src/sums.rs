//! Makes sums of minutes from the files that the drain writes, and the search indexes of those that
//! are closed, in a thread that stands back.
//!
//! It reads files, never the rings, so that it may be late: the drain waits for nobody, and what
//! was not added up yet still is in the files. It takes a share of the CPUs at most
//! ([`crate::config::History::max_cpu_percent`]), behind all others.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use flightrec_sums::keeper::Limits;
use flightrec_sums::worker::{Turn, Worker};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

use crate::indexer::Indexer;
use crate::{clock, config};

/// The thread's name, as `ps -L` and the recording itself show it.
const NAME: &str = "flightd-sums";
/// How long to wait where nothing is to be done, and where it could not be.
const IDLE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(30);
/// The last: whoever works goes first.
const NICE: i32 = 19;
/// How long the end waits for what is being written.
const ENDING: Duration = Duration::from_secs(2);

/// The thread, running.
#[derive(Debug)]
pub struct Sums {
    running: Option<Running>,
    /// Where no sums are made: what the thread would drop when it dies.
    _nobody: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Running {
    stop: Sender<()>,
    done: Receiver<()>,
}

/// What is to be made of what.
#[derive(Debug)]
pub struct Place<'a> {
    /// Where the files are.
    pub state_dir: &'a Path,
    /// Group of the files.
    pub group: Option<u32>,
    /// Boot and session of the recording that runs.
    pub live: ([u8; 16], u64),
}

impl Sums {
    /// Begins to make sums. The receiver tells when the thread has died, which it never does by
    /// itself.
    pub fn start(
        config: &config::Config,
        place: &Place<'_>,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (alive, died) = oneshot::channel();
        if !config.history.enabled || !config.store.enabled {
            return Ok((Self { running: None, _nobody: Some(alive) }, died));
        }
        let history = &config.history;
        let keep = history.keep.limit().map(|keep| keep.as_nanos() as u64);
        let (state_dir, group, live) = (place.state_dir.to_owned(), place.group, place.live);
        let (max_size, percent) = (history.max_size.bytes(), history.max_cpu_percent);
        // What it makes them with stays in its thread.
        let maker = move || Maker {
            state_dir,
            limits: Limits { max_size, keep },
            group,
            live,
            percent: u64::from(percent),
            cpus: thread::available_parallelism().map_or(1, |n| n.get() as u64),
            worker: None,
            indexer: Indexer::default(),
            told: String::new(),
        };
        let (stop, stopped) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        thread::Builder::new().name(NAME.into()).spawn(move || {
            maker().run(&stopped);
            drop((finished, alive));
        })?;
        Ok((Self { running: Some(Running { stop, done }), _nobody: None }, died))
    }

    /// Ends it. What was not added up is at the next start.
    pub fn finish(self) {
        let Some(Running { stop, done }) = self.running else { return };
        drop(stop);
        // It says nothing, and only ends.
        let _ = done.recv_timeout(ENDING);
    }
}

struct Maker {
    state_dir: PathBuf,
    limits: Limits,
    group: Option<u32>,
    live: ([u8; 16], u64),
    percent: u64,
    cpus: u64,
    worker: Option<Worker>,
    indexer: Indexer,
    /// The last error, which is told once.
    told: String,
}

impl Maker {
    fn run(mut self, stopped: &Receiver<()>) {
        step_back();
        let mut sleep = IDLE;
        while stopped.recv_timeout(sleep) == Err(RecvTimeoutError::Timeout) {
            let before = clock::thread_cpu();
            let turn = self.turn();
            let used = clock::thread_cpu().saturating_sub(before);
            sleep = match turn {
                Ok(Turn::More) => rest(used, self.percent, self.cpus),
                Ok(Turn::Idle) => IDLE.max(rest(used, self.percent, self.cpus)),
                Err(_) => RETRY,
            };
            self.tell(turn.err());
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
        match worker.turn(Some(self.live))? {
            // Sums are wanted first: what they are made of may be deleted.
            Turn::Idle => Ok(self.index()),
            turn @ Turn::More => Ok(turn),
        }
    }

    /// Makes a search index, if one is missing.
    fn index(&mut self) -> Turn {
        match self.indexer.turn(&self.state_dir) {
            Ok(true) => Turn::More,
            Ok(false) => Turn::Idle,
            // Answers take longer without it, and are the same.
            Err(e) => {
                debug!("a search index can't be made, and is tried again: {e}");
                Turn::Idle
            }
        }
    }

    fn tell(&mut self, error: Option<io::Error>) {
        let text = error.map(|e| e.to_string()).unwrap_or_default();
        if text == self.told {
            return;
        }
        if text.is_empty() {
            info!("sums of minutes are made again");
        } else {
            warn!("sums of minutes can't be made, and are made later from the files: {text}");
        }
        self.told = text;
    }
}

/// How long to rest after so much CPU time (ns), to take `percent` of all CPUs at most.
fn rest(used: u64, percent: u64, cpus: u64) -> Duration {
    let share = percent.saturating_mul(cpus).clamp(1, 100);
    Duration::from_nanos(used.saturating_mul(100 - share) / share)
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
        assert_eq!(rest(20_000_000, 1, 2), Duration::from_millis(980));
        assert_eq!(rest(20_000_000, 1, 64), Duration::from_micros(11_250));
        assert_eq!(rest(20_000_000, 100, 1), Duration::ZERO);
        assert_eq!(rest(20_000_000, 50, 64), Duration::ZERO, "one thread has one CPU");
    }
}
