//! Snapshots: windows of the recording that are kept because something happened.
//!
//! - A trigger fires ([`Snapshots::fire`]), or a user asks ([`Snapshots::request`]). The [`gate`]
//!   lets it through, counts it where the same cause of the same subject was kept a short while
//!   ago, or refuses where there were too many.
//! - One thread (`saver`) waits until the window has passed and is in the files, and makes a file
//!   of it: out of the recorder's own files, whose blocks are copied as they are ([`from_files`]),
//!   or, where those do not hold it, out of the rings ([`from_rings`]). So it needs a few MiB of
//!   memory, whatever the window holds.
//! - The file is read once more for the first answer ([`summary`]), within [`summary::PAGES_MOST`],
//!   once more by `flightctl why`, for its cause (`why`), and by `flightctl page`, if the
//!   configuration wants a page (`page`); these two are processes of their own (`tool`).
//! - What is kept is bounded in number, size and age ([`room`]); the recorder's other files have
//!   limits of their own, and neither deletes what is the other's.

pub mod from_files;
pub mod from_rings;
pub mod gate;
pub mod hook;
pub mod names;
mod page;
pub mod quota;
pub mod refusals;
pub mod room;
mod saver;
pub mod summary;
pub mod tally;
mod tool;
mod why;

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use flightrec_format::control::SnapshotStatus;
use flightrec_format::unseen::visible;
use tracing::warn;

use crate::clock;
use crate::config;
use crate::drain::Monitor;
use crate::recording::Recording;
use gate::{Decision, Gate};
use quota::Owner;
use saver::{Order, Saver, Task};
use tally::Tally;

/// The thread's name, as `ps -L` and the recording itself show it.
const NAME: &str = "flightd-snap";
/// Orders that wait for their windows.
const ORDERS_MOST: usize = 32;
/// Longest a client waits for its snapshot.
const PATIENCE: Duration = Duration::from_secs(25);
/// Longest the end waits for the snapshots whose windows it cuts short: several fdatasync of a busy
/// disk.
const ENDING: Duration = Duration::from_secs(10);
/// Cause of a snapshot that somebody asked for.
pub const REQUEST: &str = "request";

/// Something that a trigger saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The trigger's name, as its table in the configuration has it.
    pub cause: &'static str,
    /// What it is about: the same cause of the same subject is one snapshot for a while.
    pub subject: String,
    /// The cause in a sentence.
    pub reason: String,
    /// When it happened, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Threads that it names.
    pub threads: Vec<u32>,
    /// Because of whom it is: whose quota it takes from.
    pub owner: Owner,
}

/// Longest text of an alarm, characters.
const TEXT_MAX: usize = 512;

impl Alarm {
    /// Of the machine as a whole. Subject and reason may hold names that anybody chose: they are
    /// cleaned here, before they go into the log, the hook and the file.
    pub fn new(
        cause: &'static str,
        subject: &str,
        reason: &str,
        time: u64,
        threads: &[u32],
    ) -> Self {
        let (subject, reason) = (clean(subject), clean(reason));
        Self { cause, subject, reason, time, threads: threads.to_vec(), owner: Owner::Machine }
    }

    /// The same, because of somebody.
    #[must_use]
    pub fn owned(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }
}

/// A text on one line of bounded length, with nothing in it that a terminal or a log would obey, or
/// would not show.
fn clean(text: &str) -> String {
    visible(text).chars().take(TEXT_MAX).collect()
}

/// The snapshots of a recording.
#[derive(Debug)]
pub struct Snapshots {
    config: config::Snapshots,
    gate: Arc<Mutex<Gate>>,
    tally: Arc<Tally>,
    orders: Option<SyncSender<Task>>,
    /// Tells when the thread has ended.
    done: Mutex<Option<Receiver<()>>>,
}

/// What the saver needs to know of where it is.
#[derive(Debug)]
pub struct SnapshotPlace<'a> {
    /// The state directory.
    pub state_dir: &'a Path,
    /// Group of what is made.
    pub group: Option<u32>,
    /// What the recorder's other files leave free of the file system, and whether they are
    /// written.
    pub store: &'a config::Store,
}

impl Snapshots {
    /// Begins to take snapshots of `recording`, which is drained as `files` tells.
    pub fn start(
        config: &config::Snapshots,
        place: &SnapshotPlace<'_>,
        recording: Arc<Recording>,
        files: Arc<Monitor>,
    ) -> io::Result<Self> {
        let gate = Arc::new(Mutex::new(Gate::new(
            config.dedup_window.duration(),
            config.per_hour,
            clock::mono(),
        )));
        let tally = Arc::new(Tally::new(config.enabled));
        let (orders, done) = if config.enabled {
            let (orders, received) = mpsc::sync_channel(ORDERS_MOST);
            let (finished, done) = mpsc::channel();
            let saver =
                Saver::new(config.clone(), place, recording, files, gate.clone(), tally.clone());
            thread::Builder::new().name(NAME.into()).spawn(move || {
                saver.run(&received);
                // Nobody waits any more where the daemon has given up on it.
                let _ = finished.send(());
            })?;
            (Some(orders), Some(done))
        } else {
            (None, None)
        };
        Ok(Self { config: config.clone(), gate, tally, orders, done: Mutex::new(done) })
    }

