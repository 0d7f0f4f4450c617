//! Numbers into text, without allocation.

/// Decimal.
pub(crate) fn decimal(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Decimal, filled on the left with `fill` up to `width` digits.
pub(crate) fn padded(value: u32, width: usize, fill: u8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    pad(width.saturating_sub(digits.len()), fill, out);
    out.extend_from_slice(digits);
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
    out.extend_from_slice(b"0x");
    let digits = (67 - (value | 1).leading_zeros()) / 4;
    for digit in (0..digits).rev() {
        let nibble = (value >> (4 * digit) & 0xf) as u8;
        out.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    }
}

/// Hexadecimal; nothing at all is a plain `0`.
pub(crate) fn hex_or_zero(value: u64, out: &mut Vec<u8>) {
    if value == 0 {
        out.push(b'0');
    } else {
        hex(value, out);
    }
}

/// Permissions: octal, at least three digits behind a zero (none: `000`), as strace has it.
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
    const UNITS: [(u64, &[u8]); 3] = [(1_000, b" us"), (1_000_000, b" ms"), (1_000_000_000, b" s")];
    for (unit, name) in UNITS {
        // Rounded to a tenth below ten, to a whole above; a thousand is one of the next unit.
        let last = unit == 1_000_000_000;
        if unit == 1_000 && ns < 95 {
            out.extend_from_slice(b"0.0");
            decimal((ns + 5) / 10, out);
        } else if ns < unit * 10 - unit / 20 {
            let tenths = (ns + unit / 20) / (unit / 10);
            decimal(tenths / 10, out);
            out.push(b'.');
            decimal(tenths % 10, out);
        } else if last || ns < unit * 1000 - unit / 2 {
            decimal(ns / unit + u64::from(ns % unit >= unit / 2), out);
        } else {
            continue;
        }
        out.extend_from_slice(name);
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
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
