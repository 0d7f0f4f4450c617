//! Numbers into text, without allocation.

/// A number that can be written in decimal: its sign and its magnitude.
pub(crate) trait Decimal {
    /// Whether it is below 0, and how far it is from 0.
    fn parts(self) -> (bool, u64);
}

macro_rules! decimal {
    (signed $($signed:ty),*; unsigned $($unsigned:ty),*) => {
        $(impl Decimal for $signed {
            #[inline]
            fn parts(self) -> (bool, u64) {
                (self < 0, self.unsigned_abs() as u64)
            }
        })*
        $(impl Decimal for $unsigned {
            #[inline]
            fn parts(self) -> (bool, u64) {
                (false, self as u64)
            }
        })*
    };
}
decimal!(signed i16, i32, i64; unsigned u8, u16, u32, u64, usize);

/// Decimal. These are written by the million, so no digit is written by itself.
#[inline]
pub(crate) fn decimal(value: impl Decimal, out: &mut Vec<u8>) {
    let (negative, value) = value.parts();
    if negative {
        out.push(b'-');
    }
    digits(value, out);
}

#[inline]
fn digits(value: u64, out: &mut Vec<u8>) {
    match Short::new(value) {
        Some(short) => short.write(out),
        None => long(value, out),
    }
}

/// Numbers below this have at most eight digits.
pub(crate) const EIGHT: u64 = 100_000_000;

/// A number of more than eight digits.
fn long(value: u64, out: &mut Vec<u8>) {
    let (upper, lower) = (value / EIGHT, value % EIGHT);
    match Short::new(upper) {
        Some(short) => short.write(out),
        None => long(upper, out),
    }
    out.extend_from_slice(&eight(lower as u32));
}

/// A number of at most eight digits, worked out to be written, perhaps more than once.
#[derive(Clone, Copy)]
pub(crate) struct Short {
    digits: [u8; 8],
    length: usize,
}

impl Short {
    /// `None`: it has more digits.
    #[inline]
    pub(crate) fn new(value: u64) -> Option<Self> {
        if value < 10 {
            let mut digits = [0; 8];
            digits[0] = b'0' + value as u8;
            return Some(Self { digits, length: 1 });
        }
        (value < EIGHT).then(|| {
            let word = u64::from_le_bytes(eight(value as u32));
            let zeros = (word ^ ZEROS).trailing_zeros() / 8;
            Self { digits: (word >> (8 * zeros)).to_le_bytes(), length: 8 - zeros as usize }
        })
    }

    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        // The whole word is appended, which is one store, and what is too much taken away.
        let end = out.len() + self.length;
        out.extend_from_slice(&self.digits);
        out.truncate(end);
    }
}

/// Eight times `0`.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// A number below 100,000,000 as eight digits, worked out side by side in one word: halves, their
/// halves, digits.
#[inline]
pub(crate) fn eight(value: u32) -> [u8; 8] {
    let fours = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    // x / 100 of each 32 bits, exact below 10,000; then x / 10 of each 16 bits, exact below 100.
    let hundreds = (fours * 10_486) >> 20 & 0x7f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = (twos * 103) >> 10 & 0xf_000f_000f_000f;
    ((tens | (twos - 10 * tens) << 8) + ZEROS).to_le_bytes()
}

/// Decimal, filled on the left with `fill` up to `width` digits.
pub(crate) fn padded(value: u32, width: usize, fill: u8, out: &mut Vec<u8>) {
    let length = value.checked_ilog10().map_or(1, |log| log as usize + 1);
    pad(width.saturating_sub(length), fill, out);
    decimal(value, out);
}

/// `fill`, `count` times.
pub(crate) fn pad(count: usize, fill: u8, out: &mut Vec<u8>) {
    out.resize(out.len() + count, fill);
}

/// Two decimal digits of a number below 100.
pub(crate) fn two(value: u32) -> [u8; 2] {
    [b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]
}

/// Hexadecimal with its prefix.
pub(crate) fn hex(value: u64, out: &mut Vec<u8>) {
    let zeros = (value | 1).leading_zeros() / 4;
    let value = value << (4 * zeros);
    out.extend_from_slice(b"0x");
    out.extend_from_slice(&nibbles((value >> 32) as u32));
    out.extend_from_slice(&nibbles(value as u32));
    out.truncate(out.len() - zeros as usize);
}

