//! What a thread that sleeps in the kernel waits for, in words after "for", by its stack alone.
//!
//! The table of functions is that of [`Reason`](super::Reason). This is for whoever puts a wait into
//! a sentence of its own and knows the call and its object already; so what the call says better is
//! left out: its child, its timer, its descriptors, its peer.

use super::frames::{bare, is_fault as is_fault_function, reason};
use super::{ReasonKind, Wait};

/// What a thread waits for in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// In words, after "for": `data in the pipe`.
    pub words: &'static str,
    /// What kind of thing that is.
    pub class: Class,
}

/// Kinds of what is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Data on its way to or from a disk.
    Disk,
    /// Memory.
    Memory,
    /// The lock of an address space.
    AddressSpace,
    /// Another lock of the kernel.
    Lock,
    /// Somebody else's doing.
    Other,
}

/// The lock of an address space.
pub const ADDRESS_SPACE_LOCK: Awaited =
    Awaited { words: "the lock of its address space (mmap_lock)", class: Class::AddressSpace };

/// What a stack says of a wait, its functions from the innermost out. `None`: nothing, or nothing
/// that the call does not say better.
pub fn awaited<S: AsRef<str>>(functions: &[S]) -> Option<Awaited> {
    use ReasonKind as Kind;
    let frames: Vec<&str> = functions.iter().map(AsRef::as_ref).collect();
    let reason = reason(&Wait { frames: &frames, ..Wait::default() })?;
    let (words, class) = match reason.kind {
        Kind::Disk => (disk(&frames), Class::Disk),
        Kind::DiskQueue => ("a free request of the disk", Class::Disk),
        Kind::Journal => (journal(&frames), Class::Disk),
        Kind::DirtyLimit => ("write-back, as too much unwritten data is in memory", Class::Disk),
        Kind::Reclaim => (memory(&frames), Class::Memory),
        Kind::Swap => ("a page that was swapped out", Class::Memory),
        Kind::Userfault => ("the userfaultfd handler of its page faults", Class::Other),
        Kind::FileServer => {
            let words = match reason.about.as_deref() {
                Some(b"FUSE") => "the server of a FUSE file system",
                Some(b"NFS") => "the NFS server",
                Some(b"SMB") => "the SMB server",
                Some(b"Ceph") => "the Ceph cluster",
                Some(b"9P") => "the 9P server",
                _ => "the server of the file system",
            };
            (words, Class::Other)
        }
        Kind::AddressSpace => return Some(ADDRESS_SPACE_LOCK),
        Kind::KernelLock => ("a lock of the kernel", Class::Lock),
        Kind::Lease => ("a lease of the file to be given back", Class::Lock),
        Kind::Rcu => ("an RCU grace period", Class::Other),
        Kind::PipeRead => ("data in the pipe", Class::Other),
        Kind::PipeWrite => ("room in the pipe", Class::Other),
        Kind::SocketWrite => ("room in the socket's buffer", Class::Other),
        _ => return None,
    };
    Some(Awaited { words, class })
}

/// Whether any function begins so.
fn has(frames: &[&str], begins: &[&str]) -> bool {
    frames.iter().any(|name| begins.iter().any(|begin| name.starts_with(begin)))
}

fn disk(frames: &[&str]) -> &'static str {
    let writes = ["folio_wait_writeback", "wait_on_page_writeback", "__filemap_fdatawait_range"];
    if has(frames, &writes) {
        "the file's data to be written"
    } else if has(frames, &["__wait_on_buffer"]) {
        "a block of the file system"
    } else if has(frames, &["folio_wait", "wait_on_page_bit", "__folio_lock", "filemap_get_pages"])
    {
        "the file's data"
    } else {
        "the disk"
    }
}

fn journal(frames: &[&str]) -> &'static str {
    if has(frames, &["jbd2_log_wait_commit"]) {
        "a commit of the file system's journal"
    } else if has(frames, &["wait_transaction_"]) {
        "the running transaction of the journal"
    } else if has(frames, &["add_transaction_credits"]) {
        "room in the file system's journal"
    } else {
        "the file system's journal"
    }
}

fn memory(frames: &[&str]) -> &'static str {
    if has(frames, &["mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"]) {
        "memory, as its control group's limit is near"
    } else {
        "free memory"
    }
}

/// Whether a stack is of a page fault.
pub fn is_fault<S: AsRef<str>>(functions: &[S]) -> bool {
    functions.iter().any(|function| is_fault_function(bare(function.as_ref())))
}

/// Whether a stack is of data that is written to disk at once.
pub fn is_sync<S: AsRef<str>>(functions: &[S]) -> bool {
    let begins = ["vfs_fsync_range", "generic_write_sync", "file_write_and_wait_range"];
    let is = |function: &str| {
        begins.iter().any(|begin| function.starts_with(begin))
            || function.ends_with("_sync_file")
            || function.ends_with("_file_fsync")
    };
    functions.iter().any(|function| is(bare(function.as_ref())))
}
