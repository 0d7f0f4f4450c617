//! Values that were not as predicted: where else they may come from, or their bytes.

use super::column::Column;
use super::stream::Stream;

/// Symbols of a source: up to here, one of the candidates; then the bytes of the value; then those of its distance to the
/// last value of its region.
const LITERAL: u8 = 16;
const DISTANCE: u8 = 32;

/// The part of the address space that a value would point into as an address: 1 program and heap, 2 mappings, 3 stack,
/// 0 anything else.
#[inline]
pub(super) fn region(value: u64) -> usize {
    // Sums and no branches: what comes next can't be foretold.
    let upper = value >> 40;
    usize::from(upper.wrapping_sub(1) < 0x7f) + usize::from(upper == 0x7f) + usize::from(value >> 36 == 0x7ff)
}

/// Bytes that a value takes, sign-extended: 1 to 8.
#[inline]
fn width(value: u64) -> u32 {
    let magnitude = value ^ (value as i64 >> 63) as u64;
    (64 - magnitude.leading_zeros()) / 8 + 1
}

/// Sign-extends the low `width` (1 to 8) bytes.
#[inline]
fn extend(value: u64, width: u32) -> u64 {
    let shift = 64 - 8 * width;
    ((value << shift) as i64 >> shift) as u64
}

/// Codes a value: one of the candidates, or its bytes, or its distance to the anchor of its region.
pub(super) fn code<S: Stream>(
    s: &mut S,
    (source, planes): (Column, &[Column; 8]),
    value: u64,
    candidates: &[u64; 10],
    anchors: &[u64; 4],
) -> u64 {
    let near = region(value);
    let distance = value.wrapping_sub(anchors[near]);
    let (plain, short) = (width(value), width(distance));
    let mut symbol = 0;
    if S::WRITES {
        // All are looked at, so that nothing has to be foretold.
        let same =
            candidates.iter().enumerate().fold(0u32, |same, (i, candidate)| same | u32::from(*candidate == value) << i);
        symbol = match same {
            1.. => same.trailing_zeros() as u8,
            0 if near != 0 && short < plain => DISTANCE + (near as u8) * 8 + short as u8 - 1,
            0 => LITERAL + plain as u8 - 1,
        };
    }
    let symbol = s.byte(source, symbol);
    let count = u32::from(symbol & 7) + 1;
    match symbol {
        0..LITERAL => {
            if let Some(candidate) = candidates.get(usize::from(symbol)) {
                return *candidate;
            }
        }
        LITERAL..24 => return extend(s.planes(planes, value, count), count),
        DISTANCE..64 => {
            let anchor = anchors[usize::from(symbol - DISTANCE) / 8];
            return anchor.wrapping_add(extend(s.planes(planes, distance, count), count));
        }
        _ => {}
    }
    s.fail();
    0
}
