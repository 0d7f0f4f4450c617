//! Whether the recording's pins are where they should be; and where they are not, whether anything
//! is recorded still.
//!
//! A file system that was unmounted lazily lives on while flightd has its directory open, and the
//! programs in it; one whose pins were deleted has let the programs go. From outside both look
//! alike: nothing is there. So it is tried.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flightrec_format::control::{Totals, Unpinned};
use flightrec_format::live;

/// Longest that is waited for something to be counted: this thread's own sleep, and its end, are
/// events.
const TRIES: u32 = 10;
const NAP: Duration = Duration::from_millis(5);

/// What is wrong with the pins in a recording's directory, if anything is.
pub fn look(dir: &Path, live: &live::LiveRings) -> Option<Unpinned> {
    let reason = wrong(dir)?;
    let records = moves(|| count(&live.counters()));
    Some(Unpinned { reason, records })
}

/// Why the pins can't be what keeps the programs attached.
fn wrong(dir: &Path) -> Option<String> {
    let links = dir.join("links");
    let told = |e: &io::Error| format!("{}: {e}", links.display());
    match std::fs::read_dir(&links).and_then(|mut entries| entries.next().transpose()) {
        Ok(Some(_)) => None,
        Ok(None) => Some(format!("{}: its links were deleted", links.display())),
        Err(e) => Some(told(&e)),
    }
}

/// Whether a count rises.
fn moves(count: impl Fn() -> u64) -> bool {
    let before = count();
    (0..TRIES).any(|_| {
        thread::sleep(NAP);
        count() != before
    })
}

/// Everything that the probes count.
fn count(totals: &Totals) -> u64 {
    let of_cpu = |cpu: &flightrec_format::control::CpuTotals| {
        let lanes = cpu.events.iter().flatten().chain(cpu.refused.as_flattened());
        lanes.chain(&cpu.no_ring).fold(0, |sum: u64, n| sum.wrapping_add(*n))
    };
    totals.cpus.iter().map(of_cpu).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;

    #[test]
    fn pins_that_are_there_are_fine_and_others_say_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let reason = wrong(dir.path()).unwrap();
        assert!(reason.ends_with("links: No such file or directory (os error 2)"), "{reason}");
        fs::create_dir(dir.path().join("links")).unwrap();
        assert!(wrong(dir.path()).unwrap().ends_with("links: its links were deleted"));
        fs::write(dir.path().join("links/sched_switch"), "").unwrap();
        assert_eq!(wrong(dir.path()), None);
    }

    #[test]
    fn what_is_counted_shows_whether_anything_is_recorded() {
        let n = Cell::new(0);
        assert!(!moves(|| 7));
        assert!(moves(|| {
            n.set(n.get() + 1);
            n.get()
        }));
    }
}
