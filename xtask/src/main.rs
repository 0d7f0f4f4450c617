//! `cargo xtask …`: tasks that plain cargo cannot express.

mod apt;
mod arch;
mod architecture;
mod bare;
mod bench;
mod bpf_toolchain;
mod build;
mod calm;
mod check_modules;
mod command;
mod cross;
mod deb;
mod demo;
mod deny;
mod elf;
mod foreign;
mod fuzz;
mod image;
mod interrupt;
mod kubernetes;
mod man;
mod release;
mod reproducible;
mod rpm;
mod sbom;
mod service;
mod setup;
mod site;
mod static_program;
mod tarball;
mod test;
mod tool;
mod vm;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use flightrec_format::architecture::Architecture;

use crate::architecture::{Machine, wanted};

/// Set up, build, demonstrate and test flightrec.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what is missing for building and testing.
    Setup,
    /// Build flightd, flightctl and flight-ship: target/release/….
    Build,
    /// Build flightd, flightctl and flight-ship for aarch64:
    /// target/aarch64-unknown-linux-gnu/release/….
    Cross,
    /// Record a small workload and show the events (as root).
    Demo,
    /// Run all tests: unit, property, and end-to-end on the running kernel (as root).
    Test {
        /// Skip the tests that need root and BPF; the last line counts them.
        #[arg(long)]
        without_kernel: bool,
        /// Also run `cargo xtask vm`, which panics each listed kernel in a virtual machine: minutes
        /// each.
        #[arg(long)]
        vm: bool,
    },
    /// Run a benchmark.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Fuzz every parser of external input.
    Fuzz {
        /// Arguments of flightrec-fuzz: parsers [default: all], --seconds N for each, --seed S,
        /// --input FILE.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Panic real kernels in a virtual machine, and check the recordings in their dumps.
    Vm(vm::Vm),
    /// Build a flightctl without shared libraries, for crash kernels.
    Static,
    /// Check that no crate has modules that import each other in a circle.
    CheckModules,
    /// Check the dependencies' licences, sources and known vulnerabilities.
    Deny,
    /// Build the Debian package: target/debian/flightrec_….deb.
    Deb {
        /// Package version, if different from the programs' (to test an upgrade).
        #[arg(long)]
        version: Option<String>,
        /// Machine to build for [default: this one]; for aarch64, programs are cross compiled.
        #[arg(long = "arch", value_name = "MACHINE")]
        machine: Option<Machine>,
    },
    /// Build the RPM: target/rpm/RPMS/x86_64/flightrec-….rpm.
    Rpm,
    /// Pack the contents of the Debian package, with an installer:
    /// target/tarball/flightrec-….tar.gz.
    Tarball {
        /// Use the contents of this package instead of a new one.
        #[arg(long, value_name = "DEB")]
        package: Option<PathBuf>,
        /// Machine to build for [default: this one].
        #[arg(long = "arch", value_name = "MACHINE", conflicts_with = "package")]
        machine: Option<Machine>,
    },
    /// Make the Arch Linux package from the tarball with packaging/arch/PKGBUILD: target/arch/….
    Arch {
        /// Use this tarball instead of a new one.
        #[arg(long, value_name = "TARBALL")]
        tarball: Option<PathBuf>,
    },
    /// Make all packages of both machines, list their sums in DIR/SHA256SUMS, and sign that file
    /// (docs/release.md).
    Release {
        /// Directory for the packages; it must not exist yet.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The OpenSSH private key to sign with, or the public key of one that an agent or a
        /// security key holds.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// List what each program is made of, as CycloneDX: target/sbom/….cdx.json.
    Sbom,
    /// Build the packages of the current commit from scratch in two clones, and compare their
    /// bytes.
    Reproducible {
        /// Directory for the clones; it must not exist yet. What both have made is left there.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Make an image for containers: target/image/flightrec.tar, for `podman load`, `docker load`,
    /// `ctr image import` and `skopeo copy`.
    Image {
        /// Take what is in target/release, as it is.
        #[arg(long)]
        as_built: bool,
    },
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
    /// Write manual pages into target/man and shell completions into target/completions.
    Man,
    /// Build the documentation as a site, with references made from the programs, and check its
    /// links.
    Site {
        /// Write it into this directory, which is made or replaced.
        #[arg(short, long, value_name = "DIR", default_value = "target/site/html")]
        output: PathBuf,
    },
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
        Task::Cross => cross::build_and_tell(),
        Task::Demo => demo::run(),
        Task::Test { without_kernel, vm } => test::run(without_kernel, vm),
        Task::Bench(bench) => bench::run(bench),
        Task::Fuzz { arguments } => fuzz::run(&arguments),
        Task::Vm(vm) => vm::run(&vm),
        Task::Static => static_program::flightctl(Architecture::HERE)
            .map(|program| println!("built: {}", program.display())),
        Task::CheckModules => check_modules::run(),
        Task::Deny => deny::run(),
        Task::Deb { version, machine } => deb::run(version.as_deref(), wanted(machine))
            .map(|package| println!("made: {}", package.display())),
        Task::Sbom => {
            for file in sbom::run()? {
                println!("made: {}", file.display());
            }
            Ok(())
        }
        Task::Tarball { package, machine } => package
            .map_or_else(|| tarball::run(wanted(machine)), |package| tarball::of_package(&package))
            .map(|tarball| println!("made: {}", tarball.display())),
        Task::Arch { tarball } => {
            arch::run(tarball).map(|package| println!("made: {}", package.display()))
        }
        Task::Release { folder, key } => release::run(&folder, &key),
        Task::Reproducible { folder } => reproducible::run(&folder),
        Task::Rpm => rpm::run().map(|package| println!("made: {}", package.display())),
        Task::Image { as_built } => {
            image::run(as_built).map(|image| println!("made: {}", image.display()))
        }
        Task::Kubernetes { as_built } => kubernetes::run(as_built),
        Task::Service { soak, keep, package } => service::run(minutes(soak), keep, package),
        Task::ServiceTrial { soak } => service::trial(minutes(soak)),
        Task::Bare(bare) => bare::run(bare),
        Task::BareTrial { way } => bare::trial(way),
        Task::VmForge { bpffs } => vm::forge(&bpffs),
        Task::Calm(calm) => calm::run(calm),
        Task::Man => man::run(),
        Task::Site { output } => site::run(&output),
        Task::DemoWorkload { folder } => workload::run(&folder),
    }
}

fn minutes(n: u64) -> Duration {
    Duration::from_mins(n)
}
