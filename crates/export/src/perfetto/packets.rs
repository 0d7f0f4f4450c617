//! Packets of a trace, compressed many at a time.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::field::{clock, packet, trace};
use super::proto::{bytes, message, number};

/// Bytes of packets that are compressed together.
const BLOCK: usize = 512 << 10;

/// The sequence that holds all packets but those on gaps.
pub(super) const EVENTS: u64 = 1;
/// The sequence of gaps, which interns nothing: a packet on it may say that packets were lost.
pub(super) const GAPS: u64 = 2;

/// Packets that wait to be compressed.
#[derive(Debug, Default)]
pub(super) struct Packets {
    plain: Vec<u8>,
    /// Time of the last packet of [`EVENTS`] that has one, by that sequence's own clock.
    last: Option<u64>,
}

impl Packets {
    /// Appends a packet.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        message(trace::PACKET, &mut self.plain, write);
    }

    /// Appends a packet of [`EVENTS`] at a time.
    #[inline]
    pub(super) fn at(&mut self, time: u64, write: impl FnOnce(&mut Vec<u8>)) {
        // Most come in order, and tell what they are behind the one before.
        let behind = self.last.and_then(|last| time.checked_sub(last));
        if behind.is_some() {
            self.last = Some(time);
        }
        message(trace::PACKET, &mut self.plain, |out| {
            if let Some(ns) = behind {
                number(packet::TIMESTAMP, ns, out);
            } else {
                number(packet::TIMESTAMP, time, out);
                number(packet::CLOCK, clock::BOOTTIME, out);
            }
            number(packet::SEQUENCE, EVENTS, out);
            write(out);
        });
    }

    /// The clock of [`EVENTS`] stands at this time.
    pub(super) fn set_clock(&mut self, time: u64) {
        self.last = Some(time);
    }

    /// Compresses what waits, if that is much, or `all`.
    pub(super) fn flush(&mut self, all: bool, out: &mut Vec<u8>) {
        if self.plain.len() < BLOCK && !all || self.plain.is_empty() {
            return;
        }
        let mut encoder = ZlibEncoder::new(Vec::with_capacity(BLOCK / 4), Compression::new(3));
        // Writing to a vector does not fail.
        let written = encoder.write_all(&self.plain).and_then(|()| encoder.finish());
        match written {
            Ok(small) => {
                message(trace::PACKET, out, |out| bytes(packet::COMPRESSED, &small, out));
            }
            Err(_) => out.extend_from_slice(&self.plain),
        }
        self.plain.clear();
    }
}
