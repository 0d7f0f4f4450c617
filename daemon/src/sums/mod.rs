//! Makes sums of minutes from the files that the drain writes, in a thread that stands back.
//!
//! It reads files, never the rings, so that it may be late: the drain waits for nobody, and what
//! was not added up yet still is in the files. It takes a share of the CPUs at most
//! ([`crate::config::History::max_cpu_percent`]), after all others.

mod haste;
mod maker;
mod monitor;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use flightrec_format::control::SumsStatus;
use flightrec_sums::keeper::Limits;
use tokio::sync::oneshot;

use self::haste::Room;
use self::maker::{Maker, Share};
pub use self::monitor::SumsMonitor;
use crate::config;

/// The thread's name, as `ps -L` and the recording itself show it.
const NAME: &str = "flightd-sums";
/// How long the end waits for what is being written.
const ENDING: Duration = Duration::from_secs(2);

/// The thread, running.
#[derive(Debug)]
pub struct Sums {
    monitor: Arc<SumsMonitor>,
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
        let monitor = Arc::new(SumsMonitor::default());
        if !config.history.enabled || !config.store.enabled {
            return Ok((Self { monitor, running: None, _nobody: Some(alive) }, died));
        }
        monitor.tell(SumsStatus { enabled: true, ..SumsStatus::default() });
        let history = &config.history;
        let keep = history.keep.limit().map(|keep| keep.as_nanos() as u64);
        let (state_dir, group, live) = (place.state_dir.to_owned(), place.group, place.live);
        let (max_size, percent) = (history.max_size.bytes(), history.max_cpu_percent);
        let cpus = thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let share = Share { percent: u64::from(percent), cpus };
        let room = Room {
            max_total: config.store.max_total.bytes(),
            keep_free: config.store.keep_free.bytes(),
        };
        let told = monitor.clone();
        // What it makes them with stays in its thread.
        let maker = move || {
            let limits = Limits { max_size, keep };
            Maker::new(state_dir, limits, group, live, share, room, told)
        };
        let (stop, stopped) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        thread::Builder::new().name(NAME.into()).spawn(move || {
            maker().run(&stopped);
            drop((finished, alive));
        })?;
        Ok((Self { monitor, running: Some(Running { stop, done }), _nobody: None }, died))
    }

    /// What it tells of itself.
    pub fn monitor(&self) -> Arc<SumsMonitor> {
        self.monitor.clone()
    }

    /// Ends it. What was not added up is at the next start.
    pub fn finish(self) {
        let Some(Running { stop, done }) = self.running else { return };
        drop(stop);
        // It says nothing, and only ends.
        let _ = done.recv_timeout(ENDING);
    }
}
