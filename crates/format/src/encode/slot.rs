//! A thread's slot as bytes.

use crate::abi::slot::TaskSlot;

/// The bytes of a slot; [`crate::slots::parse`] reads them.
pub fn write_slot(slot: &TaskSlot) -> [u8; size_of::<TaskSlot>()] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let (comm, _) = slot.comm.as_chunks::<8>();
    let comm = |i: usize| comm.get(i).map_or(0, |c| u64::from_le_bytes(*c));
    let [a0, a1, a2, a3, a4, a5] = slot.args;
    let words = [
        pair(slot.seq, slot.tid),
        pair(slot.tgid, slot.flags),
        slot.start_time,
        slot.cgroup,
        comm(0),
        comm(1),
        slot.since,
        pair(slot.state, slot.nr as u32),
        a0,
        a1,
        a2,
        a3,
        a4,
        a5,
        pair(slot.ppid, slot.prio as u32),
        pair(slot.abi, slot.known),
    ];
    let mut out = [0; size_of::<TaskSlot>()];
    for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}
