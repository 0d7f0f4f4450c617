//! Processes whose threads publish for which span they work (OTEP 4947, "Thread Context"): where
//! the probes find it. The daemon fills the table, the probes read it.
//!
//! A publishing process has a thread-local variable [`SYMBOL`], a pointer to a record of the
//! thread's present span, or null. Where the variable is, in relation to the thread pointer, is the
//! same for all threads of a process, and found once.

/// The variable's name among the dynamic symbols of the program or of one of its libraries.
pub const SYMBOL: &str = "otel_thread_ctx_v1";

/// A process that publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Publisher {
    /// Its id; 0: the place is free. Written last.
    pub tgid: u32,
    /// Index of the module in a thread's vector of dynamic thread-local storage; 0: the variable
    /// is in the static part.
    pub module: u32,
    /// Its `mm_struct`, by its address: after an exec the process has another one.
    pub mm: u64,
    /// Where the variable is: bytes from the thread pointer on, or from the beginning of the
    /// module's part on.
    pub offset: i64,
    /// 0
    pub reserved: u64,
}

const _: () = assert!(size_of::<Publisher>() == 32);

/// Places that a process may have: neighbours, from a multiple of so many on.
pub const PUBLISHER_WAYS: usize = 4;
/// Places for processes.
pub const PUBLISHERS: usize = 256;

/// The one value of the map `publishers`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Publishers {
    /// Processes in it; 0: the probes look no further.
    pub count: u64,
    /// They.
    pub places: [Publisher; PUBLISHERS],
}

/// The first place of a process.
#[inline(always)]
pub const fn publisher_place(tgid: u32) -> usize {
    const SETS: u32 = (PUBLISHERS / PUBLISHER_WAYS) as u32;
    // Knuth's 2^32 / phi; the upper bits of the product are the mixed ones.
    (tgid.wrapping_mul(2_654_435_761) >> (32 - SETS.trailing_zeros())) as usize * PUBLISHER_WAYS
}

/// Bytes of an entry of a thread's vector of dynamic thread-local storage, as glibc has it (`dtv_t`,
/// sysdeps/generic/dl-dtv.h, 2.36): the address of the module's part, and what is to be freed.
pub const DTV_ENTRY: u64 = 16;
/// Most modules that a process may have: an index beyond is none.
pub const MODULES_MAX: u32 = 4096;

/// The head of the record that the variable points to. Byte-packed, in the machine's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ContextRecord {
    /// The trace; zeros: none.
    pub trace: [u64; 2],
    /// The span.
    pub span: u64,
    /// [`VALID`]; else the record is to be ignored.
    pub valid: u8,
    /// Flags of W3C Trace Context.
    pub flags: u8,
    /// Bytes of the attributes that follow, which are not recorded.
    pub attributes: u16,
    /// Not part of the record.
    pub after: u32,
}

/// Bytes of the head.
pub const CONTEXT_RECORD: usize = 28;
/// [`ContextRecord::valid`] of a record that counts.
pub const VALID: u8 = 1;

const _: () = assert!(core::mem::offset_of!(ContextRecord, after) == CONTEXT_RECORD);

/// Where a thread's own variables are in user space, by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ThreadPointerOffsets {
    /// The thread pointer of user space, in `task_struct`: `thread.fsbase` on x86_64,
    /// `thread.uw.tp_value` on aarch64.
    pub thread_pointer: u32,
    /// From the thread pointer on: the address of the thread's vector of dynamic storage
    /// (`tcbhead_t.dtv`; sysdeps/x86_64/nptl/tls.h, sysdeps/aarch64/nptl/tls.h, glibc 2.36).
    pub vector: u32,
}

const _: () = assert!(size_of::<ThreadPointerOffsets>() == 8);

/// Sets of places by which the probes know what each thread was seen to work for last, a power of
/// two.
pub const SEEN_SETS: usize = 2048;
/// Places of a set.
pub const SEEN_WAYS: usize = 4;
/// All of them, a word each.
pub const SEEN: usize = SEEN_SETS * SEEN_WAYS;
/// Binary logarithm of the jiffies after which a context is recorded again that has not changed: 4
/// to 41 s.
pub const AGAIN_SHIFT: u32 = 12;

/// Most bytes of a process's memory that are asked for at a time.
pub const PEEK_MAX: usize = 4096;

/// What is asked of a process's memory, and the answer: the one value of the map `peeked`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Peek {
    /// From where on.
    pub address: u64,
    /// How many bytes; at most [`PEEK_MAX`].
    pub length: u64,
    /// 1: they are here. 0: the process does not have them all.
    pub found: u64,
    /// They.
    pub bytes: [u8; PEEK_MAX],
}

const _: () = assert!(size_of::<Peek>() == 24 + PEEK_MAX);

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_places_inside_the_table() {
        for tgid in (0..4_194_304).step_by(97) {
            let first = publisher_place(tgid);
            assert!(first.is_multiple_of(PUBLISHER_WAYS) && first + PUBLISHER_WAYS <= PUBLISHERS);
        }
    }
}
