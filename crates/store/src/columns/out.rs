//! A page that is put together, record by record.

use flightrec_format::abi::page::UNIT;

use super::plain::LONGEST;

/// A page that is put together.
pub(super) struct Out<'a> {
    /// What is left to fill.
    pub(super) left: &'a mut [u8],
    /// There was more than the page has.
    pub(super) over: bool,
}

impl Out<'_> {
    /// The first of the bytes that `put` puts, which returns how many. Where there is room for
    /// all, all are stored: what follows is written over them.
    #[inline(always)]
    pub(super) fn some<const N: usize>(&mut self, put: impl Fn(&mut [u8; N]) -> usize) {
        if let Some(to) = self.left.first_chunk_mut() {
            let length = put(to);
            self.left = std::mem::take(&mut self.left).get_mut(length..).unwrap_or_default();
            return;
        }
        let mut bytes = [0; N];
        let length = put(&mut bytes);
        self.bytes(bytes.get(..length).unwrap_or(&bytes));
    }

    /// A record whose length is in its first word.
    pub(super) fn record(&mut self, words: &[[u8; 8]; LONGEST]) {
        let length = UNIT * usize::from(words[0][1]);
        self.bytes(words.as_flattened().get(..length).unwrap_or_default());
    }

    /// A word.
    pub(super) fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    /// So many bytes stay as they are.
    #[inline]
    pub(super) fn skip(&mut self, count: usize) {
        match std::mem::take(&mut self.left).get_mut(count..) {
            Some(rest) => self.left = rest,
            None => self.over = true,
        }
    }

    /// Bytes as they are.
    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let left = std::mem::take(&mut self.left);
        match left.split_at_mut_checked(bytes.len()) {
            Some((to, rest)) => {
                to.copy_from_slice(bytes);
                self.left = rest;
            }
            None => self.over = true,
        }
    }
}
