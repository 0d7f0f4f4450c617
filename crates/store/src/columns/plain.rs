//! Records without a model of their own, known or not: each word as its difference to the same word
//! of the last record of the kind.

use flightrec_format::abi::page::UNIT;
use flightrec_format::abi::record::header;

use super::column::Column;
use super::stream::Stream;

/// Words of the longest record.
pub(super) const LONGEST: usize = (u8::MAX as usize * UNIT).div_ceil(8);
/// Words of the last record that are kept.
const KEPT: usize = 16;

/// Records seen so far in a block.
pub(super) struct Plain {
    /// By kind: the length of the last record in units, and its words.
    last: Vec<(u8, [u64; KEPT])>,
    /// Usual steps of the time before them.
    gaps: [u16; 16],
}

impl Plain {
    pub(super) fn new() -> Self {
        Self { last: vec![(0, [0; KEPT]); 256], gaps: [0; 16] }
    }

    /// Forgets all, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.last.fill((0, [0; KEPT]));
        self.gaps = [0; 16];
    }

    /// Codes a record of at least one word, the last one filled up with zeros; `record` has room
    /// for the longest. `now` is the time field that an event of this lane would have at once.
    pub(super) fn code<S: Stream>(
        &mut self,
        s: &mut S,
        record: &mut [[u8; 8]; LONGEST],
        lane: u8,
        now: u32,
    ) {
        let head = u64::from_le_bytes(record[0]);
        let kind = s.byte(Column::Plain, head as u8);
        let Some((length, last)) = self.last.get_mut(usize::from(kind)) else { return };
        *length = s
            .byte(Column::PlainLength, ((head >> 8) as u8).wrapping_sub(*length))
            .wrapping_add(*length);
        let bytes = UNIT * usize::from(*length);
        if bytes < 8 {
            return s.fail();
        }
        let aux = s.near(Column::PlainHead, head >> 16 & 0xffff, last[0] >> 16 & 0xffff) as u16;
        let upper = (head >> 32) as u32;
        let upper = if is_event(kind, lane) {
            let gap = &mut self.gaps[usize::from(kind & 0xf)];
            now.wrapping_add(s.interval(Column::Gap, upper.wrapping_sub(now), gap))
        } else {
            s.near(Column::PlainHead, u64::from(upper), last[0] >> 32) as u32
        };
        let head = header(kind, *length, aux, upper);
        last[0] = head;
        record[0] = head.to_le_bytes();
        for (i, bytes) in record.iter_mut().enumerate().take(bytes.div_ceil(8)).skip(1) {
            let mut none = 0;
            let last = last.get_mut(i).unwrap_or(&mut none);
            let difference = u64::from_le_bytes(*bytes).wrapping_sub(*last);
            *last = last.wrapping_add(difference_of(s, difference));
            *bytes = last.to_le_bytes();
        }
    }
}

/// Whether a record of this kind is an event of this lane: then its upper half is a time.
pub(super) fn is_event(kind: u8, lane: u8) -> bool {
    kind >> 4 == lane.wrapping_add(1)
}

/// Codes a word: which of its bytes are not 0, and these.
fn difference_of<S: Stream>(s: &mut S, value: u64) -> u64 {
    let bytes = value.to_le_bytes();
    let mask = bytes.iter().enumerate().fold(0, |mask, (i, byte)| mask | u8::from(*byte != 0) << i);
    let mask = s.byte(Column::PlainMask, mask);
    let mut out = [0; 8];
    for (i, (to, byte)) in out.iter_mut().zip(bytes).enumerate() {
        if mask >> i & 1 != 0 {
            *to = s.byte(Column::PlainBytes, byte);
        }
    }
    u64::from_le_bytes(out)
}
