//! What the two tasks of the service know.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::config::Config;
use crate::files::FileError;
use crate::hour::Hour;
use crate::journal::{self, Item, Journal, Key, Name};
use crate::ledger::Ledger;
use crate::limits::{Backoff, Bandwidth};
use crate::report::{self, Report};
use crate::spool::Spool;
use crate::storage::{Problem, Storage};

/// Most remarks that are kept.
const REMARKS_MAX: usize = 5;

/// The state. Nothing of it is borrowed while a task waits.
pub(super) struct State {
    dir: PathBuf,
    core: RefCell<Core>,
}

/// What is in it.
pub(super) struct Core {
    pub(super) journal: Journal,
    pub(super) ledger: Ledger,
    pub(super) spool: Spool,
    /// The items of snapshots, by id.
    pub(super) known: BTreeMap<String, Key>,
    /// Bytes that items took which found no room.
    pub(super) needs: BTreeMap<Key, u64>,
    /// Items that are not tried again before.
    pub(super) later: BTreeMap<Key, Instant>,
    /// Files of sums when they were looked at last.
    pub(super) seen: Vec<(u32, u64)>,
    pub(super) hours: BTreeMap<Hour, u64>,
    /// Hours whose table was uploaded, and when.
    pub(super) told: BTreeMap<Hour, Instant>,
    pub(super) bandwidth: Bandwidth,
    pub(super) backoff: Backoff,
    /// Nothing more is to be made, and the service is to end then.
    pub(super) all_made: bool,
    pub(super) spool_full: bool,
    pub(super) day_full: bool,
    problem: Option<(Problem, i64)>,
    trouble: Option<String>,
    last_upload: i64,
    remarks: VecDeque<String>,
}

impl State {
    pub(super) fn open(dir: &Path, config: &Config, now: i64) -> Result<Self, FileError> {
        let mut journal = Journal::open(dir)?;
        let ledger = Ledger::open(dir, now)?;
        let mut spool = Spool::open(dir)?;
        agree(&mut journal, &mut spool)?;
        let known = journal.all().filter_map(|(key, _)| match &key.name {
            Name::Sums => None,
            Name::Snapshot(id) => Some((id.clone(), key)),
        });
        let known = known.collect();
        let last = Report::read(dir)?.map_or(0, |report| report.last_upload);
        let core = Core {
            journal,
            ledger,
            spool,
            known,
            needs: BTreeMap::new(),
            later: BTreeMap::new(),
            seen: Vec::new(),
            hours: BTreeMap::new(),
            told: BTreeMap::new(),
            bandwidth: Bandwidth::new(config.limits.bandwidth.bytes()),
            backoff: Backoff::new(
                config.storage.retry_least.duration(),
                config.storage.retry_most.duration(),
            ),
            all_made: false,
            spool_full: false,
            day_full: false,
            problem: None,
            trouble: None,
            last_upload: last,
            remarks: VecDeque::new(),
        };
        Ok(Self { dir: dir.into(), core: RefCell::new(core) })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn get(&self) -> Ref<'_, Core> {
        self.core.borrow()
    }

    pub(super) fn change(&self) -> RefMut<'_, Core> {
        self.core.borrow_mut()
    }

    /// Whether anything is lost or can't be made.
    pub(super) fn is_lacking(&self) -> bool {
        let lacks =
            |item: &Item| matches!(item.state, journal::State::Dropped | journal::State::Failed);
        self.get().journal.all().any(|(_, item)| lacks(item))
    }

    /// Whether anything is still to be shipped.
    pub(super) fn is_left(&self) -> bool {
        let is_open =
            |item: &Item| matches!(item.state, journal::State::Waiting | journal::State::Spooled);
        self.get().journal.all().any(|(_, item)| is_open(item))
    }

    pub(super) fn report(
        &self,
        config: &Config,
        storage: Option<&Storage>,
        host: &str,
        now: i64,
    ) -> Report {
        let core = self.get();
        let numbers = core.ledger.numbers();
        let mut report = Report {
            at: now,
            running: true,
            storage: storage.map(|of| of.place().to_owned()).unwrap_or_default(),
            host: host.to_owned(),
            problem: core.problem.as_ref().map(|(problem, since)| report::Problem {
                kind: problem.kind.name().to_owned(),
                message: problem.message.clone(),
                since: *since,
            }),
            trouble: core.trouble.clone(),
            last_upload: core.last_upload,
            spool_bytes: core.spool.bytes(),
            spool_limit: config.limits.spool.bytes(),
            spool_full: core.spool_full,
            day_bytes: core.ledger.on(&Hour::of(now).date()),
            day_limit: config.limits.per_day.bytes(),
            day_full: core.day_full,
            bytes: numbers.bytes,
            objects: numbers.objects,
            failures: numbers.failures,
            remarks: core.remarks.iter().cloned().collect(),
            ..Report::default()
        };
        for (_, item) in core.journal.all() {
            match item.state {
                journal::State::Waiting => report.waiting += 1,
                journal::State::Spooled => report.spooled += 1,
                journal::State::Shipped => report.shipped += 1,
                journal::State::Dropped => report.dropped += 1,
                journal::State::Failed => report.failed += 1,
                journal::State::Absent => report.absent += 1,
            }
        }
        report
    }
}

