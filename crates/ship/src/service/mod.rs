//! The service: one task makes the files of items (`maker`), another one uploads them (`shipper`);
//! others tell a collector (`telling`, `teller`). Each of the two sides may be left out.
//!
//! Maker and shipper work on one state, and tell each other when it has changed. What goes wrong
//! with an item is the item's; what goes wrong with the storage is waited for, however long that
//! takes; what goes wrong with flight-ship's own state directory is told and tried again. Nothing of
//! that ends the service.

mod maker;
mod scan;
mod shipper;
mod state;
mod teller;
mod telling;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_otlp;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;
use tokio::sync::Notify;
use tracing::warn;

use self::state::State;
use self::teller::Teller;
use crate::config::{Config, Target, TargetError};
use crate::files::{self, FileError};
use crate::layout::{self, Layout};
use crate::make::tool::Tool;
use crate::otlp::client::Failure;
use crate::report::Report;
use crate::storage::{Problem, Storage};

/// The file in the state directory that a running service has locked.
const LOCK: &str = "lock";
/// How long it may be locked by what has ended.
const LOCKED_FOR: Duration = Duration::from_secs(3);

/// Why the service can't begin.
#[derive(Debug, Error)]
pub enum StartError {
    /// Its own state directory.
    #[error("{0}; the state directory (--state-dir) must be flight-ship's own")]
    State(#[from] FileError),
    /// Another one runs.
    #[error("another flight-ship runs in {0}: end it, or name another --state-dir")]
    Running(String),
    /// Nothing says where to.
    #[error(
        "[ship] to names no storage, and [otlp] endpoint no collector: write s3://BUCKET/PREFIX, \
         say, into the configuration"
    )]
    NoTarget,
    /// What says it is wrong.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The storage can't be opened.
    #[error(transparent)]
    Storage(#[from] Problem),
    /// The collector can't be opened.
    #[error(transparent)]
    Collector(#[from] Failure),
    /// Where this program is.
    #[error("where flight-ship is installed can't be found out: {0}")]
    Program(std::io::Error),
}

/// How a run ended that ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All that is there is shipped.
    Shipped,
    /// All that is left is, and something was lost or can't be made: the table `shipped` tells.
    Lacking,
    /// The storage can't be reached, or the limit of the day is reached.
    Left,
}

/// The service.
pub struct Service {
    config: Config,
    layout: Layout,
    tool: Tool,
    /// `None`: nothing is shipped.
    storage: Option<Storage>,
    /// `None`: nothing is told.
    teller: Option<Teller>,
    state: State,
    /// Something was made.
    made: Notify,
    /// Something was uploaded, so there is room.
    freed: Notify,
    /// It is to end when all is done.
    once: bool,
    _lock: Flock<std::fs::File>,
}

impl Service {
    /// Opens it.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn open(config: Config, state_dir: &Path, once: bool) -> Result<Self, StartError> {
        if config.ship.to.is_empty() && config.otlp.endpoint.is_empty() {
            return Err(StartError::NoTarget);
        }
        let target = target(&config)?;
        files::make_dir(state_dir)?;
        let lock = lock(state_dir)?;
        let layout = layout(&config, target.as_ref(), state_dir);
        let tool = Tool::installed(&config).map_err(StartError::Program)?;
        let storage = target.map(|target| Storage::open(target, &config.storage)).transpose()?;
        let teller = Teller::open(&config, layout.host(), state_dir)?;
        let state = State::open(state_dir, &config, now())?;
        let (made, freed) = (Notify::new(), Notify::new());
        Ok(Self { config, layout, tool, storage, teller, state, made, freed, once, _lock: lock })
    }

    /// Runs for ever; or, once, until all is shipped that is there.
    pub async fn run(&self) -> Outcome {
        self.report();
        let ship = async {
            match &self.storage {
                Some(storage) => self.make_and_ship(storage).await,
                None => Outcome::Shipped,
            }
        };
        let tell = async {
            match &self.teller {
                Some(teller) => self.tell_all(teller).await,
                None => false,
            }
        };
        let (shipped, is_left) = tokio::join!(ship, tell);
        self.report();
        if is_left { Outcome::Left } else { shipped }
    }

    async fn make_and_ship(&self, storage: &Storage) -> Outcome {
        let (make, ship) = (self.make(), self.ship(storage));
        tokio::pin!(make, ship);
        let left = tokio::select! {
            left = &mut ship => left,
            () = &mut make => ship.await,
        };
        match left {
            None if self.state.is_left() => Outcome::Left,
            None if self.state.is_lacking() => Outcome::Lacking,
            None => Outcome::Shipped,
            Some(_) => Outcome::Left,
        }
    }

    /// Writes how it stands.
    fn report(&self) {
        if let Err(e) = self.stand().write(self.state.dir()) {
            warn!("how it stands can't be written: {e}");
        }
    }

    /// How it stands.
    fn stand(&self) -> Report {
        let (storage, host) = (self.storage.as_ref(), self.layout.host());
        let report = self.state.report(&self.config, storage, host, now());
        Report { otlp: self.teller.as_ref().map(Teller::report), ..report }
    }
}

/// The storage that the configuration names; `None`: none.
pub(crate) fn target(config: &Config) -> Result<Option<Target>, TargetError> {
    let to = &config.ship.to;
    (!to.is_empty()).then(|| Target::parse(to)).transpose()
}

/// Where this machine's objects are.
pub(crate) fn layout(config: &Config, target: Option<&Target>, state_dir: &Path) -> Layout {
    let host = match config.ship.host.as_str() {
        "" => layout::host_name(),
        host => host.to_owned(),
    };
    let machine = layout::machine(&state_dir.to_string_lossy());
    Layout::new(target.map_or("", Target::prefix), &host, &machine)
}

/// Whether a service runs with this state directory.
pub fn is_running(state_dir: &Path) -> bool {
    match std::fs::File::open(state_dir.join(LOCK)) {
        Ok(file) => Flock::lock(file, FlockArg::LockSharedNonblock).is_err(),
        Err(_) => false,
    }
}

/// Locks the state directory. What was killed a moment ago, and who asks how it stands, have the
/// lock for a moment more.
fn lock(state_dir: &Path) -> Result<Flock<std::fs::File>, StartError> {
    let path = state_dir.join(LOCK);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let mut file = file.map_err(FileError::of(&path))?;
    let end = Instant::now() + LOCKED_FOR;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, _)) => file,
        };
        if Instant::now() >= end {
            return Err(StartError::Running(state_dir.display().to_string()));
        }
        std::thread::sleep(LOCKED_FOR / 50);
    }
}

/// ns since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
