//! `cargo xtask vm`: real kernels that really panic, in a virtual machine, and whether what was
//! recorded is found.
//!
//! For each kernel: it boots under QEMU (without KVM, if need be), `flightd` records numbered calls
//! under preemption and a workload with numbered marks, a process without rights maps what looks
//! like another recording (`forge`), a sysrq panics the machine in the middle of it, the crash
//! kernel runs our hook and then makedumpfile in every form, and what comes out is held against one
//! another and against what `flightctl` said live ([`check`]).
//!
//! `--flood` is about what a flood leaves of others; `--cpus` about machines with many CPUs
//! ([`cpus`]); `--boot` about the other end of a machine's life ([`boot`]).

mod aarch64;
mod boot;
mod check;
mod cpus;
mod forge;
mod image;
mod kernels;
mod machine;
mod qmp;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use xtask::architecture::Architecture;

use self::check::{Found, Row};
pub(crate) use self::forge::run as forge;
use self::image::Trial;
use self::kernels::{Kernel, Promise};
use xtask::build;
use xtask::command::repository;
use xtask::cross;
use xtask::setup::{self, Scope};

/// What `vm` is asked for.
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Vm {
    /// Kernels by name: 5.10, 6.1, 6.1-rt, 6.12, 6.12-rt, newest; of aarch64: 6.1, 6.12, 6.12-16k,
    /// newest [default: all].
    #[arg(long = "kernel", value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    /// Run all kernels of both machines, which takes half an hour, and print a table of what they
    /// showed.
    #[arg(
        long,
        conflicts_with_all = ["kernels", "ci", "flood", "cpus", "refusals", "architecture", "boot"]
    )]
    all: bool,
    /// Cache for kernels and images, some hundred MiB [default: ~/.cache/flightrec-vm].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Check the results of the last run of each kernel again, without a virtual machine.
    #[arg(long)]
    check_only: bool,
    /// Run one kernel with one form of dump, for continuous integration. If QEMU or the kernel is
    /// not available, say so without failing.
    #[arg(long, conflicts_with_all = ["kernels", "check_only", "boot"])]
    ci: bool,
    /// Run only a flood of this many seconds, then a panic: the last minute of quiet processes must
    /// be in the dump (on 6.12, unless --kernel names another).
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with_all = ["ci", "boot"],
        value_parser = clap::value_parser!(u32).range(70..=1500)
    )]
    flood: Option<u32>,
    /// Instead of panics, record on machines with these numbers of CPUs, one after the other,
    /// smallest first; with three, nothing may grow faster than the number of CPUs (on 6.12, unless
    /// --kernel names another).
    #[arg(
        long,
        value_name = "COUNT",
        value_delimiter = ',',
        conflicts_with_all = ["ci", "flood", "boot"],
        value_parser = clap::value_parser!(u32).range(1..=255)
    )]
    cpus: Vec<u32>,
    /// Instead of panics, start the recorder where tracefs or the kernel's types are missing, and
    /// where the kernel is locked down (on 6.12, unless --kernel names another).
    #[arg(long, conflicts_with_all = ["ci", "flood", "cpus", "boot"])]
    refusals: bool,
    /// Machine to run: x86_64, or aarch64, for which the programs are compiled here, and which
    /// records, reads what this machine recorded, and panics, or boots.
    #[arg(
        long = "arch",
        value_name = "MACHINE",
        conflicts_with_all = ["flood", "cpus", "refusals"]
    )]
    architecture: Option<Architecture>,
    /// Instead of panics, boot a Debian with the package twice, and check that it records from
    /// early in boot; of aarch64 also that a drill and a purge leave nothing (as root).
    #[arg(long)]
    boot: bool,
}

impl Vm {
    /// What the machines are to do.
    fn trial(&self) -> Trial {
        match self.flood {
            Some(seconds) => Trial::Flood(seconds),
            None if self.refusals => Trial::Refusals,
            None => Trial::Panic,
        }
    }

    fn architecture(&self) -> Architecture {
        self.architecture.unwrap_or(Architecture::X86_64)
    }
}

/// The forms in which the dump is taken: by the crash kernel compressed by zlib, as ELF, and
/// compressed by LZO, flattened, as stock kdump-tools do; and by QEMU, which writes all of the
/// memory, while the crash kernel waits.
const FORMS: &[&str] = &["c", "E", "flat", QEMU];
const QEMU: &str = "qemu";
/// In continuous integration: a kernel that many have, and the form that they get.
const CI: (&str, &[&str]) = ("6.12", &["flat"]);

/// Runs them all, one after the other; fails if any check of any kernel does.
pub(crate) fn run(vm: &Vm) -> Result<()> {
    // As the end-to-end tests have it: programs that are built are taken as they are.
    if !vm.check_only && !vm.boot && std::env::var_os("FLIGHTREC_BIN_DIR").is_none() {
        build::programs()?;
    }
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    let machines: &[Architecture] =
        if vm.all { &[Architecture::X86_64, Architecture::Aarch64] } else { &[vm.architecture()] };
    for &architecture in machines {
        failed.extend(run_on(vm, architecture, &mut rows)?);
    }
    if rows.len() > 1 {
        for line in Row::table(&rows) {
            println!("{line}");
        }
    }
    if !failed.is_empty() {
        bail!("vm: failed on {}", failed.join(", "));
    }
    Ok(())
}

