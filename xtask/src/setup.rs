//! `cargo xtask setup`: what building and testing need beyond rustup's Rust.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use flightrec_probes_build::Toolchain;
use nix::unistd::geteuid;

use crate::command::{CROSS_GCC, cargo, probe, repository, run as run_command, shown, tools};
use crate::foreign;

/// What is to be set up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Building.
    Build,
    /// Building, and testing on the running kernel.
    Test,
    /// All that, and trying the package in a container.
    Service,
    /// Building, and making and signing every package.
    Package,
    /// That, and making the package of another distribution.
    Arch,
    /// All that testing needs, and running the pod of the DaemonSet.
    Kubernetes,
    /// What testing needs, and panicking kernels in a virtual machine.
    Vm,
    /// Building, and building for aarch64.
    Cross,
    /// What that needs, and running it in a virtual machine.
    CrossVm,
    /// What that needs, and making the Debian that boots there.
    CrossBoot,
    /// Compiling the probes.
    Probes,
}

impl Scope {
    /// Whether something that a scope needs is needed in this one.
    fn covers(self, need: Self) -> bool {
        match self {
            Self::Package => matches!(need, Self::Build | Self::Package),
            Self::Arch => matches!(need, Self::Build | Self::Package | Self::Arch),
            Self::Cross => matches!(need, Self::Build | Self::Cross),
            Self::CrossVm => matches!(need, Self::Build | Self::Cross | Self::CrossVm),
            Self::Probes => matches!(need, Self::Build | Self::Probes),
            Self::CrossBoot => Self::CrossVm.covers(need) || need == self,
            _ => need == self || need < self && need <= Self::Test,
        }
    }
}

/// Programs that make the packages of a release.
const PACKAGE_PROGRAMS: &[&str] = &["dpkg-deb", "rpmbuild", "readelf", "ssh-keygen"];

/// Programs that make, run and read the virtual machine.
const VM_PROGRAMS: &[&str] = &[
    "qemu-system-x86_64",
    "makedumpfile",
    "busybox",
    "modprobe",
    "cpio",
    "mke2fs",
    "debugfs",
    "strip",
    "xz",
];

/// The same of an aarch64 one.
const CROSS_VM_PROGRAMS: &[&str] =
    &["qemu-system-aarch64", "modprobe", "cpio", "mke2fs", "debugfs", "xz"];

/// bpf-linker's version, and the LLVM that it is built with: not older than the one of the Rust
/// compiler that compiles the probes.
const LINKER: &str = "0.13.0";
const LLVM: &str = "22";