/// Eight hexadecimal digits, worked out side by side in one word.
fn nibbles(value: u32) -> [u8; 8] {
    let mut word = u64::from(value);
    word = (word << 16 | word) & 0xffff_0000_ffff;
    word = (word << 8 | word) & 0xff_00ff_00ff_00ff;
    word = (word << 4 | word) & 0x0f0f_0f0f_0f0f_0f0f;
    // Those above 9 carry into the upper half of their byte.
    let letters = (word + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (word + ZEROS + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

/// Two hexadecimal digits for each byte.
pub(crate) fn hex_digits(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |of: u8| DIGITS[usize::from(of & 15)];
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
}

/// Hexadecimal; nothing at all is a plain `0`.
pub(crate) fn hex_or_zero(value: u64, out: &mut Vec<u8>) {
    if value == 0 {
        out.push(b'0');
    } else {
        hex(value, out);
    }
}

/// Permissions: octal, at least three digits after a zero (none: `000`), as strace has it.
pub(crate) fn mode(value: u64, out: &mut Vec<u8>) {
    if value == 0 {
        out.extend_from_slice(b"000");
        return;
    }
    let digits = (66 - value.leading_zeros()) / 3;
    out.push(b'0');
    for digit in (0..digits.max(2)).rev() {
        out.push(b'0' + (value >> (3 * digit) & 7) as u8);
    }
}

/// A length of time in two or three digits: `0.05 us`, `12 us`, `3.4 ms`, `25 s`.
pub(crate) fn duration(ns: u64, out: &mut Vec<u8>) {
    // Constant divisors, each by itself: dividing by a variable takes several times as long.
    match ns {
        0..95 => {
            out.extend_from_slice(b"0.0");
            decimal((ns + 5) / 10, out);
            out.extend_from_slice(b" us");
        }
        95..999_500 => scaled::<1_000>(ns, b" us", out),
        999_500..999_500_000 => scaled::<1_000_000>(ns, b" ms", out),
        _ => scaled::<1_000_000_000>(ns, b" s", out),
    }
}

/// Rounded to a tenth below ten, to a whole above.
fn scaled<const UNIT: u64>(ns: u64, name: &[u8], out: &mut Vec<u8>) {
    if ns < UNIT * 10 - UNIT / 20 {
        let tenths = (ns + UNIT / 20) / (UNIT / 10);
        out.extend_from_slice(&[b'0' + (tenths / 10) as u8, b'.', b'0' + (tenths % 10) as u8]);
    } else {
        decimal(ns / UNIT + u64::from(ns % UNIT >= UNIT / 2), out);
    }
    out.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn as_the_standard_library_writes_them(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(text(|o| decimal(value, o)), value.to_string());
            prop_assert_eq!(text(|o| decimal(value as i64, o)), (value as i64).to_string());
            let negative = (value as i32).wrapping_neg();
            prop_assert_eq!(text(|o| decimal(negative, o)), negative.to_string());
            prop_assert_eq!(text(|o| hex(value, o)), format!("{value:#x}"));
            let short = value as u32;
            prop_assert_eq!(text(|o| padded(short, 7, b' ', o)), format!("{short:7}"));
        }
    }

    #[test]
    fn decimals_at_their_edges() {
        for value in (0..20)
            .flat_map(|n| [10u64.pow(n) - 1, 10u64.pow(n), 10u64.pow(n) + 1])
            .chain([u64::MAX])
        {
            assert_eq!(text(|o| decimal(value, o)), value.to_string());
        }
        assert_eq!(text(|o| decimal(i64::MIN, o)), i64::MIN.to_string());
        for value in 0..10_000 {
            assert_eq!(eight(value * 10_000 + value), format!("{value:04}{value:04}").as_bytes());
        }
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(text(|o| hex(0, o)), "0x0");
        assert_eq!(text(|o| hex(0xf, o)), "0xf");
        assert_eq!(text(|o| hex(0x10, o)), "0x10");
        assert_eq!(text(|o| hex(0x7ffd_0012_3456, o)), "0x7ffd00123456");
        assert_eq!(text(|o| hex(u64::MAX, o)), "0xffffffffffffffff");
        assert_eq!(text(|o| hex_or_zero(0, o)), "0");
    }

    #[test]
    fn permissions() {
        assert_eq!(text(|o| mode(0o644, o)), "0644");
        assert_eq!(text(|o| mode(0, o)), "000");
        assert_eq!(text(|o| mode(0o22, o)), "022");
        assert_eq!(text(|o| mode(7, o)), "007");
        assert_eq!(text(|o| mode(0o1777, o)), "01777");
        assert_eq!(text(|o| mode(u64::MAX, o)), "01777777777777777777777");
    }

    #[test]
    fn durations() {
        for (ns, expected) in [
            (0, "0.00 us"),
            (48, "0.05 us"),
            (94, "0.09 us"),
            (95, "0.1 us"),
            (500, "0.5 us"),
            (949, "0.9 us"),
            (9_949, "9.9 us"),
            (9_950, "10 us"),
            (12_400, "12 us"),
            (999_499, "999 us"),
            (999_500, "1.0 ms"),
            (3_400_000, "3.4 ms"),
            (345_000_000, "345 ms"),
            (999_500_000, "1.0 s"),
            (25_000_000_000, "25 s"),
            (4_000_000_000_000, "4000 s"),
            (u64::MAX, "18446744074 s"),
        ] {
            assert_eq!(text(|o| duration(ns, o)), expected, "{ns}");
        }
    }

    #[test]
    fn padding() {
        assert_eq!(text(|o| padded(7, 3, b'0', o)), "007");
        assert_eq!(text(|o| padded(4_194_304, 3, b' ', o)), "4194304");
        assert_eq!(two(9), *b"09");
    }
}
