//! The configuration, `flightd.toml`: what may stand in it, and what it means.
//!
//! `config/flightd.toml` shows every key with its default; a test holds the two together. What the
//! configuration comes to on a machine (pages a ring) is [`Sizing`].

mod budget;
mod containers;
mod history;
mod long;
mod sampling;
mod share;
mod sizing;
mod snapshots;
mod stacks;
mod store;
#[cfg(test)]
mod tests;
mod topic;
mod tracepoint;
mod triggers;

use std::path::{Path, PathBuf};

use flightrec_format::abi::page::Lane;
use flightrec_settings::{Document, Keys, Service};
use serde::{Deserialize, Serialize};

use crate::configured_tracepoints::ConfiguredTracepoint;

pub use budget::{Budget, Detach, Step};
pub use containers::ContainersConfig;
pub use flightrec_settings::{ConfigError, Size, Span};
pub use history::History;
pub use long::Long;
pub use sampling::Sampling;
pub use share::Share;
pub use sizing::{META_PAGES, Sizing, SizingError, ram_bytes};
pub use snapshots::Snapshots;
pub use stacks::Stacks;
pub use store::Store;
pub use topic::Topic;
pub use tracepoint::{TRACEPOINTS_MAX, key as tracepoint_key};
pub use triggers::{
    Blocked, Errors, KernelLog, Pressure, RunQueue, SlowCall, SlowRule, Switch, Triggers, errno,
};

/// Whose configuration it is.
const SERVICE: Service = Service { name: "flightd", complete: "config/flightd.toml" };

/// Everything that can be configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How much history is kept.
    pub rings: Rings,
    /// What is recorded.
    pub record: Record,
    /// Of which waits kernel stacks are recorded.
    pub stacks: Stacks,
    /// Which interrupts are recorded.
    pub interrupts: Long,
    /// Which waits for locks of the kernel are.
    pub locks: Long,
    /// How often it is recorded what runs.
    pub sampling: Sampling,
    /// What recording may cost.
    pub budget: Budget,
    /// The table of threads.
    pub threads: Threads,
    /// The files that it is drained into.
    pub store: Store,
    /// Sums of minutes that outlive it.
    pub history: History,
    /// Windows of it that are kept because something happened.
    pub snapshots: Snapshots,
    /// What makes one be kept.
    pub triggers: Triggers,
    /// What containers and pods are called.
    pub containers: ContainersConfig,
    /// Where the kernel's own description is, and how the probes are loaded.
    pub kernel: Kernel,
    /// Who may read the recording.
    pub access: AccessConfig,
    /// Tracepoints that are recorded as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tracepoint: Vec<ConfiguredTracepoint>,
}

/// `[rings]`: kernel memory for history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rings {
    /// Ring of system calls, of each CPU.
    pub syscall: Size,
    /// Ring of scheduling, of each CPU.
    pub sched: Size,
    /// Ring of task life and marks, of each CPU.
    pub task: Size,
    /// Ring of requests to disks, memory, interrupts, locks, connections and samples, of each CPU.
    pub kernel: Size,
    /// The quiet ring, of each CPU: what quiet processes did, kept when a flood writes over the
    /// rings. 0: none.
    pub quiet: Size,
    /// Most kernel memory that rings and tables of all CPUs take together.
    pub max_total: Size,
    /// The same, in percent of the machine's memory; the lesser of the two counts.
    pub max_ram_percent: u8,
}

impl Default for Rings {
    fn default() -> Self {
        Self {
            syscall: Size::mib(16),
            sched: Size::mib(8),
            task: Size::mib(1),
            kernel: Size::mib(2),
            quiet: Size::mib(8),
            max_total: Size::mib(512),
            max_ram_percent: 6,
        }
    }
}

