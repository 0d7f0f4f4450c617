//! A summary as bytes: a list of fields, each with its number and its length, so that a later
//! release may add some which this one steps over.

use super::{BlockSummary, CallKey, CallSummary, Components, CpuEntry, Missing, STEP_NS};
use crate::fields::{Fields, put_varint};

/// The numbers of the fields.
mod field {
    pub(super) const KINDS: u64 = 1;
    pub(super) const THREADS: u64 = 2;
    pub(super) const CALLS: u64 = 3;
    pub(super) const CPUS: u64 = 4;
    pub(super) const COMPONENTS: u64 = 5;
    /// How many there are.
    pub(super) const ALL: u32 = 5;
}

/// Bits of what is told of names.
const VAGUE: u8 = 1;
const ANY: u8 = 2;

/// Bits of a CPU's state.
const IDLES: u64 = 1;
const ENDS_IDLE: u64 = 2;

/// Appends a summary.
pub(super) fn encode(of: &BlockSummary, out: &mut Vec<u8>) {
    put(out, field::KINDS, |out| put_varint(of.kinds.into(), out));
    put(out, field::THREADS, |out| {
        let mut before = 0;
        for tid in &of.threads {
            put_varint(u64::from(tid - before), out);
            before = *tid;
        }
    });
    put(out, field::CALLS, |out| of.calls.iter().for_each(|call| put_call(call, out)));
    put(out, field::CPUS, |out| {
        for CpuEntry { cpu, idles, ends_idle } in &of.cpus {
            let bit = |is: bool, bit: u64| if is { bit } else { 0 };
            let state = bit(*idles, IDLES) | bit(*ends_idle, ENDS_IDLE);
            put_varint(u64::from(*cpu) << 2 | state, out);
        }
    });
    put(out, field::COMPONENTS, |out| {
        let Components { vague, any, bits } = &of.components;
        out.push((u8::from(*vague) * VAGUE) | (u8::from(*any) * ANY));
        out.extend(bits);
    });
}

fn put(out: &mut Vec<u8>, field: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put_varint(field, out);
    put_varint(content.len() as u64, out);
    out.append(&mut content);
}

/// Number and table, how many end, the longest, the errors and how many, what is missing of
/// beginnings, and of ends whose beginning the file does not have, after whether there are any.
fn put_call(of: &CallSummary, out: &mut Vec<u8>) {
    let CallSummary { call, ended, errors, longest, missing, unbegun } = of;
    put_varint(number(*call), out);
    put_varint((*ended).into(), out);
    put_varint(longest.map_or(0, |ns| ns.div_ceil(STEP_NS) + 1), out);
    put_varint(errors.len() as u64, out);
    for error in errors {
        put_varint((*error).into(), out);
    }
    out.extend([missing.strings, missing.arguments]);
    out.push(unbegun.is_some().into());
    if let Some(Missing { strings, arguments }) = unbegun {
        out.extend([strings, arguments]);
    }
}

fn call(content: &mut Fields<'_>) -> Option<CallSummary> {
    let call = key(content.varint()?)?;
    let ended = u32::try_from(content.varint()?).ok()?;
    let longest = content.varint()?.checked_sub(1).map(|steps| steps.saturating_mul(STEP_NS));
    let count = content.varint()?;
    // Each takes a byte at least.
    if count > content.0.len() as u64 {
        return None;
    }
    let error = |content: &mut Fields<'_>| u16::try_from(content.varint()?).ok();
    let errors = (0..count).map(|_| error(content)).collect::<Option<Vec<u16>>>()?;
    let missing = lacks(content)?;
    let unbegun = match content.u8()? {
        0 => None,
        _ => Some(lacks(content)?),
    };
    Some(CallSummary { call, ended, errors, longest, missing, unbegun })
}

fn lacks(content: &mut Fields<'_>) -> Option<Missing> {
    Some(Missing { strings: content.u8()?, arguments: content.u8()? })
}

fn number((abi, nr): CallKey) -> u64 {
    u64::from(nr) << 2 | u64::from(abi & 3)
}

fn key(number: u64) -> Option<CallKey> {
    Some(((number & 3) as u8, u16::try_from(number >> 2).ok()?))
}

/// What a summary says; `None`: it is damaged.
pub(super) fn decode(bytes: &[u8]) -> Option<BlockSummary> {
    let mut of = BlockSummary::default();
    let (mut fields, mut found) = (Fields(bytes), 0u32);
    while !fields.0.is_empty() {
        let field = fields.varint()?;
        if (1..=field::ALL.into()).contains(&field) && found >> field & 1 != 0 {
            return None;
        }
        let length = usize::try_from(fields.varint()?).ok()?;
        let mut content = Fields(fields.skip(length)?);
        match field {
            field::KINDS => of.kinds = u16::try_from(content.varint()?).ok()?,
            field::THREADS => {
                let mut before = 0u32;
                while !content.0.is_empty() {
                    before = before.checked_add(u32::try_from(content.varint()?).ok()?)?;
                    of.threads.push(before);
                }
            }
            field::CALLS => {
                while !content.0.is_empty() {
                    of.calls.push(call(&mut content)?);
                }
            }
            field::CPUS => {
                while !content.0.is_empty() {
                    let word = content.varint()?;
                    of.cpus.push(CpuEntry {
                        cpu: u16::try_from(word >> 2).ok()?,
                        idles: word & IDLES != 0,
                        ends_idle: word & ENDS_IDLE != 0,
                    });
                }
            }
            field::COMPONENTS => {
                let bits = content.u8()?;
                of.components = Components {
                    vague: bits & VAGUE != 0,
                    any: bits & ANY != 0,
                    bits: content.0.to_vec(),
                };
            }
            // A later release's.
            _ => continue,
        }
        found |= 1 << field;
    }
    // What a summary does not say of a block must not be taken for nothing.
    let whole = (1..=field::ALL).all(|field| found >> field & 1 != 0);
    whole.then_some(of)
}
