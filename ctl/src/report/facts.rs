//! By what one value may be grouped.

use flightrec_analysis::CallId;

use super::Key;

/// What is known of what is added up. What is not known stays out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// The thread; 0: an idle one.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name; empty: not known.
    pub comm: &'a [u8],
    /// Its control group; 0: not known.
    pub cgroup: u64,
    /// The CPU.
    pub cpu: u16,
    /// The system call.
    pub call: Option<CallId>,
    /// The file, or what else a descriptor stands for.
    pub file: Option<&'a [u8]>,
    /// The block device.
    pub device: Option<u32>,
    /// The error.
    pub errno: Option<i32>,
    /// Keys of the report's own, as words.
    pub own: &'a [(Key, &'a [u8])],
}