    /// Takes those that wait for their windows, as far as these have got, and no more after them.
    /// The drain must still run.
    pub fn finish(&self) {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(orders), Some(done)) = (&self.orders, done) else { return };
        // The queue is full: the thread is far behind, and is not waited for.
        let ended = orders.try_send(Task::End).is_ok() && done.recv_timeout(ENDING).is_ok();
        let pending = self.tally.status().pending;
        if !ended && pending != 0 {
            warn!(pending, "pending snapshots are not taken: the disk is too slow");
        }
    }

    /// Whether any are taken.
    pub fn is_on(&self) -> bool {
        self.orders.is_some()
    }

    /// How it stands with them.
    pub fn status(&self) -> SnapshotStatus {
        self.tally.status()
    }

    /// A trigger saw something.
    pub fn fire(&self, alarm: Alarm) {
        let Some(orders) = &self.orders else { return };
        let now = clock::mono();
        let decision = lock(&self.gate).alarm(&alarm, now);
        match decision {
            Decision::Take => {}
            Decision::Counted => return self.tally.update(|status| status.repeated += 1),
            Decision::Refused => return self.tally.update(|status| status.refused += 1),
        }
        let from = alarm.time.saturating_sub(ns(self.config.before.duration()));
        let until = alarm.time.max(now).saturating_add(ns(self.config.after.duration()));
        let (cause, subject) = (alarm.cause.to_owned(), alarm.subject.clone());
        let order = Order { alarm, from, until, wanted: until, answer: None };
        if self.order(orders, order).is_err() {
            lock(&self.gate).forget(&cause, &subject);
            self.tally.update(|status| status.refused += 1);
            warn!(
                CAUSE = cause,
                SUBJECT = subject,
                "too many snapshots are pending: that of {cause}, {subject}, is not taken"
            );
        }
    }

    /// Takes one that reaches `last` ns back from now (0: as usual), for user `uid`; its id, when
    /// it is there.
    pub fn request(&self, last: u64, reason: &str, uid: u32) -> Result<String, String> {
        let off = || {
            "snapshots are off: set enabled = true in [snapshots] of its configuration".to_owned()
        };
        let orders = self.orders.as_ref().ok_or_else(off)?;
        let most = 2 * ns(self.config.before.duration()).max(300_000_000_000);
        if last > most {
            let most = humantime::format_duration(Duration::from_nanos(most));
            return Err(format!(
                "a snapshot reaches back at most {most}; `flightctl save` has no such limit"
            ));
        }
        let now = clock::mono();
        let allowed = lock(&self.gate).request(now);
        if let Err(wait) = allowed {
            self.tally.update(|status| status.refused += 1);
            let seconds = wait.as_secs().saturating_add(1);
            return Err(format!(
                "too many snapshots were requested: try again in {seconds} s, or save the window \
                 with `flightctl save`"
            ));
        }
        let last = if last == 0 { ns(self.config.before.duration()) } else { last };
        let alarm = Alarm::new(REQUEST, &format!("user {uid}"), reason, now, &[]);
        let (answer, answered) = mpsc::sync_channel(1);
        let order = Order {
            alarm,
            from: now.saturating_sub(last),
            until: now,
            wanted: now,
            answer: Some(answer),
        };
        match self.order(orders, order) {
            Ok(()) => {}
            Err(Refused::Busy) => {
                return Err("other snapshots are being taken: try again in a minute".into());
            }
            Err(Refused::Dead) => {
                return Err("the thread that takes snapshots died: see flightd's log".into());
            }
        }
        answered.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            Err("the snapshot is not finished yet: `flightctl snapshots` shows it once its window \
                 is in the files"
                .into())
        })
    }

    /// Hands an order over to the thread.
    fn order(&self, orders: &SyncSender<Task>, order: Order) -> Result<(), Refused> {
        // Before the thread can be done with it.
        self.tally.update(|status| status.pending += 1);
        orders.try_send(Task::Take(order)).map_err(|e| {
            self.tally.update(|status| status.pending = status.pending.saturating_sub(1));
            match e {
                TrySendError::Full(_) => Refused::Busy,
                TrySendError::Disconnected(_) => Refused::Dead,
            }
        })
    }
}

/// Why the thread does not take an order.
enum Refused {
    /// Too many wait.
    Busy,
    /// It is gone.
    Dead,
}

fn lock(gate: &Mutex<Gate>) -> MutexGuard<'_, Gate> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A span in ns.
fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_nothing_to_a_log() {
        let name = "a\u{1b}[2J\nNov 22 root: all is well\0\u{202e}\u{2028}x";
        let alarm = Alarm::new("core_dump", name, &format!("{name} was killed"), 1, &[5]);
        assert_eq!(alarm.subject, r"a\33[2J\nNov 22 root: all is well\0\342\200\256\342\200\250x");
        assert_eq!(
            alarm.reason,
            r"a\33[2J\nNov 22 root: all is well\0\342\200\256\342\200\250x was killed"
        );
        assert_eq!(
            Alarm::new("x", &"\u{e4}".repeat(10_000), "", 1, &[]).subject.chars().count(),
            TEXT_MAX
        );
    }
}
