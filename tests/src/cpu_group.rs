//! A control group whose members may take little CPU time.

use std::fs;
use std::io;
use std::ops::Deref;

use crate::control_group::ControlGroup;
use crate::needs::left_out;

/// In each 100 ms, µs.
const PERIOD: u32 = 100_000;

/// Its members are those whose ids are written to `cgroup.procs` in its directory.
#[derive(Debug)]
pub struct CpuGroup(ControlGroup);

/// What the kernel counts of a group (`cpu.stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuStat {
    /// Periods at whose end some CPU was not to run it.
    pub throttled: u64,
    /// How long its threads waited for that, µs, all CPUs together.
    pub throttled_us: u64,
}

impl CpuGroup {
    /// One of so many percent of a CPU.
    ///
    /// Where the machine has no such controller, the test is left out ([`left_out`]).
    pub fn make(percent: u32) -> Self {
        Self::try_make(percent).unwrap_or_else(|e| {
            left_out(&format!("no control group with a limit to its CPU time ({e})"))
        })
    }

    fn try_make(percent: u32) -> io::Result<Self> {
        let group = ControlGroup::make("cpu")?;
        let quota = PERIOD / 100 * percent;
        if group.is_v2() {
            fs::write(group.dir().join("cpu.max"), format!("{quota} {PERIOD}"))?;
        } else {
            fs::write(group.dir().join("cpu.cfs_period_us"), PERIOD.to_string())?;
            fs::write(group.dir().join("cpu.cfs_quota_us"), quota.to_string())?;
        }
        Ok(Self(group))
    }

    /// What the kernel has counted until now.
    ///
    /// # Panics
    /// It does not tell.
    pub fn stat(&self) -> CpuStat {
        let text = fs::read_to_string(self.dir().join("cpu.stat")).expect("cpu.stat");
        let count = |key: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {key} in {text}"))
        };
        let throttled_us =
            if self.is_v2() { count("throttled_usec") } else { count("throttled_time") / 1000 };
        CpuStat { throttled: count("nr_throttled"), throttled_us }
    }
}

impl Deref for CpuGroup {
    type Target = ControlGroup;

    fn deref(&self) -> &ControlGroup {
        &self.0
    }
}
