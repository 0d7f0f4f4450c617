//! The recording's metadata: what a reader needs to make sense of the pages on any machine.
//!
//! It is one JSON document, unknown fields ignored, cut into chunks that stand in pages of lane
//! `meta`: `CHUNK_BYTES` behind each header, bookkeeping in the header's counters
//! ([`crate::abi::page::meta_field`]).

use serde::{Deserialize, Serialize};

/// Metadata of one recording session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Recording session, as in the page headers.
    pub session: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Host name.
    pub host: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine (`uname -m`).
    pub machine: String,
    /// Version of the recorder that made the session.
    pub recorder: String,
    /// Identity of the probes and of what is frozen into them; a daemon adopts only its own.
    pub program: String,
    /// Form of the system call programs: `tp_btf` or `tracepoint`.
    pub syscall_programs: String,
    /// When the session began, ns of `CLOCK_MONOTONIC`.
    pub started: u64,
    /// `CLOCK_TAI` minus `CLOCK_REALTIME`, seconds.
    pub tai_offset: i64,
    /// CPUs with rings.
    pub cpus: Vec<u16>,
    /// Bytes of one CPU's ring, by lane.
    pub ring_bytes: [u64; 3],
    /// Whether strings of system calls are recorded.
    pub strings: bool,
    /// The configuration in force, as TOML.
    pub config: String,
    /// System calls of the machine's own table.
    pub native: Vec<Syscall>,
    /// System calls of the 32-bit table.
    pub compat: Vec<Syscall>,
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syscall {
    /// Its number in its table.
    pub nr: u16,
    /// Its name, as in the manual.
    pub name: String,
    /// Its arguments; `None` where the kernel does not publish them (six are then recorded).
    pub args: Option<Vec<Argument>>,
}

/// One argument, as the kernel's tracepoint format publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Its name in the kernel.
    pub name: String,
    /// Its C type, without `__user`.
    pub ctype: String,
}
