//! Which bytes stand for themselves, looked at sixteen at a time: nearly all do, and these are looked
//! at by the million.

/// How many bytes are looked at together: what every x86-64 machine compares at once.
const WIDTH: usize = 16;

/// Whether a byte stands for itself in text and in JSON.
#[inline(always)]
const fn is_plain(byte: u8) -> bool {
    (0x20 <= byte) & (byte < 0x7f) & (byte != b'"') & (byte != b'\\')
}

/// How many bytes at the front stand for themselves, and are none of `others`.
#[inline]
pub(crate) fn plain<const N: usize>(bytes: &[u8], others: [u8; N]) -> usize {
    without(bytes, |byte| !is_plain(byte) | is_in(byte, others))
}

/// How many bytes at the front are none of `others`.
#[inline]
pub(crate) fn before<const N: usize>(bytes: &[u8], others: [u8; N]) -> usize {
    without(bytes, |byte| is_in(byte, others))
}

#[inline(always)]
fn is_in<const N: usize>(byte: u8, others: [u8; N]) -> bool {
    others.iter().fold(false, |found, other| found | (byte == *other))
}

/// How many bytes at the front are not special.
#[inline(always)]
fn without(bytes: &[u8], is_special: impl Fn(u8) -> bool) -> usize {
    // Without a branch for each byte, so that it compiles to comparisons of all at once.
    let any = |chunk: &[u8; WIDTH]| chunk.iter().fold(false, |any, byte| any | is_special(*byte));
    let first = |chunk: &[u8]| chunk.iter().position(|byte| is_special(*byte));
    let (chunks, rest) = bytes.as_chunks::<WIDTH>();
    for (i, chunk) in chunks.iter().enumerate() {
        if any(chunk) {
            return i * WIDTH + first(chunk).unwrap_or(WIDTH);
        }
    }
    // Together with those before them again, which are none.
    if bytes.last_chunk::<WIDTH>().is_some_and(|last| !any(last)) {
        return bytes.len();
    }
    chunks.len() * WIDTH + first(rest).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_one_by_one(
            bytes in prop::collection::vec(prop_oneof![9 => 0x20u8..0x7f, 1 => any::<u8>()], 0..80),
        ) {
            prop_assert_eq!(plain(&bytes, []), bytes.iter().take_while(|b| is_plain(**b)).count());
            let no_name = |b: &&u8| is_plain(**b) && !matches!(b, b'<' | b'>');
            prop_assert_eq!(plain(&bytes, [b'<', b'>']), bytes.iter().take_while(no_name).count());
            let no_quote = |b: &&u8| !matches!(b, b'"' | b'\\');
            let unquoted = bytes.iter().take_while(no_quote).count();
            prop_assert_eq!(before(&bytes, [b'"', b'\\']), unquoted);
        }
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=255 {
            for place in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[place] = byte;
                let expected = if is_plain(byte) { 20 } else { place };
                assert_eq!(plain(&bytes, []), expected, "{byte:#x} at {place}");
                assert_eq!(
                    before(&bytes, [byte]),
                    if byte == b'a' { 0 } else { place },
                    "{byte:#x} at {place}"
                );
            }
        }
    }
}
