//! `cargo xtask bench`.

mod budget;
mod disk;
mod fairness;
mod overhead;
mod peak;
mod read;

use anyhow::Result;
use clap::Subcommand;

use crate::command::{cargo, repository, run as run_command};
use crate::setup::Scope;

/// What is measured.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Bench {
    /// How fast `flightctl` writes 2,000,000 events as text to a file, and beside `perf script`.
    Read,
    /// What recording costs a system call, an open, a pipe round trip and a build, beside programs
    /// that do nothing, that read the clock, and that also store 16 bytes, beside ftrace and
    /// perf; and how many bytes an event takes.
    Overhead {
        /// How often each takes its turn.
        #[arg(long, default_value_t = overhead::ROUNDS)]
        rounds: usize,
        /// One JSON object instead of tables.
        #[arg(long)]
        json: bool,
    },
    /// Whether the budget is kept: what the work that is recorded loses, and what the recorder says
    /// of it. 5 minutes.
    Budget {
        /// How often off and on take turns where an interval is told.
        #[arg(long, default_value_t = budget::ROUNDS)]
        rounds: usize,
        /// One promise alone: paced, hammer, unlimited, one-cpu, no-daemon or burst.
        #[arg(long)]
        only: Option<String>,
    },
    /// What is recorded of quiet processes beside floods of every kind, under a budget. 6 minutes.
    Fairness {
        /// How long the quiet processes make calls beside each flood, s.
        #[arg(long, default_value_t = 10)]
        seconds: u32,
        /// One flood alone: calls, opens, renames, forks, execs, threads or wakeups.
        #[arg(long)]
        only: Option<String>,
    },
    /// The memory that every command that reads files takes for crafted files, and for mutations of
    /// them; fails above 512 MiB.
    Memory {
        /// Mutated files.
        #[arg(long, default_value_t = 10_000)]
        mutations: u64,
        /// Blocks of pages in crafted files, of 1 MiB each.
        #[arg(long, default_value_t = 4600)]
        blocks: usize,
        /// One kind of files alone; another name than those that there are names them.
        #[arg(long)]
        only: Option<String>,
    },
    /// How fast kernel dumps of every form are looked through, beside reading and beside their
    /// codecs alone.
    Vmcore,
    /// How soon `flightctl dump` prints the first line out of 2 GiB of files.
    StoreRead,
    /// What a compile mix takes on disk, and what storing it costs.
    Disk(disk::DiskArgs),
}

/// Runs one benchmark; it prints its result itself.
pub(crate) fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Disk(args) => {
            crate::build::programs(Scope::Test)?;
            run_command(cargo().args([
                "build",
                "--release",
                "--locked",
                "-p",
                "flightrec-store",
                "--example",
                "bench_disk",
            ]))?;
            disk::run(args)
        }
        Bench::Overhead { rounds, json } => {
            overhead_programs()?;
            overhead::run(rounds, json)
        }
        Bench::Budget { rounds, only } => {
            overhead_programs()?;
            budget::run(rounds, only.as_deref())
        }
        Bench::Fairness { seconds, only } => {
            if std::env::var_os("FLIGHTREC_BIN_DIR").is_none() {
                crate::build::programs(Scope::Build)?;
            }
            fairness::run(seconds, only.as_deref())
        }
        Bench::Memory { mutations, blocks, only } => {
            run_command(cargo().args(["build", "--release", "--locked", "-p", "flightctl"]))?;
            let run = ["run", "--release", "--locked", "-p", "flightrec-fuzz", "--", "--memory"];
            let (mutations, blocks) = (mutations.to_string(), blocks.to_string());
            let flightctl = repository().join("target/release/flightctl");
            run_command(
                cargo()
                    .args(run)
                    .arg(flightctl)
                    .args(["--mutations", &mutations, "--blocks", &blocks])
                    .args(only.iter().flat_map(|kind| ["--only", kind.as_str()])),
            )
        }
        Bench::Vmcore => {
            let example =
                ["-p", "flightrec-vmcore", "--features", "synthetic", "--example", "bench_scan"];
            run_command(cargo().args(["run", "--release", "--locked"]).args(example))
        }
        Bench::StoreRead => {
            run_command(cargo().args(["build", "--release", "--locked", "-p", "flightctl"]))?;
            let flightctl = repository().join("target/release/flightctl");
            let example = [
                "run",
                "--release",
                "--locked",
                "-p",
                "flightctl",
                "--example",
                "bench_store_read",
                "--",
            ];
            run_command(cargo().args(example).arg(flightctl))
        }
        Bench::Read => {
            crate::build::programs(Scope::Build)?;
            run_command(cargo().args([
                "run",
                "--release",
                "--locked",
                "-p",
                "flightctl",
                "--example",
                "bench_read",
            ]))?;
            read::run()
        }
    }
}

/// Builds the programs and the empty probes beside them, unless others are to be measured.
fn overhead_programs() -> Result<()> {
    if std::env::var_os("FLIGHTREC_BIN_DIR").is_some() {
        return Ok(());
    }
    crate::build::programs(Scope::Build)?;
    overhead::prepare()
}

/// Median, least and greatest.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len() / 2), sorted.first(), sorted.last()) {
        (Some(median), Some(least), Some(greatest)) => (*median, *least, *greatest),
        _ => (f64::NAN, f64::NAN, f64::NAN),
    }
}
