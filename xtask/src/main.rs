//! `cargo xtask …`: what plain cargo cannot express.

mod bench;
mod bpf_toolchain;
mod build;
mod calm;
mod check_modules;
mod command;
mod deb;
mod demo;
mod deny;
mod fuzz;
mod interrupt;
mod man;
mod rpm;
mod service;
mod setup;
mod static_program;
mod test;
mod vm;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Sets up, builds, shows and tests flightrec.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what building and testing need; does nothing where all is there.
    Setup,
    /// Build target/release/flightd and target/release/flightctl.
    Build,
    /// Record a small workload and show what the recorder saw of it (as root).
    Demo,
    /// Run every test: unit, property, and end to end on the running kernel (as root).
    Test {
        /// Leave out the tests that need root and BPF; the last line counts them.
        #[arg(long)]
        without_kernel: bool,
        /// Also panic every kernel of the list in a virtual machine (`cargo xtask vm`): minutes
        /// each.
        #[arg(long)]
        vm: bool,
    },
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Try every parser of what comes from outside on inputs gone wrong.
    Fuzz {
        /// Arguments of flightrec-fuzz: parsers [default: all], --seconds N of each, --seed S,
        /// --input FILE.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Panic real kernels in a virtual machine, and see whether what was recorded is found in their
    /// dumps.
    Vm(vm::Vm),
    /// Build a flightctl without shared libraries, for crash kernels.
    Static,
    /// Check that no crate has modules that import each other in a circle.
    CheckModules,
    /// Check the dependencies' licences, sources and known vulnerabilities.
    Deny,
    /// Build the Debian package: target/debian/flightrec_….deb.
    Deb {
        /// Its version, where it is not the programs' own (to try an upgrade).
        #[arg(long)]
        version: Option<String>,
    },
    /// Build the RPM: target/rpm/RPMS/x86_64/flightrec-….rpm.
    Rpm,
    /// Try the package in a container with systemd as its init: installation, restarts, upgrade,
    /// purge (as root).
    Service {
        /// Also run it so many minutes under load, and look at its memory.
        #[arg(long, value_name = "MINUTES", default_value_t = 0)]
        soak: u64,
        /// Leave the container's file system in target/service.
        #[arg(long)]
        keep: bool,
    },
    /// See that no trigger fires while nothing is wrong: ten quiet minutes, then this project
    /// compiled (as root).
    Calm(calm::Calm),
    /// Write manual pages into target/man and shell completions into target/completions.
    Man,
    /// What `service` runs in its container.
    #[command(hide = true)]
    ServiceTrial {
        /// Minutes.
        #[arg(long, default_value_t = 0)]
        soak: u64,
    },
    /// What `vm` runs in its machine, to be found in the dump.
    #[command(hide = true)]
    VmForge {
        /// Where the recording is pinned.
        bpffs: PathBuf,
    },
    /// What `demo` records.
    #[command(hide = true)]
    DemoWorkload {
        /// An empty folder to work in.
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Not by `Result` from main, which prints a backtrace where RUST_BACKTRACE is set:
            // these are messages for people.
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup => setup::run(setup::Scope::Test),
        Task::Build => build::run(),
        Task::Demo => demo::run(),
        Task::Test { without_kernel, vm } => test::run(without_kernel, vm),
        Task::Bench(bench) => bench::run(bench),
        Task::Fuzz { arguments } => fuzz::run(&arguments),
        Task::Vm(vm) => vm::run(&vm),
        Task::Static => {
            static_program::flightctl().map(|program| println!("built: {}", program.display()))
        }
        Task::CheckModules => check_modules::run(),
        Task::Deny => deny::run(),
        Task::Deb { version } => {
            deb::run(version.as_deref()).map(|package| println!("made: {}", package.display()))
        }
        Task::Rpm => rpm::run().map(|package| println!("made: {}", package.display())),
        Task::Service { soak, keep } => service::run(minutes(soak), keep),
        Task::ServiceTrial { soak } => service::trial(minutes(soak)),
        Task::VmForge { bpffs } => vm::forge(&bpffs),
        Task::Calm(calm) => calm::run(calm),
        Task::Man => man::run(),
        Task::DemoWorkload { folder } => workload::run(&folder),
    }
}

fn minutes(n: u64) -> Duration {
    Duration::from_mins(n)
}
