//! Checkpoints: up to which moment, and up to which place in each ring, everything recorded is in
//! the files.

use std::collections::HashMap;

use flightrec_format::abi::page::{LANE_KINDS, Lane, REFUSALS};
use flightrec_format::control::{CpuTotals, Position, Totals};

use crate::fields::{Fields, put_varint};

/// Most rings of a checkpoint: more CPUs than Linux has (`NR_CPUS_RANGE_END`, arch/x86/Kconfig:
/// 8192).
const RINGS_MAX: u64 = 3 * 65536;

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
    pub events: [u64; LANE_KINDS],
    /// Events refused before [`Checkpoint::time`], at least.
    pub refused: [u64; REFUSALS],
}

impl RingMark {
    /// A ring of which nothing is in the files.
    pub fn new(lane: Lane, cpu: u16) -> Self {
        Self { lane, cpu, seq: 0, used: 0, events: [0; LANE_KINDS], refused: [0; REFUSALS] }
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
            for value in ring.events.iter().chain(&ring.refused) {
                put_varint(*value, &mut out);
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
            let (mut events, mut refused) = ([0; LANE_KINDS], [0; REFUSALS]);
            for value in events.iter_mut().chain(&mut refused) {
                *value = fields.varint()?;
            }
            if let Some(lane) = lane.filter(|lane| Lane::RINGS.contains(lane)) {
                rings.push(RingMark { lane, cpu, seq, used, events, refused });
            }
        }
        fields.0.is_empty().then_some(Self { time, rings })
    }
}
