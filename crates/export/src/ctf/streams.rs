//! Streams of packets, a file for each CPU.
//!
//! A packet holds events of one CPU, and the number of events of that CPU that were discarded
//! until its end (`events_discarded`): a reader takes the difference to the packet before. Events
//! after a gap are in a packet of their own.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

/// Bytes of a packet's events, about.
const PACKET: usize = 1 << 16;
/// Bytes of all packets in the making: more are written, whole or not.
const PACKETS_MAX: usize = 64 << 20;
/// Bytes of a packet's header and context.
const HEAD: usize = 4 + 16 + 4 + 8 + 6 * 8 + 4;
/// What each packet begins with.
const MAGIC: u32 = 0xc1fc_1fc1;

/// A CPU's packet in the making.
#[derive(Debug, Default)]
struct Stream {
    events: Vec<u8>,
    begin: u64,
    last: u64,
    packets: u64,
    /// Since the beginning.
    discarded: u64,
}

/// The streams of all CPUs.
#[derive(Debug)]
pub(super) struct Streams {
    dir: PathBuf,
    uuid: [u8; 16],
    cpus: FxHashMap<u16, Stream>,
    bytes: usize,
}

impl Streams {
    /// None, in a directory that is there.
    pub(super) fn new(dir: &Path, uuid: [u8; 16]) -> Self {
        Self { dir: dir.into(), uuid, cpus: FxHashMap::default(), bytes: 0 }
    }

    /// So many events are missing before the next one of this CPU.
    pub(super) fn discard(&mut self, cpu: u16, count: u64) -> io::Result<()> {
        self.flush(cpu)?;
        let stream = self.cpus.entry(cpu).or_default();
        stream.discarded = stream.discarded.saturating_add(count);
        Ok(())
    }

    /// Appends an event: its class, its thread and process, and the bytes of its fields.
    pub(super) fn event(
        &mut self,
        (cpu, time): (u16, u64),
        class: u32,
        (pid, tid): (u32, u32),
        fields: &[u8],
    ) -> io::Result<()> {
        let stream = self.cpus.entry(cpu).or_default();
        // No event is before the one before it.
        let time = time.max(stream.last);
        if stream.events.is_empty() {
            stream.begin = time;
        }
        stream.last = time;
        let before = stream.events.len();
        stream.events.extend_from_slice(&class.to_le_bytes());
        stream.events.extend_from_slice(&time.to_le_bytes());
        stream.events.extend_from_slice(&pid.to_le_bytes());
        stream.events.extend_from_slice(&tid.to_le_bytes());
        stream.events.extend_from_slice(fields);
        self.bytes += stream.events.len() - before;
        if stream.events.len() >= PACKET {
            self.flush(cpu)?;
        }
        if self.bytes >= PACKETS_MAX {
            self.finish()?;
        }
        Ok(())
    }

    /// Writes all packets.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let cpus: Vec<u16> = self.cpus.keys().copied().collect();
        cpus.into_iter().try_for_each(|cpu| self.flush(cpu))
    }

    /// Writes a CPU's packet.
    fn flush(&mut self, cpu: u16) -> io::Result<()> {
        let Self { dir, uuid, cpus, bytes } = self;
        let Some(stream) = cpus.get_mut(&cpu).filter(|stream| !stream.events.is_empty()) else {
            return Ok(());
        };
        let bits = (HEAD + stream.events.len()) as u64 * 8;
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&*uuid);
        head.extend_from_slice(&0u32.to_le_bytes());
        head.extend_from_slice(&u64::from(cpu).to_le_bytes());
        let context = [stream.begin, stream.last, bits, bits, stream.packets, stream.discarded];
        for value in context {
            head.extend_from_slice(&value.to_le_bytes());
        }
        head.extend_from_slice(&u32::from(cpu).to_le_bytes());
        let path = dir.join(format!("channel0_{cpu}"));
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o640).open(path)?;
        file.write_all(&head)?;
        file.write_all(&stream.events)?;
        stream.packets += 1;
        *bytes -= stream.events.len().min(*bytes);
        stream.events.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_ends_a_packet() {
        let dir = tempfile::tempdir().unwrap();
        let mut streams = Streams::new(dir.path(), [7; 16]);
        streams.event((1, 100), 5, (2, 3), b"abc").unwrap();
        streams.event((1, 110), 5, (2, 3), b"").unwrap();
        streams.discard(1, 9).unwrap();
        streams.event((1, 90), 6, (2, 3), b"").unwrap();
        streams.finish().unwrap();
        let bytes = std::fs::read(dir.path().join("channel0_1")).unwrap();
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let first = HEAD + 2 * 20 + 3;
        assert_eq!(bytes.len(), first + HEAD + 20);
        for (at, begin, end, length, number, discarded) in [
            (0, 100, 110, first, 0, 0),
            // Time does not go back.
            (first, 110, 110, HEAD + 20, 1, 9),
        ] {
            assert_eq!(bytes[at..at + 4], MAGIC.to_le_bytes());
            assert_eq!(bytes[at + 4..at + 20], [7; 16]);
            let context: Vec<u64> = (0..6).map(|i| long(at + 32 + 8 * i)).collect();
            let bits = length as u64 * 8;
            assert_eq!(context, [begin, end, bits, bits, number, discarded]);
        }
    }
}
