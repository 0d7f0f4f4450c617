//! The drain: what the rings hold goes into files, all the time.
//!
//! - One thread (`worker`) looks at the rings, and drains them when they have filled by a share
//!   or when time is up (`pacing`). A `round` copies what is new and hands it to the
//!   [`flightrec_store::StoreWriter`], which cuts pages to parts, begins files, deletes the oldest,
//!   and goes on after faults.
//! - Another (`syncer`) waits for the disk (`fdatasync`), so that the rings are drained
//!   meanwhile.
//! - Recording waits for neither. What the rings overwrite before it could be written is counted,
//!   exactly (`losses`).
//! - The pages' headers say what is missing; what this module counts is for the status alone
//!   ([`Monitor`]).

mod losses;
mod monitor;
pub(crate) mod pacing;
mod rate;
mod round;
mod session;
mod source;
mod syncer;
#[cfg(test)]
mod tests;
mod told;
mod worker;

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use flightrec_format::control::StoreState;
use flightrec_store::{Limits, Options};
use tokio::sync::oneshot;
use tracing::warn;

use crate::config;
use crate::recording::{Ended, Recording};
pub use monitor::Monitor;
use round::Rings;
use session::{Session, Subject};
use worker::Worker;

/// How long the end waits for the last events to be written while nothing gets on: a disk that
/// hangs must not keep the daemon. And how long in all.
const STUCK: Duration = Duration::from_secs(3);
const ENDING: Duration = Duration::from_secs(30);

/// The thread's name, as `ps -L` and the recording itself show it.
const NAME: &str = "flightd-drain";

/// The drain, running.
#[derive(Debug)]
pub struct Drain {
    monitor: Arc<Monitor>,
    running: Option<Running>,
    /// Where no files are written: what the thread would drop when it dies.
    _nobody: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Running {
    bell: Arc<Bell>,
    done: Receiver<()>,
}

impl Drain {
    /// Begins to write files of `recording`, and of those that were `ended` before it. The receiver
    /// tells when the thread has died, which it never does by itself.
    pub fn start(
        config: &config::Store,
        state_dir: &Path,
        group: Option<u32>,
        recording: Arc<Recording>,
        ended: Vec<Ended>,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let monitor = Arc::new(Monitor::default());
        let (alive, died) = oneshot::channel();
        if !config.enabled {
            return Ok((Self { monitor, running: None, _nobody: Some(alive) }, died));
        }
        monitor.update(|status| {
            status.state = StoreState::Writing;
            status.directory = state_dir.display().to_string();
        });
        let session = |subject: Subject| {
            let meta = subject.meta();
            let boot_id = flightrec_store::dir::parse_boot(&meta.boot_id).unwrap_or_default();
            let options = Options {
                state_dir: state_dir.to_owned(),
                limits: limits(config),
                level: config.level,
                group,
                boot_id,
                session: meta.session,
            };
            Session::new(subject, options, monitor.clone())
        };
        let before =
            ended.into_iter().map(|ended| session(Subject::Ended(Box::new(ended)))).collect();
        let worker =
            Worker::new(config, before, session(Subject::Live(recording)), monitor.clone())?;
        let bell = Arc::new(Bell::default());
        let (finished, done) = mpsc::channel();
        let heard = bell.clone();
        thread::Builder::new().name(NAME.into()).spawn(move || {
            worker.run(&heard);
            // Nobody waits any more where the daemon has given up on it.
            let _ = finished.send(());
            drop(alive);
        })?;
        Ok((Self { monitor, running: Some(Running { bell, done }), _nobody: None }, died))
    }

    /// What it tells of itself.
    pub fn monitor(&self) -> Arc<Monitor> {
        self.monitor.clone()
    }

    /// Writes the last events, and closes the file. `ended`: the recording has, and nothing more
    /// comes.
    pub fn finish(self, ended: bool) {
        let Some(Running { bell, done }) = self.running else { return };
        bell.ring(if ended { Rings::Ended } else { Rings::Live });
        let begun = Instant::now();
        let (mut beats, mut moved) = (self.monitor.last_beat(), begun);
        while done.recv_timeout(STUCK / 30) == Err(RecvTimeoutError::Timeout) {
            if self.monitor.last_beat() != beats {
                (beats, moved) = (self.monitor.last_beat(), Instant::now());
            }
            if moved.elapsed() > STUCK || begun.elapsed() > ENDING {
                let seconds = begun.elapsed().as_secs();
                warn!(
                    "the disk has not taken the last events within {seconds} s: they may be \
                     missing from the files"
                );
                return;
            }
        }
    }
}

fn limits(config: &config::Store) -> Limits {
    Limits {
        max_total: config.max_total.bytes(),
        keep_free: config.keep_free.bytes(),
        keep_at_least: config.keep_at_least.bytes(),
        max_age: config.max_age.limit(),
        file_size: config.file_size.bytes(),
        file_age: Some(config.file_age.duration()),
    }
}

/// Tells the thread to end.
#[derive(Debug, Default)]
struct Bell {
    end: Mutex<Option<Rings>>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self, rings: Rings) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(rings);
        self.rung.notify_all();
    }

    /// Sleeps; returns at once when it is time to end, and how the rings are then.
    fn wait(&self, limit: Duration) -> Option<Rings> {
        let until = Instant::now() + limit;
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if end.is_some() || left.is_zero() {
                return *end;
            }
            end = self.rung.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