/// Runs those of a machine; enters what they showed, and returns which failed.
fn run_on(vm: &Vm, architecture: Architecture, rows: &mut Vec<Row>) -> Result<Vec<&'static str>> {
    let is_aarch64 = architecture == Architecture::Aarch64;
    let forms = if vm.ci || vm.flood.is_some() { CI.1 } else { FORMS };
    let (cache, wanted) = match prepare(vm, architecture) {
        Err(why) if vm.ci => {
            let what = if is_aarch64 { "aarch64" } else { "a real panic" };
            println!("left out: {what} in a virtual machine: {why:#}");
            return Ok(Vec::new());
        }
        prepared => prepared?,
    };
    let package = if vm.boot && !vm.check_only { Some(boot::package(architecture)?) } else { None };
    let mut failed = Vec::new();
    for kernel in wanted {
        // One that refuses records nothing of its boot.
        if vm.boot && kernel.promise == Promise::Refuses {
            continue;
        }
        let started = Instant::now();
        let mut of_kernel = |found: Found| {
            rows.push(found.row);
            found.lines
        };
        let result = if vm.boot {
            boot::one(&cache, architecture, kernel, package.as_deref())
        } else if is_aarch64 {
            aarch64::one(&cache, kernel, vm.check_only).map(&mut of_kernel)
        } else if !vm.cpus.is_empty() {
            cpus::all(&cache, kernel, &vm.cpus, vm.check_only)
        } else {
            one(&cache, kernel, forms, vm.trial(), vm.check_only, of_kernel)
        };
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
    // A machine that lacks something takes seconds.
    if (vm.ci || vm.all) && !is_aarch64 {
        let refusing = Vm { ci: false, all: false, refusals: true, ..vm.clone() };
        failed.extend(run_on(&refusing, architecture, rows)?);
    }
    Ok(failed)
}

/// What a run needs beside the programs: tools, a folder, and the kernels in it.
fn prepare(vm: &Vm, architecture: Architecture) -> Result<(PathBuf, Vec<&'static Kernel>)> {
    let cache = match &vm.cache {
        Some(dir) => dir.clone(),
        None => PathBuf::from(
            std::env::var_os("HOME").context("vm: no HOME: name a folder by --cache")?,
        )
        .join(".cache/flightrec-vm"),
    };
    let (cache, scope, ci) = match architecture {
        Architecture::X86_64 => (cache, Scope::Vm, CI.0),
        Architecture::Aarch64 => {
            let scope = if vm.boot { Scope::CrossBoot } else { Scope::CrossVm };
            (cache.join("aarch64"), scope, aarch64::CI)
        }
    };
    let one_is_enough = vm.flood.is_some() || !vm.cpus.is_empty() || vm.refusals;
    let wanted = if vm.ci || one_is_enough && vm.kernels.is_empty() {
        kernels::named(&[ci.to_owned()], architecture)?
    } else {
        kernels::named(&vm.kernels, architecture)?
    };
    if !vm.check_only {
        setup::run(scope)?;
        fs::create_dir_all(&cache).with_context(|| cache.display().to_string())?;
        // What boots has the package.
        if architecture == Architecture::Aarch64 && !vm.boot {
            cross::build()?;
        }
        kernels::fetch(&cache, &wanted, architecture)?;
    }
    Ok((cache, wanted))
}

/// Where the programs are.
fn programs() -> PathBuf {
    std::env::var_os("FLIGHTREC_BIN_DIR")
        .map_or_else(|| repository().join("target/release"), PathBuf::from)
}

/// The `flightctl` without shared libraries, where `cargo xtask static` has built one since the
/// other was built: an older one may not know what is recorded now.
fn static_program() -> Option<PathBuf> {
    let built = |program: &Path| program.metadata().and_then(|metadata| metadata.modified()).ok();
    let program = xtask::static_program::path(Architecture::HERE);
    (built(&program)? >= built(&repository().join("target/release/flightctl"))?).then_some(program)
}

/// One kernel's run and checks; what was found, for people.
fn one(
    cache: &Path,
    kernel: &Kernel,
    forms: &[&str],
    trial: Trial,
    check_only: bool,
    of_kernel: impl FnMut(Found) -> Vec<String>,
) -> Result<Vec<String>> {
    let out = cache.join(format!("{}-{}", trial.name(), kernel.name));
    if !check_only {
        let unpacked = kernels::unpacked(cache, kernel)?;
        let image = image::build(cache, &unpacked, forms, trial)?;
        machine::run(&image)?;
        image.extract(&out)?;
        let panics = matches!(trial, Trial::Panic) && kernel.promise == Promise::Records;
        if panics && forms.contains(&QEMU) {
            fs::rename(&image.memory, out.join("out").join(QEMU))?;
        }
    }
    match kernel.promise {
        Promise::Records => match trial {
            Trial::Refusals => check::refusals(&out),
            Trial::Flood(_) => check::flooded(&out),
            _ => check::records(&out).map(of_kernel),
        },
        Promise::Refuses => check::refuses(&out).map(of_kernel),
    }
}
