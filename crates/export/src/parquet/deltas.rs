//! Parquet's `DELTA_BINARY_PACKED`: numbers as differences from one to the next.

/// Differences of a block, which have the least of them in common.
const BLOCK: usize = 128;
/// Differences that have the same width.
const MINI: usize = 32;
/// Widths are multiples of this: the compression after it then finds what repeats, which it does
/// not where every other value begins inside of a byte.
const WIDTHS: u32 = 4;

/// Appends numbers.
pub(super) fn write(values: &[i64], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINI) as u64, out);
    varint(values.len() as u64, out);
    let first = values.first().copied().unwrap_or_default();
    zigzag(first, out);
    let mut before = first;
    let mut block = [0_i64; BLOCK];
    for values in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        let mut least = i64::MAX;
        for (delta, value) in block.iter_mut().zip(values) {
            *delta = value.wrapping_sub(before);
            least = least.min(*delta);
            before = *value;
        }
        // What the last block lacks.
        block[values.len()..].fill(least);
        zigzag(least, out);
        let widths = out.len();
        out.extend_from_slice(&[0; BLOCK / MINI]);
        let count = values.len().div_ceil(MINI);
        for (at, mini) in block.chunks_exact(MINI).take(count).enumerate() {
            let over = |delta: &i64| delta.wrapping_sub(least) as u64;
            let bits = mini.iter().fold(0, |bits, delta| bits | over(delta));
            let width = (u64::BITS - bits.leading_zeros()).next_multiple_of(WIDTHS);
            out[widths + at] = width as u8;
            pack(mini.iter().map(over), width, out);
        }
    }
}

/// Appends values of so many bits each, which together are whole bytes.
fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut bits, mut filled) = (0_u128, 0);
    for value in values {
        bits |= u128::from(value) << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&(bits as u64).to_le_bytes());
            bits >>= u64::BITS;
            filled -= u64::BITS;
        }
    }
    let rest = filled.div_ceil(u8::BITS) as usize;
    out.extend_from_slice(&bits.to_le_bytes()[..rest]);
}

fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63) as u64, out);
}

/// Appends a number of 7 bits a byte.
pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes what [`varint`] appended.
    pub(crate) fn number(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }

    fn signed(bytes: &mut &[u8]) -> i64 {
        let value = number(bytes);
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    /// As the format's description says.
    fn read(mut bytes: &[u8]) -> Vec<i64> {
        let (block, minis) = (number(&mut bytes) as usize, number(&mut bytes) as usize);
        let count = number(&mut bytes) as usize;
        let mut values = vec![signed(&mut bytes)];
        while values.len() < count {
            let least = signed(&mut bytes);
            let (widths, mut rest) = bytes.split_at(minis);
            for width in widths {
                if values.len() >= count {
                    assert_eq!(*width, 0);
                    continue;
                }
                let each = block / minis;
                let (packed, after) = rest.split_at(each * usize::from(*width) / 8);
                rest = after;
                for at in 0..each {
                    let bit = |n: usize| {
                        let place = at * usize::from(*width) + n;
                        u64::from(packed[place / 8] >> (place % 8) & 1) << n
                    };
                    let over: u64 = (0..usize::from(*width)).map(bit).sum();
                    let last = *values.last().unwrap();
                    values.push(last.wrapping_add(least).wrapping_add(over as i64));
                }
            }
            bytes = rest;
        }
        assert!(bytes.is_empty());
        values.truncate(count);
        values
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            steps in prop::collection::vec((any::<i64>(), 0..64_u32), 0..400),
            first: i64,
        ) {
            let mut last = first;
            let mut values = vec![first];
            values.extend(steps.iter().map(|(step, shift)| {
                last = last.wrapping_add(step >> shift);
                last
            }));
            let mut out = Vec::new();
            write(&values, &mut out);
            prop_assert_eq!(read(&out), values);
        }
    }
}
