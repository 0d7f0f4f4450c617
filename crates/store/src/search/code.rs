//! An index as bytes. Each entry is a list of fields, each with its number and its length, so that
//! a later release may add some which this one steps over.

use super::{BlockEntry, CallKey, Components, CpuEntry, Missing, STEP_NS};
use crate::fields::{Fields, put_varint};

/// Version of the format.
pub const VERSION: u32 = 1;
/// Most bytes of all entries before compression.
pub const RAW_MAX: usize = 16 << 20;

/// The numbers of the fields.
mod field {
    pub(super) const PLACE: u64 = 1;
    pub(super) const KINDS: u64 = 2;
    pub(super) const THREADS: u64 = 3;
    pub(super) const CALLS: u64 = 4;
    pub(super) const FAILURES: u64 = 5;
    pub(super) const CPUS: u64 = 6;
    pub(super) const LONGEST: u64 = 7;
    pub(super) const COMPONENTS: u64 = 8;
    pub(super) const MISSING: u64 = 9;
    pub(super) const UNBEGUN: u64 = 10;
    /// How many there are.
    pub(super) const ALL: u32 = 10;
}

/// Bits of what is told of names.
const VAGUE: u8 = 1;
const ANY: u8 = 2;

/// Bits of a CPU's state.
const IDLES: u64 = 1;
const ENDS_IDLE: u64 = 2;

/// The entries, one after the other.
pub(super) fn encode(blocks: &[BlockEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut entry = Vec::new();
    for block in blocks {
        entry.clear();
        put(&mut entry, field::PLACE, |out| {
            put_varint(block.offset, out);
            out.extend(block.crc.to_le_bytes());
        });
        put(&mut entry, field::KINDS, |out| put_varint(block.kinds.into(), out));
        put(&mut entry, field::THREADS, |out| {
            let mut before = 0;
            for tid in &block.threads {
                put_varint(u64::from(tid - before), out);
                before = *tid;
            }
        });
        put(&mut entry, field::CALLS, |out| {
            block.calls.iter().for_each(|call| put_varint(number(*call), out));
        });
        put(&mut entry, field::FAILURES, |out| {
            for (call, error) in &block.failures {
                put_varint(number(*call), out);
                put_varint((*error).into(), out);
            }
        });
        put(&mut entry, field::CPUS, |out| {
            for CpuEntry { cpu, idles, ends_idle } in &block.cpus {
                let bit = |is: bool, bit: u64| if is { bit } else { 0 };
                let state = bit(*idles, IDLES) | bit(*ends_idle, ENDS_IDLE);
                put_varint(u64::from(*cpu) << 2 | state, out);
            }
        });
        put(&mut entry, field::LONGEST, |out| {
            put_varint(block.longest.map_or(0, |ns| ns.div_ceil(STEP_NS) + 1), out);
        });
        put(&mut entry, field::COMPONENTS, |out| {
            let Components { vague, any, bits } = &block.components;
            out.push((u8::from(*vague) * VAGUE) | (u8::from(*any) * ANY));
            out.extend(bits);
        });
        put(&mut entry, field::MISSING, |out| put_missing(&block.missing, out));
        put(&mut entry, field::UNBEGUN, |out| put_missing(&block.unbegun, out));
        put_varint(entry.len() as u64, &mut out);
        out.extend(&entry);
    }
    out
}

fn put(out: &mut Vec<u8>, field: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put_varint(field, out);
    put_varint(content.len() as u64, out);
    out.append(&mut content);
}

fn put_missing(of: &[(CallKey, Missing)], out: &mut Vec<u8>) {
    for (call, Missing { strings, arguments }) in of {
        put_varint(number(*call), out);
        out.extend([*strings, *arguments]);
    }
}

fn missing(mut content: Fields<'_>) -> Option<Vec<(CallKey, Missing)>> {
    let mut all = Vec::new();
    while !content.0.is_empty() {
        let call = call(content.varint()?)?;
        all.push((call, Missing { strings: content.u8()?, arguments: content.u8()? }));
    }
    Some(all)
}

fn number((abi, nr): CallKey) -> u64 {
    u64::from(nr) << 2 | u64::from(abi & 3)
}

fn call(number: u64) -> Option<CallKey> {
    Some(((number & 3) as u8, u16::try_from(number >> 2).ok()?))
}

/// What so many entries say; `None`: they are damaged.
pub(super) fn decode(bytes: &[u8], count: usize) -> Option<Vec<BlockEntry>> {
    let mut all = Fields(bytes);
    let mut blocks = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(all.varint()?).ok()?;
        blocks.push(entry(all.skip(length)?)?);
    }
    let in_order = blocks.is_sorted_by(|a: &BlockEntry, b: &BlockEntry| a.offset < b.offset);
    (all.0.is_empty() && in_order).then_some(blocks)
}

fn entry(bytes: &[u8]) -> Option<BlockEntry> {
    let mut fields = Fields(bytes);
    let mut block = BlockEntry::default();
    let mut found = 0u32;
    while !fields.0.is_empty() {
        let (field, length) = (fields.varint()?, usize::try_from(fields.varint()?).ok()?);
        let mut content = Fields(fields.skip(length)?);
        match field {
            field::PLACE => (block.offset, block.crc) = (content.varint()?, content.u32()?),
            field::KINDS => block.kinds = u16::try_from(content.varint()?).ok()?,
            field::THREADS => {
                let mut before = 0u32;
                while !content.0.is_empty() {
                    before = before.checked_add(u32::try_from(content.varint()?).ok()?)?;
                    block.threads.push(before);
                }
            }
            field::CALLS => {
                while !content.0.is_empty() {
                    block.calls.push(call(content.varint()?)?);
                }
            }
            field::FAILURES => {
                while !content.0.is_empty() {
                    let call = call(content.varint()?)?;
                    block.failures.push((call, u16::try_from(content.varint()?).ok()?));
                }
            }
            field::CPUS => {
                while !content.0.is_empty() {
                    let word = content.varint()?;
                    block.cpus.push(CpuEntry {
                        cpu: u16::try_from(word >> 2).ok()?,
                        idles: word & IDLES != 0,
                        ends_idle: word & ENDS_IDLE != 0,
                    });
                }
            }
            field::LONGEST => {
                let steps = content.varint()?.checked_sub(1);
                block.longest = steps.map(|steps| steps.saturating_mul(STEP_NS));
            }
            field::COMPONENTS => {
                let bits = content.u8()?;
                block.components = Components {
                    vague: bits & VAGUE != 0,
                    any: bits & ANY != 0,
                    bits: content.0.to_vec(),
                };
            }
            field::MISSING => block.missing = missing(content)?,
            field::UNBEGUN => block.unbegun = missing(content)?,
            // A later release's.
            _ => continue,
        }
        found |= 1 << field;
    }
    // What an index does not say of a block must not be taken for nothing.
    let whole = (1..=field::ALL).all(|field| found >> field & 1 != 0) && block.threads.is_sorted();
    whole.then_some(block)
}