/// One thing that is needed.
struct Need {
    what: &'static str,
    why: &'static str,
    scope: Scope,
    is_there: fn() -> bool,
    /// Debian packages that bring it, or that it is built from.
    packages: &'static [&'static str],
    /// How to get it where there are no such packages.
    otherwise: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        what: "a C compiler",
        why: "compiles zstd, which is C, and links programs",
        scope: Scope::Build,
        is_there: || probe(Command::new("cc").arg("--version")).is_some(),
        packages: &["gcc", "libc6-dev"],
        otherwise: "install a C compiler",
    },
    Need {
        what: "a Rust compiler with `core` for bpfel-unknown-none",
        why: "compiles the probes",
        scope: Scope::Probes,
        is_there: || Toolchain::has_compiler(&repository()),
        packages: &["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"],
        otherwise: "rustup toolchain install nightly-2026-05-20 --profile minimal --component \
                    rust-src",
    },
    Need {
        what: "bpf-linker 0.13.0 in target/tools",
        why: "links the probes",
        scope: Scope::Probes,
        is_there: has_linker,
        packages: &["llvm-22-dev", "libpolly-22-dev", "libzstd-dev"],
        otherwise: "add the LLVM project's own apt repository (its script: `llvm.sh 22`), then \
                    apt-get install -y llvm-22-dev libpolly-22-dev libzstd-dev",
    },
    Need {
        what: "a C compiler with a static libc",
        why: "compiles the small programs that the tests record",
        scope: Scope::Test,
        is_there: || has_library("gcc", "libc.a"),
        packages: &["gcc", "libc6-dev"],
        otherwise: "install gcc, and the C library's static version",
    },
    Need {
        what: "liburing",
        why: "is used by an incident that a test of `flightctl why` makes",
        scope: Scope::Test,
        is_there: || has_library("gcc", "liburing.so"),
        packages: &["liburing-dev"],
        otherwise: "install liburing with its headers; without it that incident is left out",
    },
    Need {
        what: "stress-ng",
        why: "puts the recorder under stress, in a test",
        scope: Scope::Test,
        is_there: || probe(Command::new("stress-ng").arg("--version")).is_some(),
        packages: &["stress-ng"],
        otherwise: "install stress-ng",
    },
    Need {
        what: "strace and python3",
        why: "are what a test compares the recording with, and a program that it records",
        scope: Scope::Test,
        is_there: || {
            ["strace", "python3"]
                .iter()
                .all(|program| probe(Command::new(program).arg("--version")).is_some())
        },
        packages: &["strace", "python3"],
        otherwise: "install strace and python3",
    },
    Need {
        what: "zstd",
        why: "is asked whether a recording's files are what it calls a file, in a test",
        scope: Scope::Test,
        is_there: || probe(Command::new("zstd").arg("--version")).is_some(),
        packages: &["zstd"],
        otherwise: "install zstd",
    },
    Need {
        what: "mkfs.ext4",
        why: "makes a file system that has a kernel thread, in a test",
        scope: Scope::Test,
        is_there: || probe(Command::new("mkfs.ext4").arg("-V")).is_some(),
        packages: &["e2fsprogs"],
        otherwise: "install e2fsprogs",
    },
    Need {
        what: "tmux",
        why: "gives flightctl top a terminal, in a test",
        scope: Scope::Test,
        is_there: || probe(Command::new("tmux").arg("-V")).is_some(),
        packages: &["tmux"],
        otherwise: "install tmux",
    },
    Need {
        what: "ssh-keygen",
        why: "signs a release, in a test",
        scope: Scope::Test,
        // It has no option that says its version.
        is_there: || probe(Command::new("which").arg("ssh-keygen")).is_some(),
        packages: &["openssh-client"],
        otherwise: "install OpenSSH's client programs",
    },
    Need {
        what: "perf",
        why: "counts and shows tracepoints in tests, and is what the benchmarks compare the \
              recorder with",
        scope: Scope::Test,
        is_there: || probe(Command::new("perf").arg("--version")).is_some(),
        packages: &["linux-perf"],
        otherwise: "install perf, with its Python scripts; without it some tests fail, and the \
                    benchmarks leave it out",
    },
    Need {
        what: "systemd-nspawn and debootstrap",
        why: "make the machine with a real systemd that the package is tried in",
        scope: Scope::Service,
        is_there: || {
            ["systemd-nspawn", "debootstrap"]
                .iter()
                .all(|p| probe(Command::new(p).arg("--version")).is_some())
        },
        packages: &["systemd-container", "debootstrap"],
        otherwise: "install systemd-container and debootstrap",
    },
    Need {
        what: "dpkg, rpmbuild, readelf and ssh-keygen",
        why: "make the packages of a release, and sign them",
        scope: Scope::Package,
        is_there: || PACKAGE_PROGRAMS.iter().all(|p| probe(Command::new("which").arg(p)).is_some()),
        packages: &["dpkg", "rpm", "binutils", "openssh-client"],
        otherwise: "install dpkg, rpm-build, binutils and OpenSSH's client programs",
    },
    Need {
        what: "lintian, rpmlint and shellcheck",
        why: "look for errors in packages and their scripts",
        scope: Scope::Package,
        is_there: || {
            ["lintian", "rpmlint", "shellcheck"]
                .iter()
                .all(|program| probe(Command::new(program).arg("--version")).is_some())
        },
        packages: &["lintian", "rpmlint", "shellcheck"],
        otherwise: "install lintian, rpmlint and shellcheck",
    },
    Need {
        what: "makepkg, bsdtar and fakeroot",
        why: "make the package of Arch Linux",
        scope: Scope::Arch,
        is_there: || {
            ["makepkg", "bsdtar", "fakeroot"]
                .iter()
                .all(|p| probe(Command::new("which").arg(p)).is_some())
        },
        packages: &["makepkg", "libarchive-tools", "fakeroot"],
        otherwise: "install pacman's makepkg, libarchive's bsdtar, and fakeroot",
    },
    Need {
        what: "podman, runc, and PyYAML for python3",
        why: "run the DaemonSet's pod as its specification says",
        scope: Scope::Kubernetes,
        is_there: || {
            let yaml = probe(Command::new("python3").args(["-c", "import yaml"]));
            ["podman", "runc"].iter().all(|p| probe(Command::new(p).arg("--version")).is_some())
                && yaml.is_some()
        },
        packages: &["podman", "runc", "conmon", "python3-yaml"],
        otherwise: "install podman, runc and python3-yaml",
    },
    Need {
        what: "QEMU, makedumpfile, a static busybox, and tools for images and modules",
        why: "make the virtual machine in which real kernels panic",
        scope: Scope::Vm,
        is_there: || {
            VM_PROGRAMS.iter().all(|program| probe(Command::new("which").arg(program)).is_some())
        },
        packages: &[
            "qemu-system-x86",
            "makedumpfile",
            "busybox-static",
            "kmod",
            "cpio",
            "e2fsprogs",
            "binutils",
            "xz-utils",
        ],
        otherwise: "install QEMU for x86_64, makedumpfile, busybox, kmod, cpio, e2fsprogs, \
                    binutils and xz",
    },
    Need {
        what: "a C compiler for aarch64 with its libraries",
        why: "links programs for aarch64, and compiles what is C in them",
        scope: Scope::Cross,
        is_there: || has_library(CROSS_GCC, "libc.a"),
        packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        otherwise: "install a cross compiler for aarch64-linux-gnu with a static C library",
    },
    Need {
        what: "QEMU for aarch64, and tools for images and modules",
        why: "make the virtual machine in which aarch64 is tried",
        scope: Scope::CrossVm,
        is_there: || {
            CROSS_VM_PROGRAMS
                .iter()
                .all(|program| probe(Command::new("which").arg(program)).is_some())
        },
        packages: &["qemu-system-arm", "kmod", "cpio", "e2fsprogs", "xz-utils"],
        otherwise: "install QEMU for aarch64, kmod, cpio, e2fsprogs and xz",
    },
    Need {
        what: "debootstrap and QEMU's emulation of programs for aarch64",
        why: "make the Debian for arm64 that boots there",
        scope: Scope::CrossBoot,
        is_there: || {
            probe(Command::new("debootstrap").arg("--version")).is_some()
                && Path::new(foreign::RULE).exists()
        },
        packages: &["debootstrap", "qemu-user-static"],
        otherwise: "install debootstrap, and a static qemu-aarch64 with its rule for binfmt_misc",
    },
];

