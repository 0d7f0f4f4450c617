//! Which bytes stand for themselves, looked at sixteen at a time: nearly all do, and these are looked at by the million.

/// Whether a byte stands for itself in text and in JSON.
#[inline(always)]
pub(crate) fn is_plain(byte: u8) -> bool {
    // Without a branch, so that sixteen are compared at once.
    (byte.wrapping_sub(0x20) < 0x5f) & (byte != b'"') & (byte != b'\\')
}

/// How many bytes at the front are all `such`.
#[inline(always)]
pub(crate) fn leading(bytes: &[u8], such: impl Fn(u8) -> bool) -> usize {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let all = |chunk: &&[u8; 16]| chunk.iter().fold(true, |all, byte| all & such(*byte));
    let whole = chunks.iter().take_while(all).count();
    let behind = chunks.get(whole).map_or(rest, |chunk| chunk.as_slice());
    whole * 16 + behind.iter().take_while(|byte| such(**byte)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_one_by_one(bytes in prop::collection::vec(prop_oneof![6 => 0x20u8..0x7f, 1 => any::<u8>()], 0..80)) {
            let one_by_one = bytes.iter().take_while(|b| is_plain(**b)).count();
            prop_assert_eq!(leading(&bytes, is_plain), one_by_one);
        }
    }

    #[test]
    fn what_is_special() {
        let special: Vec<u8> = (0..=255).filter(|byte| !is_plain(*byte)).collect();
        let expected = (0..0x20).chain([b'"', b'\\']).chain(0x7f..=255);
        assert_eq!(special, expected.collect::<Vec<u8>>());
    }
}
