//! What a snapshot says of itself: why it was taken, which window it holds, and the first answer
//! made of it.
//!
//! It is one JSON document in a block of its own ([`crate::Kind::Snapshot`]), fields that a reader
//! does not know ignored. Every text in it may hold what any user chose (names of threads,
//! reasons): it is escaped before it is shown.

use serde::{Deserialize, Serialize};

/// Why a file was taken, and what is in it. Moments are ns of `CLOCK_MONOTONIC` unless said
/// otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// What made the recorder take it: the name of a trigger, or `request`; `save`: flightctl
    /// saved a window.
    pub cause: String,
    /// What the cause was about (a process, a unit): the same cause of the same subject is one
    /// snapshot for a while.
    pub subject: String,
    /// The cause in a sentence.
    pub reason: String,
    /// When it happened.
    pub time: u64,
    /// The same by the wall clock, ns since 1970.
    pub wall: i64,
    /// The window that was wanted, start and end.
    pub from: u64,
    /// Its end.
    pub until: u64,
    /// From when on the window is held, where its beginning had to be left out; else `from`.
    pub held_from: u64,
    /// Its stretches, start and end, where it is several: a window by times of day across steps of
    /// the wall clock. Else none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<(u64, u64)>,
    /// Where the pages came from.
    pub source: Origin,
    /// Threads that the cause names.
    pub threads: Vec<u32>,
    /// The first answer.
    pub summary: Summary,
}

/// Where a snapshot's pages came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The recorder's files.
    #[default]
    Files,
    /// The rings in the kernel.
    Rings,
}

/// What stands out in the window. Each list begins with the worst, and is short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The part of the window that it was made of: start.
    pub from: u64,
    /// End.
    pub until: u64,
    /// What it leaves out, in sentences.
    pub notes: Vec<String>,
    /// What `flightctl why` answers about the cause; `None`: it was not asked, and a note says so
    /// where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Threads that the cause names, and what was known of them.
    pub involved: Vec<Involved>,
    /// The longest times that threads did not run.
    pub waits: Vec<Wait>,
    /// Who ran the longest.
    pub hogs: Vec<Hog>,
    /// Calls that failed the most.
    pub failures: Vec<Failure>,
}

/// An answer of `flightctl why`, or its main parts: names as in its JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Why {
    /// The answer in a sentence.
    pub sentence: String,
    /// From the thread that was slow to the cause.
    pub chain: Vec<WhyLink>,
    /// The causes, the most likely first; none where that is not known.
    pub culprits: Vec<Culprit>,
    /// What is uncertain, a sentence each.
    pub doubts: Vec<String>,
    /// Whether no event of the window is missing.
    pub complete: bool,
}

/// A link of a chain of causes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyLink {
    /// The thread.
    pub thread: WhyThread,
    /// What it did.
    pub did: String,
    /// For how long in all, ns.
    pub ns: u64,
    /// What is uncertain about it.
    pub doubt: Option<String>,
}

/// A cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Culprit {
    /// The thread; `None`: it was none, but a device, say.
    pub thread: Option<WhyThread>,
    /// What it did, in a word or two.
    pub mechanism: String,
    /// The call that it was in.
    pub call: Option<String>,
    /// What that is about: a file, a device, an address, a function.
    pub object: Option<String>,
    /// For how long, ns.
    pub ns: u64,
}

/// A thread of such an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyThread {
    /// Its id.
    pub tid: u32,
    /// Its process; `None`: not known.
    pub pid: Option<u32>,
    /// Its name.
    pub name: String,
    /// Path of its control group; `None`: not known.
    pub cgroup: Option<String>,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its process; 0: not known.
    pub tgid: u32,
    /// Its name.
    pub name: String,
}

/// A thread that the cause names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Involved {
    /// Which.
    pub thread: Thread,
    /// How long it ran in the window, ns.
    pub ran: u64,
    /// How long it waited for a CPU, ns.
    pub queued: u64,
    /// How long it could run while its CPU idled, ns: its quota was used up.
    pub held: u64,
    /// How long it was blocked, ns.
    pub blocked: u64,
    /// Calls that it began.
    pub calls: u64,
}

/// Time in which a thread did not run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// Which.
    pub thread: Thread,
    /// Since when.
    pub since: u64,
    /// How long, ns.
    pub ns: u64,
    /// For what.
    pub kind: WaitKind,
    /// State that it was blocked in (`task_struct.__state`); 0: it waited for a CPU.
    pub state: u16,
    /// The call that it was in, by name; `None`: none, or not known.
    pub call: Option<String>,
    /// The thread that woke it; `None`: none in the window, or an interrupt.
    pub waker: Option<Thread>,
    /// The context of that wakeup, by its name (`WakeContext::name`); `None`: nothing woke it in
    /// the window.
    pub waker_context: Option<String>,
    /// Functions of the kernel that it waited in, from the innermost one out; of one that has no
    /// name its number, after `?`. None where that is not known.
    pub stack: Vec<String>,
    /// It could run, and gave way to idle when the wait began: the quota of its control group was
    /// spent.
    pub idle: bool,
}

/// For what a thread waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// For something to happen.
    #[default]
    Blocked,
    /// For a CPU.
    Queued,
}

/// A thread that ran long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hog {
    /// Which.
    pub thread: Thread,
    /// How long, ns, over all CPUs.
    pub ns: u64,
}

/// A call that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// The call, by name.
    pub call: String,
    /// The error, by name.
    pub error: String,
    /// How often.
    pub count: u64,
    /// The thread that it happened to the most.
    pub thread: Thread,
}
