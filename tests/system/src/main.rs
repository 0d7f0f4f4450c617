//! `cargo xtask vm`, `service`, `bare`, `kubernetes` and `calm`: tests that need a machine of their
//! own, virtual or in a container, or minutes of quiet.

mod bare;
mod calm;
mod kubernetes;
mod service;
mod vm;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Test flightrec on machines of its own.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Panic real kernels in a virtual machine, and check the recordings in their dumps.
    Vm(vm::Vm),
    /// Run the pod of packaging/kubernetes on this machine, with all of its rights, and then
    /// without each of them (as root).
    Kubernetes {
        /// Take what is in target/release, as it is.
        #[arg(long)]
        as_built: bool,
    },
    /// Test the package in a container with systemd: installation, restarts, upgrade, purge (as
    /// root).
    Service {
        /// Also run it under load for this many minutes, and check its memory.
        #[arg(long, value_name = "MINUTES", default_value_t = 0)]
        soak: u64,
        /// Keep the container's file system in target/service.
        #[arg(long)]
        keep: bool,
        /// Test this package instead of a new one.
        #[arg(long, value_name = "DEB")]
        package: Option<PathBuf>,
    },
    /// Install, try and remove the package in a bare Debian 12 and 13, by the commands of
    /// docs/install.md, and check that nothing is left (as root).
    Bare(bare::Bare),
    /// Check that no trigger fires in ten quiet minutes and while this project compiles (as root).
    Calm(calm::Calm),
    /// What `service` runs in its container.
    #[command(hide = true)]
    ServiceTrial {
        /// Minutes.
        #[arg(long, default_value_t = 0)]
        soak: u64,
    },
    /// What `bare` runs in its container.
    #[command(hide = true)]
    BareTrial { way: bare::Way },
    /// What `vm` runs in its machine, to be found in the dump.
    #[command(hide = true)]
    VmForge {
        /// Where the recording is pinned.
        bpffs: PathBuf,
    },
}

fn main() -> ExitCode {
    xtask::command::end(run(Args::parse().task))
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Vm(vm) => vm::run(&vm),
        Task::Kubernetes { as_built } => kubernetes::run(as_built),
        Task::Service { soak, keep, package } => service::run(minutes(soak), keep, package),
        Task::ServiceTrial { soak } => service::trial(minutes(soak)),
        Task::Bare(bare) => bare::run(bare),
        Task::BareTrial { way } => bare::trial(way),
        Task::VmForge { bpffs } => vm::forge(&bpffs),
        Task::Calm(calm) => calm::run(calm),
    }
}

fn minutes(n: u64) -> Duration {
    Duration::from_mins(n)
}
