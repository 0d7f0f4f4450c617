//! The clocks that make samples: a perf event `cpu-clock` of each CPU, and the program linked to it.
//!
//! The links are pinned beside those of the tracepoints, by the clock's rate and its CPU, so they
//! run without a daemon. The kernel drops a CPU's event with the CPU (`perf_event_exit_cpu_context`,
//! kernel/events/core.c, Linux 6.1), so its link goes, and is made again when the CPU is back.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use flightrec_format::live::sys;

use crate::attachments::SAMPLE;
use crate::{cpus, tracepoint};

/// `PERF_TYPE_SOFTWARE`, include/uapi/linux/perf_event.h.
const TYPE_SOFTWARE: u64 = 1;
/// `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_CLOCK: u64 = 0;
/// `perf_event_attr.exclude_idle`: it strikes for nobody while the CPU is idle.
const EXCLUDE_IDLE: u64 = 1 << 7;
/// What the names of pins begin with.
const PREFIX: &str = "clock-";
/// Any rate, to see whether there are clocks.
const SOME_HZ: u32 = 1;

/// Whether a link of this name is a clock's.
pub fn is_pin(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether there are clocks here, and this process may have them.
pub fn check() -> io::Result<()> {
    let cpu = cpus::online()?.first().copied().unwrap_or(0);
    open(cpu, SOME_HZ).map(drop)
}

/// Sees to it that of these CPUs each that is online has a clock of `hz` a second, and that no
/// others are; of 0 none. `dir`: the recording's.
pub fn set(dir: &Path, hz: u32, cpus: &[u16]) -> io::Result<()> {
    let online = cpus::online()?;
    let cpus = cpus.iter().filter(|cpu| hz != 0 && online.contains(cpu));
    let mut missing: BTreeSet<(String, u16)> =
        cpus.map(|cpu| (format!("{PREFIX}{hz}-{cpu}"), *cpu)).collect();
    let links = dir.join("links");
    for entry in fs::read_dir(&links)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let found = missing.iter().find(|(wanted, _)| wanted == name).cloned();
        match found {
            Some(found) => drop(missing.remove(&found)),
            None if is_pin(name) => fs::remove_file(&path)?,
            None => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let program = sys::obj_get(&dir.join("progs").join(SAMPLE))?;
    for (name, cpu) in missing {
        let event = match open(cpu, hz) {
            // It has just gone.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
            other => other?,
        };
        let link = sys::link_perf_event(program.as_fd(), event.as_fd())?;
        sys::obj_pin(link.as_fd(), &links.join(name))?;
    }
    Ok(())
}

/// A perf event that strikes so often on a CPU. By its period: of a frequency the kernel makes the
/// same (`perf_swevent_init_hrtimer`), but holds it against `kernel.perf_event_max_sample_rate`.
fn open(cpu: u16, hz: u32) -> io::Result<OwnedFd> {
    let period = 1_000_000_000 / u64::from(hz.max(1));
    tracepoint::open_perf_event(TYPE_SOFTWARE, CPU_CLOCK, period, EXCLUDE_IDLE, cpu)
}
