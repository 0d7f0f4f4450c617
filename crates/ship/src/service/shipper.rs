//! The task that uploads.

use std::path::Path as FilePath;
use std::time::Duration;

use object_store::path::Path;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::{Service, now};
use crate::hour::Hour;
use crate::journal::{Item, Items, State};
use crate::limits::{fits, until_tomorrow};
use crate::spool::{Object, Spooled};
use crate::storage::{Kind, Problem, Storage};
use crate::told;

/// How long the table of an hour is left as it is while items of it are under way.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// Why nothing more is uploaded now.
#[derive(Debug)]
pub(super) enum Pause {
    /// The storage.
    Problem,
    /// The limit of the day.
    Day,
}

impl Service {
    /// Uploads what is made, as it comes; once, until nothing is left, or something is in the way.
    pub(super) async fn ship(&self, storage: &Storage) -> Option<Pause> {
        loop {
            let shipped = self.all(storage).await;
            self.report();
            let wait = match shipped {
                Ok(()) if self.once && self.state.get().all_made => {
                    if self.state.get().spool.items().is_empty() {
                        return None;
                    }
                    continue;
                }
                Ok(()) => None,
                Err(pause) if self.once => {
                    // Nobody makes room any more.
                    return Some(pause);
                }
                Err(Pause::Problem) => Some(self.state.change().backoff.fail(fastrand::f64())),
                Err(Pause::Day) => {
                    Some(until_tomorrow(now()).min(self.config.ship.interval.duration()))
                }
            };
            match wait {
                Some(wait) => sleep(wait).await,
                None => {
                    tokio::select! {
                        () = sleep(self.config.ship.interval.duration()) => {}
                        () = self.made.notified() => {}
                    }
                }
            }
        }
    }

    /// Uploads all that is made, then what is to be told.
    async fn all(&self, storage: &Storage) -> Result<(), Pause> {
        let made = self.made_items(storage).await;
        if let Err(Pause::Problem) = made {
            return made;
        }
        self.state.change().day_full = made.is_err();
        let hours = self.due();
        for hour in hours {
            self.tell_hour(storage, hour).await?;
        }
        made
    }

    /// Uploads all that is made.
    async fn made_items(&self, storage: &Storage) -> Result<(), Pause> {
        loop {
            let next = self.state.get().spool.items().first().cloned();
            let Some(spooled) = next else { return Ok(()) };
            self.spooled(storage, &spooled).await?;
            self.freed.notify_one();
            self.report();
        }
    }

    /// Uploads an item.
    async fn spooled(&self, storage: &Storage, spooled: &Spooled) -> Result<(), Pause> {
        let left: Vec<Object> = spooled.left().cloned().collect();
        for object in left {
            let limit = self.config.limits.per_day.bytes();
            if !fits(limit, 0, object.bytes) {
                let why = format!(
                    "{} has {} bytes, and [limits] per_day allows {limit}",
                    object.name, object.bytes
                );
                self.done(spooled, State::Dropped, &why);
                return Ok(());
            }
            let sent = self.state.get().ledger.on(&Hour::of(now()).date());
            if !fits(limit, sent, object.bytes) {
                if !self.state.get().day_full {
                    info!("the bytes of today are used up: the rest waits for tomorrow (UTC)");
                }
                return Err(Pause::Day);
            }
            let file = spooled.file(&object);
            let name = Path::from(object.name.as_str());
            match self.upload(storage, &name, &file).await {
                Ok(()) => {
                    debug!("{} is there: {} bytes", object.name, object.bytes);
                    if let Err(e) = spooled.sent(&object) {
                        self.state.change().trouble(&e.to_string());
                        return Err(Pause::Problem);
                    }
                }
                // It is made anew.
                Err(problem) if problem.kind == Kind::File => {
                    self.done(spooled, State::Waiting, &problem.message);
                    return Ok(());
                }
                Err(problem) => {
                    self.state.change().failed(&problem, now());
                    return Err(Pause::Problem);
                }
            }
        }
        self.done(spooled, State::Shipped, "");
        Ok(())
    }

    /// Enters what became of an item of the spool, and removes it there.
    fn done(&self, spooled: &Spooled, state: State, why: &str) {
        let mut core = self.state.change();
        let item = spooled.manifest.item.clone();
        let why = if why.is_empty() { item.why.clone() } else { why.to_owned() };
        core.enter(&spooled.key, Item { state, why, attempts: 0, ..item });
        let removed = core.spool.done(&spooled.key);
        core.own(removed);
    }

    /// Uploads a file, within the limits.
    async fn upload(&self, storage: &Storage, name: &Path, file: &FilePath) -> Result<(), Problem> {
        let mut last = 0;
        let put = storage.put(name, file, async |bytes| {
            last = bytes;
            self.pace(bytes).await;
        });
        self.came(put.await, last)
    }

    /// Waits until so many bytes may go out, and enters them.
    async fn pace(&self, bytes: u64) {
        let wait = {
            let mut core = self.state.change();
            let charged = core.ledger.charge(&Hour::of(now()).date(), bytes);
            core.own(charged);
            core.bandwidth.take(bytes, monotonic())
        };
        sleep(wait).await;
    }

    /// Enters what came of sending `last` bytes.
    fn came(&self, put: Result<(), Problem>, last: u64) -> Result<(), Problem> {
        let mut core = self.state.change();
        match &put {
            Ok(()) => core.arrived(now()),
            Err(problem) if problem.unsent => {
                core.ledger.refund(&Hour::of(now()).date(), last);
            }
            Err(_) => {}
        }
        put
    }

    /// The hours whose table is to be uploaded.
    fn due(&self) -> Vec<Hour> {
        let core = self.state.get();
        let redact = self.config.redact();
        let is_open = |items: &Items| {
            let mut all = items.sums.iter().chain(items.snapshots.values());
            all.any(|item| matches!(item.state, State::Waiting | State::Spooled))
        };
        core.journal
            .hours()
            .filter(|(hour, items)| {
                items.told != Some(told::checksum(&told::rows(*hour, items, &redact)))
            })
            .filter(|(hour, items)| {
                let is_recent = core.told.get(hour).is_some_and(|at| at.elapsed() < TELL_EVERY);
                !is_open(items) || core.day_full || !self.once && !is_recent
            })
            .map(|(hour, _)| hour)
            .collect()
    }

    /// Uploads the table of an hour.
    async fn tell_hour(&self, storage: &Storage, hour: Hour) -> Result<(), Pause> {
        let (checksum, made) = {
            let core = self.state.get();
            let Some(items) = core.journal.items(hour) else { return Ok(()) };
            let rows = told::rows(hour, items, &self.config.redact());
            (told::checksum(&rows), told::file(&rows))
        };
        let bytes = match made {
            Ok(bytes) => bytes,
            Err(e) => {
                self.state.change().trouble(&format!("the table of {hour}: {e}"));
                return Ok(());
            }
        };
        let (name, length) = (self.layout.hourly(crate::layout::SHIPPED, hour), bytes.len() as u64);
        // It is small, and no limit of a day is to keep it back: it tells what is.
        self.pace(length).await;
        let put = storage.write(&name, bytes).await;
        if let Err(problem) = self.came(put, length) {
            self.state.change().failed(&problem, now());
            return Err(Pause::Problem);
        }
        let mut core = self.state.change();
        core.told.insert(hour, Instant::now());
        let entered = core.journal.told(hour, checksum);
        core.own(entered);
        Ok(())
    }
}

/// ns of a clock that only goes on.
fn monotonic() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
