//! Functions that are probed for a time, and marks in programs: what the daemon tells the programs
//! of them ([`cookie`], [`Mark`]), and where these count ([`Calls`]).

use core::mem::size_of;

/// Functions and marks that a recording can have, one after the other: their numbers are below it.
pub const FUNCTIONS: usize = 2048;
/// Marks that can be probed at a time.
pub const MARKS: usize = 256;
/// Arguments that are recorded.
pub const ARGUMENTS: usize = 6;

/// [`Function::point`](super::kinds::Function::point): the function is called.
pub const ENTRY: u32 = 0;
/// The same: it returns.
pub const RETURN: u32 = 1;
/// The same: a mark is passed.
pub const MARK: u32 = 2;

/// How often a function was called, and how often it returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Calls {
    /// Calls, or times that the mark was passed.
    pub calls: u64,
    /// Returns.
    pub returns: u64,
}

/// Those of all numbers, on one CPU: an entry of the map `function_calls`.
pub type CpuCalls = [Calls; FUNCTIONS];

const _: () = assert!(FUNCTIONS.is_power_of_two() && size_of::<Calls>() == 16);

/// What a link tells its program (`bpf_get_attach_cookie`): a function's number in the lower half,
/// a mark's place in the table of marks in the upper one.
#[inline(always)]
pub const fn cookie(number: u32, mark: u32) -> u64 {
    number as u64 | (mark as u64) << 32
}

/// Where a mark's argument is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Operand {
    /// [`CONSTANT`], or with these bits: the registers that are added up, and whether the value is
    /// in memory there.
    pub how: u32,
    /// By how many bits the value is moved up and down again, so that only its own are left.
    pub shift: u32,
    /// Byte offset of the first register in `struct pt_regs`.
    pub base: u32,
    /// Byte offset of the second.
    pub index: u32,
    /// What the second is multiplied by, as a binary logarithm.
    pub scale: u32,
    /// Reserved.
    pub reserved: u32,
    /// The constant, or what is added to the registers.
    pub offset: i64,
}

/// Of [`Operand::how`]: the offset alone.
pub const CONSTANT: u32 = 0;
/// There is a first register.
pub const BASE: u32 = 1;
/// There is a second one.
pub const INDEX: u32 = 2;
/// The sum is an address.
pub const MEMORY: u32 = 4;
/// The value has a sign.
pub const SIGNED: u32 = 8;

/// The arguments of a mark: an entry of the map `marks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mark {
    /// How many there are.
    pub count: u64,
    /// Where each is.
    pub operands: [Operand; ARGUMENTS],
}

const _: () = assert!(size_of::<Operand>() == 32 && size_of::<Mark>() == 8 + 32 * ARGUMENTS);
