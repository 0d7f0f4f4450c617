//! `cargo xtask vm --cpus 2,16,64`: the recorder on machines with many CPUs, and what grows with them.
//!
//! Each machine starts the recorder, idles, makes numbered calls on all of its CPUs, reads them,
//! kills the recorder and has the next one take over, and takes a CPU away and back
//! (`tests/system/vm/cpus.sh`). Where there is no KVM, the machine's clock counts instructions, 1 ns each,
//! and its CPUs run one at a time: then figures are those of a slow machine, but the same wherever
//! and beside whatever it is emulated.

use std::path::Path;

use anyhow::{Context, Result};

use super::image::{self, Trial};
use super::kernels::{self, Kernel};
use super::{check, machine};

/// One kernel's machines, one after the other; what was found, for people, and a table of all.
pub(super) fn all(
    cache: &Path,
    kernel: &Kernel,
    counts: &[u32],
    check_only: bool,
) -> Result<Vec<String>> {
    let (mut found, mut columns) = (Vec::new(), Vec::new());
    for &cpus in counts {
        let trial = Trial::Cpus(cpus);
        let out = cache.join(format!("{}-{}-{cpus}", trial.name(), kernel.name));
        if !check_only {
            let unpacked = kernels::unpacked(cache, kernel)?;
            let image = image::build(cache, &unpacked, &[], trial)?;
            machine::run(&image)?;
            image.extract(&out)?;
        }
        let (lines, figures) =
            check::cpus(&out, cpus).with_context(|| format!("with {cpus} CPUs"))?;
        found.extend(lines.into_iter().map(|line| format!("{cpus} CPUs: {line}")));
        columns.push(figures);
    }
    found.extend(check::Figures::table(&columns));
    check::Figures::grow_linearly(&columns).with_context(|| found.join("\n"))?;
    Ok(found)
}
