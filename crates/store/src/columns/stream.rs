//! Both directions of one walk: a model codes a value by [`Stream`], which writes it into its
//! column or replaces it by the one that it reads there. So encoder and decoder can't differ.

use flightrec_format::abi::record::TICK_NS;

use super::column::{COLUMNS, Column, Encoded};

/// Most steps of [`Stream::interval`]'s scale.
const STEPS: u8 = 240;

/// A direction.
pub(super) trait Stream {
    /// Whether values go into the columns.
    const WRITES: bool;
    /// Whether the contents of calls' arguments and of strings are coded; where they are not, their
    /// columns are left alone.
    const CONTENTS: bool;

    /// One byte of a column. Where the columns are at their end, 0, and [`Self::failed`] from then
    /// on.
    fn byte(&mut self, column: Column, value: u8) -> u8;

    /// The low `count` (at most 48) bits of a value, which has no others.
    fn bits(&mut self, value: u64, count: u32) -> u64;

    /// The low `count` (1 to 8) bytes of a value, one after the other; above them what comes out
    /// means nothing.
    fn low(&mut self, column: Column, value: u64, count: u32) -> u64;

    /// Bytes of a column.
    fn bytes(&mut self, column: Column, value: &mut [u8]);

    /// What was read can't be.
    fn fail(&mut self);

    /// Whether something was read that can't be.
    fn failed(&self) -> bool;

    /// A number in as few bytes as it needs, 7 bits in each, lowest first.
    #[inline]
    fn varint(&mut self, column: Column, value: u64) -> u64 {
        let (mut left, mut out) = (value, 0);
        for shift in (0..64).step_by(7) {
            let more = if left >= 0x80 { 0x80 } else { 0 };
            let byte = self.byte(column, left as u8 & 0x7f | more);
            out |= u64::from(byte & 0x7f) << shift;
            left >>= 7;
            if byte & 0x80 == 0 {
                return out;
            }
        }
        self.fail();
        out
    }

    /// The difference of a number to the one expected, wrapping, small where they are near.
    #[inline]
    fn near(&mut self, column: Column, value: u64, expected: u64) -> u64 {
        let difference = value.wrapping_sub(expected) as i64;
        let folded = self.varint(column, (difference << 1 ^ difference >> 63) as u64);
        expected.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg())
    }

    /// What one word is more than another: where in it, and how long, the part is in which they
    /// differ; and its bytes.
    #[inline]
    fn difference(&mut self, [source, bytes]: [Column; 2], value: u64) -> u64 {
        let shift = value.trailing_zeros() & 0x38;
        let part = value as i64 >> shift;
        let longer = (64 - (part ^ part >> 63).leading_zeros()) / 8;
        let symbol = u32::from(self.byte(source, ((shift >> 3) | (longer << 3)) as u8));
        let (shift, width) = (symbol % 8 * 8, symbol / 8 % 8 + 1);
        let unused = 64 - 8 * width;
        let part = self.low(bytes, part as u64, width);
        (((part << unused) as i64 >> unused) as u64) << shift
    }

    /// The time before a call and its duration: how many bits each has, in one byte, and those
    /// after the first. Times of calls are multiples of a tick, and so is what is between them; of
    /// a time that is none, all bits are told.
    #[inline]
    fn spans(&mut self, gap: u32, ticks: u16) -> (u32, u16) {
        let class = |bits: u32| bits.min(15) as u8;
        let (is_tick, gap_ticks) = (gap.is_multiple_of(TICK), gap / TICK);
        let of_gap = if is_tick { class(30 - (gap_ticks | 3).leading_zeros()) } else { ANY as u8 };
        let symbol = self.byte(Column::Ticks, of_gap << 4 | class(16 - ticks.leading_zeros()));
        let (of_gap, of_ticks) = (usize::from(symbol >> 4), usize::from(symbol & 15));
        let (before, during) = (GAPS[of_gap], TICKS[of_ticks]);
        let tick = if of_gap == ANY { 1 } else { TICK };
        let gap = u64::from(gap / tick);
        let value = gap & before.mask() | (u64::from(ticks) & during.mask()) << before.bits;
        let value = self.bits(value, before.bits + during.bits);
        (
            (before.base | (value & before.mask()) as u32) * tick,
            (during.base | (value >> before.bits) as u32) as u16,
        )
    }

    /// A time span: its step on a scale of eight steps an octave, less the usual one, and the bits
    /// below. `usual` is the running mean of steps, in 64ths; 0: none yet.
    #[inline(always)]
    fn interval(&mut self, column: Column, value: u32, usual: &mut u16) -> u32 {
        let usually = (*usual >> 6) as u8;
        let (step, below) = step(value);
        let step = self.byte(column, step.wrapping_sub(usually)).wrapping_add(usually);
        if step >= STEPS {
            self.fail();
            return 0;
        }
        let mean = i32::from(*usual);
        let new = i32::from(step) << 6;
        *usual = if mean == 0 { new } else { mean + ((new - mean) >> 2) } as u16;
        if step < 16 {
            return u32::from(step);
        }
        if Self::WRITES {
            self.bits(u64::from(value & ((1 << below) - 1)), below);
            return value;
        }
        let below = u32::from(step - 16) / 8 + 1;
        let low = self.bits(0, below) as u32;
        (8 + u32::from(step - 16) % 8) << below | low
    }
}

/// A span's step, and the number of bits below it.
#[inline]
fn step(value: u32) -> (u8, u32) {
    if value < 16 {
        return (value as u8, 0);
    }
    let below = 28 - value.leading_zeros();
    ((16 + (below - 1) * 8 + (value >> below & 7)) as u8, below)
}

