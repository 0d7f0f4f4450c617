//! What each kind of event record holds.

use super::decoder::Fault;
use super::event::{Body, Call, KernelStack, Sample, Stack, Text, Tracepoint};
use super::records::Record;
use crate::abi::args;
use crate::abi::page::UNIT;
use crate::abi::record::sample::UserFrame;
use crate::abi::record::{
    Abi, WakeContext, call_abi, kind, migrate, sample, stack, switch, tracepoint, wake,
};

/// ENTER and EXIT: the fold slot or the return value, and the call, with `strings` to hold its
/// strings.
#[inline]
pub(super) fn call(record: Record<'_>, strings: Vec<Text>) -> Result<(u64, Call), Fault> {
    let (word, abi, packed) = parts(record)?;
    let (nargs, args) =
        if packed.is_empty() { (0, [0; 6]) } else { arguments(packed).ok_or(Fault::Arguments)? };
    Ok((word, Call { nr: record.aux & 0xfff, abi, nargs: nargs as u8, args, strings }))
}

/// As [`call`], for who only counts: slot or value, or the same fault.
#[inline]
pub(super) fn call_word(record: Record<'_>) -> Result<u64, Fault> {
    let (word, _, packed) = parts(record)?;
    if packed.is_empty() || arguments_fit(packed) { Ok(word) } else { Err(Fault::Arguments) }
}

/// Slot or value, whose number it is, and the packed arguments.
#[inline]
fn parts(record: Record<'_>) -> Result<(u64, Abi, &[u8]), Fault> {
    let (word, packed) = record.result().ok_or(Fault::Short(record.kind))?;
    let abi = call_abi(record.aux).ok_or(Fault::Abi)?;
    Ok((word, abi, packed))
}

/// Whether [`arguments`] finds what the head promises.
#[inline]
fn arguments_fit(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk() else { return false };
    let head = u16::from_le_bytes(*head);
    let n = usize::from(head >> 12 & 7);
    let class = |i: usize| usize::from(head >> (2 * i) & 3);
    let length = match n {
        7 => return false,
        _ if head & args::RAW != 0 => 8 * n,
        // Mostly there is room for the widest.
        _ if bytes.len() >= 2 + 6 * n => return true,
        _ => (0..n).map(|i| usize::from(args::CLASS_BYTES[class(i)])).sum(),
    };
    bytes.len() >= 2 + length
}

/// As [`args::decode`], by loads of a whole word where there is room: this is the hottest path.
#[inline]
fn arguments(bytes: &[u8]) -> Option<(usize, [u64; 6])> {
    let head = u16::from_le_bytes(*bytes.first_chunk()?);
    let n = usize::from(head >> 12 & 7);
    if head & args::RAW != 0 || n > 6 {
        return args::decode(bytes);
    }
    let mut out = [0; 6];
    let mut rest = bytes.get(2..)?;
    let mut classes = head;
    for slot in out.iter_mut().take(n) {
        // Classes 0 to 3: 1, 2, 4, 6 bytes, as args::CLASS_BYTES.
        let class = classes & 3;
        let width = (1 << class) - usize::from(class == 3) * 2;
        classes >>= 2;
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => tail(rest),
        };
        *slot = args::extend(word, width as u8);
        rest = rest.get(width..)?;
    }
    Some((n, out))
}

/// Fewer than eight bytes as a word.
#[cold]
fn tail(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, b| word << 8 | u64::from(*b))
}

/// SWITCH: prev, next, and the rest.
pub(super) fn switch(record: Record<'_>) -> Option<(u32, u32, Body)> {
    let (prev, next, prev_state, preempted, io_wait) = switch::unpack(record.word()?);
    let (prev_prio, next_prio) = (record.aux as u8, (record.aux >> 8) as u8);
    let body = Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio };
    Some((prev, next, body))
}

/// WAKING and WAKEUP_NEW.
pub(super) fn waking(record: Record<'_>) -> Option<Body> {
    let (wakee, state, cpu, context) = wake::unpack(record.word()?);
    Some(Body::Waking {
        wakee,
        prio: record.aux as u8,
        state,
        cpu,
        new: record.kind == kind::WAKEUP_NEW,
        context,
    })
}

