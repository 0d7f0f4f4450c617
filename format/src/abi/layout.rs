//! What differs between the versions of a page.

use super::record::{fold, fold_v1, kind};

/// How the records of a page's version are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Binary logarithm of the unit.
    shift: u32,
}

impl Layout {
    /// Version 1: lengths in words of 8 bytes, fold slots of 8.
    pub const V1: Self = Self { shift: 3 };
    /// Version 2: lengths in units of 4 bytes, fold slots of 4.
    pub const V2: Self = Self { shift: 2 };

    /// Of a known version ([`super::page::VERSION`] and below).
    #[inline(always)]
    pub const fn of(version: u16) -> Self {
        if version == 1 { Self::V1 } else { Self::V2 }
    }

    /// Bytes that lengths of records and of what is in use of a page are counted in. Every record
    /// is a multiple of it.
    #[inline(always)]
    pub const fn unit(self) -> usize {
        1 << self.shift
    }

    /// Bytes of so many units.
    #[inline(always)]
    pub const fn bytes(self, units: usize) -> usize {
        units << self.shift
    }

    /// Bytes of an ENTER's fold slot, the first of its body.
    #[inline(always)]
    pub const fn slot(self) -> usize {
        1 << self.shift
    }

    /// Bytes of what the body of a call's record begins with: an ENTER's fold slot, an EXIT's
    /// return value.
    #[inline(always)]
    pub const fn result(self, kind: u8) -> usize {
        if kind == kind::ENTER { self.slot() } else { 8 }
    }

    /// The exit in an ENTER's fold slot, whose bytes are the lower of `slot`: return value, and
    /// duration in ns (rounded down to 16), if one was folded in.
    #[inline(always)]
    pub const fn folded(self, slot: u64) -> Option<(i64, u64)> {
        if self.slot() == 8 { fold_v1::unpack(slot) } else { fold::unpack(slot as u32) }
    }

    /// The value of a fold slot; `None` for a return value that does not fit. `ns` <
    /// [`fold::LIMIT_NS`].
    #[inline(always)]
    pub const fn fold(self, ret: i64, ns: u64) -> Option<u64> {
        if self.slot() == 8 {
            return if fold_v1::fits(ret) { Some(fold_v1::pack(ret, ns)) } else { None };
        }
        if fold::fits(ret) { Some(fold::pack(ret, ns) as u64) } else { None }
    }
}
