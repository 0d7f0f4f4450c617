//! `flight-ship compact`: which hours, and what is said of them.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::args::CompactArgs;
use crate::compact::{CompactError, Compactor, Done, Outcome, by_table};
use crate::config::{Config, Target};
use crate::files::{self, FileError};
use crate::hour::{Hour, NS};
use crate::storage::{Kind, Storage};

/// The folder in the state directory where files are made, and what is locked meanwhile.
const DIR: &str = "compact";
const LOCK: &str = "compact.lock";
/// How often an hour is tried, and the first pause between.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// Most hours of one run: a year.
const HOURS_MAX: i64 = 366 * 24;

/// What came of all hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All is compacted.
    Fine,
    /// Something was left out.
    Lacking,
    /// The storage is in the way.
    Left,
}

/// Compacts the hours that were asked for.
///
/// # Errors
/// What keeps it from being begun, in words that say what to do.
pub(crate) async fn compact(
    config: &Config,
    state_dir: &Path,
    args: &CompactArgs,
) -> Result<Ended> {
    if config.ship.to.is_empty() {
        bail!("[ship] to names no storage: say where hosts ship to");
    }
    let target = Target::parse(&config.ship.to)?;
    let prefix = target.prefix().to_owned();
    let hours = hours(args, now())?;
    files::make_dir(state_dir)?;
    let _lock = lock(&state_dir.join(LOCK))?;
    let storage = Storage::open(target, &config.storage)?;
    let dir = state_dir.join(DIR);
    let compactor = Compactor::new(storage, &prefix, dir, args.part_size.bytes());
    let mut ended = Ended::Fine;
    for hour in hours {
        let outcome = match patiently(&compactor, hour, args.again).await {
            Ok(outcome) => outcome,
            Err(e) => {
                warn!("{hour}: {e}");
                return Ok(Ended::Left);
            }
        };
        if let Outcome::Compacted(done) | Outcome::Unchanged(done) = &outcome
            && !done.refused.is_empty()
        {
            ended = Ended::Lacking;
        }
        let said = if args.json { json(hour, &outcome)? } else { text(hour, &outcome) };
        if let Some(line) = said {
            match writeln!(io::stdout(), "{line}") {
                Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(e.into()),
                _ => {}
            }
        }
    }
    Ok(ended)
}

/// An hour, tried again where the storage may be back soon, or a host shipped meanwhile.
async fn patiently(
    compactor: &Compactor,
    hour: Hour,
    again: bool,
) -> Result<Outcome, CompactError> {
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        match compactor.hour(hour, again).await {
            Err(CompactError::Storage(of))
                if !matches!(of.kind, Kind::Busy | Kind::Unreachable | Kind::Other) =>
            {
                return Err(CompactError::Storage(of));
            }
            Err(e @ (CompactError::Storage(_) | CompactError::Changed(_))) => {
                info!("{hour}: {e}; again in {} s", pause.as_secs());
                sleep(pause).await;
                pause *= 3;
            }
            ended => return ended,
        }
    }
    compactor.hour(hour, again).await
}

/// The hours, the oldest first.
fn hours(args: &CompactArgs, now: i64) -> Result<Vec<Hour>> {
    if !args.hour.is_empty() {
        let mut hours = args.hour.clone();
        hours.sort_unstable();
        hours.dedup();
        return Ok(hours);
    }
    if let Some(day) = &args.day {
        let first: Hour = format!("{day}T00")
            .parse()
            .ok()
            .with_context(|| format!("--day {day}: write it as in 2026-11-25"))?;
        return Ok((0..24).map(|n| first.before(-n)).collect());
    }
    let ns = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    let since = Hour::of(now.saturating_sub(ns(args.since.duration())));
    let last = Hour::of(now.saturating_sub(ns(args.settle.duration())));
    let count = (last.start() - since.start()) / NS;
    if count > HOURS_MAX {
        bail!("--since {}: {count} hours are more than a run takes: name them", args.since);
    }
    Ok((0..count.max(0)).map(|n| since.before(-n)).collect())
}

/// Nobody else makes files there.
fn lock(path: &Path) -> Result<Flock<std::fs::File>> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(FileError::of(path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
        anyhow::anyhow!("{} is locked: `flight-ship compact` runs already", path.display())
    })
}

fn text(hour: Hour, outcome: &Outcome) -> Option<String> {
    Some(match outcome {
        Outcome::Nothing => return None,
        Outcome::Unchanged(_) => format!("{hour}  unchanged"),
        Outcome::Closed(n, _) => format!(
            "{hour}  stays as it is: {n} of the objects that it was made of are deleted already"
        ),
        Outcome::Compacted(done) => compacted(hour, done),
    })
}

fn compacted(hour: Hour, done: &Done) -> String {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let each: Vec<String> = by_table(&done.made)
        .into_iter()
        .map(|(table, (objects, bytes, rows))| {
            format!("{table} {objects} ({}, {rows} rows)", mib(bytes))
        })
        .collect();
    let refused = match done.refused.len() {
        0 => String::new(),
        n => format!("; {n} objects could not be read"),
    };
    format!(
        "{hour}  {} hosts: {} objects, {} -> {}{refused}",
        done.hosts,
        done.inputs,
        mib(done.bytes),
        each.join(", ")
    )
}

fn json(hour: Hour, outcome: &Outcome) -> Result<Option<String>> {
    let (state, done) = match outcome {
        Outcome::Nothing => return Ok(None),
        Outcome::Unchanged(done) => ("unchanged", done),
        Outcome::Compacted(done) => ("compacted", done),
        Outcome::Closed(_, done) => ("closed", done),
    };
    let Done { hosts, inputs, bytes, parts, refused, made, .. } = done;
    Ok(Some(serde_json::to_string(&serde_json::json!({
        "hour": hour.to_string(), "state": state, "hosts": hosts, "inputs": inputs,
        "bytes": bytes, "parts": parts, "refused": refused, "made": made,
    }))?))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn of(args: &[&str]) -> Result<Vec<String>> {
        let args = Args::try_parse_from(["flight-ship", "compact"].iter().chain(args))?;
        let Some(Command::Compact(args)) = args.command else { panic!("{args:?}") };
        let at: Hour = "2026-11-25T07".parse().unwrap();
        let hours = hours(&args, at.start() + NS / 4)?;
        Ok(hours.into_iter().map(|hour| hour.to_string()).collect())
    }

    #[test]
    fn which_hours() {
        // At a quarter past seven, half an hour after its end, five o'clock is the last one.
        assert_eq!(of(&["--since", "3h"]).unwrap(), ["2026-11-25T04", "2026-11-25T05"]);
        let all = of(&["--since", "3h", "--settle", "10m"]).unwrap();
        assert_eq!(all, ["2026-11-25T04", "2026-11-25T05", "2026-11-25T06"]);
        assert_eq!(of(&[]).unwrap().len(), 23);
        let day = of(&["--day", "2026-11-24"]).unwrap();
        assert_eq!((day.len(), &*day[0], &*day[23]), (24, "2026-11-24T00", "2026-11-24T23"));
        let named = of(&["--hour", "2026-11-24T03", "--hour", "2026-11-24T01"]).unwrap();
        assert_eq!(named, ["2026-11-24T01", "2026-11-24T03"]);
        for wrong in [&["--day", "today"][..], &["--hour", "7"], &["--since", "9000days"]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(of(&["--day", "2026-11-24", "--since", "1h"]).is_err());
    }
}