/// `[record]`: what is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub struct Record {
    /// System calls.
    pub syscalls: bool,
    /// Scheduling.
    pub sched: bool,
    /// Fork, exec, rename, exit.
    pub tasks: bool,
    /// Signals that are sent and taken.
    pub signals: bool,
    /// Requests to disks.
    pub disk: bool,
    /// Victims of the OOM killer, reclaim, compaction.
    pub memory: bool,
    /// Long interrupts.
    pub interrupts: bool,
    /// Long waits for locks of the kernel.
    pub locks: bool,
    /// Connections.
    pub network: bool,
    /// Control groups whose CPU time is used up.
    pub throttling: bool,
    /// Operations of io_uring, with the paths that they take.
    pub io_uring: bool,
    /// For which spans of distributed traces threads work, where their processes publish it.
    pub thread_contexts: bool,
    /// Strings that system calls take (paths).
    pub strings: bool,
    /// What else their arguments point to: addresses of sockets, times, sets of descriptors.
    pub structures: bool,
    /// What is recorded of a program that is executed.
    pub exec_args: ExecArgs,
    /// Which arguments of programs are masked ([`crate::mask`]).
    pub mask: Vec<String>,
    /// The recorder's own system calls.
    pub own: bool,
}

/// `[record] exec_args`: what is recorded of a program that is executed, beside its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecArgs {
    /// Its file, and its arguments.
    All,
    /// Its file.
    Program,
    /// Nothing.
    None,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            syscalls: true,
            sched: true,
            tasks: true,
            signals: true,
            disk: true,
            memory: true,
            interrupts: true,
            locks: true,
            network: true,
            throttling: true,
            io_uring: true,
            thread_contexts: false,
            strings: true,
            structures: true,
            exec_args: ExecArgs::All,
            mask: Vec::new(),
            own: false,
        }
    }
}

/// `[threads]`: the table of threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Threads {
    /// Threads that it has room for.
    pub slots: u32,
}

impl Default for Threads {
    fn default() -> Self {
        Self { slots: 65_536 }
    }
}

/// `[kernel]`: where the kernel describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kernel {
    /// The kernel's type information.
    pub btf: PathBuf,
    /// Where tracefs is mounted.
    pub tracefs: PathBuf,
    /// Where the cgroup2 file system is mounted.
    pub cgroup2: PathBuf,
    /// Form of the system call programs.
    pub syscall_programs: SyscallPrograms,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            btf: "/sys/kernel/btf/vmlinux".into(),
            tracefs: "/sys/kernel/tracing".into(),
            cgroup2: "/sys/fs/cgroup".into(),
            syscall_programs: SyscallPrograms::Auto,
        }
    }
}

/// Form of the programs on system call entry and exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyscallPrograms {
    /// What the kernel needs: `tp_btf` before Linux 7.0, `tracepoint` from there on.
    Auto,
    /// BTF tracepoint programs: faster, but preemptible from Linux 7.0 on, which loses events.
    TpBtf,
    /// Classic tracepoint programs: about 35 ns more a call, never preempted.
    Tracepoint,
}

/// `[access]`: who may talk to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Group whose members may use the control socket, beside root.
    pub group: String,
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self { group: "flightrec".into() }
    }
}