/// MIGRATE.
pub(super) fn migrate(record: Record<'_>) -> Option<Body> {
    let (thread, from, to) = migrate::unpack(record.word()?);
    Some(Body::Migrate { thread, prio: record.aux as u8, from, to })
}

/// STACK. Of more frames than there can be, the first ones.
pub(super) fn stack(record: Record<'_>) -> Option<Body> {
    let slept = record.word()?;
    let (frames, _) = record.body.get(stack::SLEPT..)?.as_chunks();
    let frames = frames.iter().take(stack::FRAMES_MAX).map(|frame| u32::from_le_bytes(*frame));
    Some(Body::Stack(Stack {
        slept: (slept != 0).then_some(slept),
        status: stack::Status::of(record.aux),
        cut: record.aux & stack::CUT != 0,
        frames: frames.collect(),
    }))
}

/// SAMPLE. Of more frames than there can be, the first ones.
pub(super) fn sample(record: Record<'_>) -> Option<Body> {
    let kernel = usize::from(record.aux >> sample::KERNEL_SHIFT);
    let (kernel, user) = record.body.split_at_checked(kernel * size_of::<u32>())?;
    let ((kernel, _), (user, _)) = (kernel.as_chunks(), user.as_chunks());
    let kernel = kernel.iter().take(sample::FRAMES_MAX).map(|frame| u32::from_le_bytes(*frame));
    let user = user.iter().take(sample::FRAMES_MAX);
    Some(Body::Sample(Sample {
        user_mode: record.aux & sample::USER_MODE != 0,
        status: stack::Status::of(record.aux),
        kernel_cut: record.aux & sample::KERNEL_CUT != 0,
        user_cut: record.aux & sample::USER_CUT != 0,
        kernel: kernel.collect(),
        user: user.map(|frame| UserFrame::unpack(u64::from_le_bytes(*frame))).collect(),
    }))
}

/// TRACEPOINT. Of more frames than there can be, the first ones.
pub(super) fn tracepoint(record: Record<'_>) -> Option<Body> {
    let (head, rest) = record.body.split_first_chunk::<{ tracepoint::HEAD }>()?;
    let head = u32::from_le_bytes(*head);
    let length = (head >> 16) as usize;
    let bytes = rest.get(..length)?;
    let count = usize::from(record.aux >> tracepoint::FRAMES_SHIFT & 0x3f);
    let frames = rest.get(length.next_multiple_of(UNIT)..).unwrap_or_default();
    let (frames, _) = frames.as_chunks();
    let frames = frames.iter().take(count.min(tracepoint::FRAMES_MAX));
    let stack = || KernelStack {
        status: stack::Status::of(record.aux),
        cut: record.aux & tracepoint::STACK_CUT != 0,
        frames: frames.map(|frame| u32::from_le_bytes(*frame)).collect(),
    };
    Some(Body::Tracepoint(Tracepoint {
        id: head as u16,
        context: WakeContext::from_bits((record.aux >> tracepoint::CONTEXT_SHIFT) as u8),
        bytes: bytes.into(),
        cut: record.aux & tracepoint::CUT != 0,
        stack: (record.aux & tracepoint::STACK != 0).then(stack),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_fast_arguments_are_the_specified_ones(
            mut bytes in prop::collection::vec(any::<u8>(), 0..60),
            raw: bool,
        ) {
            if let (false, Some(b)) = (raw, bytes.get_mut(1)) {
                *b &= 0x7f;
            }
            prop_assert_eq!(arguments(&bytes), args::decode(&bytes));
            prop_assert_eq!(arguments_fit(&bytes), args::decode(&bytes).is_some());
            if let Some(head) = bytes.first_chunk() {
                let length = args::length(u16::from_le_bytes(*head));
                let fits = length.is_some_and(|length| length <= bytes.len());
                prop_assert_eq!(fits, args::decode(&bytes).is_some());
            }
        }
    }
}
