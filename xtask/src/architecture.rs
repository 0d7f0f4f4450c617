//! The machines that there are packages for: how they are typed, and who calls them what.

use anyhow::{Result, bail};
use clap::ValueEnum;

/// A machine, as it is typed: by the kernel's name or by Debian's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    /// 64-bit x86.
    #[value(name = "x86_64", alias = "amd64")]
    X86_64,
    /// 64-bit ARM.
    #[value(name = "aarch64", alias = "arm64")]
    Aarch64,
}

impl Architecture {
    /// The one that this program was built for.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

/// Debian's name.
pub const fn debians(architecture: Architecture) -> &'static str {
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
        for architecture in Architecture::value_variants().iter().copied() {
            for name in [architecture.name(), debians(architecture)] {
                assert_eq!(Architecture::from_str(name, false), Ok(architecture), "{name}");
            }
            assert_eq!(of_debians(debians(architecture)).unwrap(), architecture);
            assert!(target(architecture).starts_with(architecture.name()));
        }
        assert!(of_debians("riscv64").is_err());
    }
}
