//! Records: what stands after a page's header.
//!
//! A record is a header word of 8 bytes and a body, together a multiple of [`UNIT`]. The header:
//! bits 0-7 [`kind`], 8-15 length in units (header included), 16-31 `aux`, 32-63 time: ns since the
//! page's base (or since the last [`kind::TIME`] record of the page). Kinds that are no events
//! ([`kind::THREAD`], [`kind::STRING`]) use the upper half for something else, as said there. A
//! record and the [`kind::STRING`]s that belong to it are published together.
//!
//! [`UNIT`]: super::page::UNIT

pub use super::kinds::{Exec, Fork, Rename, TaskExit};

/// In [`Fork::shares`]: the new thread's descriptors are its creator's.
pub const SHARES_FILES: u64 = 1;
/// In [`Fork::shares`]: so are its working directory and root.
pub const SHARES_FS: u64 = 2;
/// In [`Fork::shares`]: it has its creator's name. Threads that the kernel creates may have one of
/// their own from their birth (`kernel_clone_args.name`, kernel/fork.c, Linux 6.4).
pub const SHARES_NAME: u64 = 4;

/// Record kinds: those of the table of events ([`super::kinds`]), and those that are no events.
///
/// What stands after the header word of an event whose body is not of fixed fields:
/// - ENTER: `aux` [`call_aux`]. Body: fold slot ([`fold`]); then the arguments, if it takes any
///   ([`crate::abi::args`]).
/// - EXIT: `aux` as ENTER. Body: return value, 8 bytes; then the arguments, where the entry was
///   not recorded, or may be too long ago to be found (FORMAT.md, section 3).
/// - SWITCH: `aux` prev's priority, next's priority << 8. Body: [`switch`].
/// - WAKING, and WAKEUP_NEW, with state 0: `aux` its priority. Body: [`wake`].
/// - MIGRATE: `aux` its priority. Body: [`migrate`].
/// - STACK: `aux` [`stack`]'s. Body: for how long the thread slept, 8 bytes; then the frames, 4
///   bytes each.
/// - MARK: `aux` 0. Then STRING 0.
/// - ACT: `aux` [`Act`]. Then STRING 0, a sentence.
///
/// After the fields of EXEC come STRING 0 (file) and 1 (arguments, each ended by NUL).
pub mod kind {
    pub use crate::abi::kinds::number::*;

    /// The thread that the lane's following records belong to. Upper half: its id. No body.
    pub const THREAD: u8 = 1;
    /// A new time base. Body: `CLOCK_MONOTONIC` in ns. Upper half: 0.
    pub const TIME: u8 = 2;
    /// A string of the event before it: aux bits 0-3 which (argument index, or see the event; from
    /// [`super::super::pointee::INDEX`] on: what else an argument points to), bits 4-7
    /// [`super::StringStatus`]; upper half: its bytes; the bytes follow, zero padded to a unit.
    pub const STRING: u8 = 3;
}

/// An event's index in its lane's counters.
#[inline(always)]
pub const fn counter(kind: u8) -> usize {
    (kind & 0xf) as usize
}

/// A record's first word; `length` in units.
#[inline(always)]
pub const fn header(kind: u8, length: u8, aux: u16, upper: u32) -> u64 {
    kind as u64 | (length as u64) << 8 | (aux as u64) << 16 | (upper as u64) << 32
}

/// How a string came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StringStatus {
    /// All of it.
    Whole = 0,
    /// Cut at the recorder's limit.
    Cut = 1,
    /// The address could not be read (not mapped, or not yet faulted in).
    Unreadable = 2,
    /// Longer than the limit: its first [`STRING_HEAD`] bytes, and right after them its last ones.
    Ends = 3,
}

/// Most bytes that a recorded string takes, its end included.
pub const STRING_MAX: usize = 256;
/// Of a string that is cut in the middle ([`StringStatus::Ends`]), the bytes of its beginning.
pub const STRING_HEAD: usize = 127;
/// And those of its end.
pub const STRING_TAIL: usize = STRING_MAX - 1 - STRING_HEAD;
/// Most bytes after the head among which a string's end is looked for: no path that the kernel
/// takes is longer (`PATH_MAX`, include/uapi/linux/limits.h).
pub const STRING_REACH: usize = 4096;
/// States of the table by which arguments are masked.
pub const MASK_STATES: usize = 256;
/// The state at the beginning of an argument list.
pub const MASK_START: u8 = 0;
/// Bytes of that table: for each state and byte a u16, the next state and, in the upper half, what
/// the byte becomes.
pub const MASK_TABLE: usize = MASK_STATES * 256 * 2;
/// Bytes of a STRING record of the greatest size.
pub const STRING_ROOM: usize = 8 + STRING_MAX;

