//! `cargo xtask bare`: what installing, trying and purging the package leaves of it.
//!
//! A Debian of debootstrap's smallest kind with systemd as its init, of each release that the
//! package is for, is booted by systemd-nspawn as for `cargo xtask service`. In it, a unit runs
//! this very program as `cargo xtask bare-trial`: it types the commands of docs/install.md and
//! compares the machine before and after.

mod allowed;
mod state;
mod trial;
mod way;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use nix::unistd::geteuid;

pub(crate) use trial::run as trial;
pub(crate) use way::Way;

use crate::service::container::{self, Container};
use crate::service::folder;
use flightrec_tests::Interrupt;
use xtask::setup::{self, Scope};

/// The releases.
const SUITES: [&str; 2] = [container::BOOKWORM, container::TRIXIE];
/// What a release may take: apt fetches what the package recommends.
const LIMIT: Duration = Duration::from_mins(10);

/// `cargo xtask bare`.
#[derive(Debug, Args)]
pub(crate) struct Bare {
    /// Test the tarball, with its installer, instead of the Debian package.
    #[arg(long)]
    tarball: bool,
    /// Test the RPM, with rpm itself, instead of the Debian package.
    #[arg(long, conflicts_with = "tarball")]
    rpm: bool,
    /// Test only in this release: bookworm or trixie.
    #[arg(long)]
    suite: Option<String>,
    /// Keep the container's file system in target/service.
    #[arg(long)]
    keep: bool,
    /// Test this file instead of a new one.
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
}

/// Builds a package, or takes this one, and tries it in each release, or in this one.
pub(crate) fn run(bare: Bare) -> Result<()> {
    ensure!(geteuid().is_root(), "a container needs root, and so does a recorder in it");
    let Bare { tarball, rpm, suite, keep, package } = bare;
    let way = Way::of(tarball, rpm);
    let suites: Vec<&str> = SUITES
        .into_iter()
        .filter(|known| suite.as_deref().is_none_or(|suite| suite == *known))
        .collect();
    ensure!(!suites.is_empty(), "--suite: {}", SUITES.join(" or "));
    setup::run(Scope::Service)?;
    let package = package.map_or_else(|| way.build(), Ok)?;
    let name = package.file_name().context("a package without a name")?.to_owned();
    let name = name.to_str().context("a package's name")?;
    let program = std::env::current_exe().context("where this program is")?;
    let folder = folder();
    fs::create_dir_all(&folder).context("target/service")?;
    let interrupt = Interrupt::defer()?;
    for suite in suites {
        println!("bare: Debian {suite}, {name}");
        let container = Container::new(suite, &folder, keep)?;
        interrupt.check()?;
        fs::copy(&package, container.place(name)).context("a copy of the package")?;
        fs::copy(&program, container.place("system-tests")).context("a copy of this program")?;
        let command = format!("{}/system-tests bare-trial {}", container::INSIDE, way.name());
        if !container.run(&command, LIMIT, &interrupt)? {
            bail!("bare: {suite}: see above; `--keep` leaves its file system for a look");
        }
    }
    Ok(())
}
