//! The kernel that the tests run on.

use std::path::Path;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, geteuid};

use crate::bpf;

/// Fails the test, with the reason, where it can't run: it isn't left out silently.
///
/// # Panics
/// Without root, BPF or BTF.
pub fn require_kernel() {
    const ADVICE: &str = "`cargo xtask test --without-kernel` leaves such tests out, and says so";
    assert!(geteuid().is_root(), "this test needs root, to load BPF programs; {ADVICE}");
    if let Err(e) = bpf::probe() {
        panic!("this test needs BPF, and bpf(2) says: {e}; {ADVICE}");
    }
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    assert!(
        btf.exists(),
        "this test needs the kernel's type information, {} (CONFIG_DEBUG_INFO_BTF); {ADVICE}",
        btf.display()
    );
}

/// Lets the calling thread, and what it starts from then on, run on one CPU only.
///
/// # Panics
/// If there is no such CPU.
pub fn pin_to_cpu(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .unwrap_or_else(|e| panic!("CPU {cpu}: {e}"));
}

/// Numbers of the CPUs that are online, ascending.
///
/// # Panics
/// If the kernel's list can't be read.
pub fn online_cpus() -> Vec<usize> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    parse_cpu_list(text.trim()).unwrap_or_else(|| panic!("{path}: {text:?}"))
}

/// A list of CPUs, as the kernel and flightd write it: `0-3,8,10-11`. `None`: it is none.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// `CLOCK_MONOTONIC` now, in ns, as in the recorded events.
///
/// # Panics
/// Never on Linux.
pub fn monotonic_ns() -> u64 {
    let now =
        clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or_else(|e| panic!("clock_gettime: {e}"));
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        assert_eq!(parse_cpu_list("0-2,8,10-11"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(parse_cpu_list(""), None);
        assert_eq!(parse_cpu_list("0-x"), None);
    }
}
