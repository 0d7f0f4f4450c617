//! `flight-ship --check`: whether everything is as the service needs it, step by step.

use std::fs;
use std::path::Path;
use std::time::Instant;

use flightrec_sums::dir;
use nix::sys::statvfs::statvfs;
use object_store::path::Path as Name;

use crate::config::Config;
use crate::files;
use crate::otlp::client::{Collector, Signal};
use crate::service;
use crate::source;
use crate::storage::{Problem, Storage};

/// What is written to try a file system, bytes.
const TRIAL: usize = 64 << 10;

/// What came of a step: what is so, or what is wrong.
type Step = Result<String, String>;

/// Goes through all steps, also after one that failed; `say` is given each as a line. Whether all
/// went well.
pub async fn check(config: &Config, state_dir: &Path, mut say: impl FnMut(&str)) -> bool {
    let mut fine = true;
    let mut step = |name: &str, step: Step| {
        fine &= step.is_ok();
        match step {
            Ok(what) => say(&format!("ok      {name}: {what}")),
            Err(what) => say(&format!("FAILED  {name}: {what}")),
        }
    };
    step("recordings", recordings(config));
    step("state directory", own(config, state_dir));
    step("flightctl", tool());
    let is_told = !config.otlp.endpoint.is_empty();
    if !config.ship.to.is_empty() || !is_told {
        step("storage", storage(config, state_dir).await);
    }
    if is_told {
        step("collector", collector(config).await);
    }
    fine
}

/// The state directory of flightd.
fn recordings(config: &Config) -> Step {
    let state_dir = &config.ship.state_dir;
    let place = state_dir.display();
    let denied = |e: &dyn std::fmt::Display| {
        format!("{e}: flightd makes it; flight-ship must be in the group flightrec to read it")
    };
    fs::read_dir(state_dir).map_err(|e| denied(&format!("{place}: {e}")))?;
    let snapshots = source::snapshots(state_dir).map_err(|e| denied(&e))?;
    if let Some(first) = snapshots.first() {
        source::about(first).map_err(|e| denied(&e))?;
    }
    let sums = dir::files(state_dir).map_err(|e| denied(&format!("{place}/sums: {e}")))?;
    Ok(format!("{place}: {} snapshots, {} files of sums", snapshots.len(), sums.len()))
}

/// The own state directory.
fn own(config: &Config, state_dir: &Path) -> Step {
    let place = state_dir.display();
    files::make_dir(state_dir).map_err(|e| e.to_string())?;
    let file = state_dir.join(".check");
    let written = files::replace(&file, &vec![0; TRIAL]);
    drop(fs::remove_file(&file));
    written.map_err(|e| {
        let what = if e.is_full() { "make room there" } else { "flight-ship must own it" };
        format!("{e}: {what}")
    })?;
    let limit = config.limits.spool.bytes();
    let of = statvfs(state_dir).map_err(|e| format!("{place}: {e}"))?;
    let free = of.blocks_available().saturating_mul(of.fragment_size());
    if free < limit {
        return Err(format!(
            "{place}: {} MiB are free, and [limits] spool allows {}: make room, or lower it",
            free >> 20,
            config.limits.spool
        ));
    }
    let running = if service::is_running(state_dir) { "; flight-ship runs" } else { "" };
    Ok(format!("{place}: {} MiB free{running}", free >> 20))
}

