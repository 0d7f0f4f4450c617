//! System call arguments in as few bytes as their values need.
//!
//! A group of `n` arguments (1 to 6) is a head of 16 bits and the arguments after it, unaligned.
//! The head: bits 0-1, 2-3, … 10-11 the width class of each argument, bits 12-14 `n`, bit 15 set
//! when the arguments do not fit the classes and stand as six… that is `n` full 8-byte words.
//! A class holds a sign-extended integer of 1, 2, 4 or 6 bytes; 6 bytes hold any user address.

/// Bytes of a width class.
pub const CLASS_BYTES: [u8; 4] = [1, 2, 4, 6];
/// Head flag: `n` words of 8 bytes follow.
pub const RAW: u16 = 1 << 15;
/// Most bytes of a group: head and six raw words.
pub const MAX_BYTES: usize = 2 + 6 * 8;

/// Bits 7 up of the value's magnitude: what decides the class. `v` folded to non-negative.
#[inline(always)]
pub const fn magnitude(v: u64) -> u64 {
    v ^ (((v as i64) >> 63) as u64)
}

/// Whether the value needs the raw form (does not fit in 6 bytes, signed).
#[inline(always)]
pub const fn needs_raw(v: u64) -> bool {
    magnitude(v) >> 47 != 0
}

/// The width class of a value that fits in 6 bytes.
#[inline(always)]
pub const fn class(v: u64) -> u32 {
    let m = magnitude(v);
    (m >> 7 != 0) as u32 + (m >> 15 != 0) as u32 + (m >> 31 != 0) as u32
}

/// Sign-extends the low `bytes` bytes of `v` (1 to 8).
pub const fn extend(v: u64, bytes: u8) -> u64 {
    let shift = 64 - 8 * bytes as u32;
    (((v << shift) as i64) >> shift) as u64
}

/// Decodes a group; `None` when `bytes` is too short for what the head promises or `n` > 6.
/// Returns the number of arguments and their values.
pub fn decode(bytes: &[u8]) -> Option<(usize, [u64; 6])> {
    let head = u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]);
    let n = usize::from(head >> 12 & 7);
    if n > 6 {
        return None;
    }
    let mut out = [0u64; 6];
    let mut at = 2;
    for (i, slot) in out.iter_mut().enumerate().take(n) {
        let width = if head & RAW != 0 { 8 } else { CLASS_BYTES[usize::from(head >> (2 * i) & 3)] };
        let mut word = [0u8; 8];
        for (b, w) in word.iter_mut().enumerate().take(usize::from(width)) {
            *w = *bytes.get(at + b)?;
        }
        *slot = extend(u64::from_le_bytes(word), width);
        at += usize::from(width);
    }
    Some((n, out))
}

/// Bytes of a group, its head included, by its head; `None` for more arguments than there may be.
#[inline(always)]
pub const fn length(head: u16) -> Option<usize> {
    let n = (head >> 12 & 7) as usize;
    if n > 6 {
        return None;
    }
    if head & RAW != 0 {
        return Some(2 + 8 * n);
    }
    // Class 1 is a byte more than class 0, class 2 two more than that, class 3 two more again.
    let classes = head as u32 & ((1 << (2 * n)) - 1);
    let (low, high) = (classes & 0x555, classes >> 1 & 0x555);
    Some(2 + n + (low.count_ones() + 3 * high.count_ones() + (low & high).count_ones()) as usize)
}

/// Encodes a group into `out`; returns its length. The counterpart of [`decode`], for tests and
/// for writers in user space; the probes write the same bytes by plain stores.
pub fn encode(args: &[u64], out: &mut [u8; MAX_BYTES]) -> usize {
    let n = if args.len() > 6 { 6 } else { args.len() };
    let mut head = (n as u16) << 12;
    let mut raw = false;
    for (i, v) in args.iter().take(n).enumerate() {
        raw |= needs_raw(*v);
        head |= (class(*v) as u16) << (2 * i);
    }
    if raw {
        head = (n as u16) << 12 | RAW;
    }
    out[..2].copy_from_slice(&head.to_le_bytes());
    let mut at = 2;
    for (i, v) in args.iter().take(n).enumerate() {
        let width =
            if raw { 8 } else { usize::from(CLASS_BYTES[usize::from(head >> (2 * i) & 3)]) };
        out[at..at + width].copy_from_slice(&v.to_le_bytes()[..width]);
        at += width;
    }
    at
}