/// Which table a system call number belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Abi {
    /// The machine's own.
    Native = 0,
    /// 32-bit: on x86_64 i386 (`int 0x80`, or a 32-bit program), on aarch64 that of a 32-bit
    /// program (EABI).
    Compat = 1,
    /// x32 (x86_64 alone): 64-bit registers, 32-bit pointers; the number without its
    /// `0x4000_0000` bit.
    X32 = 2,
}

/// `nr` of a call whose number fits no table; its number is then the only argument.
pub const NR_INVALID: u16 = 0xfff;

/// The error that a system call's return value is, as a positive number; `None`: it is none
/// (`MAX_ERRNO` is 4095, include/linux/err.h).
#[inline(always)]
pub const fn errno(ret: i64) -> Option<i32> {
    if ret >= -4095 && ret < 0 { Some(-ret as i32) } else { None }
}

/// The table that the aux field of an ENTER or EXIT names; `None`: there is none of that number.
#[inline(always)]
pub const fn call_abi(aux: u16) -> Option<Abi> {
    match aux >> 12 & 3 {
        0 => Some(Abi::Native),
        1 => Some(Abi::Compat),
        2 => Some(Abi::X32),
        _ => None,
    }
}

/// The aux field of ENTER and EXIT: bits 0-11 number, 12-13 [`Abi`].
#[inline(always)]
pub const fn call_aux(nr: u16, abi: u8) -> u16 {
    nr & 0xfff | (abi as u16) << 12
}

/// Times of lane `syscall` are multiples of so many ns, as durations in the fold slot are.
pub const TICK_NS: u64 = 16;

/// The fold slot of an ENTER record: 0, or exit time and return value in one aligned store.
/// Bits 0-15 the return value plus 4096, bits 16-31 one plus the duration in units of 16 ns; a
/// duration of 0 is one that was not taken: no real one is that short.
pub mod fold {
    /// Bytes of the slot, the first of the record's body.
    pub const SLOT: usize = 4;
    /// Longest duration that folds, in ns (exclusive): about 1 ms.
    pub const LIMIT_NS: u64 = 0xfffe << 4;
    /// Least return value that folds: beyond the errors' (`MAX_ERRNO` is 4095,
    /// include/linux/err.h).
    pub const LEAST: i64 = -4096;
    /// Greatest return value that folds.
    pub const GREATEST: i64 = LEAST + 0xffff;

    /// Whether a return value is in [`LEAST`] to [`GREATEST`].
    #[inline(always)]
    pub const fn fits(ret: i64) -> bool {
        (ret.wrapping_sub(LEAST) as u64) >> 16 == 0
    }

    /// The slot's value; `ns` < [`LIMIT_NS`], `ret` [`fits`].
    #[inline(always)]
    pub const fn pack(ret: i64, ns: u64) -> u32 {
        ret.wrapping_sub(LEAST) as u32 & 0xffff | ((ns >> 4) as u32 + 1) << 16
    }

    /// Return value and duration in ns (rounded down to 16), if the exit was folded in.
    #[inline(always)]
    pub const fn unpack(slot: u32) -> Option<(i64, u64)> {
        match slot >> 16 {
            0 => None,
            d => Some(((slot & 0xffff) as i64 + LEAST, (d as u64 - 1) << 4)),
        }
    }
}

/// Thread ids are below 2^22 (`PID_MAX_LIMIT`, include/linux/threads.h).
pub const TID_MASK: u64 = (1 << 22) - 1;

/// The body of SWITCH: bits 0-21 prev, 22-43 next, 44-59 prev's state, 60 preempted, 61 prev waits
/// for I/O.
pub mod switch {
    use super::TID_MASK;

    /// Bits in use.
    pub const BITS: u32 = 62;
    /// Where the last bit is.
    pub const IO_WAIT: u32 = 61;