/// The program that makes tables and pages.
fn tool() -> Step {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let program = own.with_file_name("flightctl");
    let place = program.display();
    let output = std::process::Command::new(&program).arg("--version").env_clear().output();
    let output = output.map_err(|e| format!("{place}: {e}: it is installed beside flight-ship"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let ours = env!("CARGO_PKG_VERSION");
    if version == format!("flightctl {ours}") {
        Ok(format!("{place}: {version}"))
    } else {
        Err(format!("{place} is {version:?}: install that of release {ours}"))
    }
}

/// The storage: an object is written, read and removed.
async fn storage(config: &Config, state_dir: &Path) -> Step {
    let target = service::target(config).map_err(|e| e.to_string())?;
    let target = target.ok_or_else(|| service::StartError::NoTarget.to_string())?;
    let layout = service::layout(config, Some(&target), state_dir);
    let storage = Storage::open(target, &config.storage).map_err(|e| e.to_string())?;
    let began = Instant::now();
    let tried = trial(&storage, &layout.probe()).await;
    let ms = began.elapsed().as_millis();
    let said =
        |()| format!("{}: an object was written, read and removed in {ms} ms", storage.place());
    tried.map(said)
}

/// The collector: a request without content is sent for each signal that is told.
async fn collector(config: &Config) -> Step {
    let collector = Collector::open(&config.otlp).map_err(|e| e.to_string())?;
    let began = Instant::now();
    let has_metrics = !config.otlp.metrics_interval.duration().is_zero();
    let all = [
        (Signal::Logs, "logs", true),
        (Signal::Traces, "traces", config.otlp.spans > 0),
        (Signal::Metrics, "metrics", has_metrics),
    ];
    let wanted: Vec<_> = all.into_iter().filter(|(.., wanted)| *wanted).collect();
    for (signal, name, _) in &wanted {
        collector.probe(*signal).await.map_err(|e| format!("{name}: {e}"))?;
    }
    let names: Vec<&str> = wanted.iter().map(|(_, name, _)| *name).collect();
    let ms = began.elapsed().as_millis();
    Ok(format!("{}: {} were taken, in {ms} ms", collector.place(), names.join(", ")))
}

async fn trial(storage: &Storage, name: &Name) -> Result<(), String> {
    let content = format!("{name} {}", std::process::id()).into_bytes();
    let while_doing = |what: &'static str| move |e: Problem| format!("{what}: {e}");
    storage.write(name, content.clone()).await.map_err(while_doing("writing"))?;
    let read = storage.read(name).await.map_err(while_doing("reading"));
    let removed = storage.remove(name).await.map_err(while_doing("removing"));
    if read? != content {
        return Err(format!("{}: what was read is not what was written", storage.place()));
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_step_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.ship.to = dir.path().join("lake").to_string_lossy().into_owned();
        config.ship.state_dir = dir.path().join("state");
        config.limits.spool = "1MiB".parse().unwrap();
        let (own, mut lines) = (dir.path().join("own"), Vec::new());
        let fine = check(&config, &own, |line| lines.push(line.to_owned())).await;
        assert!(!fine);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[0].starts_with("FAILED  recordings: "), "{lines:?}");
        assert!(lines[0].contains("must be in the group flightrec"), "{lines:?}");
        assert!(lines[1].starts_with("ok      state directory: "), "{lines:?}");
        assert!(lines[3].contains("an object was written, read and removed"), "{lines:?}");
        let probe = dir.path().join("lake/schema=1/probe");
        assert_eq!(fs::read_dir(probe).unwrap().count(), 0);
        config.limits.spool = "1000TiB".parse().unwrap();
        config.ship.to = String::new();
        lines.clear();
        check(&config, &own, |line| lines.push(line.to_owned())).await;
        assert!(lines[1].contains("MiB are free, and [limits] spool allows 1000TiB"), "{lines:?}");
        assert!(lines[3].contains("[ship] to names no storage"), "{lines:?}");
    }

    #[tokio::test]
    async fn a_collector_is_tried_by_all_that_it_is_told() {
        use crate::config::Protocol;
        use crate::otlp::fake::{Fake, Say};
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::start(Protocol::Grpc).await;
        let mut config = Config { otlp: fake.config(), ..Config::default() };
        let said = async |config: &Config| {
            let mut lines = Vec::new();
            check(config, dir.path(), |line| lines.push(line.to_owned())).await;
            // No storage is configured, so none is tried.
            assert_eq!(lines.len(), 4, "{lines:?}");
            lines.pop().unwrap()
        };
        let fine = said(&config).await;
        assert!(fine.contains("(grpc): logs, traces, metrics were taken"), "{fine}");
        fake.always(Some(("Trace", Say::Grpc(12, String::new()))));
        let wrong = said(&config).await;
        assert!(wrong.starts_with("FAILED  collector: traces: "), "{wrong}");
        config.otlp.spans = 0;
        let fine = said(&config).await;
        assert!(fine.contains("logs, metrics were taken"), "{fine}");
    }
}
