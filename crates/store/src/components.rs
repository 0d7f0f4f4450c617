//! Which names may be in the paths of a block: a Bloom filter of the components of all strings of
//! its system calls.

use rustc_hash::FxHashSet;

/// Bits of the filter for each name: with [`PROBES`], one name of 60 that are not there may be.
const BITS: usize = 9;
/// Fewer bits for each name than these tell nothing.
const BITS_LEAST: usize = 4;
/// Bits that a name sets.
const PROBES: u32 = 4;
/// Of how many bytes of a block's data the filter may have one.
const SHARE: usize = 80;

/// The names that paths of a block may be made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Components {
    /// Some strings are not recorded whole: their names may be any.
    pub vague: bool,
    /// There are too many to tell.
    pub any: bool,
    /// The filter; empty if there is no name.
    pub(crate) bits: Vec<u8>,
}

impl Components {
    /// Of names, each by its [`hash`], in a block of so many bytes.
    pub(crate) fn new(names: &FxHashSet<u32>, data_len: usize, vague: bool) -> Self {
        if names.is_empty() {
            return Self { vague, any: false, bits: Vec::new() };
        }
        let wanted = (names.len() * BITS).div_ceil(8);
        let length = wanted.min(data_len / SHARE);
        if length * 8 < names.len() * BITS_LEAST {
            return Self { vague, any: true, bits: Vec::new() };
        }
        let mut bits = vec![0u8; length];
        for name in names {
            for at in probes(*name, length) {
                if let Some(byte) = bits.get_mut(at / 8) {
                    *byte |= 1 << (at % 8);
                }
            }
        }
        Self { vague, any: false, bits }
    }

    /// Whether it denies no name that another filter of the same strings has.
    pub(crate) fn holds(&self, made: &Self) -> bool {
        (self.vague || !made.vague) && (self.any || !made.any && self.bits == made.bits)
    }

    /// Whether a path may have a name, which is given by its [`hash`]; strings that are not
    /// recorded whole aside.
    pub fn may_have(&self, name: u32) -> bool {
        self.any
            || !self.bits.is_empty()
                && probes(name, self.bits.len())
                    .all(|at| self.bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 != 0))
    }
}

/// The bits of a name in a filter of so many bytes.
fn probes(name: u32, length: usize) -> impl Iterator<Item = usize> {
    let step = name.rotate_left(15) | 1;
    (0..PROBES).map(move |n| name.wrapping_add(step.wrapping_mul(n)) as usize % (length * 8))
}

/// What stands for a name in filters.
pub fn hash(name: &[u8]) -> u32 {
    (hash_64(name) >> 32) as u32
}

/// A hash of a string; its upper bits are the best.
pub(crate) fn hash_64(string: &[u8]) -> u64 {
    let (words, rest) = string.as_chunks::<8>();
    let last = rest.iter().fold(string.len() as u64, |word, byte| word << 8 | u64::from(*byte));
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words
        .chain([last])
        .fold(0u64, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The names that a path is made of. Those that lead up (`..`) are among them.
pub fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_missing_and_few_are_too_many() {
        let all: FxHashSet<u32> = (0..400).map(|n| hash(format!("name-{n}").as_bytes())).collect();
        let filter = Components::new(&all, 1 << 20, false);
        assert!(all.iter().all(|name| filter.may_have(*name)));
        let others = (0..10_000).filter(|n| filter.may_have(hash(format!("x{n}").as_bytes())));
        assert!(others.count() < 400);
        let none = Components::new(&FxHashSet::default(), 1 << 20, true);
        assert!(!none.may_have(hash(b"name-0")) && none.vague);
        // Where there is no room, any may be.
        let crowded = Components::new(&all, 200 * SHARE - 1, false);
        assert!(crowded.may_have(hash(b"x")) && crowded.any);
    }

    #[test]
    fn names_of_paths() {
        let of = |path: &'static str| names(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(of("/etc//./hosts/"), [&b"etc"[..], b"hosts"]);
        assert_eq!(of("../a"), [&b".."[..], b"a"]);
        assert!(of("/").is_empty());
    }
}
