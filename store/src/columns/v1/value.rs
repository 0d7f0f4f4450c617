//! Values that were not as predicted: where else they may come from, or their bytes.

use super::super::column::Column;
use super::super::stream::{Reading, Stream};

/// Symbols of a source: up to here, one of the candidates; then the bytes of the value; then those
/// of its distance to the last value of its region.
const LITERAL: u8 = 16;
const DISTANCE: u8 = 32;

/// The part of the address space that a value would point into as an address: 1 program and heap, 2
/// mappings, 3 stack, 0 anything else.
#[inline]
pub(super) fn region(value: u64) -> usize {
    // Sums and no branches: what comes next can't be foretold.
    let upper = value >> 40;
    usize::from(upper.wrapping_sub(1) < 0x7f)
        + usize::from(upper == 0x7f)
        + usize::from(value >> 36 == 0x7ff)
}

/// Sign-extends the low `width` (1 to 8) bytes.
#[inline]
fn extend(value: u64, width: u32) -> u64 {
    let shift = 64 - 8 * width;
    ((value << shift) as i64 >> shift) as u64
}

/// The low `count` (1 to 8) bytes of a value, the lowest first, each in its column.
fn planes(s: &mut Reading<'_>, columns: &[Column; 8], count: u32) -> u64 {
    columns
        .iter()
        .take(count as usize)
        .rev()
        .fold(0, |value, column| value << 8 | u64::from(s.byte(*column, 0)))
}

/// Reads a value: one of the candidates, or its bytes, or its distance to the anchor of its region.
pub(super) fn read(
    s: &mut Reading<'_>,
    (source, columns): (Column, &[Column; 8]),
    candidates: &[u64; 10],
    anchors: &[u64; 4],
) -> u64 {
    let symbol = s.byte(source, 0);
    let count = u32::from(symbol & 7) + 1;
    match symbol {
        0..LITERAL => {
            if let Some(candidate) = candidates.get(usize::from(symbol)) {
                return *candidate;
            }
        }
        LITERAL..24 => return extend(planes(s, columns, count), count),
        DISTANCE..64 => {
            let anchor = anchors[usize::from(symbol - DISTANCE) / 8];
            return anchor.wrapping_add(extend(planes(s, columns, count), count));
        }
        _ => {}
    }
    s.fail();
    0
}
