//! `cargo xtask bench`: the benchmarks and their command line.

mod budget;
mod compact;
mod contexts;
mod disk;
mod drain;
mod export;
mod fairness;
mod fleet;
mod outputs;
mod overhead;
mod peak;
mod read;
mod ship;
mod ship_beside;
mod why;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::command::{self, cargo, repository, run as run_command};
use xtask::setup::Scope;

/// Measure flightrec.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

/// What is measured.
#[derive(Debug, Clone, Subcommand)]
enum Bench {
    /// Speed of `flightctl`: writing 2,000,000 events as text, and compared with `perf script`.
    Read {
        /// Compare with the flightctl in DIR, of another build, on a file that its flightd
        /// recorded.
        #[arg(long, value_name = "DIR")]
        against: Option<PathBuf>,
    },
    /// Cost of recording for a system call, an open, a pipe round trip and a build, compared with
    /// BPF programs that do nothing, that read the clock and that also store 16 bytes, and with
    /// ftrace, perf and bpftrace; also the bytes per event.
    Overhead {
        /// Number of rounds.
        #[arg(long, default_value_t = overhead::ROUNDS)]
        rounds: usize,
        /// Compare with the flightd and flightctl in DIR, of another build.
        #[arg(long, value_name = "DIR")]
        against: Option<PathBuf>,
        /// Measure only these conditions, by their names in --json.
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        only: Vec<String>,
        /// Print one JSON object instead of tables.
        #[arg(long)]
        json: bool,
    },
    /// Time that thread contexts add to the BPF program of a switch if no process publishes any, by
    /// the kernel's own count of that time. 2 minutes.
    Contexts {
        /// Number of rounds.
        #[arg(long, default_value_t = contexts::ROUNDS)]
        rounds: usize,
    },
    /// Check that the budget is kept: the loss of the recorded work, against what the recorder
    /// reports. 10 minutes.
    Budget {
        /// Number of rounds with and without recording, where an interval is reported.
        #[arg(long, default_value_t = budget::ROUNDS)]
        rounds: usize,
        /// Run only one case: paced, hammer, unlimited, one-cpu, no-daemon or burst.
        #[arg(long)]
        only: Option<String>,
    },
    /// Recorded share of quiet processes' events beside floods of every kind, under a budget. 6
    /// minutes.
    Fairness {
        /// How long the quiet processes make calls beside each flood, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u32,
        /// Run only one flood: calls, opens, renames, forks, execs, threads or wakeups.
        #[arg(long)]
        only: Option<String>,
    },
    /// Memory and time of every command that reads files, for crafted files and mutations of them;
    /// fails above 256 MiB. Half an hour.
    Memory {
        /// Number of mutated files.
        #[arg(long, default_value_t = 10_000)]
        mutations: u64,
        /// Number of blocks of pages in crafted files, of 1 MiB each [default: as many as take all
        /// the memory that any number takes].
        #[arg(long)]
        blocks: Option<usize>,
        /// Measure only this kind of files; an unknown name lists the kinds.
        #[arg(long)]
        only: Option<String>,
    },
    /// Speed of scanning kernel dumps of every form, compared with reading them and with their
    /// codecs alone.
    Vmcore,
    /// Time until `flightctl dump` prints the first line from 2 GiB of files.
    StoreRead {
        /// Compare with the flightctl in DIR, of another build.
        #[arg(long, value_name = "DIR")]
        against: Option<PathBuf>,
    },
    /// Time and memory of narrow questions about 75 million events in files, and of a report over
    /// all of them.
    Search {
        /// Number of events.
        #[arg(long, default_value_t = 75_000_000)]
        events: u64,
        /// How often each question is asked.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Leave the files in DIR.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
        /// All events in one file that was not closed, as after a kill -9 of flightd.
        #[arg(long)]
        killed: bool,
        /// Drop the files from the page cache before each question.
        #[arg(long)]
        cold: bool,
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Speed and memory of `flightctl why` over 10 s with a million events, and whether the shares
    /// of random threads and windows add up. 5 minutes.
    Why {
        /// Number of random threads and windows.
        #[arg(long, default_value_t = 1000)]
        windows: u32,
    },
    /// Speed, size and memory of each format of `flightctl export`, of one recording.
    Export {
        /// Number of times that each is written.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Export this file instead of a new recording.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Compare, byte by byte, what this build and another one say of the same recordings: every
    /// command that reads, over saved, closed, killed and damaged files, a snapshot and a kernel
    /// dump. 6 minutes.
    Outputs {
        /// The flightd and flightctl of the other build, which records.
        #[arg(long, value_name = "DIR")]
        against: PathBuf,
    },
    /// Disk space of a recorded compile workload, and the cost of storing it.
    Disk(disk::DiskArgs),
    /// CPU time of draining per event, also compared with another build in pairs, and the rate up
    /// to which nothing is lost.
    Drain(drain::DrainArgs),
    /// Let simulated hosts ship to one S3 server while flight-ship and the server are killed and
    /// spools fill up, and check that every snapshot and minute is there once, or is reported as
    /// absent. 12 minutes.
    Ship(ship::ShipArgs),
    /// CPU time and loss of flightd beside a flight-ship that ships, that can't reach its storage,
    /// or whose storage is full, and without one. 5 minutes.
    ShipBeside(ship_beside::BesideArgs),
    /// Ask DuckDB, ClickHouse and Spark the ten questions of docs/fleet.md about the compacted sums
    /// of a day of 10,000 hosts with known faults, and check that all answers are the same, and
    /// right. Half an hour.
    Fleet(fleet::FleetArgs),
    /// Compact what thousands of hosts ship for an hour into files of the size that engines like,
    /// and compare all of their rows with those that were shipped, using DuckDB. 10 minutes.
    Compact(compact::CompactArgs),
}

fn main() -> ExitCode {
    command::end(run(Args::parse().bench))
}

/// Builds what a benchmark needs.
fn prepare(bench: &Bench) -> Result<()> {
    let example = |package: &str, name: &str, run: &str| {
        let example = ["--release", "--locked", "-p", package, "--example", name];
        run_command(cargo().arg(run).args(example))
    };
    match bench {
        // These run programs of their own.
        Bench::Vmcore | Bench::StoreRead { .. } | Bench::Search { .. } => Ok(()),
        Bench::Memory { .. } => build("flightctl"),
        Bench::Overhead { .. } | Bench::Budget { .. } => {
            programs()?;
            overhead::prepare()
        }
        Bench::Fleet(_) | Bench::Compact(_) => {
            programs()?;
            build("flightrec-fleet")
        }
        Bench::Disk(_) => {
            xtask::setup::run(Scope::Test)?;
            programs()?;
            example("flightrec-store", "bench_disk", "build")
        }
        Bench::Read { .. } => {
            programs()?;
            example("flightctl", "bench_read", "run")
        }
        _ => programs(),
    }
}

/// Builds a package for a benchmark.
fn build(package: &str) -> Result<()> {
    run_command(cargo().args(["build", "--release", "--locked", "-p", package]))
}

/// Runs one benchmark; it prints its result itself.
fn run(bench: Bench) -> Result<()> {
    prepare(&bench)?;
    match bench {
        Bench::Disk(args) => disk::run(args),
        Bench::Drain(args) => drain::run(&args),
        Bench::Ship(args) => ship::run(&args),
        Bench::ShipBeside(args) => ship_beside::run(&args),
        Bench::Fleet(args) => fleet::run(&args),
        Bench::Compact(args) => compact::run(&args),
        Bench::Overhead { rounds, against, only, json } => {
            overhead::run(rounds, against.as_deref(), &only, json)
        }
        Bench::Contexts { rounds } => contexts::run(rounds),
        Bench::Budget { rounds, only } => budget::run(rounds, only.as_deref()),
        Bench::Fairness { seconds, only } => fairness::run(seconds, only.as_deref()),
        Bench::Memory { mutations, blocks, only } => memory(mutations, blocks, only.as_deref()),
        Bench::Vmcore => {
            let example =
                ["-p", "flightrec-vmcore", "--features", "synthetic", "--example", "bench_scan"];
            run_command(cargo().args(["run", "--release", "--locked"]).args(example))
        }
        Bench::StoreRead { against } => {
            let mut command = of_flightctl("bench_store_read")?;
            if let Some(against) = against {
                command.arg("--against").arg(against.join("flightctl"));
            }
            run_command(&mut command)
        }
        Bench::Search { events, rounds, keep, killed, cold, json } => {
            let flags = [("--killed", killed), ("--cold", cold), ("--json", json)];
            search(events, rounds, keep.as_deref(), &flags)
        }
        Bench::Export { rounds, file } => export::run(rounds, file.as_deref()),
        Bench::Why { windows } => why::run(windows),
        Bench::Outputs { against } => outputs::run(&against),
        Bench::Read { against } => read::run(against.as_deref()),
    }
}

/// Memory of the commands that read files, by `flightrec-fuzz`.
fn memory(mutations: u64, blocks: Option<usize>, only: Option<&str>) -> Result<()> {
    let run = ["run", "--release", "--locked", "-p", "flightrec-fuzz", "--", "--memory"];
    let (mutations, blocks) = (mutations.to_string(), blocks.map(|n| n.to_string()));
    run_command(
        cargo()
            .args(run)
            .arg(repository().join("target/release/flightctl"))
            .args(["--mutations", &mutations])
            .args(blocks.iter().flat_map(|blocks| ["--blocks", blocks.as_str()]))
            .args(only.iter().flat_map(|kind| ["--only", *kind])),
    )
}

/// Narrow questions, beside DuckDB where it is installed (tests/judges/parquet/setup.sh).
fn search(events: u64, rounds: usize, keep: Option<&Path>, flags: &[(&str, bool)]) -> Result<()> {
    let mut command = of_flightctl("bench_search")?;
    let (events, rounds) = (events.to_string(), rounds.to_string());
    command.args(["--events", &events, "--rounds", &rounds]);
    command.args(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
    if let Some(keep) = keep {
        command.arg("--keep").arg(keep);
    }
    let python = repository().join("target/judges/parquet/bin/python");
    if python.exists() {
        command.arg("--duckdb").arg(python);
    }
    run_command(&mut command)
}

/// Builds the programs as packages have them, and measures those, unless `FLIGHTREC_BIN_DIR` names
/// others.
fn programs() -> Result<()> {
    if std::env::var_os("FLIGHTREC_BIN_DIR").is_none() {
        xtask::build::programs()?;
        flightrec_tests::use_programs(repository().join("target/release"));
    }
    Ok(())
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

/// An example of `flightctl` that measures it, told which program to measure. Both are built at
/// once: for the example, other features of some crates are needed, and each set is built anew.
fn of_flightctl(example: &str) -> Result<Command> {
    let build = ["build", "--release", "--locked", "-p", "flightctl", "--bins", "--example"];
    run_command(cargo().args(build).arg(example))?;
    let built = repository().join("target/release");
    let mut command = Command::new(built.join("examples").join(example));
    command.arg(built.join("flightctl"));
    Ok(command)
}