impl Core {
    /// Enters what became of an item.
    pub(super) fn enter(&mut self, key: &Key, item: Item) {
        if matches!(item.state, journal::State::Dropped | journal::State::Failed) {
            let what = match &key.name {
                Name::Sums => format!("sums of {}", key.hour),
                Name::Snapshot(id) => format!("snapshot {id}"),
            };
            let remark = format!("{what}: {}: {}", item.state.name(), item.why);
            warn!("{remark}");
            if self.remarks.len() >= REMARKS_MAX {
                self.remarks.pop_front();
            }
            self.remarks.push_back(remark);
        }
        if let Name::Snapshot(id) = &key.name {
            self.known.insert(id.clone(), key.clone());
        }
        let entered = self.journal.set(key, item);
        self.own(entered);
    }

    /// Takes what came of writing to flight-ship's own state directory.
    pub(super) fn own(&mut self, done: Result<(), FileError>) {
        match done {
            Ok(()) => {}
            Err(e) => self.trouble(&format!("{e}; what is not written is tried again")),
        }
    }

    /// Something is wrong with a state directory.
    pub(super) fn trouble(&mut self, what: &str) {
        if self.trouble.as_deref() != Some(what) {
            error!("{what}");
            self.trouble = Some(what.to_owned());
        }
    }

    /// Whether something is wrong with the storage.
    pub(super) fn has_problem(&self) -> bool {
        self.problem.is_some()
    }

    /// Nothing is, as of now.
    pub(super) fn no_trouble(&mut self) {
        self.trouble = None;
    }

    /// The storage takes what it is given.
    pub(super) fn arrived(&mut self, now: i64) {
        if let Some((_, since)) = self.problem.take() {
            let seconds = now.saturating_sub(since) / 1_000_000_000;
            info!("the storage is reached again, after {seconds} s");
        }
        self.backoff.succeed();
        self.last_upload = now;
        self.ledger.arrived();
    }

    /// It does not.
    pub(super) fn failed(&mut self, problem: &Problem, now: i64) {
        self.ledger.failed();
        match &mut self.problem {
            Some((known, _)) if known == problem => {}
            Some((known, _)) => {
                warn!("{problem}");
                *known = problem.clone();
            }
            none => {
                error!("{problem}; nothing is lost: it is tried again");
                *none = Some((problem.clone(), now));
            }
        }
    }
}

/// What the journal and the spool know is the same after a crash between changes of the two.
fn agree(journal: &mut Journal, spool: &mut Spool) -> Result<(), FileError> {
    for spooled in spool.items().to_vec() {
        let state = journal.get(&spooled.key).map(|item| item.state);
        if state == Some(journal::State::Shipped) && spooled.left().next().is_none() {
            spool.done(&spooled.key)?;
        } else if state != Some(journal::State::Spooled) {
            journal.set(&spooled.key, spooled.manifest.item.clone())?;
        }
    }
    let lost: Vec<(Key, Item)> = journal
        .all()
        .filter(|(_, item)| item.state == journal::State::Spooled)
        .filter(|(key, _)| !spool.items().iter().any(|of| of.key == *key))
        .map(|(key, item)| (key, Item { state: journal::State::Waiting, ..item.clone() }))
        .collect();
    lost.into_iter().try_for_each(|(key, item)| journal.set(&key, item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::{Manifest, Object};

    #[test]
    fn journal_and_spool_agree_after_a_crash_at_any_moment() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        let mut spool = Spool::open(dir.path()).unwrap();
        let key = |hour: &str| Key { hour: hour.parse().unwrap(), name: Name::Sums };
        let made = Item { state: journal::State::Spooled, bytes: 3, ..Item::default() };
        let mut make = |key: &Key| {
            let part = spool.begin().unwrap();
            std::fs::write(part.path().join("a"), "abc").unwrap();
            let object = Object { name: "t".into(), file: "a".into(), bytes: 3 };
            let manifest = Manifest { item: made.clone(), objects: vec![object] };
            spool.keep(&part, key, manifest).unwrap();
        };
        // Made, and not entered; uploaded and entered, but not removed; removed by hand.
        let [a, b, c] = ["2026-11-25T00", "2026-11-25T01", "2026-11-25T02"].map(key);
        make(&a);
        make(&b);
        let uploaded = spool.items()[1].clone();
        uploaded.sent(&uploaded.manifest.objects[0]).unwrap();
        journal.set(&b, Item { state: journal::State::Shipped, ..made.clone() }).unwrap();
        journal.set(&c, made.clone()).unwrap();
        agree(&mut journal, &mut spool).unwrap();
        let state = |key: &Key| journal.get(key).unwrap().state;
        assert_eq!(state(&a), journal::State::Spooled);
        assert_eq!(state(&b), journal::State::Shipped);
        assert_eq!(state(&c), journal::State::Waiting);
        assert_eq!(spool.items().iter().map(|of| &of.key).collect::<Vec<_>>(), [&a]);
    }
}
