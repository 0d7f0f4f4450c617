//! `flightctl collect`: the same window of many machines, each as a file here.
//!
//! Each host is asked over ssh to save its window to standard output (`save --frames`); what comes
//! is written as it comes, and gets its name once it is whole and can be read.

mod ask;
mod hosts;
mod stream;
mod survey;
mod table;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use flightrec_reader::window::Edge;

use self::ask::{Answer, Asking};
use self::hosts::Host;
use self::table::Times;
use super::prelude::*;
use crate::follow::stop::Stop;
use crate::guard;
use crate::options::window::WindowArgs;
use crate::output::{Output, OutputError};
use crate::ssh::SshArgs;
use crate::value::{size, stretch};

/// Most hosts that are asked at a time.
const PARALLEL_MAX: u16 = 256;

/// Arguments of `collect`.
#[derive(Debug, clap::Args)]
pub struct CollectArgs {
    /// A file with one host per line, in the forms that --ssh accepts; `#` begins a comment. `-`:
    /// standard input.
    #[arg(long, value_name = "FILE")]
    hosts: PathBuf,
    /// Which time. Times before now are counted on each host's own clock, from the moment at which
    /// collect was started; times of day are those of this machine.
    #[command(flatten)]
    window: WindowArgs,
    /// The directory for the files, HOST.flight for each host; created if it does not exist.
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: PathBuf,
    /// Replace files that exist.
    #[arg(long, help_heading = "Output")]
    force: bool,
    /// Print the table as one JSON object.
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Number of hosts that are asked at a time, 1 to 256.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(PARALLEL_MAX)),
        help_heading = "Limits"
    )]
    parallel: u16,
    /// Limit on the time for one host, from connecting to its last byte.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = stretch,
        default_value = "60s",
        help_heading = "Limits"
    )]
    timeout: Duration,
    /// Limit on what one host may send.
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size,
        default_value = "1GiB",
        help_heading = "Limits"
    )]
    max_size: u64,
}

/// Windows to collect.
#[derive(Debug, PartialEq)]
pub struct CollectPlan {
    ssh: SshArgs,
    hosts: PathBuf,
    since: Edge,
    until: Edge,
    output: PathBuf,
    force: bool,
    json: bool,
    parallel: u16,
    timeout: Duration,
    max_size: u64,
}

impl Arguments for CollectArgs {
    const HELP: Help = Help {
        about: "Save the same window of many machines, over ssh, and show which are complete",
        examples: &[
            (
                "flightctl collect --hosts hosts.txt --last 30s -o incident",
                "what all of them just did, one file per host",
            ),
            (
                "flightctl collect --hosts hosts.txt --around 14:03:07 -o incident --json",
                "the table as JSON, for programs",
            ),
            (
                "flightctl collect --hosts hosts.txt -o incident --parallel 64 --timeout 20s",
                "many hosts, of which some may be down",
            ),
            ("flightctl why incident/web1.flight", "read one of them"),
        ],
        exits: &[Exit::Fine, Exit::Unanswered, Exit::Error, Exit::Partial],
    };
    type Plan = CollectPlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<CollectPlan> {
        let (since, until) = self.window.edges(now)?;
        let Self { hosts, output, force, json, parallel, timeout, max_size, .. } = self;
        let RecorderArgs { ssh, .. } = recorder;
        Ok(CollectPlan {
            ssh,
            hosts,
            since,
            until,
            output,
            force,
            json,
            parallel,
            timeout,
            max_size,
        })
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.window.remarks(now)
    }

    fn file(&self) -> Option<&Path> {
        Some(&self.output)
    }
}

impl Plan for CollectPlan {
    fn run(&self) -> Result<Exit> {
        let begun = Instant::now();
        let hosts = hosts::read(&self.hosts)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(&self.output)
            .with_context(|| format!("can't make the directory {}", self.output.display()))?;
        if !self.force
            && let Some(there) =
                hosts.iter().map(|host| self.path(host, 0)).find(|path| path.exists())
        {
            return Err(OutputError::Exists(there).into());
        }
        guard::watch();
        let stop = Stop::on_signals(None)?;
        let rows = self.ask(hosts, &Asking::new(self, begun, &stop))?;
        let times = self.times();
        let text = if self.json {
            table::json(&rows)?
        } else {
            table::text(&rows, times, &crate::zone::system())
        };
        Output::standard().print(text.as_bytes())?;
        Ok(table::exit(&rows, times))
    }
}

impl CollectPlan {
    /// The file of a host's window, or of the next recording that it reaches over. No host's name
    /// has a `~`.
    fn path(&self, host: &Host, number: usize) -> PathBuf {
        let stem = &host.stem;
        self.output.join(match number {
            0 => format!("{stem}.flight"),
            n => format!("{stem}~{}.flight", n + 1),
        })
    }

    /// What a wrong clock does to windows.
    fn times(&self) -> Times {
        let is_wall = |edge| matches!(edge, Edge::Wall(_));
        if is_wall(self.since) || is_wall(self.until) { Times::OfDay } else { Times::BeforeNow }
    }

    /// Asks all, some at a time.
    fn ask(&self, hosts: Vec<Host>, asking: &Asking<'_>) -> Result<Vec<table::Row>> {
        let next = AtomicUsize::new(0);
        let answers: Mutex<Vec<Option<Answer>>> = Mutex::new(vec![None; hosts.len()]);
        let work = || {
            while let Some((at, host)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                hosts.get(at).map(|host| (at, host))
            } {
                let answer = asking.ask(host);
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(place) = answers.get_mut(at) {
                    *place = Some(answer);
                }
            }
        };
        thread::scope(|scope| {
            let threads = usize::from(self.parallel).min(hosts.len());
            for _ in 0..threads {
                thread::Builder::new().name("ask".into()).spawn_scoped(scope, work)?;
            }
            std::io::Result::Ok(())
        })
        .context("can't start a thread; --parallel 1 needs the fewest")?;
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lost = || Answer::None("not asked".to_owned());
        Ok(hosts
            .into_iter()
            .zip(answers)
            .map(|(host, answer)| (host, answer.unwrap_or_else(lost)))
            .collect())
    }
}
