//! `[triggers]`: what makes the recorder take a snapshot by itself.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Share, Span};

/// How long a usual rate may take to be learned.
const LEARN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_hours(1));
/// How often it may be looked.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Most rules of one trigger: each slow call is held against all of them.
const RULES_MAX: usize = 64;
/// Most lines of the kernel that are looked for.
const LINES_MAX: usize = 64;

/// What is watched. Each trigger is a table of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Triggers {
    /// Whether anything is.
    pub enabled: bool,
    /// How often it is looked.
    pub interval: Span,
    /// Where the kernel shows its counters.
    pub proc: PathBuf,
    /// A thread that could run waits for a CPU.
    pub run_queue: RunQueue,
    /// Pressure stall information.
    pub pressure: Pressure,
    /// A thread in uninterruptible sleep.
    pub blocked: Blocked,
    /// A process killed by a signal that dumps core.
    pub core_dump: Switch,
    /// A process killed because memory ran out.
    pub oom_kill: Switch,
    /// A line that the kernel logs.
    pub kernel_log: KernelLog,
    /// Failing calls of a control group.
    pub errors: Errors,
    /// Slow calls of somebody who is named.
    pub slow_call: SlowCall,
}

/// Nothing but on or off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Switch {
    /// Whether it is on.
    pub enabled: bool,
}

/// `[triggers.run_queue]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunQueue {
    /// Whether it is on.
    pub enabled: bool,
    /// How long a thread must have waited.
    pub longer_than: Span,
    /// Whether threads of positive nice values count.
    pub nice: bool,
}

/// `[triggers.pressure]`: shares of time, over 10 s, by resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pressure {
    /// Whether it is on.
    pub enabled: bool,
    /// Some thread waited for a CPU.
    pub cpu: Share,
    /// All threads waited for memory.
    pub memory: Share,
    /// All threads waited for I/O.
    pub io: Share,
}

/// `[triggers.blocked]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Blocked {
    /// Whether it is on.
    pub enabled: bool,
    /// How long.
    pub longer_than: Span,
    /// Whether kernel threads count.
    pub kernel_threads: bool,
}

/// `[triggers.kernel_log]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelLog {
    /// Whether it is on.
    pub enabled: bool,
    /// Any of these in a line.
    pub lines: Vec<String>,
}

/// `[triggers.errors]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Errors {
    /// Whether it is on.
    pub enabled: bool,
    /// Failing calls a second, on average over ten seconds, below which it does not fire.
    pub min_rate: u32,
    /// How many times its usual rate.
    pub factor: u32,
    /// How long a control group is watched before its usual rate counts as known.
    pub learn: Span,
    /// Errors that do not count, by name.
    pub ignore: Vec<String>,
}

/// `[triggers.slow_call]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlowCall {
    /// Whose calls, and how slow.
    pub rules: Vec<SlowRule>,
}

/// Whose calls must not be slower than what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowRule {
    /// Name of the threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The systemd unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Names of the calls; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// How slow.
    pub slower_than: Span,
}

impl Default for Triggers {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Span::seconds(1),
            proc: "/proc".into(),
            run_queue: RunQueue::default(),
            pressure: Pressure::default(),
            blocked: Blocked::default(),
            core_dump: Switch::default(),
            oom_kill: Switch::default(),
            kernel_log: KernelLog::default(),
            errors: Errors::default(),
            slow_call: SlowCall::default(),
        }
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Default for RunQueue {
    fn default() -> Self {
        Self { enabled: true, longer_than: Span::seconds(2), nice: false }
    }
}

impl Default for Pressure {
    fn default() -> Self {
        Self {
            enabled: true,
            cpu: Share::Off,
            memory: Share::Millionths(300_000),
            io: Share::Millionths(900_000),
        }
    }
}

impl Default for Blocked {
    fn default() -> Self {
        Self { enabled: true, longer_than: Span::seconds(30), kernel_threads: false }
    }
}

impl Default for KernelLog {
    fn default() -> Self {
        let lines = [
            "WARNING: CPU: ",
            "Oops: ",
            "BUG: ",
            "general protection fault, ",
            "blocked for more than",
            "self-detected stall",
            "soft lockup",
            "hard LOCKUP",
        ];
        Self { enabled: true, lines: lines.map(str::to_owned).to_vec() }
    }
}