    /// Builds the word. `state` is the tracepoint's `prev_state` (low 16 bits); `io_wait` is
    /// `task_struct.in_iowait`.
    #[inline(always)]
    pub const fn pack(prev: u32, next: u32, state: u32, preempted: bool, io_wait: bool) -> u64 {
        prev as u64 & TID_MASK
            | (next as u64 & TID_MASK) << 22
            | (state as u64 & 0xffff) << 44
            | (preempted as u64) << 60
            | (io_wait as u64) << IO_WAIT
    }

    /// (prev, next, state, preempted, io_wait)
    pub const fn unpack(w: u64) -> (u32, u32, u16, bool, bool) {
        (
            (w & TID_MASK) as u32,
            (w >> 22 & TID_MASK) as u32,
            (w >> 44) as u16,
            w >> 60 & 1 != 0,
            w >> IO_WAIT & 1 != 0,
        )
    }

    /// Whether a thread stops running because it waits for something, or has ended, in this
    /// `task_struct.__state`. Else it could go on, and stays in a run queue: also where it was
    /// preempted on its way to sleep.
    #[inline(always)]
    pub const fn sleeps(prev_state: u16, preempted: bool) -> bool {
        prev_state != 0 && !preempted
    }
}

/// The body of WAKING and WAKEUP_NEW: bits 0-21 wakee, 22-37 the state it slept in, 38-53 its CPU
/// (the one it last ran on; a MIGRATE after it tells the new one), 54-56 [`WakeContext`].
pub mod wake {
    use super::{TID_MASK, WakeContext};

    /// Bits in use.
    pub const BITS: u32 = 57;
    /// Where those of the context begin.
    pub const CONTEXT: u32 = 54;

    /// Builds the word; `context` as a number.
    #[inline(always)]
    pub const fn pack(tid: u32, state: u32, cpu: u32, context: u8) -> u64 {
        tid as u64 & TID_MASK
            | (state as u64 & 0xffff) << 22
            | (cpu as u64 & 0xffff) << 38
            | (context as u64 & 7) << CONTEXT
    }

    /// (tid, state, cpu, context)
    pub const fn unpack(w: u64) -> (u32, u16, u16, WakeContext) {
        let context = WakeContext::from_bits((w >> CONTEXT) as u8);
        ((w & TID_MASK) as u32, (w >> 22) as u16, (w >> 38) as u16, context)
    }
}

/// What a CPU was doing when it woke a thread. In any but [`WakeContext::Thread`] the event's
/// thread is the one that was interrupted, and has nothing to do with the wakeup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WakeContext {
    /// Not known: the kernel does not tell, or a later release means something else.
    #[default]
    Unknown = 0,
    /// It ran the thread.
    Thread = 1,
    /// It ran a softirq (`in_serving_softirq`): of the network, of timers, of block devices.
    Softirq = 2,
    /// It handled an interrupt of a device, or of its own timer.
    Hardirq = 3,
    /// It handled a non-maskable interrupt.
    Nmi = 4,
}

impl WakeContext {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Unknown, Self::Thread, Self::Softirq, Self::Hardirq, Self::Nmi];

    /// By the low three bits of a number.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            1 => Self::Thread,
            2 => Self::Softirq,
            3 => Self::Hardirq,
            4 => Self::Nmi,
            _ => Self::Unknown,
        }
    }

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Thread => "thread",
            Self::Softirq => "softirq",
            Self::Hardirq => "hardirq",
            Self::Nmi => "nmi",
        }
    }

    /// Whether an interrupt had the CPU, and not the thread.
    pub const fn is_interrupt(self) -> bool {
        matches!(self, Self::Softirq | Self::Hardirq | Self::Nmi)
    }
}

/// The body of MIGRATE: bits 0-21 thread, 22-37 CPU it leaves, 38-53 CPU it goes to.
pub mod migrate {
    use super::TID_MASK;

    /// Bits in use.
    pub const BITS: u32 = 54;

    /// Builds the word.
    #[inline(always)]
    pub const fn pack(tid: u32, from: u32, to: u32) -> u64 {
        tid as u64 & TID_MASK | (from as u64 & 0xffff) << 22 | (to as u64 & 0xffff) << 38
    }

    /// (tid, from, to)
    pub const fn unpack(w: u64) -> (u32, u16, u16) {
        ((w & TID_MASK) as u32, (w >> 22) as u16, (w >> 38) as u16)
    }
}

