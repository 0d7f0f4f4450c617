//! Checkpoints: up to which moment, and up to which place in each ring, everything recorded is in
//! the files.

use std::collections::HashMap;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{HEADER_KINDS, Lane, REFUSALS};
use flightrec_format::totals::{CpuTotals, Position, Totals};

use crate::fields::{Fields, put_varint};

/// Most rings of a checkpoint: more lanes than there can be, of more CPUs than Linux has
/// (`NR_CPUS_RANGE_END`, arch/x86/Kconfig: 8192).
const RINGS_MAX: u64 = 16 * 65536;

/// What the files hold. Everything that was recorded before [`Self::time`] stands in its ring
/// before the mark, and what stands before the mark is in this file, in those of the session before
/// it, or was overwritten in the ring before it could be stored, which the pages' totals then show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// ns of `CLOCK_MONOTONIC`: read before the rings were looked at, less the time for which a
    /// record is provisional.
    pub time: u64,
    /// Every ring of the recording, also one that holds nothing.
    pub rings: Vec<RingMark>,
}

/// A place in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingMark {
    /// Lane.
    pub lane: Lane,
    /// CPU.
    pub cpu: u16,
    /// Sequence number of the page; 0: nothing of the ring is in the files.
    pub seq: u64,
    /// Words of that page that are in the files, the header's included.
    pub used: u32,
    /// Events recorded in the ring before the mark.
    pub events: Counts,
    /// Events refused before [`Checkpoint::time`], at least.
    pub refused: [u64; REFUSALS],
}

impl RingMark {
    /// A ring of which nothing is in the files.
    pub fn new(lane: Lane, cpu: u16) -> Self {
        Self { lane, cpu, seq: 0, used: 0, events: Counts::ZERO, refused: [0; REFUSALS] }
    }

    /// The place, as a source of pages takes it.
    pub fn position(&self) -> Position {
        Position { lane: self.lane as u8, cpu: self.cpu, seq: self.seq, used: self.used }
    }
}

impl Checkpoint {
    /// The counters as they were at the checkpoint: with them [`flightrec_format::ring`] finds what
    /// is missing at the end of a ring, and knows that a ring in which nothing happened is
    /// complete.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { now: self.time, ..Totals::default() };
        let mut places = HashMap::new();
        for ring in &self.rings {
            let cpu = *places.entry(ring.cpu).or_insert_with(|| {
                totals.cpus.push(CpuTotals {
                    cpu: ring.cpu,
                    recorded: true,
                    ..CpuTotals::default()
                });
                totals.cpus.len() - 1
            });
            let lane = ring.lane as usize;
            let Some(cpu) = totals.cpus.get_mut(cpu) else { continue };
            if let (Some(events), Some(refused)) =
                (cpu.events.get_mut(lane), cpu.refused.get_mut(lane))
            {
                (*events, *refused) = (ring.events, ring.refused);
            }
        }
        totals
    }

    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(self.time, &mut out);
        put_varint(self.rings.len() as u64, &mut out);
        for ring in &self.rings {
            for value in [ring.lane as u64, u64::from(ring.cpu), ring.seq, u64::from(ring.used)] {
                put_varint(value, &mut out);
            }
            for value in ring.events.iter().take(HEADER_KINDS).chain(&ring.refused) {
                put_varint(*value, &mut out);
            }
        }
        // After them what lanes of more kinds have, so that a file without is as it always was.
        let further = |ring: &RingMark| {
            let last = ring.events.present().last().map_or(0, |(index, _)| index + 1);
            last.saturating_sub(HEADER_KINDS)
        };
        if self.rings.iter().any(|ring| further(ring) != 0) {
            for ring in &self.rings {
                let count = further(ring);
                put_varint(count as u64, &mut out);
                for value in ring.events.iter().skip(HEADER_KINDS).take(count) {
                    put_varint(*value, &mut out);
                }
            }
        }
        out
    }

    /// A checkpoint from its bytes; `None` where they are none. Rings of lanes that this release
    /// does not know are left out.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (time, count) = (fields.varint()?, fields.varint()?);
        if count > RINGS_MAX {
            return None;
        }
        let mut rings = Vec::new();
        for _ in 0..count {
            let lane = Lane::from_u8(u8::try_from(fields.varint()?).ok()?);
            let cpu = u16::try_from(fields.varint()?).ok()?;
            let (seq, used) = (fields.varint()?, u32::try_from(fields.varint()?).ok()?);
            let (mut events, mut refused) = (Counts::ZERO, [0; REFUSALS]);
            for value in events.iter_mut().take(HEADER_KINDS).chain(&mut refused) {
                *value = fields.varint()?;
            }
            let lane = lane.filter(|lane| Lane::RINGS.contains(lane));
            rings.push(lane.map(|lane| RingMark { lane, cpu, seq, used, events, refused }));
        }
        for ring in rings.iter_mut().take(if fields.0.is_empty() { 0 } else { usize::MAX }) {
            let further = usize::try_from(fields.varint()?).ok()?;
            if further > Counts::LEN - HEADER_KINDS {
                return None;
            }
            for index in 0..further {
                let value = fields.varint()?;
                let mut events = ring.iter_mut().flat_map(|ring| ring.events.iter_mut());
                if let Some(count) = events.nth(HEADER_KINDS + index) {
                    *count = value;
                }
            }
        }
        let rings = rings.into_iter().flatten().collect();
        fields.0.is_empty().then_some(Self { time, rings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_more_kinds_than_six_keep_their_counters() {
        let mark = |lane, cpu, events| RingMark { seq: 3, events, ..RingMark::new(lane, cpu) };
        let few = Counts::first([1, 2, 3, 4, 5, 6]);
        let many = Counts::first([1, 2, 3, 4, 5, 6, 7, 0, 9]);
        let of = |rings: Vec<RingMark>| Checkpoint { time: 5, rings };
        let before = of(vec![mark(Lane::Syscall, 0, few), mark(Lane::Task, 1, few)]);
        let more = of(vec![mark(Lane::Syscall, 0, few), mark(Lane::Task, 1, many)]);
        for checkpoint in [&before, &more] {
            assert_eq!(Checkpoint::decode(&checkpoint.encode()).as_ref(), Some(checkpoint));
        }
        // Where no lane has more, it is as it always was: time, number, and 13 numbers a ring.
        assert_eq!(before.encode().len(), 2 + 2 * 13);
        assert_eq!(more.encode().len(), before.encode().len() + 2 + 3);
        let bytes = more.encode();
        for end in 0..bytes.len() {
            let cut = Checkpoint::decode(&bytes[..end]);
            assert_eq!(cut.is_some(), end == before.encode().len(), "{end}");
        }
    }

    #[test]
    fn rings_of_unknown_lanes_are_left_out_with_their_counters() {
        let many = Counts::first([9; 8]);
        let ring = RingMark { events: many, ..RingMark::new(Lane::Syscall, 0) };
        let known = RingMark { cpu: 1, ..ring };
        let mut bytes = Checkpoint { time: 5, rings: vec![ring, known] }.encode();
        bytes[2] = 6;
        assert_eq!(Checkpoint::decode(&bytes).map(|all| all.rings), Some(vec![known]));
    }
}
