//! What the program does.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::tz::TimeZone;
use sd_notify::NotifyState;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::args::{Args, Command};
use crate::check::check;
use crate::compaction::{self, Ended};
use crate::config::Config;
use crate::metrics;
use crate::report::Report;
use crate::service::{Outcome, Service, is_running};

/// Exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// As requested.
    Fine,
    /// Something is in the way.
    Left,
    /// An error; wrong usage as well (clap's own status is the same).
    Error,
    /// Something was lost, or could not be made.
    Lacking,
}

impl Exit {
    /// Its number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Left => 1,
            Self::Error => 2,
            Self::Lacking => 3,
        }
    }
}

/// Does what was asked for.
///
/// # Errors
/// What keeps it from being done, in words that say what to do.
pub fn run(args: &Args) -> Result<Exit> {
    match &args.command {
        Some(Command::Status { json: false }) => {
            return print(&args.state_dir, |report| Ok(report.text(&TimeZone::system())));
        }
        Some(Command::Status { json: true }) => {
            return print(&args.state_dir, |report| Ok(serde_json::to_string(report)? + "\n"));
        }
        Some(Command::Metrics) => {
            return print(&args.state_dir, |report| Ok(metrics::text(report)));
        }
        Some(Command::Compact(_)) | None => {}
    }
    let config = Config::load(&args.config)?;
    let runtime = runtime()?;
    if let Some(Command::Compact(of)) = &args.command {
        let ended = runtime.block_on(compaction::compact(&config, &args.state_dir, of))?;
        return Ok(match ended {
            Ended::Fine => Exit::Fine,
            Ended::Left => Exit::Left,
            Ended::Lacking => Exit::Lacking,
        });
    }
    if args.check {
        let mut out = io::stdout().lock();
        // A reader that has read enough is none to be told.
        let say = |line: &str| drop(writeln!(out, "{line}"));
        let fine = runtime.block_on(check(&config, &args.state_dir, say));
        return Ok(if fine { Exit::Fine } else { Exit::Left });
    }
    let state_dir = &args.state_dir;
    let once = args.once;
    runtime.block_on(async {
        let service = Service::open(config, state_dir, once)?;
        let mut term = signal(SignalKind::terminate()).context("signals")?;
        let mut int = signal(SignalKind::interrupt()).context("signals")?;
        // Without systemd there is nobody to tell.
        drop(sd_notify::notify(&[NotifyState::Ready]));
        let outcome = tokio::select! {
            outcome = service.run() => outcome,
            _ = term.recv() => return Ok(ended()),
            _ = int.recv() => return Ok(ended()),
        };
        Ok(match outcome {
            Outcome::Shipped => Exit::Fine,
            Outcome::Lacking => Exit::Lacking,
            Outcome::Left => Exit::Left,
        })
    })
}

fn ended() -> Exit {
    info!("ends, as requested; what was under way is done again at the next start");
    Exit::Fine
}

/// One thread, and others for what waits for disks.
fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the runtime")
}

fn print(state_dir: &Path, text: impl FnOnce(&Report) -> Result<String>) -> Result<Exit> {
    let report = Report::read(state_dir)?.with_context(|| {
        format!(
            "there is no status in {}: flight-ship never ran with this --state-dir, or you may \
             not read it",
            state_dir.display()
        )
    })?;
    let report = Report { running: is_running(state_dir), ..report };
    flightrec_cli::print(&text(&report)?)?;
    Ok(Exit::Fine)
}
