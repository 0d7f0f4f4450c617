//! `flightctl probe`: functions and marks that are recorded for a time.
//!
//! What is asked for is found here, by root: files are opened and read. The daemon gets the open
//! file with the places of its points; or, for functions of the kernel and on kernels before Linux
//! 6.6, a perf event for each point. It links its programs to them.

mod events;
mod kernel;
mod library;
mod spec;
mod target;

use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use flightrec_format::control::{PROBE_LASTS_MAX, ProbeChoice, ProbeStatus};
use flightrec_reader::control::Client;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use self::spec::Spec;
use super::prelude::*;
use crate::output::Output;
use crate::schema::document;
use crate::text::printable;
use flightrec_format::human::{counted, span};

/// Arguments of `probe`.
#[derive(Debug, clap::Args)]
pub struct ProbeArgs {
    #[command(subcommand)]
    command: ProbeCommand,
}

/// What is done with probes.
#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// Record calls of functions, with arguments and return values, or marks of a program, for a
    /// limited time; as root. Show them with `flightctl dump --graph`, and their counts with
    /// `flightctl report functions --probed`. All processes that run the file are recorded,
    /// including those that run already. Each call costs its program microseconds, which no budget
    /// limits.
    #[command(arg_required_else_help = true)]
    Add {
        /// PATH:NAME for functions of a program or library, where PATH is a path, a program in
        /// $PATH, or the file name of a library; usdt:PATH:PROVIDER:NAME for marks; kernel:NAME or
        /// kernel:MODULE:NAME for functions of the kernel. NAME and PROVIDER may have the
        /// wildcards * and ?.
        #[arg(value_name = "SPEC", value_parser = boxed)]
        spec: Box<Spec>,
        /// How long to probe, for example 30s or 10m; at most 7 days. Probes also end when flightd
        /// does.
        #[arg(long = "for", value_name = "DURATION", value_parser = lasts, default_value = "10m")]
        lasts: u64,
        /// Record calls without their returns: for functions whose return address must not be
        /// changed, such as those of Go programs.
        #[arg(long)]
        no_returns: bool,
    },
    /// List the probes, and how long each will still run.
    List {
        /// Print one JSON object; field names and units are stable.
        #[arg(long)]
        json: bool,
    },
    /// End probes before their time; as root.
    #[command(arg_required_else_help = true)]
    Remove {
        /// A probe's id, or the SPEC that it was added with.
        #[arg(value_name = "ID|SPEC", required_unless_present = "all")]
        which: Option<String>,
        /// End all probes.
        #[arg(long, conflicts_with = "which")]
        all: bool,
    },
}

/// What is to be done with probes.
#[derive(Debug)]
pub struct ProbePlan {
    runtime_dir: PathBuf,
    what: What,
}

#[derive(Debug)]
enum What {
    Add { spec: Box<Spec>, lasts: u64, returns: bool },
    List { json: bool },
    Remove(ProbeChoice),
}

