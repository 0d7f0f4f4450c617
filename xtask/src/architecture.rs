//! The machines that there are packages for: how they are typed, and who calls them what.

use anyhow::{Result, bail};
use clap::ValueEnum;
use flightrec_format::architecture::Architecture;

/// A machine, as it is typed: by the kernel's name or by Debian's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Machine {
    #[value(name = "x86_64", alias = "amd64")]
    X86_64,
    #[value(name = "aarch64", alias = "arm64")]
    Aarch64,
}

impl From<Machine> for Architecture {
    fn from(machine: Machine) -> Self {
        match machine {
            Machine::X86_64 => Self::X86_64,
            Machine::Aarch64 => Self::Aarch64,
        }
    }
}

/// What was typed, or the machine that this program runs on.
pub(crate) fn wanted(typed: Option<Machine>) -> Architecture {
    typed.map_or(Architecture::HERE, Architecture::from)
}

/// Debian's name.
pub(crate) const fn debians(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "amd64",
        Architecture::Aarch64 => "arm64",
    }
}

/// By Debian's name.
pub(crate) fn of_debians(name: &str) -> Result<Architecture> {
    let known = [Architecture::X86_64, Architecture::Aarch64];
    match known.into_iter().find(|known| debians(*known) == name) {
        Some(architecture) => Ok(architecture),
        None => bail!("a package for {name}: no machine that flightrec runs on"),
    }
}

/// Rust's name: with glibc, whose constants `flightctl` needs (`MADV_COLLAPSE`, `UNAME26`, `PR_…`;
/// the `libc` crate lacks them for musl).
pub(crate) const fn target(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "x86_64-unknown-linux-gnu",
        Architecture::Aarch64 => "aarch64-unknown-linux-gnu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_typed_as_the_kernel_or_as_debian_calls_it() {
        for machine in Machine::value_variants() {
            let architecture = wanted(Some(*machine));
            for name in [architecture.name(), debians(architecture)] {
                assert_eq!(Machine::from_str(name, false), Ok(*machine), "{name}");
            }
            assert_eq!(of_debians(debians(architecture)).unwrap(), architecture);
            assert!(target(architecture).starts_with(architecture.name()));
        }
        assert_eq!(wanted(None), Architecture::HERE);
        assert!(of_debians("riscv64").is_err());
    }
}
