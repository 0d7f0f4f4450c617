//! The task that makes the files of items.

use std::collections::BTreeMap;

use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::state::Core;
use super::{Service, now, scan};
use crate::journal::{Item, Key, Name, State};
use crate::make::{self, MakeError};
use crate::source::Snapshot;
use crate::spool::{Manifest, Part};

/// How often an item is tried to be made.
const ATTEMPTS_MAX: u64 = 3;
/// How many times as large as a recording its tables and its page may be taken to be, until they
/// are made.
const GROWTH: u64 = 3;
/// The same of an hour of sums, bytes.
const SUMS_BYTES: u64 = 1 << 20;

/// What is to be made next.
enum Next {
    /// This item; of a snapshot, its file.
    Item(Key, Option<Snapshot>),
    /// Something waits, and there is no room for it, or it is not to be tried yet.
    Later,
    /// Nothing waits.
    Nothing,
}

impl Service {
    /// Makes what waits, as it comes; once, until nothing does.
    pub(super) async fn make(&self) {
        loop {
            let found = scan::scan(&mut self.state.change(), &self.config, now());
            loop {
                match self.next(&found) {
                    Next::Item(key, snapshot) => self.item(&key, snapshot.as_ref()).await,
                    // Once, nobody makes room where nothing is uploaded.
                    next @ (Next::Nothing | Next::Later) if self.ends_with(&next) => {
                        self.state.change().all_made = true;
                        self.made.notify_one();
                        return;
                    }
                    Next::Nothing | Next::Later => break,
                }
                self.report();
            }
            self.made.notify_one();
            self.report();
            tokio::select! {
                () = sleep(self.config.ship.interval.duration()) => {}
                () = self.freed.notified() => {}
            }
        }
    }

    /// Whether nothing more is to be made.
    fn ends_with(&self, next: &Next) -> bool {
        let is_stuck = || self.state.get().spool.items().is_empty();
        self.once && (matches!(next, Next::Nothing) || is_stuck())
    }

    /// The first item that there is room for.
    fn next(&self, found: &BTreeMap<String, Snapshot>) -> Next {
        let mut core = self.state.change();
        let (used, limit) = (core.spool.bytes(), self.config.limits.spool.bytes());
        let is_empty = core.spool.items().is_empty();
        let (mut waits, mut lacks_room, mut item) = (false, false, None);
        for (key, _) in core.journal.all().filter(|(_, item)| item.state == State::Waiting) {
            let snapshot = match &key.name {
                Name::Sums => None,
                Name::Snapshot(id) => match found.get(id) {
                    Some(snapshot) => Some(snapshot),
                    // The next look tells that it is gone; or where it is.
                    None => continue,
                },
            };
            waits = true;
            if core.later.get(&key).is_some_and(|at| *at > Instant::now()) {
                continue;
            }
            let guess = snapshot.map_or(SUMS_BYTES, |of| of.bytes.saturating_mul(GROWTH));
            let needs = core.needs.get(&key).copied().unwrap_or(guess.min(limit));
            if !is_empty && used.saturating_add(needs) > limit {
                lacks_room = true;
                continue;
            }
            item = Some(Next::Item(key, snapshot.cloned()));
            break;
        }
        set_full(&mut core, lacks_room && item.is_none());
        item.unwrap_or(if waits { Next::Later } else { Next::Nothing })
    }

    /// Makes an item, or finds out why not.
    async fn item(&self, key: &Key, snapshot: Option<&Snapshot>) {
        let began = self.begin(key);
        let Some((part, item)) = began else { return };
        let made = match snapshot {
            None => make::sums::make(key.hour, &item, &self.config, &self.layout, part.path()),
            Some(snapshot) => {
                let of = (&self.layout, &self.tool);
                let to = (part.path(), item.attempts + 1 >= ATTEMPTS_MAX);
                make::snapshot::make(snapshot, (key.hour, &item), &self.config, of, to).await
            }
        };
        match made {
            Ok(manifest) => self.keep(key, &part, manifest),
            Err(error) => self.not_made(key, item, &error),
        }
    }

    fn begin(&self, key: &Key) -> Option<(Part, Item)> {
        let mut core = self.state.change();
        let item = core.journal.get(key)?.clone();
        match core.spool.begin() {
            Ok(part) => Some((part, item)),
            Err(e) => {
                core.trouble(&e.to_string());
                self.later(&mut core, key, 1);
                None
            }
        }
    }

    /// It is made: it goes into the spool, if it fits.
    fn keep(&self, key: &Key, part: &Part, mut manifest: Manifest) {
        let mut core = self.state.change();
        let limit = self.config.limits.spool.bytes();
        let bytes: u64 = manifest.objects.iter().map(|object| object.bytes).sum();
        if manifest.objects.is_empty() {
            let item = Item { state: State::Absent, ..manifest.item };
            return core.enter(key, item);
        }
        if bytes > limit {
            let why = format!("it takes {bytes} bytes, and [limits] spool allows {limit}");
            let item = Item { state: State::Dropped, why, ..manifest.item };
            return core.enter(key, item);
        }
        if core.spool.bytes().saturating_add(bytes) > limit {
            core.needs.insert(key.clone(), bytes);
            return set_full(&mut core, true);
        }
        manifest.item.state = State::Spooled;
        let item = manifest.item.clone();
        match core.spool.keep(part, key, manifest) {
            Ok(()) => {
                debug!("{key:?} is made: {bytes} bytes");
                core.needs.remove(key);
                core.later.remove(key);
                core.enter(key, item);
                drop(core);
                self.made.notify_one();
            }
            Err(e) => {
                core.trouble(&e.to_string());
                self.later(&mut core, key, 1);
            }
        }
    }

    /// It is not.
    fn not_made(&self, key: &Key, item: Item, error: &MakeError) {
        let mut core = self.state.change();
        let why = error.to_string();
        match error {
            MakeError::Full(_) => {
                core.trouble(&format!("there is no room in the spool: {why}; nothing is lost"));
                self.later(&mut core, key, 1);
            }
            MakeError::Gone(_) => {
                core.enter(key, Item { state: State::Dropped, why, ..item });
            }
            MakeError::Broken(_) => {
                let attempts = item.attempts + 1;
                let is_over = attempts >= ATTEMPTS_MAX;
                let state = if is_over { State::Failed } else { State::Waiting };
                info!("{key:?}: {why}");
                core.enter(key, Item { state, why, attempts, ..item });
                if !self.once {
                    self.later(&mut core, key, attempts);
                }
            }
        }
    }

    /// It is not tried for a while.
    fn later(&self, core: &mut Core, key: &Key, times: u64) {
        let pause = self.config.ship.interval.duration();
        let pause = pause.saturating_mul(1 << times.min(6));
        core.later.insert(key.clone(), Instant::now() + pause);
    }
}

fn set_full(core: &mut Core, full: bool) {
    if full && !core.spool_full {
        info!("the spool is full: more is made when something is uploaded");
    }
    core.spool_full = full;
}