/// STACK: where in the kernel a thread waited that runs again. It stands after the SWITCH to its
/// thread.
pub mod stack {
    /// Bytes of the body before the frames: for how long the thread slept, ns, from the switch
    /// away from it to the switch back; 0: since before the recording.
    pub const SLEPT: usize = 8;
    /// Most frames of a record.
    pub const FRAMES_MAX: usize = 32;
    /// In `aux`, bits 0-1: what became of the stack ([`Status`]).
    pub const STATUS: u16 = 3;
    /// In `aux`: there are as many frames as are recorded at most, so there may be more.
    pub const CUT: u16 = 1 << 2;

    /// What became of a stack.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u16)]
    pub enum Status {
        /// It is recorded.
        Taken = 0,
        /// The budget refused it: there are no frames.
        Refused = 1,
        /// The kernel could not tell it: there are no frames.
        Unreadable = 2,
    }

    impl Status {
        /// By `aux`; of a value that a later release means something by, [`Self::Unreadable`].
        pub const fn of(aux: u16) -> Self {
            match aux & STATUS {
                0 => Self::Taken,
                1 => Self::Refused,
                _ => Self::Unreadable,
            }
        }
    }

    /// A frame: the lower half of a return address, less a random number of the recording. Code of
    /// the kernel and its modules is within 2 GiB of the kernel's image: on x86_64 in the topmost 2
    /// GiB of addresses (`__START_KERNEL_map`, `MODULES_VADDR`;
    /// Documentation/arch/x86/x86_64/mm.rst, Linux 6.18), on aarch64 wherever the image is
    /// (`module_direct_base`, `module_plt_base`, arch/arm64/mm/init.c, Linux 6.18). So the lower
    /// half tells it all. (Of BPF programs that is right on x86_64 alone.)
    #[inline(always)]
    pub const fn frame(address: u64, base: u32) -> u32 {
        (address as u32).wrapping_sub(base)
    }

    /// The return address of a frame: the one that is nearest to `image`, an address in the
    /// kernel's image.
    #[inline(always)]
    pub const fn address(frame: u32, base: u32, image: u64) -> u64 {
        let away = frame.wrapping_add(base).wrapping_sub(image as u32) as i32;
        image.wrapping_add(away as i64 as u64)
    }

    const fn comes_back(of: u64, image: u64) -> bool {
        address(frame(of, 0xffff_0000), 0xffff_0000, image) == of
    }

    const _: () = assert!(
        comes_back(0xffff_ffff_8123_4567, 0xffff_ffff_8200_1000)
            && comes_back(0xffff_ffff_ffff_f000, 0xffff_ffff_8200_1000)
            && comes_back(0xffff_b2d4_ffff_f000, 0xffff_b2d5_0000_1000)
            && comes_back(0xffff_b2d5_0000_1000, 0xffff_b2d4_ffff_f000)
    );
}

/// Body of [`Kind::Sample`](super::kinds::Kind::Sample): frames of the kernel, 4 bytes each, as of
/// [`stack`]; then frames of the program, 8 bytes each. Both from the innermost one out.
pub mod sample {
    /// Most frames of either.
    pub const FRAMES_MAX: usize = super::stack::FRAMES_MAX;
    /// In `aux`, bits 0-1: what became of the frames, as [`Status`](super::stack::Status).
    pub const STATUS: u16 = super::stack::STATUS;
    /// In `aux`: there may be more frames of the kernel.
    pub const KERNEL_CUT: u16 = 1 << 2;
    /// In `aux`: there may be more frames of the program.
    pub const USER_CUT: u16 = 1 << 3;
    /// In `aux`: the program itself ran; else the kernel did.
    pub const USER_MODE: u16 = 1 << 4;
    /// In `aux`, from this bit on, six bits: frames of the kernel.
    pub const KERNEL_SHIFT: u32 = 8;

    /// In a frame of a program, from this bit on: in which binary it is ([`UserFrame`]).
    pub const BINARY_SHIFT: u32 = 48;
    /// Binary: one whose number is not known, as the table has no room for more.
    pub const UNKNOWN: u16 = u16::MAX;

    /// A frame of a program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct UserFrame {
        /// The binary's number in the recording, from 1 on; 0: there is none, and [`Self::at`] is
        /// an address; [`UNKNOWN`].
        pub binary: u16,
        /// Byte of the binary's file, or address in the process: of the instruction that ran, or
        /// that is returned to.
        pub at: u64,
    }

    impl UserFrame {
        /// From a record's word.
        pub const fn unpack(word: u64) -> Self {
            Self { binary: (word >> BINARY_SHIFT) as u16, at: word & ((1 << BINARY_SHIFT) - 1) }
        }

        /// As a record's word.
        pub const fn pack(self) -> u64 {
            (self.binary as u64) << BINARY_SHIFT | self.at & ((1 << BINARY_SHIFT) - 1)
        }
    }
}

