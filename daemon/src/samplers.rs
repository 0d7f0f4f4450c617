//! The clocks that make samples: a perf event `cpu-clock` of each CPU, and the program linked to
//! it.
//!
//! The links are pinned beside those of the tracepoints, by the clock's rate and its CPU, so they
//! run without a daemon. The kernel drops a CPU's event with the CPU
//! (`perf_event_exit_cpu_context`, kernel/events/core.c, Linux 6.1), also for the time that the
//! machine is suspended; the link stays, and does nothing any more when the CPU is back. So the
//! daemon holds the events that it has made, looks whether they still count, and makes those anew
//! that do not. Those of another daemon it can't look at, and makes them anew, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use flightrec_format::live::sys;

use crate::attachments::SAMPLE;
use crate::{clock, cpus, tracepoint_link};

/// `PERF_TYPE_SOFTWARE`, include/uapi/linux/perf_event.h.
const TYPE_SOFTWARE: u64 = 1;
/// `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_CLOCK: u64 = 0;
/// `perf_event_attr.exclude_idle`: it strikes for nobody while the CPU is idle.
const EXCLUDE_IDLE: u64 = 1 << 7;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`: for how long it has counted is read after how much.
const TIME_ENABLED: u64 = 1;
/// How often it is looked whether events still count, ns. Each look interrupts their CPUs.
const LOOK: u64 = 5_000_000_000;
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

/// The clocks of a recording.
#[derive(Debug, Default)]
pub struct Samplers {
    /// By CPU.
    held: BTreeMap<u16, Clock>,
    /// When it was looked at them, ns of `CLOCK_MONOTONIC`.
    looked: u64,
}

/// The clock of a CPU, as this daemon made it.
#[derive(Debug)]
struct Clock {
    hz: u32,
    event: fs::File,
    /// For how long it had counted when it was looked at, ns.
    enabled: u64,
}

impl Clock {
    fn pin(&self, cpu: u16) -> String {
        pin(self.hz, cpu)
    }

    /// Whether it has counted since it was looked at last. That it can't be read is no reason to
    /// make it anew again and again.
    fn counts(&mut self) -> bool {
        let before = self.enabled;
        match enabled(&self.event) {
            Ok(now) => self.enabled = now,
            Err(_) => return true,
        }
        self.enabled > before
    }
}

impl Samplers {
    /// Sees to it that of these CPUs each that is online has a clock of `hz` a second that counts,
    /// and that no others are; of 0 none. `dir`: the recording's. Where one can't be made, the
    /// others are.
    pub fn set(&mut self, dir: &Path, hz: u32, cpus: &[u16]) -> io::Result<()> {
        let online = cpus::online()?;
        let wanted: BTreeSet<u16> =
            cpus.iter().copied().filter(|cpu| hz != 0 && online.contains(cpu)).collect();
        let links = dir.join("links");
        let mut pinned = BTreeSet::new();
        for entry in fs::read_dir(&links)? {
            let name = entry?.file_name();
            pinned.extend(name.to_str().filter(|name| is_pin(name)).map(str::to_owned));
        }
        let is_time = clock::mono().saturating_sub(self.looked) >= LOOK;
        if is_time {
            self.looked = clock::mono();
        }
        self.held.retain(|cpu, of| {
            let is_wanted = of.hz == hz && wanted.contains(cpu) && pinned.contains(&of.pin(*cpu));
            is_wanted && (!is_time || of.counts())
        });
        for name in &pinned {
            if !self.held.iter().any(|(cpu, of)| of.pin(*cpu) == *name) {
                fs::remove_file(links.join(name))?;
            }
        }
        let missing: Vec<u16> =
            wanted.into_iter().filter(|cpu| !self.held.contains_key(cpu)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let program = sys::obj_get(&dir.join("progs").join(SAMPLE))?;
        let mut result = Ok(());
        for cpu in missing {
            match make(program.as_fd(), &links, hz, cpu) {
                Ok(clock) => drop(self.held.insert(cpu, clock)),
                // It has just gone.
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {}
                Err(e) => result = result.and(Err(e)),
            }
        }
        result
    }
}

/// The name of a clock's pin.
fn pin(hz: u32, cpu: u16) -> String {
    format!("{PREFIX}{hz}-{cpu}")
}

/// Makes a clock, and pins its link.
fn make(program: BorrowedFd<'_>, links: &Path, hz: u32, cpu: u16) -> io::Result<Clock> {
    let event = open(cpu, hz)?;
    let link = sys::link_perf_event(program, event.as_fd(), 0)?;
    sys::obj_pin(link.as_fd(), &links.join(pin(hz, cpu)))?;
    let event = fs::File::from(event);
    let enabled = enabled(&event).unwrap_or(0);
    Ok(Clock { hz, event, enabled })
}

/// For how long an event has counted, ns (perf_event_open(2), "Reading results").
fn enabled(mut event: &fs::File) -> io::Result<u64> {
    let mut values = [0; 16];
    event.read_exact(&mut values)?;
    let (words, _) = values.as_chunks();
    Ok(words.get(1).map_or(0, |word| u64::from_ne_bytes(*word)))
}

/// A perf event that strikes so often on a CPU. By its period: of a frequency the kernel makes the
/// same (`perf_swevent_init_hrtimer`), but holds it against `kernel.perf_event_max_sample_rate`.
fn open(cpu: u16, hz: u32) -> io::Result<OwnedFd> {
    let period = 1_000_000_000 / u64::from(hz.max(1));
    tracepoint_link::open_perf_event(
        TYPE_SOFTWARE,
        CPU_CLOCK,
        period,
        TIME_ENABLED,
        EXCLUDE_IDLE,
        cpu,
    )
}
