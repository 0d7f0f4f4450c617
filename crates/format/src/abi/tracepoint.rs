//! What the program on configured tracepoints is told of each, and what it counts: shared by the
//! probes and the daemon. It is bookkeeping, not recording.
//!
//! Offsets here are after the first [`COMMON`](super::record::tracepoint::COMMON) bytes of what
//! the kernel publishes.

use super::record::tracepoint::BYTES_MAX;

/// Tracepoints that a recording can have had, one number each.
pub const TRACEPOINTS: usize = 64;
/// Parts of variable length that one can have.
pub const PARTS: usize = 16;
/// Words of one that may be addresses of the kernel.
pub const ADDRESSES: usize = 32;
/// Comparisons of a condition.
pub const TESTS: usize = 16;
/// Longest text that one compares with, bytes.
pub const TEXT_MAX: usize = 64;

/// Bit of [`TracepointPlan::part`]: the offset that stands there counts from after itself
/// (`__rel_loc`); else from the beginning of what is published (`__data_loc`).
pub const RELATIVE: u32 = 1 << 31;

/// Bit of [`TracepointPlan::address`]: it is of a function, whose name is looked up. What else
/// looks like the address of one, as numbers do that a program chose, must not fill the table of
/// these.
pub const FUNCTION: u32 = 1 << 31;

/// A tracepoint, for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TracepointPlan {
    /// 0: there is none of this number.
    pub there: u32,
    /// Bytes of its fixed part.
    pub fixed: u32,
    /// Not 0: with the kernel's stack.
    pub stack: u32,
    /// How many of the following there are.
    pub parts: u32,
    /// How many of these.
    pub addresses: u32,
    /// How many comparisons; 0: every event is recorded.
    pub tests: u32,
    /// Where it stands where the parts of variable length are and how long: words of which the
    /// lower half is the offset, the upper the length in bytes. With [`RELATIVE`].
    pub part: [u32; PARTS],
    /// Words that are hidden where they are addresses of the kernel. With [`FUNCTION`].
    pub address: [u32; ADDRESSES],
    /// The condition: it begins with the first comparison, and ends with [`Test::YES`] or
    /// [`Test::NO`].
    pub test: [Test; TESTS],
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Test {
    /// Where the field is; of a text of variable length, where it stands where that is, with
    /// [`RELATIVE`].
    pub at: u32,
    /// `FORM_…`.
    pub form: u32,
    /// `OP_…`.
    pub op: u32,
    /// Of a number, bits by which it is shifted to the left and back, so that it is one of 64 bits.
    pub shift: u32,
    /// Bytes: of a text of fixed length those of the field.
    pub size: u32,
    /// Bytes of the text to compare with.
    pub length: u32,
    /// What is next where it holds: the number of a comparison after this one, [`Self::YES`] or
    /// [`Self::NO`].
    pub then: u32,
    /// What is next where it does not hold.
    pub otherwise: u32,
    /// The number to compare with.
    pub value: u64,
    /// The text to compare with.
    pub text: [u64; TEXT_MAX / 8],
    /// The bits of it that count.
    pub mask: [u64; TEXT_MAX / 8],
}

impl Test {
    /// The condition holds.
    pub const YES: u32 = 1000;
    /// It does not.
    pub const NO: u32 = 1001;

    /// None.
    pub const NONE: Self = Self {
        at: 0,
        form: 0,
        op: 0,
        shift: 0,
        size: 0,
        length: 0,
        then: 0,
        otherwise: 0,
        value: 0,
        text: [0; TEXT_MAX / 8],
        mask: [0; TEXT_MAX / 8],
    };
}

impl TracepointPlan {
    /// None.
    pub const NONE: Self = Self {
        there: 0,
        fixed: 0,
        stack: 0,
        parts: 0,
        addresses: 0,
        tests: 0,
        part: [0; PARTS],
        address: [0; ADDRESSES],
        test: [Test::NONE; TESTS],
    };
}

/// [`Test::form`]: a number without a sign.
pub const FORM_UNSIGNED: u32 = 0;
/// One with a sign.
pub const FORM_SIGNED: u32 = 1;
/// A text of fixed length.
pub const FORM_TEXT: u32 = 2;
/// A text of variable length.
pub const FORM_PART: u32 = 3;

/// [`Test::op`]: equal.
pub const OP_EQ: u32 = 0;
/// Not equal.
pub const OP_NE: u32 = 1;
/// Less.
pub const OP_LT: u32 = 2;
/// Not greater.
pub const OP_LE: u32 = 3;
/// Greater.
pub const OP_GT: u32 = 4;
/// Not less.
pub const OP_GE: u32 = 5;
/// Any of these bits is set.
pub const OP_ANY: u32 = 6;

/// What became of the events of a tracepoint on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TracepointCount {
    /// Recorded.
    pub recorded: u64,
    /// Refused by the budget, or as another program was writing into the lane.
    pub refused: u64,
    /// Left out, as the condition did not hold.
    pub left_out: u64,
}

/// The counts of all tracepoints on one CPU.
pub type TracepointCounts = [TracepointCount; TRACEPOINTS];

const _: () = assert!(size_of::<Test>() == 8 * 5 + 2 * TEXT_MAX);
const _: () = assert!(
    size_of::<TracepointPlan>() == 4 * (6 + PARTS + ADDRESSES) + TESTS * size_of::<Test>()
        && size_of::<TracepointPlan>().is_multiple_of(8)
);
const _: () = assert!(BYTES_MAX.is_multiple_of(8));
