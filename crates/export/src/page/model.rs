//! What a page tells, as its scripts read it: JSON in the page (`assets/data.js` is its reader).
//!
//! All texts are printable. Times are ns from the window's begin on.

use serde::Serialize;

/// A page.
#[derive(Debug, Default, Serialize)]
pub struct Page {
    /// What it is of.
    pub about: About,
    /// The answer of `flightctl why`; `None`: nothing is recorded of whom it was asked.
    pub answer: Option<Answer>,
    /// What is covered.
    pub coverage: Coverage,
    /// The timeline.
    pub timeline: Timeline,
    /// Where the time of some threads went.
    pub shares: Vec<Shares>,
    /// Distributions.
    pub histograms: Vec<Histogram>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The lines around the cause.
    pub lines: Lines,
    /// What is merged, cut or left out, a sentence each.
    pub merged: Vec<String>,
}

/// What a page is of.
#[derive(Debug, Default, Serialize)]
pub struct About {
    /// The machine's name.
    pub host: String,
    /// Its kernel.
    pub kernel: String,
    /// The boot that it is of.
    pub boot: String,
    /// When the window begins, in words: date, time of day and time zone.
    pub from: String,
    /// When it ends.
    pub until: String,
    /// How long it is.
    pub length: u64,
    /// ns of the day at its begin.
    pub day: u64,
    /// What made the page.
    pub made_by: String,
    /// How many events it is made of.
    pub events: u64,
}

/// Why a thread was slow.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    /// In a sentence.
    pub sentence: String,
    /// Whom it is about.
    pub subject: String,
    /// The time that it is about: from, until.
    pub window: (u64, u64),
    /// From the thread to the cause.
    pub chain: Vec<Link>,
    /// What it can't be sure of.
    pub doubts: Vec<String>,
    /// Nothing that it goes by is missing.
    pub complete: bool,
}

/// What a thread did while the one of the link before waited for it.
#[derive(Debug, Default, Serialize)]
pub struct Link {
    /// The thread.
    pub tid: u32,
    /// Its name, with its number.
    pub who: String,
    /// Its control group.
    pub group: String,
    /// What it did.
    pub did: String,
    /// From when; of several waits, the longest.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// How often.
    pub count: u64,
    /// What shows it.
    pub evidence: Vec<String>,
    /// What is not sure of it; empty: nothing.
    pub doubt: String,
}

/// What is covered.
#[derive(Debug, Default, Serialize)]
pub struct Coverage {
    /// Nothing of the window is missing.
    pub complete: bool,
    /// In words, a line each.
    pub lines: Vec<String>,
}

/// CPUs and threads over time.
#[derive(Debug, Default, Serialize)]
pub struct Timeline {
    /// Texts; the first one is empty.
    pub words: Vec<String>,
    /// What stretches are: a [`Sort`], and the numbers of texts: what it is, the call, what woke
    /// the thread, the kernel stack (a line a function).
    pub whats: Vec<[u32; 5]>,
    /// The lanes, from top to bottom.
    pub lanes: Vec<Lane>,
    /// Stretches around the cause, in which everything that has room is drawn.
    pub near: Vec<(u64, u64)>,
    /// Moments with a text.
    pub marks: Vec<(u64, String)>,
}

/// What a stretch is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Sort {
    /// A thread on a CPU.
    OnCpu,
    /// Runs.
    Running,
    /// Waits for a CPU.
    Runnable,
    /// Could run, and its CPU is idle.
    Held,
    /// Waits for what work needs.
    Blocked,
    /// Waits for the time, or for others to bring work.
    Idle,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// A system call.
    Call,
    /// One that failed.
    Failed,
    /// An interrupt that took long.
    Interrupt,
    /// A signal is sent.
    Sent,
    /// A thread takes one.
    Taken,
    /// A request to a disk.
    Request,
    /// One that failed.
    FailedRequest,
}

/// A lane.
#[derive(Debug, Default, Serialize)]
pub struct Lane {
    /// `CPU 3`, `disk vda`, or a thread's name.
    pub label: String,
    /// A thread's number and process.
    pub sub: String,
    /// The thread; 0: it is of a CPU or a disk.
    pub tid: u32,
    /// The answer names it.
    pub named: bool,
    /// Rows from top to bottom: of a CPU who ran, and interrupts; of a thread its states, its calls,
    /// and signals; of a disk its requests.
    pub rows: Vec<Row>,
    /// Times in which events are missing, and why: from, until, what.
    pub gaps: Vec<(u64, u64, String)>,
}

/// A row of stretches.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// What it is of: `cpu`, `irq`, `state`, `call`, `signal` or `disk`.
    pub of: &'static str,
    /// For each stretch: the time from the end of the one before to its begin (negative: they
    /// overlap), and its length.
    pub times: Vec<i64>,
    /// For each, what it is.
    pub whats: Vec<u32>,
    /// Stretches that stand for several: the number of the stretch, how many they are, and the time
    /// of each class of its length, in tenths of a per cent.
    pub merged: Vec<u64>,
    /// Shorter ones are merged far from the cause, and near it, ns; 0: none are.
    pub resolution: (u64, u64),
}

/// Where the time of a thread went.
#[derive(Debug, Default, Serialize)]
pub struct Shares {
    /// The thread.
    pub who: String,
    /// Why it is here: `subject`, `named`, `busiest`, `waited` or `delayed`.
    pub why: &'static str,
    /// Parts, the greatest first: a [`Sort`], what it is, ns, how often.
    pub parts: Vec<(u32, String, u64, u64)>,
    /// Their sum: for how long it is known what the thread did, ns.
    pub of: u64,
}

/// A distribution.
#[derive(Debug, Default, Serialize)]
pub struct Histogram {
    /// What of.
    pub title: String,
    /// How many values.
    pub count: u64,
    /// Their median, the value that one of a hundred exceeds, the greatest.
    pub facts: (u64, u64, u64),
    /// From, until, how many.
    pub buckets: Vec<(u64, u64, u64)>,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Text.
    Text,
    /// A number.
    Number,
    /// The number of a thread, a process, a CPU.
    Id,
    /// A length of time, ns.
    Ns,
    /// A size, bytes.
    Bytes,
}

/// A table.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    /// What of.
    pub title: String,
    /// What is to be known of its figures.
    pub remark: String,
    /// The heads of its columns, and what they hold.
    pub columns: Vec<(String, Unit)>,
    /// The column that it is sorted by at first, the greatest first.
    pub by: usize,
    /// The rows; null: not known.
    pub rows: Vec<Vec<Cell>>,
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
    /// Not known.
    Unknown,
}

/// Lines as `flightctl dump` prints them.
#[derive(Debug, Default, Serialize)]
pub struct Lines {
    /// What they are, in a sentence.
    pub title: String,
    /// From the first to the last: the time, whether it is of the thread that was asked about, and
    /// the line.
    pub lines: Vec<(u64, bool, String)>,
}