impl Arguments for ProbeArgs {
    const HELP: Help = Help {
        about: "Record calls of functions of programs, libraries and the kernel for a limited time",
        examples: &[
            (
                "flightctl probe add '/usr/lib/libfoo.so:bdev_*' --for 10m",
                "functions of a library, with arguments and return values, for 10 minutes",
            ),
            ("flightctl probe add libc.so.6:getaddrinfo", "a function of the C library"),
            ("flightctl probe add 'usdt:/usr/bin/python3:python:*'", "marks in a program"),
            ("flightctl probe add 'kernel:ext4:ext4_sync_*'", "functions of a kernel module"),
            ("flightctl dump --last 10s --graph --event function", "what they did, by thread"),
            ("flightctl report functions --probed", "how often each was called, exactly"),
            ("flightctl probe list", "the probes, and how long each will still run"),
            ("flightctl probe remove --all", "end all probes now"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    };
    type Plan = ProbePlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<ProbePlan> {
        let what = match self.command {
            ProbeCommand::Add { spec, lasts, no_returns } => {
                What::Add { spec, lasts, returns: !no_returns }
            }
            ProbeCommand::List { json } => What::List { json },
            ProbeCommand::Remove { which, .. } => What::Remove(match which {
                None => ProbeChoice::All,
                Some(which) => match which.parse() {
                    Ok(id) => ProbeChoice::Id(id),
                    Err(_) => ProbeChoice::Spec(which),
                },
            }),
        };
        Ok(ProbePlan { runtime_dir: recorder.runtime_dir, what })
    }
}

impl Plan for ProbePlan {
    fn run(&self) -> Result<Exit> {
        // First, so that a wrong directory is told before anything is opened.
        let mut client = Client::connect(&self.runtime_dir)?;
        let text = match &self.what {
            What::Add { spec, lasts, returns } => {
                more_files();
                let (_, takes_files) = client.probes()?;
                let (new, events) = target::find(spec, *lasts, *returns, takes_files)?;
                let added = client.add_probe(new, &events)?;
                added.iter().map(|probe| told("probing", probe)).collect()
            }
            What::List { json } => {
                let (probes, _) = client.probes()?;
                if *json { document(Listed::new(&probes))? } else { list(&probes) }
            }
            What::Remove(choice) => {
                let removed = client.remove_probes(choice.clone())?;
                if removed.is_empty() {
                    "nothing is probed\n".to_owned()
                } else {
                    removed.iter().map(|probe| told("ended", probe)).collect()
                }
            }
        };
        Output::standard().print(text.as_bytes())?;
        Ok(Exit::Fine)
    }
}

/// A line about one probe.
fn told(what: &str, probe: &ProbeStatus) -> String {
    let functions = counted(u64::from(probe.functions), "function");
    let lasts = if what == "ended" { String::new() } else { format!(" for {}", span(probe.left)) };
    let (path, id) = (printable(&probe.path), probe.id);
    format!("{what} {functions} of {path}{lasts} (probe {id})\n")
}

/// The table of probes.
fn list(probes: &[ProbeStatus]) -> String {
    if probes.is_empty() {
        return "nothing is probed\n".into();
    }
    let row = |probe: &ProbeStatus| {
        let (left, spec) = (span(probe.left), printable(&probe.spec));
        format!("{:>4} {:>9} {left:>9}  {spec}\n", probe.id, probe.functions)
    };
    let head = format!("{:>4} {:>9} {:>9}  {}\n", "ID", "FUNCTIONS", "LEFT", "SPEC");
    iter::once(head).chain(probes.iter().map(row)).collect()
}

/// The probes, with the names that `--json` has: scripts rely on them.
#[derive(Debug, Serialize)]
struct Listed {
    probes: Vec<One>,
}

#[derive(Debug, Serialize)]
struct One {
    id: u32,
    spec: String,
    path: String,
    functions: u32,
    left_seconds: f64,
}

impl Listed {
    fn new(probes: &[ProbeStatus]) -> Self {
        let one = |probe: &ProbeStatus| One {
            id: probe.id,
            spec: probe.spec.clone(),
            path: probe.path.clone(),
            functions: probe.functions,
            left_seconds: probe.left as f64 / 1e9,
        };
        Self { probes: probes.iter().map(one).collect() }
    }
}

/// As many open files as this process may have: each point is one.
fn more_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With fewer, the error of the one that can't be opened says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// What is to be probed.
fn boxed(text: &str) -> Result<Box<Spec>, String> {
    spec::parse(text).map(Box::new)
}

/// A duration in ns.
fn lasts(text: &str) -> Result<u64, String> {
    let lasts: Duration = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    let ns = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
    if (1_000_000_000..=PROBE_LASTS_MAX).contains(&ns) {
        Ok(ns)
    } else {
        Err("a probe lasts from 1s to 7days".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_bounded() {
        assert_eq!(lasts("10m"), Ok(600_000_000_000));
        assert_eq!(lasts("7days"), Ok(PROBE_LASTS_MAX));
        for wrong in ["0s", "999ms", "8days", "1000years", "x", ""] {
            assert!(lasts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_list_says_what_is_left() {
        let probe = ProbeStatus {
            id: 3,
            spec: "/a:\x1b*".into(),
            path: "/a".into(),
            functions: 1,
            since: 0,
            until: 90_000_000_000,
            left: 60_000_000_000,
        };
        let text = list(std::slice::from_ref(&probe));
        assert!(text.contains("   3         1") && text.contains("1m"), "{text}");
        assert!(!text.contains('\x1b'));
        assert_eq!(list(&[]), "nothing is probed\n");
        assert_eq!(told("ended", &probe), "ended 1 function of /a (probe 3)\n");
    }
}