/// Spans of one class: how many bits are told of them, and what those are added to.
#[derive(Clone, Copy)]
struct Class {
    bits: u32,
    base: u32,
}

impl Class {
    const fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }
}

/// Classes by the number of a span's bits, those below the first `least` together, and the last for
/// spans of any length.
const fn classes(least: u32, any: u32) -> [Class; 16] {
    let mut classes = [Class { bits: least, base: 0 }; 16];
    let mut i = 1;
    while i < 15 {
        let bits = least + i as u32 - 1;
        classes[i] = Class { bits, base: 1 << bits };
        i += 1;
    }
    classes[15] = Class { bits: any, base: 0 };
    classes
}

/// ns of a tick.
const TICK: u32 = TICK_NS as u32;
/// The class of spans of any length.
const ANY: usize = 15;
/// Of the time before a call, in ticks (in [`ANY`] in ns), and of its duration, in ticks.
const GAPS: [Class; 16] = classes(2, 32);
const TICKS: [Class; 16] = classes(0, 16);

/// Into columns.
pub(super) struct Writing {
    columns: [Vec<u8>; COLUMNS],
    bits: u64,
    held: u32,
}

impl Writing {
    pub(super) fn new() -> Self {
        Self { columns: [const { Vec::new() }; COLUMNS], bits: 0, held: 0 }
    }

    /// Forgets what was written, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
        (self.bits, self.held) = (0, 0);
    }

    /// The columns, complete. Only [`Self::clear`] may follow.
    pub(super) fn finish(&mut self) -> &[Vec<u8>; COLUMNS] {
        let rest = self.bits.to_le_bytes();
        self.columns[Column::Bits as usize]
            .extend(rest.iter().take(self.held.div_ceil(8) as usize));
        &self.columns
    }
}

/// Appends the low `count` bytes of a value: all are stored, and the rest taken back.
#[inline]
fn append(column: &mut Vec<u8>, value: u64, count: usize) {
    let length = column.len() + count;
    column.extend_from_slice(&value.to_le_bytes());
    column.truncate(length);
}

impl Stream for Writing {
    const WRITES: bool = true;
    const CONTENTS: bool = true;

    #[inline]
    fn byte(&mut self, column: Column, value: u8) -> u8 {
        self.columns[column as usize].push(value);
        value
    }

    #[inline]
    fn bits(&mut self, value: u64, count: u32) -> u64 {
        self.bits |= value << self.held;
        self.held += count;
        // Whole bytes go, whether there are any or not: that can't be foretold.
        let bytes = self.held / 8;
        append(&mut self.columns[Column::Bits as usize], self.bits, bytes as usize);
        self.bits >>= 8 * bytes;
        self.held -= 8 * bytes;
        value
    }

    #[inline]
    fn low(&mut self, column: Column, value: u64, count: u32) -> u64 {
        append(&mut self.columns[column as usize], value, count as usize);
        value
    }

    fn bytes(&mut self, column: Column, value: &mut [u8]) {
        self.columns[column as usize].extend_from_slice(value);
    }

    fn fail(&mut self) {}

    fn failed(&self) -> bool {
        false
    }
}

/// Out of columns, with the contents of arguments and strings or without.
pub(super) struct Reading<'a, const CONTENTS: bool> {
    columns: [&'a [u8]; COLUMNS],
    /// Bits of the first byte of [`Column::Bits`] that were read.
    read: u32,
    failed: bool,
}

impl<'a, const CONTENTS: bool> Reading<'a, CONTENTS> {
    pub(super) fn new(encoded: &Encoded<'a>) -> Self {
        let mut columns = encoded.columns;
        if !CONTENTS {
            for column in [Column::Source, Column::Value, Column::Text] {
                columns[column as usize] = &[];
            }
        }
        Self { columns, read: 0, failed: false }
    }

    /// Bytes that nobody has read.
    pub(super) fn left(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.len()).sum();
        columns - usize::from(self.read > 0)
    }
}

/// The first eight bytes of a column, zeros after its end.
#[inline]
fn front(column: &[u8]) -> u64 {
    if let Some(word) = column.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    column.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

impl<const CONTENTS: bool> Stream for Reading<'_, CONTENTS> {
    const WRITES: bool = false;
    const CONTENTS: bool = CONTENTS;

    #[inline]
    fn byte(&mut self, column: Column, _: u8) -> u8 {
        let column = &mut self.columns[column as usize];
        if let Some((byte, rest)) = column.split_first() {
            *column = rest;
            return *byte;
        }
        self.failed = true;
        0
    }

    #[inline]
    fn bits(&mut self, _: u64, count: u32) -> u64 {
        let column = &mut self.columns[Column::Bits as usize];
        let end = self.read + count;
        // Zeros after the last ones are bits that the writer had left over.
        if column.len() * 8 < end as usize {
            self.failed = true;
            return 0;
        }
        let word = front(column);
        *column = column.get(end as usize / 8..).unwrap_or_default();
        let value = word >> self.read & ((1 << count) - 1);
        self.read = end % 8;
        value
    }

    #[inline]
    fn low(&mut self, column: Column, _: u64, count: u32) -> u64 {
        let column = &mut self.columns[column as usize];
        let word = front(column);
        match column.get(count as usize..) {
            Some(rest) => *column = rest,
            None => self.failed = true,
        }
        word
    }

    fn bytes(&mut self, column: Column, value: &mut [u8]) {
        let column = &mut self.columns[column as usize];
        match column.split_at_checked(value.len()) {
            Some((bytes, rest)) => {
                value.copy_from_slice(bytes);
                *column = rest;
            }
            None => self.failed = true,
        }
    }

    fn fail(&mut self) {
        self.failed = true;
    }

    fn failed(&self) -> bool {
        self.failed
    }
}
