//! What an answer is made of.

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Who {
    /// Thread id.
    pub tid: u32,
    /// Its process; 0: not known.
    pub pid: u32,
    /// Its name, fit to print.
    pub comm: String,
    /// Path of its control group, if it is known.
    pub group: Option<String>,
}

/// A part of the window, by what the subject did in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// `running`, `interrupted`, `runnable`, `throttled`, `held`, `blocked`, `stopped`, `traced`,
    /// `absent` (it did not exist) or `unknown`.
    pub state: &'static str,
    /// The same in words.
    pub what: String,
    /// How long, ns.
    pub ns: u64,
    /// The same of the window, per cent.
    pub percent: f64,
    /// How many waits, or stretches, it was.
    pub count: u64,
}

/// What a thread did while the one of the link before waited for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// The thread.
    pub who: Who,
    /// What it did mostly: as of [`Share::state`].
    pub state: &'static str,
    /// When that began and ended, ns of `CLOCK_MONOTONIC`: of several waits, the longest.
    pub from: u64,
    /// End.
    pub until: u64,
    /// For how long in all, ns.
    pub ns: u64,
    /// How often.
    pub count: u64,
    /// What it did, without its name: `waited 12 ms in fsync(/srv/journal)`.
    pub did: String,
    /// The call that it was in.
    pub call: Option<String>,
    /// What that is about.
    pub object: Option<String>,
    /// How the next link hangs on this one: `held by`, `for`.
    pub by: &'static str,
    /// What shows it, a line each.
    pub evidence: Vec<String>,
    /// What is not sure of it.
    pub doubt: Option<String>,
}

/// All that [`Culprit::mechanism`] may say, in the order of the alphabet.
pub const MECHANISMS: [&str; 22] = [
    "CPU quota",
    "CPU taken",
    "I/O",
    "disk",
    "frozen",
    "interrupt",
    "interrupts",
    "killed by a signal",
    "lock of the address space",
    "memory compaction",
    "memory reclaim",
    "network",
    "on CPU",
    "out of memory",
    "ptrace",
    "retries",
    "short-lived processes",
    "signal",
    "sleep",
    "stopped by a signal",
    "timeout",
    "timer",
];

/// What was the cause, as far as the chain reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// The thread; `None`: it was none, but a device, say.
    pub who: Option<Who>,
    /// What it did, in a word or two: one of [`MECHANISMS`].
    pub mechanism: &'static str,
    /// The call that it was in.
    pub call: Option<String>,
    /// What that is about: a file, a device, an address, a function.
    pub object: Option<String>,
    /// For how long, ns.
    pub ns: u64,
}

/// Why a thread was slow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The answer in a sentence.
    pub sentence: String,
    /// The thread; `None`: nothing stands out.
    pub subject: Option<Who>,
    /// What was asked about, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// End.
    pub until: u64,
    /// What the thread did in it. They add up to the whole, `unknown` included.
    pub shares: Vec<Share>,
    /// From the thread to the cause.
    pub chain: Vec<Link>,
    /// Causes, the most likely first; none where events are missing that would tell.
    pub culprits: Vec<Culprit>,
    /// What the answer can't be sure of, a sentence each.
    pub doubts: Vec<String>,
    /// Whether nothing that the answer goes by is missing.
    pub complete: bool,
    /// A descriptor in the chain stands for something that is not known, or what the subject did at
    /// some time is not: who reads more of what was before the window may know it.
    pub lacks_past: bool,
}

/// `671 ms`, `2.0 s`, `35 us`: three digits are enough for a sentence.
pub(super) fn time(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} us", ns / 1000),
        1_000_000..10_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{} ms", (ns + 500_000) / 1_000_000),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}
