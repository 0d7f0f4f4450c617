//! Numbers as text, without the machinery of formats: they are written by the million.

/// Most digits of a number.
const DIGITS: usize = 20;

/// Appends a number.
pub(crate) fn signed(value: i64, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    unsigned(value.unsigned_abs(), out);
}

/// Appends a number.
pub(crate) fn unsigned(mut value: u64, out: &mut String) {
    let mut digits = [0; DIGITS];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
        count += 1;
        if value == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[DIGITS - count..]).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_as_others_write_them(value: i64, shift in 0..64_u32) {
            let mut out = String::new();
            signed(value >> shift, &mut out);
            prop_assert_eq!(&out, &(value >> shift).to_string());
            out.clear();
            unsigned((value as u64) >> shift, &mut out);
            prop_assert_eq!(out, ((value as u64) >> shift).to_string());
        }
    }

    #[test]
    fn the_least_and_the_greatest() {
        for value in [i64::MIN, 0, i64::MAX] {
            let mut out = String::new();
            signed(value, &mut out);
            assert_eq!(out, value.to_string());
        }
    }
}
