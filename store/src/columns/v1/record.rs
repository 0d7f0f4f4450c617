//! Calls as version 1 knows them, put together as the probes write them.

use flightrec_format::abi::args;
use flightrec_format::abi::record::{header, kind};

/// Index of the result in [`Call::values`]; the arguments stand before it.
pub(super) const RESULT: usize = 6;
/// Bytes of the longest call (header, word 1, and arguments), and a word to store beyond.
const LONGEST: usize = 16 + args::MAX_BYTES.next_multiple_of(8) + 8;

/// What of a call a record tells.
pub(super) mod form {
    /// Entry and exit.
    pub(crate) const FOLDED: u8 = 0;
    /// Entry.
    pub(crate) const ENTERED: u8 = 1;
    /// Exit.
    pub(crate) const EXITED: u8 = 2;
}

/// ENTER or EXIT.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Call {
    /// See [`form`].
    pub(super) form: u8,
    pub(super) aux: u16,
    /// Number of arguments.
    pub(super) count: u8,
    /// Strings behind it.
    pub(super) strings: u8,
    /// Six arguments and the result; 0 where there is none.
    pub(super) values: [u64; 7],
    /// Time field.
    pub(super) upper: u32,
    /// Duration of a folded call, in units of 16 ns.
    pub(super) ticks: u32,
}

impl Call {
    /// Its record, and the number of its bytes.
    #[inline]
    pub(super) fn put(&self) -> ([u8; LONGEST], usize) {
        let mut out = [0; LONGEST];
        let words = if self.count == 0 { 2 } else { 2 + self.put_arguments(&mut out).div_ceil(8) };
        let kind = if self.form < form::EXITED { kind::ENTER } else { kind::EXIT };
        let result = self.values[RESULT];
        let second = match self.form {
            form::FOLDED => result & 0xffff_ffff_ffff | (u64::from(self.ticks) + 1) << 48,
            form::ENTERED => 0,
            _ => result,
        };
        out[..8].copy_from_slice(&header(kind, words as u8, self.aux, self.upper).to_le_bytes());
        out[8..16].copy_from_slice(&second.to_le_bytes());
        (out, 8 * words)
    }

    /// Packs arguments behind two words, as [`args::encode`]; returns their bytes.
    #[inline]
    fn put_arguments(&self, out: &mut [u8]) -> usize {
        let values = self.values.get(..usize::from(self.count)).unwrap_or_default();
        let raw = values.iter().fold(0, |all, value| all | args::magnitude(*value)) >> 47 != 0;
        let mut head = u16::from(self.count) << 12 | if raw { args::RAW } else { 0 };
        let mut at = 18;
        for (i, value) in values.iter().enumerate() {
            let class = if raw { 0 } else { args::class(*value) };
            let width = if raw { 8 } else { (1 << class) - usize::from(class == 3) * 2 };
            head |= (class as u16) << (2 * i);
            // Whole words are stored, and then written over: there is room behind the last.
            if let Some(to) = out.get_mut(at..at + 8) {
                to.copy_from_slice(&value.to_le_bytes());
            }
            at += width;
        }
        if let Some(padding) = out.get_mut(at..at + 8) {
            padding.fill(0);
        }
        if let Some(to) = out.get_mut(16..18) {
            to.copy_from_slice(&head.to_le_bytes());
        }
        at - 16
    }
}
