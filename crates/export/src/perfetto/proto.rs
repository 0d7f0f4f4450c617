//! Protocol buffers, as far as a writer needs them: tags, varints, lengths.

/// Wire types.
const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Appends a number in base 128.
#[inline]
pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field that is a number. A signed one is its two's complement in 64 bits.
#[inline]
pub(super) fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3 | VARINT, out);
    varint(value, out);
}

/// Appends a field that is text, a packed list, or a message that is written already.
#[inline]
pub(super) fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | BYTES, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Appends a field that is a message, which `write` writes.
#[inline]
pub(super) fn message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    varint(field << 3 | BYTES, out);
    let at = out.len();
    // Most messages are shorter than 128 bytes: their length takes one.
    out.push(0);
    write(out);
    let length = out.len().saturating_sub(at + 1);
    if let (true, Some(place)) = (length < 0x80, out.get_mut(at)) {
        *place = length as u8;
        return;
    }
    let mut long = Vec::with_capacity(10);
    varint(length as u64, &mut long);
    out.splice(at..=at, long);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_encoding_guide_has_it() {
        let mut out = Vec::new();
        number(1, 150, &mut out);
        bytes(2, b"testing", &mut out);
        message(3, &mut out, |out| number(1, 150, out));
        assert_eq!(out, b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01");
    }

    #[test]
    fn long_messages_have_long_lengths() {
        for length in [126, 127, 128, 300, 20_000] {
            let mut out = Vec::new();
            message(1, &mut out, |out| out.resize(out.len() + length, 7));
            let mut expected = Vec::new();
            bytes(1, &vec![7; length], &mut expected);
            assert_eq!(out, expected);
        }
    }
}
