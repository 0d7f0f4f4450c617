//! Whether there is a Rust compiler for the probes: looks where `daemon/build.rs` looks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::probe;

/// The probes' machine.
const TARGET: &str = "bpfel-unknown-none";

/// The nightly that `probes-ebpf/rust-toolchain.toml` pins.
pub(crate) const NIGHTLY: &str = "nightly-2026-05-20";

/// A compiler with a precompiled `core`, or the pinned nightly with the source of it.
pub(crate) fn is_there() -> bool {
    let named = ["FLIGHTREC_BPF_RUSTC", "RUSTC"]
        .into_iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from);
    // rustup's, if it is installed, then Debian's.
    let mut rustcs = named.chain(["rustc".into(), "/usr/bin/rustc".into()]);
    rustcs.any(|rustc| has_core(&rustc)) || nightly_has_source()
}

fn has_core(rustc: &Path) -> bool {
    // The folder is named even where the target isn't installed.
    let folder = probe(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]));
    let Some(Ok(files)) = folder.map(std::fs::read_dir) else { return false };
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libcore-"))
}

fn nightly_has_source() -> bool {
    let sysroot =
        probe(Command::new("rustup").args(["run", NIGHTLY, "rustc", "--print", "sysroot"]));
    sysroot.is_some_and(|root| Path::new(&root).join("lib/rustlib/src/rust/library/core").is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nightly_is_the_pinned_one() {
        let pinned = include_str!("../../probes-ebpf/rust-toolchain.toml");
        assert!(pinned.contains(&format!("\nchannel = \"{NIGHTLY}\"\n")), "{pinned}");
    }

    #[test]
    fn the_stable_compiler_is_the_one_of_the_workspace() {
        let manifest = include_str!("../../Cargo.toml");
        let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
        let version = version.expect("a rust-version").trim_matches('"');
        let pinned = include_str!("../../rust-toolchain.toml");
        assert!(pinned.contains(&format!("\nchannel = \"{version}.0\"\n")), "{pinned}");
    }
}
