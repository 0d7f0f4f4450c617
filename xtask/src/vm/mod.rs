//! `cargo xtask vm`: real kernels that really panic, in a virtual machine, and whether what was recorded is found.
//!
//! For each kernel: it boots under QEMU (without KVM, if need be), `flightd` records a workload with numbered marks, a
//! sysrq panics the machine in the middle of it, the crash kernel runs our hook and then makedumpfile in every form, and what
//! comes out is held against one another and against what `flightctl` said live ([`check`]).
//!
//! `--boot` is about the other end of a machine's life ([`boot`]).

mod boot;
mod check;
mod image;
mod kernels;
mod machine;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::build;
use crate::command::{probe, repository};
use crate::setup::Scope;

/// What `vm` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Vm {
    /// Kernels, by name: 6.1, 6.1-rt, 6.12, 6.12-rt, newest [default: all].
    #[arg(long = "kernel", value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    /// Where kernels and images are kept, some hundred MiB [default: ~/.cache/flightrec-vm].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Check again what the last run of each kernel left, without a virtual machine.
    #[arg(long)]
    check_only: bool,
    /// Instead of panics: the package in a Debian that boots twice, recorded from early in boot on (as root).
    #[arg(long)]
    boot: bool,
}

/// Programs that are needed beside the build's, and the Debian packages that they are in.
const NEEDS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("makedumpfile", "makedumpfile"),
    ("busybox", "busybox-static"),
    ("modprobe", "kmod"),
    ("cpio", "cpio"),
    ("mke2fs", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("strip", "binutils"),
    ("xz", "xz-utils"),
    ("gcc", "gcc"),
];

/// Runs them all, one after the other; fails if any check of any kernel does.
pub(crate) fn run(vm: &Vm) -> Result<()> {
    let missing: Vec<&str> = NEEDS
        .iter()
        .filter(|(program, _)| probe(std::process::Command::new("which").arg(program)).is_none())
        .map(|(_, package)| *package)
        .collect();
    ensure!(missing.is_empty(), "vm: please install: apt-get install -y {}", missing.join(" "));
    let cache = match &vm.cache {
        Some(dir) => dir.clone(),
        None => PathBuf::from(std::env::var_os("HOME").context("vm: no HOME: name a folder by --cache")?)
            .join(".cache/flightrec-vm"),
    };
    fs::create_dir_all(&cache).with_context(|| cache.display().to_string())?;
    let wanted = kernels::named(&vm.kernels)?;
    if !vm.check_only {
        // As the end-to-end tests have it: programs that are built are taken as they are.
        if std::env::var_os("FLIGHTREC_BIN_DIR").is_none() && !vm.boot {
            build::programs(Scope::Build)?;
        }
        kernels::fetch(&cache, &wanted)?;
    }
    let package = if vm.boot && !vm.check_only { Some(boot::package()?) } else { None };
    let mut failed = Vec::new();
    for kernel in wanted {
        let started = Instant::now();
        let result =
            if vm.boot { boot::one(&cache, kernel, package.as_deref()) } else { one(&cache, kernel, vm.check_only) };
        let seconds = started.elapsed().as_secs();
        match result {
            Ok(lines) => {
                println!("vm: {}: passed ({seconds} s)", kernel.name);
                for line in lines {
                    println!("    {line}");
                }
            }
            Err(error) => {
                println!("vm: {}: FAILED ({seconds} s): {error:#}", kernel.name);
                failed.push(kernel.name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("vm: failed on {}", failed.join(", "));
    }
    Ok(())
}

/// Where the programs are.
fn programs() -> PathBuf {
    std::env::var_os("FLIGHTREC_BIN_DIR").map_or_else(|| repository().join("target/release"), PathBuf::from)
}

/// One kernel's run and checks; what was found, for people.
fn one(cache: &std::path::Path, kernel: &kernels::Kernel, check_only: bool) -> Result<Vec<String>> {
    let out = cache.join(format!("out-{}", kernel.name));
    if !check_only {
        let unpacked = kernels::unpacked(cache, kernel)?;
        let image = image::build(cache, &unpacked)?;
        machine::run(&image)?;
        image.extract(&out)?;
    }
    check::all(&out)
}
