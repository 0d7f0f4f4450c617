//! What is new in the state directory of flightd, and what is gone from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use flightrec_store::StoreError;
use flightrec_sums::dir;
use tracing::warn;

use super::state::Core;
use crate::config::Config;
use crate::hour::Hour;
use crate::journal::{Item, Key, Name, State};
use crate::source::{self, Snapshot};

/// How much more of an hour must be there that it is shipped again, ns.
const MORE: u64 = 1_000_000_000;
/// How many hours the journal remembers beyond those that are looked at.
const REMEMBERED: i64 = 31 * 24;

/// Looks; returns the snapshots that are there, by id.
pub(super) fn scan(core: &mut Core, config: &Config, now: i64) -> BTreeMap<String, Snapshot> {
    let state_dir = &config.ship.state_dir;
    if !state_dir.is_dir() {
        let what = "is not there, or may not be read: flightd makes it, and the group flightrec \
                    reads it";
        core.trouble(&format!("{} {what}", state_dir.display()));
        return BTreeMap::new();
    }
    core.no_trouble();
    let reach = i64::try_from(config.sums.reach.duration().as_nanos()).unwrap_or(i64::MAX);
    let mut found = BTreeMap::new();
    if config.snapshots.enabled {
        match source::snapshots(state_dir) {
            Ok(all) => {
                found = all.into_iter().map(|of| (of.id.clone(), of)).collect();
                snapshots(core, config, &found, (now, now.saturating_sub(reach)));
            }
            Err(e) => unreadable(core, &e),
        }
    }
    if config.sums.enabled
        && let Err(e) = sums(core, config, (now, now.saturating_sub(reach)))
    {
        unreadable(core, &format!("{}: {e}", dir::directory(state_dir).display()));
    }
    let kept: BTreeSet<String> =
        found.keys().filter_map(|id| core.known.get(id)).map(|key| key.hour.date()).collect();
    let first = Hour::of(now.saturating_sub(reach)).before(REMEMBERED);
    let forgotten = core.journal.forget(first, &kept);
    core.own(forgotten);
    found
}

fn unreadable(core: &mut Core, error: &dyn fmt::Display) {
    core.trouble(&format!("{error}: flight-ship must be in the group flightrec"));
}

/// Enters new snapshots, and those that are gone.
fn snapshots(
    core: &mut Core,
    config: &Config,
    found: &BTreeMap<String, Snapshot>,
    (now, since): (i64, i64),
) {
    let settle = i64::try_from(config.snapshots.settle.duration().as_nanos()).unwrap_or(i64::MAX);
    for snapshot in found.values().filter(|of| !core.known.contains_key(&of.id)).collect::<Vec<_>>()
    {
        let is_settled = now.saturating_sub(snapshot.modified) >= settle;
        // One of the future is as old as it will get: the clock was set.
        if !is_settled && snapshot.modified <= now {
            continue;
        }
        let damaged = |why: String| Item {
            state: State::Failed,
            why,
            since: snapshot.modified,
            until: snapshot.modified,
            ..Item::default()
        };
        let (wall, item) = match source::about(snapshot) {
            Ok(Some(about)) => {
                let item = Item {
                    cause: about.cause,
                    session: about.session,
                    since: about.since,
                    until: about.until,
                    ..Item::default()
                };
                (about.wall, item)
            }
            Ok(None) => {
                let why = format!("{} does not say what it is of", snapshot.path.display());
                (snapshot.modified, damaged(why))
            }
            // It may have been deleted, or not be readable yet.
            Err(e @ StoreError::Io { .. }) => {
                warn!("{e}");
                continue;
            }
            Err(e) => (snapshot.modified, damaged(e.to_string())),
        };
        if wall >= since {
            let name = Name::Snapshot(snapshot.id.clone());
            core.enter(&Key { hour: Hour::of(wall), name }, item);
        }
    }
    let gone = |key: &Key| matches!(&key.name, Name::Snapshot(id) if !found.contains_key(id));
    drop_gone(core, gone, "flightd deleted it before its tables were made");
}

/// Enters hours of which there are sums, those of which there are none, and those that are gone.
fn sums(core: &mut Core, config: &Config, (now, since): (i64, i64)) -> std::io::Result<()> {
    let state_dir = &config.ship.state_dir;
    let seen: Vec<(u32, u64)> =
        dir::files(state_dir)?.into_iter().map(|of| (of.number, of.bytes)).collect();
    if core.seen != seen || core.hours.is_empty() {
        core.hours = source::hours(state_dir, (Hour::of(since).next().start(), now))?;
        core.seen = seen;
    }
    let settle = i64::try_from(config.sums.settle.duration().as_nanos()).unwrap_or(i64::MAX);
    // Hours that have ended long enough ago.
    let end = Hour::of(now.saturating_sub(settle));
    for (hour, covered) in core.hours.clone() {
        if hour >= end {
            continue;
        }
        let key = Key { hour, name: Name::Sums };
        let item = core
            .journal
            .get(&key)
            .cloned()
            .unwrap_or_else(|| Item { state: State::Absent, ..Item::default() });
        let is_more = covered > item.covered.saturating_add(MORE);
        let is_new = match item.state {
            State::Absent => covered > item.covered,
            State::Shipped | State::Dropped | State::Failed => is_more,
            State::Waiting | State::Spooled => false,
        };
        if is_new {
            let (since, until) = (hour.start(), hour.end());
            core.enter(&key, Item { since, until, covered, ..Item::default() });
        }
    }
    let begun = Hour::of(core.ledger.numbers().begun.max(since));
    let mut hour = begun;
    while hour < end {
        let key = Key { hour, name: Name::Sums };
        if core.journal.get(&key).is_none() && !core.hours.contains_key(&hour) {
            let item = Item {
                state: State::Absent,
                why: "there are no sums of this hour: nothing was recorded, or [history] of \
                      flightd.toml is off"
                    .to_owned(),
                since: hour.start(),
                until: hour.end(),
                ..Item::default()
            };
            core.enter(&key, item);
        }
        hour = hour.next();
    }
    let hours = core.hours.clone();
    let gone = |key: &Key| key.name == Name::Sums && !hours.contains_key(&key.hour);
    drop_gone(core, gone, "flightd deleted them before they were shipped");
    Ok(())
}

/// Enters what waits and is gone as lost.
fn drop_gone(core: &mut Core, gone: impl Fn(&Key) -> bool, why: &str) {
    let lost: Vec<(Key, Item)> = core
        .journal
        .all()
        .filter(|(key, item)| item.state == State::Waiting && gone(key))
        .map(|(key, item)| (key, item.clone()))
        .collect();
    for (key, item) in lost {
        core.enter(&key, Item { state: State::Dropped, why: why.to_owned(), ..item });
    }
}
