//! Which bytes stand for themselves, looked at eight at a time: nearly all do, and these are looked
//! at by the million.

/// A byte in each of eight.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The highest bit of each byte of eight that is below `least`, at most 0x80; of those after the
/// first one, perhaps of others.
const fn below(word: u64, least: u8) -> u64 {
    word.wrapping_sub(each(least)) & !word & each(0x80)
}

/// The highest bit of each byte that is `byte`, as [`below`].
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ each(byte), 1)
}

/// Whether a byte stands for itself in text and in JSON.
#[cfg(test)]
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..0x7f) && byte != b'"' && byte != b'\\'
}

/// How many bytes at the front stand for themselves, and are none of `others`.
#[inline]
pub(crate) fn plain<const N: usize>(bytes: &[u8], others: [u8; N]) -> usize {
    without(bytes, others, |word| {
        word & each(0x80)
            | below(word, 0x20)
            | equal(word, 0x7f)
            | equal(word, b'"')
            | equal(word, b'\\')
    })
}

/// How many bytes at the front are none of `others`.
#[inline]
pub(crate) fn before<const N: usize>(bytes: &[u8], others: [u8; N]) -> usize {
    without(bytes, others, |_| 0)
}

/// How many bytes at the front are none of `others`, nor such as have their highest bit in
/// `special`.
#[inline(always)]
fn without<const N: usize>(bytes: &[u8], others: [u8; N], special: impl Fn(u64) -> u64) -> usize {
    let found =
        |word: u64| others.iter().fold(special(word), |found, other| found | equal(word, *other));
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        // What is found after the first may be wrong, the first is not.
        let found = found(u64::from_le_bytes(*word));
        if found != 0 {
            return i * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    if rest.is_empty() {
        return bytes.len();
    }
    // The last word begins in the one before, of which nothing is found again; a short text has
    // none before it, and others after.
    let (word, at) = match bytes.last_chunk::<8>() {
        Some(last) => (u64::from_le_bytes(*last), bytes.len() - 8),
        None => (rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
    };
    let found = found(word);
    // All zeros are 64 of them.
    (at + found.trailing_zeros() as usize / 8).min(bytes.len())
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
