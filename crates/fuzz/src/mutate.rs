//! Good inputs, changed.

/// Numbers that follow from a seed (splitmix64: Steele, Lea, Flood, 2014).
pub struct Random(u64);

impl Random {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`; 0 where that is 0.
    fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.draw() % n as u64) as usize }
    }

    /// Whether the next one is one of `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.draw().is_multiple_of(n)
    }
}

/// Numbers at which parsers go wrong.
const NUMBERS: [u64; 16] = [
    0,
    1,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0xfff,
    0x1000,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// Most changes to one input.
const CHANGES: usize = 6;

/// One of the inputs, with some changes.
pub fn mutate(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds.get(random.below(seeds.len())).cloned().unwrap_or_default();
    for _ in 0..=random.below(CHANGES) {
        change(&mut bytes, seeds, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    // Headers are a small part of an input, and the part that matters.
    let reach = if random.one_in(2) { bytes.len().min(200) } else { bytes.len() };
    let at = random.below(reach);
    match random.below(9) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.draw() as u8;
            }
        }
        2 | 3 => {
            // A number, in either order of bytes, most often where fields are.
            let number = NUMBERS.get(random.below(NUMBERS.len())).copied().unwrap_or(0);
            let width = 1 << random.below(4);
            let at = if random.one_in(4) { at } else { at & !(width - 1) };
            let number = if random.one_in(4) { number.to_be_bytes() } else { number.to_le_bytes() };
            for (to, from) in bytes.iter_mut().skip(at).zip(number.iter().take(width)) {
                *to = *from;
            }
        }
        4 => bytes.truncate(at),
        5 => {
            let end = (at + random.below(64)).min(bytes.len());
            bytes.drain(at.min(end)..end);
        }
        6 => {
            // Said twice.
            let end = (at + random.below(256)).min(bytes.len());
            let part: Vec<u8> = bytes.get(at..end).unwrap_or_default().to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, part);
        }
        7 => {
            // A part of another input.
            let other = seeds.get(random.below(seeds.len())).map_or(&[][..], Vec::as_slice);
            let from = random.below(other.len());
            let end = (from + random.below(512)).min(other.len());
            for (to, from) in
                bytes.iter_mut().skip(at).zip(other.get(from..end).unwrap_or_default())
            {
                *to = *from;
            }
        }
        _ => {
            let end = (at + random.below(64)).min(bytes.len());
            let fill = if random.one_in(2) { 0 } else { 0xff };
            bytes.get_mut(at..end).unwrap_or_default().fill(fill);
        }
    }
}