impl Default for Errors {
    fn default() -> Self {
        let ignore = [
            "EAGAIN",
            "EBADF",
            "ECHILD",
            "EEXIST",
            "EINPROGRESS",
            "EINTR",
            "EINVAL",
            "EISDIR",
            "ELOOP",
            "ENODATA",
            "ENOENT",
            "ENOTDIR",
            "ENOTTY",
            "ENXIO",
            "EOPNOTSUPP",
            "ESPIPE",
            "ESRCH",
            "ETIMEDOUT",
        ];
        Self {
            enabled: true,
            min_rate: 200,
            factor: 20,
            learn: Span::seconds(60),
            ignore: ignore.map(str::to_owned).to_vec(),
        }
    }
}

impl Triggers {
    /// Refuses what can't work; names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let (least, most) = INTERVAL;
        if !(least..=most).contains(&self.interval.duration()) {
            let (least, most) =
                (humantime::format_duration(least), humantime::format_duration(most));
            return Err((
                "triggers.interval",
                format!("{} is not within {least} to {most}", self.interval),
            ));
        }
        if !self.proc.is_absolute() {
            return Err((
                "triggers.proc",
                format!("\"{}\" is not an absolute path", self.proc.display()),
            ));
        }
        let least = Duration::from_millis(1);
        let spans = [
            ("triggers.run_queue.longer_than", self.run_queue.longer_than),
            ("triggers.blocked.longer_than", self.blocked.longer_than),
        ];
        for (key, span) in spans {
            if span.duration() < least {
                return Err((key, format!("{span} is too short: give at least 1ms")));
            }
        }
        self.kernel_log.check().map_err(|message| ("triggers.kernel_log.lines", message))?;
        self.errors.check()?;
        self.slow_call.check().map_err(|message| ("triggers.slow_call.rules", message))
    }
}

impl KernelLog {
    fn check(&self) -> Result<(), String> {
        if self.lines.len() > LINES_MAX {
            return Err(format!(
                "{} lines are too many: give at most {LINES_MAX}",
                self.lines.len()
            ));
        }
        match self.lines.iter().find(|line| line.len() < 3) {
            Some(line) => Err(format!(
                "{line:?} matches too many kernel messages: give at least three characters"
            )),
            None => Ok(()),
        }
    }
}

impl Errors {
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.factor < 2 {
            let message = format!("{} would fire at the usual rate: give at least 2", self.factor);
            return Err(("triggers.errors.factor", message));
        }
        if self.min_rate == 0 {
            return Err((
                "triggers.errors.min_rate",
                "0 would fire at the first failure: give at least 1".into(),
            ));
        }
        let (least, most) = LEARN;
        if !(least..=most).contains(&self.learn.duration()) {
            let (least, most) =
                (humantime::format_duration(least), humantime::format_duration(most));
            return Err((
                "triggers.errors.learn",
                format!("{} is not within {least} to {most}", self.learn),
            ));
        }
        match self.ignore.iter().find(|name| errno(name).is_none()) {
            Some(name) => Err((
                "triggers.errors.ignore",
                format!("there is no error {name:?}; write names like \"ENOENT\""),
            )),
            None => Ok(()),
        }
    }
}

impl SlowCall {
    fn check(&self) -> Result<(), String> {
        if self.rules.len() > RULES_MAX {
            return Err(format!(
                "{} rules are too many: give at most {RULES_MAX}",
                self.rules.len()
            ));
        }
        for rule in &self.rules {
            if rule.process.is_none() && rule.unit.is_none() {
                return Err(
                    "a rule names neither process nor unit, and would match every blocked \
                            thread"
                        .into(),
                );
            }
            if rule.slower_than.duration().is_zero() {
                return Err("slower_than = \"0s\" matches every call: give at least 1us".into());
            }
            if let Some(call) =
                rule.calls.iter().find(|call| call.parse::<syscalls::Sysno>().is_err())
            {
                return Err(format!("there is no system call {call:?}"));
            }
        }
        Ok(())
    }
}

/// The number of an error, by its name.
pub fn errno(name: &str) -> Option<i32> {
    (1..4096).find(|number| syscalls::Errno::new(*number).name() == Some(name))
}