/// Body of [`Kind::Tracepoint`](super::kinds::Kind::Tracepoint): a word, then the bytes that the
/// kernel published, padded with zeros to a unit, then frames of the kernel's stack, 4 bytes each,
/// as of [`stack`].
///
/// The word: bits 0-15 which tracepoint ([`crate::meta::Meta::tracepoints`]), 16-31 how many bytes
/// of what was published are recorded.
pub mod tracepoint {
    /// Bytes of the word.
    pub const HEAD: usize = 4;
    /// Bytes at the beginning of what the kernel publishes that are not recorded: `struct
    /// trace_entry` (include/linux/trace_events.h, Linux 6.1 and 6.18), of which programs see
    /// nothing. Offsets of fields count them.
    pub const COMMON: usize = 8;
    /// Most bytes after these that are recorded; a multiple of 8.
    pub const BYTES_MAX: usize = 512;
    /// Most frames.
    pub const FRAMES_MAX: usize = super::stack::FRAMES_MAX;

    /// In `aux`, bits 0-1: what became of the stack, as [`Status`](super::stack::Status).
    pub const STATUS: u16 = super::stack::STATUS;
    /// In `aux`: there may be more frames.
    pub const STACK_CUT: u16 = super::stack::CUT;
    /// In `aux`: the kernel published more bytes.
    pub const CUT: u16 = 1 << 3;
    /// In `aux`, from this bit on, three bits: what the CPU did ([`super::WakeContext`]).
    pub const CONTEXT_SHIFT: u32 = 4;
    /// In `aux`: a stack was asked for.
    pub const STACK: u16 = 1 << 7;
    /// In `aux`, from this bit on, six bits: how many frames there are.
    pub const FRAMES_SHIFT: u32 = 8;

    /// What stands in place of an address of the kernel ([`hidden`]).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Hidden {
        /// In the kernel's code or static data: a frame, as of [`super::stack::frame`], that is the
        /// byte itself and not one after it.
        Code(u32),
        /// Anywhere else: a keyed hash of it.
        Data(u32),
    }

    /// The upper half of a word that stands for an address in the kernel's code. No machine has
    /// such an address, and no field such a number but by chance.
    pub const CODE: u32 = 0x8c0d_ec0d;
    /// The upper half of one that stands for another address of the kernel.
    pub const DATA: u32 = 0x8dad_a7a0;

    /// What a word stands for, where it is no number of its own.
    pub const fn hidden(word: u64) -> Option<Hidden> {
        match (word >> 32) as u32 {
            CODE => Some(Hidden::Code(word as u32)),
            DATA => Some(Hidden::Data(word as u32)),
            _ => None,
        }
    }

    /// Whether a word may be an address of the kernel: the upper half of addresses, but for the
    /// last 4,095, which are errors (`IS_ERR_VALUE`, include/linux/err.h).
    #[inline(always)]
    pub const fn is_address(word: u64) -> bool {
        word >= 0xff00_0000_0000_0000 && word < 0xffff_ffff_ffff_f001
    }

    /// Whether an address is within 2 GiB of `image`, an address in the kernel's image: the
    /// kernel's code and static data, its modules.
    #[inline(always)]
    pub const fn is_code(address: u64, image: u64) -> bool {
        address.wrapping_sub(image) as i64 as i32 as i64 == address.wrapping_sub(image) as i64
    }
}

/// A thread's name, as `task_struct.comm`: up to 15 bytes and a NUL.
pub type Comm = [u8; 16];

/// What an ACT record, that of a recorder event, reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Act {
    /// This recording session began.
    Start = 1,
    /// A daemon took over a running recording.
    Adopt = 2,
    /// The daemon ends and leaves the recording running.
    Leave = 3,
    /// How much is recorded changed, for the budget's sake. System calls go on being recorded, or
    /// did not before either.
    Level = 4,
    /// The programs on system calls are detached: from here to the next [`Act::Attached`] none is
    /// recorded, or counted, on any CPU.
    Detached = 5,
    /// The programs on system calls are attached again. An exit need not belong to an entry from
    /// before.
    Attached = 6,
}
