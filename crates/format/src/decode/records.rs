//! Records by their lengths, whatever they hold.

use crate::abi::page::UNIT;
use crate::abi::record::kind;

/// A record with its header word taken apart.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u8,
    pub(crate) aux: u16,
    pub(crate) upper: u32,
    /// What stands after the header word.
    pub(crate) body: &'a [u8],
}

impl<'a> Record<'a> {
    /// The first word of the body.
    #[inline]
    pub(crate) fn word(&self) -> Option<u64> {
        self.body.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// Of a call: an ENTER's fold slot or an EXIT's return value, and what is after.
    #[inline]
    pub(crate) fn result(&self) -> Option<(u64, &'a [u8])> {
        if self.kind == kind::ENTER {
            let (word, rest) = self.body.split_first_chunk()?;
            return Some((u64::from(u32::from_le_bytes(*word)), rest));
        }
        let (word, rest) = self.body.split_first_chunk()?;
        Some((u64::from_le_bytes(*word), rest))
    }
}

/// Why there is no further record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A length of less than a header.
    Empty,
    /// A length beyond the end.
    Overrun,
}

/// The records of a page one after the other, up to its end or the first whose length is damaged.
#[derive(Clone)]
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    /// Of the bytes of a page that are in use after its header.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes passed.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Passes over all that is left.
    pub(crate) fn end(&mut self) {
        self.at = self.bytes.len();
    }

    /// The kind of the next record, if there is one.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next record.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<Option<Record<'a>>, Broken> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((head, _)) = rest.split_first_chunk() else {
            return if rest.is_empty() { Ok(None) } else { Err(Broken::Overrun) };
        };
        let head = u64::from_le_bytes(*head);
        let length = UNIT * usize::from((head >> 8) as u8);
        if length < 8 {
            return Err(Broken::Empty);
        }
        let body = rest.get(8..length).ok_or(Broken::Overrun)?;
        self.at += length;
        Ok(Some(Record {
            kind: head as u8,
            aux: (head >> 16) as u16,
            upper: (head >> 32) as u32,
            body,
        }))
    }
}
