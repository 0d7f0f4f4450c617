//! `cargo xtask probes`: the compiled probes in the repository.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use flightrec_probes_build::{OBJECT, RECORD, Record, Toolchain, compile, prebuilt};

use crate::command::repository;
use crate::setup::{self, Scope};

/// What to type, and to commit, where the object is not of its sources.
const RENEW: &str = "run `cargo xtask probes`, and commit both files of probes-ebpf/prebuilt";

/// Empty programs on the same tracepoints, from the repository's root, once [`floor`] has compiled
/// them.
pub const FLOOR: &str = "target/probes/bpfel-unknown-none/release/floor";

/// Compiles [`FLOOR`], which `cargo xtask bench overhead` compares with.
///
/// # Errors
/// What compiles them can't be installed, or they do not compile.
pub fn floor() -> Result<()> {
    made().map(drop)
}

/// Makes the object in the repository anew.
pub(crate) fn renew() -> Result<()> {
    let made = Made::new()?;
    let (object, record) = (repository().join(OBJECT), repository().join(RECORD));
    fs::create_dir_all(object.parent().context("no directory")?)?;
    fs::write(&object, &made.bytes).with_context(|| object.display().to_string())?;
    fs::write(&record, made.record.text()).with_context(|| record.display().to_string())?;
    println!("made: {OBJECT} ({} bytes) and {RECORD}", made.bytes.len());
    Ok(())
}

/// Fails if the object in the repository is not of its sources, or not what the compiler and the
/// linker that it names make of them. Where this machine has other versions that make other bytes,
/// these are left in `target/probes/other.o`, for `FLIGHTREC_PROBES`.
pub(crate) fn check() -> Result<()> {
    let other = other();
    if other.exists() {
        fs::remove_file(&other)?;
    }
    let object = prebuilt(&repository()).map_err(|why| anyhow!("{why}: {RENEW}"))?;
    let record = Record::read(&repository())?;
    let made = Made::new()?;
    let is_same = fs::read(object)? == made.bytes;
    if record.is_of_the_same_tools(&made.record) {
        ensure!(
            is_same,
            "{OBJECT} is not what {} and {} make of these sources: {RENEW}",
            record.rustc,
            record.linker
        );
        println!("probes: {OBJECT} is what this machine makes of these sources");
        return Ok(());
    }
    println!(
        "probes: {OBJECT} was made by {} and {}; here are {} and {}, which make {} bytes",
        record.rustc,
        record.linker,
        made.record.rustc,
        made.record.linker,
        if is_same { "the same" } else { "other" }
    );
    if !is_same {
        fs::write(&other, made.bytes)?;
        println!("probes: made {}: set FLIGHTREC_PROBES to it, to test it", other.display());
    }
    Ok(())
}

fn other() -> PathBuf {
    repository().join("target/probes/other.o")
}

/// An object, and what it was made of.
struct Made {
    bytes: Vec<u8>,
    record: Record,
}

impl Made {
    fn new() -> Result<Self> {
        let (object, toolchain) = made()?;
        let stripped = object.with_file_name("probes.o");
        toolchain.strip(&object, &stripped).map_err(|why| anyhow!(why))?;
        let bytes = fs::read(&stripped).with_context(|| stripped.display().to_string())?;
        let record = Record::new(&repository(), &toolchain, &bytes).map_err(|why| anyhow!(why))?;
        Ok(Self { bytes, record })
    }
}

/// Compiles the probes; the object has DWARF.
fn made() -> Result<(PathBuf, Toolchain)> {
    setup::run(Scope::Probes)?;
    println!("compiling the probes");
    let (root, target_dir) = (repository(), repository().join("target"));
    let toolchain = Toolchain::find(&root, &target_dir).map_err(|why| anyhow!(why))?;
    let object = compile(&toolchain, &root, &target_dir).map_err(|why| anyhow!(why))?;
    Ok((object, toolchain))
}
