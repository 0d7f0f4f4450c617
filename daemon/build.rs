//! Finds the probes, which are inside `flightd`: the compiled object in the repository, if it is of
//! these sources (`flightrec_probes_build`). Otherwise it compiles them.

use std::env;
use std::path::{Path, PathBuf};

use flightrec_probes_build::{Toolchain, as_rustc_wrapper, compile, prebuilt, watched};

/// Names another object to take: CI's, where its compiler makes other bytes.
const OTHER: &str = "FLIGHTREC_PROBES";

fn main() {
    if let Some(code) = as_rustc_wrapper() {
        std::process::exit(code);
    }
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = manifest.parent().unwrap_or(Path::new("..")).to_path_buf();
    for path in watched(&root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rerun-if-env-changed={OTHER}");
    match object(&root) {
        // In OUT_DIR, since the path would be in the program.
        Ok(object) => {
            let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
            if let Err(e) = std::fs::copy(&object, out.join("probes")) {
                fail(&format!("{}: {e}", object.display()));
            }
        }
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) {
    println!("cargo::error=the probes: {why}");
    std::process::exit(1);
}

/// The object to take.
fn object(root: &Path) -> Result<PathBuf, String> {
    if let Some(other) = env::var_os(OTHER) {
        println!("cargo::rerun-if-changed={}", Path::new(&other).display());
        return Ok(other.into());
    }
    let stale = match prebuilt(root) {
        Ok(object) => return Ok(object),
        Err(stale) => stale,
    };
    println!("cargo::warning=the probes are compiled: {stale} (`cargo xtask probes` renews it)");
    println!("cargo::rerun-if-env-changed=PATH");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let target_dir = out
        .ancestors()
        .find(|p| p.file_name().is_some_and(|n| n == "build"))
        .and_then(|p| p.parent()?.parent())
        .unwrap_or(&out);
    Toolchain::find(root, target_dir)
        .map_err(|why| format!("{why}: run `cargo xtask probes`, which installs what they need"))
        .and_then(|toolchain| compile(&toolchain, root, target_dir))
}
