//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use crate::architecture::Architecture;
use crate::{
    arch, build, check_modules, command, cross, deb, deny, fuzz, image, man, probes, release,
    reproducible, rpm, sbom, setup, site, static_program, tarball, test,
};

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
    /// Run the tests: unit, property, and end-to-end on the running kernel (as root); `--help`
    /// lists the layers.
    #[command(disable_help_flag = true)]
    Test(Forwarded),
    /// Compile the probes into probes-ebpf/prebuilt, where every build takes them from: after each
    /// change of their sources.
    Probes {
        /// Write nothing there; fail if the object there is not what the sources are compiled to.
        #[arg(long)]
        check: bool,
    },
    /// Run a benchmark; `cargo xtask bench help` lists them.
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Fuzz every parser of external input.
    Fuzz {
        /// Arguments of flightrec-fuzz: parsers [default: all], --seconds N for each, --seed S,
        /// --input FILE.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Panic real kernels in a virtual machine, and check the recordings in their dumps.
    #[command(disable_help_flag = true)]
    Vm(Forwarded),
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
        machine: Option<Architecture>,
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
        machine: Option<Architecture>,
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
    #[command(disable_help_flag = true)]
    Kubernetes(Forwarded),
    /// Test the package in a container with systemd: installation, restarts, upgrade, purge (as
    /// root).
    #[command(disable_help_flag = true)]
    Service(Forwarded),
    /// Install, try and remove the package in a bare Debian 12 and 13, by the commands of
    /// docs/install.md, and check that nothing is left (as root).
    #[command(disable_help_flag = true)]
    Bare(Forwarded),
    /// Check that no trigger fires in ten quiet minutes and while this project compiles (as root).
    #[command(disable_help_flag = true)]
    Calm(Forwarded),
    /// Write manual pages into target/man and shell completions into target/completions.
    Man,
    /// Build the documentation as a site, with references made from the programs, and check its
    /// links.
    Site {
        /// Write it into this directory, which is made or replaced.
        #[arg(short, long, value_name = "DIR", default_value = "target/site/html")]
        output: PathBuf,
    },
}

/// What another program of this repository is given as it was typed; `--help` shows what that is.
#[derive(Debug, clap::Args)]
struct Forwarded {
    /// Arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// What may be typed.
pub fn command_line() -> clap::Command {
    Args::command()
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    // Where cargo runs this program in the probes' compiler's place.
    if let Some(code) = flightrec_probes_build::as_rustc_wrapper() {
        return ExitCode::from(u8::try_from(code).unwrap_or(1));
    }
    command::end(run(Args::parse().task))
}

fn run(task: Task) -> Result<()> {
    let wanted = |typed: Option<Architecture>| typed.unwrap_or(Architecture::HERE);
    let system = |task: &str, forwarded: Forwarded| {
        let arguments = [vec![task.into()], forwarded.arguments].concat();
        build::run_ours("system-tests", &arguments)
    };
    match task {
        Task::Setup => setup::run(setup::Scope::Test),
        Task::Build => build::run(),
        Task::Cross => cross::build_and_tell(),
        Task::Demo => build::demo(),
        Task::Test(Forwarded { arguments }) => test::run(&arguments),
        Task::Probes { check: false } => probes::renew(),
        Task::Probes { check: true } => probes::check(),
        Task::Bench(Forwarded { arguments }) => build::run_ours("bench", &arguments),
        Task::Fuzz { arguments } => fuzz::run(&arguments),
        Task::Vm(forwarded) => system("vm", forwarded),
        Task::Kubernetes(forwarded) => system("kubernetes", forwarded),
        Task::Service(forwarded) => system("service", forwarded),
        Task::Bare(forwarded) => system("bare", forwarded),
        Task::Calm(forwarded) => system("calm", forwarded),
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
        Task::Man => man::run(),
        Task::Site { output } => site::run(&output),
    }
}
