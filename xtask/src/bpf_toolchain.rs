//! Whether there is a Rust compiler for the probes: looks where `daemon/build.rs` looks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::probe;

/// The probes' machine.
const TARGET: &str = "bpfel-unknown-none";

/// A compiler with a precompiled `core`, or rustup's nightly with the source of it.
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
        probe(Command::new("rustup").args(["run", "nightly", "rustc", "--print", "sysroot"]));
    sysroot.is_some_and(|root| Path::new(&root).join("lib/rustlib/src/rust/library/core").is_dir())
}
