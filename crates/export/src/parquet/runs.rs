//! Parquet's hybrid of runs and packed bits, for levels and for places in a dictionary.

use super::deltas::varint;

/// Values that are packed together.
const GROUP: usize = 8;

/// Bits of the greatest of `count` numbers from 0 on; at least one.
fn width(count: usize) -> u32 {
    count.saturating_sub(1).checked_ilog2().map_or(1, |log| log + 1)
}

/// Numbers of at least so many bits take whole bytes: the compression after it finds what repeats
/// in bytes, and hardly anything where each number begins inside of one.
const LEAST_WHOLE: u32 = 3;
/// From so many equal numbers of whole bytes on they are a run: those who compress see shorter ones
/// better in what is around them.
const LEAST_RUN: usize = 64;

/// Bits that places in a dictionary of `count` values take.
pub(super) fn place_width(count: usize) -> u32 {
    let width = width(count);
    if width < LEAST_WHOLE { width } else { width.next_multiple_of(u8::BITS) }
}

/// Appends `values`, each of `width` bits at most: 1 to 32.
pub(super) fn write<T: Copy + PartialEq + Into<u32>>(values: &[T], width: u32, out: &mut Vec<u8>) {
    let (mut at, mut packed) = (0, 0);
    let least = if width < u8::BITS { GROUP } else { LEAST_RUN };
    while let Some(group) = values.get(at..at + GROUP) {
        let first = group[0];
        if group.iter().any(|value| *value != first) {
            at += GROUP;
            continue;
        }
        let rest = values[at..].iter();
        let length = rest.take_while(|value| **value == first).count();
        if length < least {
            at += length / GROUP * GROUP;
            continue;
        }
        pack(&values[packed..at], width, out);
        varint((length as u64) << 1, out);
        let bytes: u32 = first.into();
        out.extend_from_slice(&bytes.to_le_bytes()[..width.div_ceil(u8::BITS) as usize]);
        at += length;
        packed = at;
    }
    pack(&values[packed..], width, out);
}

/// Appends values as bits; what the last group lacks is 0.
fn pack<T: Copy + Into<u32>>(values: &[T], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    let (mut bits, mut filled) = (0_u64, 0);
    for value in values {
        let value: u32 = (*value).into();
        bits |= u64::from(value) << filled;
        filled += width;
        if filled >= u32::BITS {
            out.extend_from_slice(&(bits as u32).to_le_bytes());
            bits >>= u32::BITS;
            filled -= u32::BITS;
        }
    }
    out.extend_from_slice(&bits.to_le_bytes());
    out.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::deltas::tests::number;
    use super::*;

    fn read(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < count {
            let header = number(&mut bytes);
            let length = usize::try_from(header >> 1).unwrap();
            if header & 1 == 0 {
                let (value, rest) = bytes.split_at(width.div_ceil(8) as usize);
                bytes = rest;
                let value = value.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
                values.extend(std::iter::repeat_n(value, length));
                continue;
            }
            let (packed, rest) = bytes.split_at(length * width as usize);
            bytes = rest;
            for at in 0..length * GROUP {
                let bit = |n| {
                    let place = at * width as usize + n as usize;
                    u32::from(packed[place / 8] >> (place % 8) & 1) << n
                };
                values.push((0..width).map(bit).sum());
            }
        }
        assert!(bytes.is_empty());
        values.truncate(count);
        values
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            runs in prop::collection::vec((any::<u32>(), 1..40_usize), 0..20),
            width in 1..=32_u32,
        ) {
            let mask = u32::MAX >> (32 - width);
            let lengths = runs.iter().map(|(value, n)| (value & mask, n % 11 + n / 30 * 3 * n));
            let values: Vec<u32> = lengths.flat_map(|(value, n)| vec![value; n]).collect();
            let mut out = Vec::new();
            write(&values, width, &mut out);
            prop_assert_eq!(read(&out, width, values.len()), values);
        }
    }

    #[test]
    fn bits_of_places() {
        assert_eq!([0, 1, 2, 3, 4, 5, 256, 257].map(width), [1, 1, 1, 2, 2, 3, 8, 9]);
        assert_eq!([0, 2, 4, 5, 256, 257].map(place_width), [1, 1, 2, 8, 8, 16]);
    }
}