/// Whether a C compiler finds a library's file.
fn has_library(compiler: &str, file: &str) -> bool {
    // It answers with the bare name where there is no such file.
    probe(Command::new(compiler).arg(format!("-print-file-name={file}")))
        .is_some_and(|path| path.starts_with('/'))
}

/// Installs what is missing; says what, and why. Where it can't, says what to type.
pub fn run(scope: Scope) -> Result<()> {
    let missing = missing(scope);
    if missing.is_empty() {
        println!("setup: all is there");
        return Ok(());
    }
    for need in &missing {
        println!("setup: missing: {} ({})", need.what, need.why);
    }
    let packages: Vec<&str> = missing
        .iter()
        .flat_map(|need| need.packages)
        .copied()
        .filter(|package| !is_installed(package))
        .collect();
    if !packages.is_empty() {
        install(&packages, &missing)?;
    }
    if scope.covers(Scope::Probes) && !has_linker() {
        install_linker()?;
    }
    let left: Vec<&str> = self::missing(scope).iter().map(|need| need.what).collect();
    ensure!(
        left.is_empty(),
        "setup: still missing, though its packages are installed: {}",
        left.join(", ")
    );
    println!("setup: done");
    Ok(())
}

fn missing(scope: Scope) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| scope.covers(need.scope) && !(need.is_there)()).collect()
}