impl Config {
    /// Reads the file, and checks it against this machine.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = flightrec_settings::read(path, SERVICE)?;
        Self::parse(&text, path, ram_bytes())
    }

    /// Parses `text`, the content of `path`, for a machine of `ram` bytes.
    pub fn parse(text: &str, path: &Path, ram: u64) -> Result<Self, ConfigError> {
        let document = Document::parse(text, path)?;
        document.check_keys(&known_keys())?;
        let config: Self = toml::from_str(text).map_err(|e| document.typed(&e))?;
        config.check(ram).map_err(|(key, message)| document.value(key, message))?;
        tracepoint::check(&config.tracepoint)
            .map_err(|(key, message)| document.value(&key, message))?;
        Ok(config)
    }

    /// The error of a key's value that only the running kernel shows to be wrong, with its place in
    /// the file.
    pub fn wrong(path: &Path, key: &str, message: String) -> ConfigError {
        match flightrec_settings::read(path, SERVICE) {
            Ok(text) => match Document::parse(&text, path) {
                Ok(document) => document.value(key, message),
                Err(e) => e,
            },
            Err(e) => e,
        }
    }

    /// Whether lane `kernel` has anything to hold.
    pub fn uses_kernel_lane(&self) -> bool {
        self.record.has_any(Lane::Kernel) || self.sampling.hz > 0 || !self.tracepoint.is_empty()
    }

    /// The configuration as a whole file, as it goes into the recording's metadata.
    pub fn to_toml(&self) -> String {
        // It can't fail: there are only tables of plain values. Were it to, the recording says so.
        toml::to_string(self).unwrap_or_else(|e| format!("# not expressible as TOML: {e}\n"))
    }

    /// Refuses what no machine, or not this one, can do; names the key.
    fn check(&self, ram: u64) -> Result<(), (&'static str, String)> {
        let rings = &self.rings;
        let lanes = [
            ("rings.syscall", rings.syscall, Lane::Syscall),
            ("rings.sched", rings.sched, Lane::Sched),
            ("rings.task", rings.task, Lane::Task),
            ("rings.kernel", rings.kernel, Lane::Kernel),
        ];
        for (key, size, lane) in lanes {
            if size < sizing::RING_LEAST {
                let least = sizing::RING_LEAST;
                let switches = Topic::of_lane(lane).map(|topic| format!("{} = false", topic.key()));
                let samples = if lane == Lane::Kernel { ", and hz = 0 in [sampling]" } else { "" };
                let message = format!(
                    "{size} is too small: a ring takes at least {least}; to leave these events \
                     out, set {} in [record]{samples}",
                    switches.collect::<Vec<_>>().join(", ")
                );
                return Err((key, message));
            }
            if size.bytes() > ram {
                return Err((key, more_than_ram(size, ram)));
            }
        }
        if rings.quiet.bytes() != 0 && rings.quiet < sizing::QUIET_LEAST {
            let message = format!(
                "{} is too small: give at least {}, or 0B",
                rings.quiet,
                sizing::QUIET_LEAST
            );
            return Err(("rings.quiet", message));
        }
        if rings.quiet.bytes() > ram {
            return Err(("rings.quiet", more_than_ram(rings.quiet, ram)));
        }
        if rings.max_total < sizing::TOTAL_LEAST {
            let message =
                format!("{} is too small: give at least {}", rings.max_total, sizing::TOTAL_LEAST);
            return Err(("rings.max_total", message));
        }
        // The default is no mistake of the user's on a very small machine: the percentage holds
        // there.
        if rings.max_total.bytes() > ram && rings.max_total > Rings::default().max_total {
            return Err(("rings.max_total", more_than_ram(rings.max_total, ram)));
        }
        if !(1..=90).contains(&rings.max_ram_percent) {
            return Err((
                "rings.max_ram_percent",
                format!("{} is not within 1 to 90", rings.max_ram_percent),
            ));
        }
        crate::mask::compile(&self.record.mask).map_err(|message| ("record.mask", message))?;
        self.stacks.check()?;
        self.interrupts.check("interrupts.longer_than", Topic::Interrupts.key())?;
        self.locks.check("locks.longer_than", Topic::Locks.key())?;
        self.sampling.check()?;
        self.budget.check()?;
        let slots = self.threads.slots;
        if !(sizing::SLOTS_LEAST..=sizing::SLOTS_MOST).contains(&slots) {
            let message = format!(
                "{slots} is not within {} to {} (Linux has no more threads)",
                sizing::SLOTS_LEAST,
                sizing::SLOTS_MOST
            );
            return Err(("threads.slots", message));
        }
        self.store.check()?;
        self.history.check()?;
        self.snapshots.check()?;
        self.triggers.check()?;
        if self.access.group.is_empty() {
            return Err((
                "access.group",
                "the name is empty; give a group (\"root\" for root only)".into(),
            ));
        }
        let paths = [
            ("kernel.btf", &self.kernel.btf),
            ("kernel.tracefs", &self.kernel.tracefs),
            ("kernel.cgroup2", &self.kernel.cgroup2),
            ("containers.root", &self.containers.root),
        ];
        for (key, path) in paths {
            if !path.is_absolute() {
                return Err((key, format!("\"{}\" is not an absolute path", path.display())));
            }
        }
        Ok(())
    }
}

/// The sections and keys that there are.
fn known_keys() -> Keys {
    Keys::of(&Config::default()).and_tables("tracepoint", &tracepoint::KEYS)
}

fn more_than_ram(size: Size, ram: u64) -> String {
    format!(
        "{size} is more than this machine's memory of {}: give less",
        Size::new(ram >> 20 << 20)
    )
}
