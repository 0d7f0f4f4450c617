//! Debian's kernels. Names move with every security update, so they are looked up each time.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask::architecture::Architecture;

use xtask::apt::Apt;
use xtask::command::read;

/// A kernel to try.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What it is called here.
    pub(super) name: &'static str,
    /// Names of its package.
    pattern: &'static str,
    /// What the recorder does there.
    pub(super) promise: Promise,
}

/// What the recorder promises of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// It records, and what it recorded is found in the dump.
    Records,
    /// It is older than the oldest that is supported: `flightd` says so, and ends.
    Refuses,
}

const fn records(name: &'static str, pattern: &'static str) -> Kernel {
    Kernel { name, pattern, promise: Promise::Records }
}

/// All there are of a machine; kernels are data.
const fn kernels(architecture: Architecture) -> &'static [Kernel] {
    match architecture {
        Architecture::X86_64 => X86_64,
        Architecture::Aarch64 => AARCH64,
    }
}

const X86_64: &[Kernel] = &[
    Kernel {
        name: "5.10",
        pattern: r"^linux-image-5\.10.*[0-9]-cloud-amd64$",
        promise: Promise::Refuses,
    },
    records("6.1", r"^linux-image-6\.1\.0.*[0-9]-cloud-amd64$"),
    records("6.1-rt", r"^linux-image-6\.1\.0.*[0-9]-rt-amd64$"),
    records("6.12", r"^linux-image-6\.12.*[0-9]-cloud-amd64$"),
    records("6.12-rt", r"^linux-image-6\.12.*[0-9]-rt-amd64$"),
    records("newest", r"^linux-image-7.*[0-9]-cloud-amd64$"),
];

/// Debian builds none with pages of 64 KiB.
const AARCH64: &[Kernel] = &[
    records("6.1", r"^linux-image-6\.1\.0.*[0-9]-cloud-arm64$"),
    records("6.12", r"^linux-image-6\.12.*[0-9]-cloud-arm64$"),
    records("6.12-16k", r"^linux-image-6\.12.*[0-9]-arm64-16k$"),
    records("newest", r"^linux-image-7.*[0-9]-cloud-arm64$"),
];

/// The kernels of these names, of a machine; none: all.
pub(super) fn named(names: &[String], architecture: Architecture) -> Result<Vec<&'static Kernel>> {
    let kernels = kernels(architecture);
    if names.is_empty() {
        return Ok(kernels.iter().collect());
    }
    let find = |name: &String| {
        let known: Vec<&str> = kernels.iter().map(|kernel| kernel.name).collect();
        let kernel = kernels.iter().find(|kernel| kernel.name == name);
        kernel.with_context(|| format!("vm: no kernel {name}; there are {}", known.join(", ")))
    };
    names.iter().map(find).collect()
}

/// Where a kernel's release is noted.
fn note(cache: &Path, kernel: &Kernel) -> PathBuf {
    cache.join(format!("{}.release", kernel.name))
}

/// Where a kernel was unpacked to.
pub(super) fn unpacked(cache: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let release = fs::read_to_string(note(cache, kernel))
        .with_context(|| format!("{} was not fetched", kernel.name))?;
    Ok(cache.join("kernels").join(release.trim()))
}

/// The apt that fetches into a cache.
pub(super) fn apt(cache: &Path, architecture: Architecture) -> Result<Apt> {
    Apt::new(cache, architecture)
}

/// Fetches what is not there yet.
pub(super) fn fetch(cache: &Path, kernels: &[&Kernel], architecture: Architecture) -> Result<()> {
    let apt = apt(cache, architecture)?;
    for kernel in kernels {
        let packages =
            read(apt.command("apt-cache").args(["search", "--names-only", kernel.pattern]))?;
        let newest = packages.lines().filter_map(|line| line.split_whitespace().next());
        let newest =
            newest.filter(|name| !name.contains("unsigned")).max_by_key(|name| version(name));
        let Some(package) = newest else { bail!("vm: no package matches {}", kernel.pattern) };
        let release = package.trim_start_matches("linux-image-");
        let dir = cache.join("kernels").join(release);
        if !dir.join("complete").exists() {
            println!("vm: fetching {package}");
            // In later releases the kernel and its modules have a package each.
            let split = [format!("linux-binary-{release}"), format!("linux-modules-{release}")];
            let is_split =
                xtask::command::probe(apt.command("apt-cache").args(["show", &split[0]]))
                    .is_some_and(|text| !text.is_empty());
            let parts = if is_split { split.to_vec() } else { vec![package.to_owned()] };
            for part in &parts {
                apt.unpack(part, &dir)?;
            }
            fs::write(dir.join("complete"), "")?;
        }
        fs::write(note(cache, kernel), release)?;
    }
    Ok(())
}

/// The numbers in a name, to sort by.
fn version(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}