fn has_linker() -> bool {
    let version = probe(Command::new(tools().join("bin/bpf-linker")).arg("--version"));
    version.is_some_and(|version| version.split_whitespace().nth(1) == Some(LINKER))
}

fn install_linker() -> Result<()> {
    println!("setup: building bpf-linker {LINKER} (about a minute)");
    let feature = format!("llvm-{LLVM}");
    let mut command = cargo();
    command.args(["install", "bpf-linker", "--version", LINKER, "--locked", "--force"]);
    command.args(["--no-default-features", "--features", &feature, "--root"]).arg(tools());
    // Without it, the build takes whatever llvm-config comes first.
    if std::env::var_os("LLVM_PREFIX").is_none() {
        command.env("LLVM_PREFIX", format!("/usr/lib/{feature}"));
    }
    run_command(&mut command)
}

fn is_installed(package: &str) -> bool {
    let status =
        probe(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Abbrev}", package]));
    status.is_some_and(|status| status.starts_with("ii"))
}

/// Installs packages, or says what to type.
fn install(packages: &[&str], missing: &[&Need]) -> Result<()> {
    if probe(Command::new("apt-get").arg("--version")).is_none() {
        bail!(
            "setup: there is no apt-get here. Please install, then run `cargo xtask setup` \
             again:\n{}",
            ways(missing)
        );
    }
    let mut update = apt_get(&["update"]);
    let mut install = apt_get(&["install", "-y", "--no-install-recommends"]);
    install.args(packages);
    if !geteuid().is_root() {
        let commands = [&update, &install]
            .map(|command| format!("    sudo {}\n", shown(command).replace('`', "")));
        bail!(
            "setup: installing packages needs root. Please run:\n{}    cargo xtask setup",
            commands.concat()
        );
    }
    let is_known = |package: &&str| {
        !probe(Command::new("apt-cache").args(["show", package])).unwrap_or_default().is_empty()
    };
    if !packages.iter().all(is_known) {
        run_command(&mut update)?;
    }
    let unknown: Vec<&str> =
        packages.iter().copied().filter(|package| !is_known(package)).collect();
    if !unknown.is_empty() {
        let needs: Vec<&Need> = missing
            .iter()
            .copied()
            .filter(|need| need.packages.iter().any(|p| unknown.contains(p)))
            .collect();
        bail!(
            "setup: this distribution has no package {}. Please run, then `cargo xtask setup` \
             again:\n{}",
            unknown.join(", "),
            ways(&needs)
        );
    }
    println!("setup: installing {}", packages.join(" "));
    // Package lists that are there may still be too old to fetch by.
    run_command(&mut install)
        .or_else(|_| run_command(&mut update).and_then(|()| run_command(&mut install)))
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// How to get each of these by hand.
fn ways(needs: &[&Need]) -> String {
    let way = |need: &&Need| format!("  {} ({}):\n    {}", need.what, need.why, need.otherwise);
    needs.iter().map(way).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use flightrec_probes_build::pinned_nightly;

    use super::*;

    #[test]
    fn the_stable_compiler_is_the_one_of_the_workspace() {
        let manifest = include_str!("../../Cargo.toml");
        let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
        let version = version.expect("a rust-version").trim_matches('"');
        let pinned = include_str!("../../rust-toolchain.toml");
        assert!(pinned.contains(&format!("\nchannel = \"{version}.0\"\n")), "{pinned}");
    }

    #[test]
    fn texts_name_the_pinned_versions() {
        let linker = NEEDS.iter().find(|need| need.what.starts_with("bpf-linker")).expect("a need");
        assert_eq!(linker.what, format!("bpf-linker {LINKER} in target/tools"));
        assert!(linker.packages.contains(&&*format!("llvm-{LLVM}-dev")), "{:?}", linker.packages);
        assert!(linker.otherwise.contains(&format!("llvm.sh {LLVM}")), "{}", linker.otherwise);
        let compiler = NEEDS.iter().find(|need| need.why == "compiles the probes");
        let compiler = compiler.expect("a need").otherwise;
        let nightly = pinned_nightly(&repository()).expect("a nightly");
        assert!(compiler.contains(&format!("install {nightly} ")), "{compiler}");
    }
}
