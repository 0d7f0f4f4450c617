//! Events in few words.
//!
//! What one CPU has written, another gets at only slowly, a cache line at a time. So the events
//! that there are by the million, calls without strings and scheduling, are handed over in a few
//! words each, a third of their size; the few others as they are.

use std::mem;

use flightrec_format::abi::record::{Abi, WakeContext};
use flightrec_format::decode::{Body, Call, Event};

use flightrec_reader::pipeline::delay::{Began, Findings, Item};

/// Events in order, with what was found out about them.
#[derive(Debug, Default)]
pub(super) struct Packed {
    words: Vec<u64>,
    /// Events that are not in the words. Those after `used` are of an earlier use.
    wholes: Vec<Whole>,
    used: usize,
    length: usize,
}

/// An event as it is.
#[derive(Debug, Default)]
struct Whole {
    event: Event,
    found: Findings,
    before: u64,
}

// An event begins with a word of its kind, a byte by kind, its CPU and its thread. Then, but for
// `WHOLE`, which is the next of the others, come its time and the moment before it, and what that
// kind has.
const WHOLE: u8 = 0;
const ENTER: u8 = 1;
const EXIT: u8 = 2;
const SWITCH: u8 = 3;
const WAKING: u8 = 4;
const MIGRATE: u8 = 5;
/// In the byte by kind of a call: how many arguments follow.
const COUNT: u8 = 7;
/// Of an exit: it knows its beginning itself; that was found out.
const ENTERED: u8 = 1 << 3;
const FOUND: u8 = 1 << 4;
/// Of an exit without an entry: when it began stands where that would.
const BEGAN: u8 = 1 << 5;
/// Of scheduling: a flag of the event's own; a CPU of [`Findings::woken_on`]; of a switch, the
/// thread that stops waits for I/O; of a wakeup, where its context begins.
const FLAG: u8 = 1;
const WOKEN: u8 = 2;
const IO_WAIT: u8 = 4;
const CONTEXT: u8 = 4;

/// Fields of 16 bits in one word.
fn quarters(a: u16, b: u16, c: u16, d: u16) -> u64 {
    u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
}

/// Field `at` of [`quarters`].
fn quarter(word: u64, at: u32) -> u16 {
    (word >> (16 * at)) as u16
}

/// A bit, if it is to be set.
fn given(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

/// A call's number, table and number of arguments.
fn call_word(call: &Call) -> u64 {
    quarters(call.nr, call.abi as u16, u16::from(call.nargs), 0)
}

/// How many arguments there are up to the last that is not 0.
#[inline]
fn arguments(call: &Call) -> usize {
    // Calls of any number of arguments follow one another: no jump tells which.
    call.args
        .iter()
        .zip(1..)
        .map(|(arg, count)| if *arg == 0 { 0 } else { count })
        .max()
        .unwrap_or(0)
}

impl Packed {
    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Makes room for others.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        (self.used, self.length) = (0, 0);
    }

    /// Takes the next event, which is complete; moment `before` had come before it was. Leaves one
    /// that is done with in its place.
    #[inline]
    pub(super) fn push(&mut self, item: &mut Item, before: u64) {
        self.length += 1;
        let found = item.found;
        let Event { time, cpu, tid, ref body } = *item.event;
        let head = |kind: u8, more: u8| {
            u64::from(kind) | u64::from(more) << 8 | u64::from(cpu) << 16 | u64::from(tid) << 32
        };
        let unplaced = (found.queued_on, found.runs_on, found.woken_on) == (0, 0, None);
        let flags = given(found.woken_on.is_some(), WOKEN);
        let woken = found.woken_on.unwrap_or(0);
        match body {
            Body::Enter(call) if call.strings.is_empty() && unplaced && found.entered.is_none() => {
                let count = arguments(call);
                self.extend(
                    &[head(ENTER, count as u8), time, before, call_word(call)],
                    &call.args,
                    count,
                );
            }
            Body::Exit { call, ret, entered }
                if call.strings.is_empty()
                    && unplaced
                    && (found.began.is_none() || entered.is_none() && found.entered.is_none()) =>
            {
                let count = arguments(call);
                let more = count as u8
                    + given(entered.is_some(), ENTERED)
                    + given(found.entered.is_some(), FOUND)
                    + given(found.began.is_some(), BEGAN);
                let (began, known) = match found.began {
                    Some(Began { from, until }) => (from, until),
                    None => (entered.unwrap_or(0), found.entered.unwrap_or(0)),
                };
                let words =
                    [head(EXIT, more), time, before, call_word(call), *ret as u64, began, known];
                self.extend(&words, &call.args, count);
            }
            Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio }
                if found.entered.is_none() =>
            {
                let prios = u16::from(*prev_prio) | u16::from(*next_prio) << 8;
                let more = given(*preempted, FLAG) + given(*io_wait, IO_WAIT) + flags;
                let thread =
                    u64::from(*next) | u64::from(*prev_state) << 32 | u64::from(prios) << 48;
                let places = quarters(found.queued_on, found.runs_on, woken, 0);
                self.words.extend_from_slice(&[head(SWITCH, more), time, before, thread, places]);
            }
            Body::Waking { wakee, prio, state, cpu, new, context } if found.entered.is_none() => {
                let more = given(*new, FLAG) + flags + ((*context as u8) << CONTEXT);
                let thread = u64::from(*wakee) | u64::from(*state) << 32 | u64::from(*prio) << 48;
                let places = quarters(found.queued_on, found.runs_on, woken, *cpu);
                self.words.extend_from_slice(&[head(WAKING, more), time, before, thread, places]);
            }
            Body::Migrate { thread, prio, from, to } if unplaced && found.entered.is_none() => {
                let thread = u64::from(*thread) | u64::from(*prio) << 48;
                self.words.extend_from_slice(&[
                    head(MIGRATE, 0),
                    time,
                    before,
                    thread,
                    quarters(*from, *to, 0, 0),
                ]);
            }
            _ => {
                self.words.push(u64::from(WHOLE));
                if self.used >= self.wholes.len() {
                    self.wholes.push(Whole::default());
                }
                if let Some(whole) = self.wholes.get_mut(self.used) {
                    mem::swap(&mut whole.event, &mut *item.event);
                    (whole.found, whole.before) = (found, before);
                    self.used += 1;
                }
            }
        }
    }

    /// Appends a call's words, and the first `count` of its arguments.
    #[inline]
    fn extend<const N: usize>(&mut self, words: &[u64; N], args: &[u64; 6], count: usize) {
        // A known number takes no call; what is too much is taken away.
        let end = self.words.len() + N + count;
        self.words.extend_from_slice(words);
        self.words.extend_from_slice(args);
        self.words.truncate(end);
    }

    /// Gives all events, in order, each with what was found out about it, and the moment that had
    /// come before. What is left of them is done with.
    #[inline]
    pub(super) fn each<E>(
        &mut self,
        mut take: impl FnMut(&mut Event, &Findings, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut wholes = self.wholes.iter_mut().take(self.used);
        let mut words = self.words.as_slice();
        let [mut enter, mut exit, mut other] =
            [Event::default(), Event::default(), Event::default()];
        while let Some((head, rest)) = words.split_first() {
            let (kind, more) = (*head as u8, (*head >> 8) as u8);
            if kind == WHOLE {
                words = rest;
                if let Some(Whole { event, found, before }) = wholes.next() {
                    take(event, found, *before)?;
                }
                continue;
            }
            let Some(([time, before], rest)) = rest.split_first_chunk() else { break };
            let mut found = Findings::default();
            // Each kind has an event of its own, most of which then stays as it was.
            let (rest, event) = match kind {
                ENTER => (put_enter(more, rest, &mut enter.body), &mut enter),
                EXIT => (put_exit(more, rest, &mut exit.body, &mut found), &mut exit),
                _ => (put_sched(kind, more, rest, &mut other.body, &mut found), &mut other),
            };
            let Some(rest) = rest else { break };
            words = rest;
            (event.time, event.cpu, event.tid) =
                (*time, (*head >> 16) as u16, (*head >> 32) as u32);
            take(event, &found, *before)?;
        }
        Ok(())
    }
}

/// Makes `body` an entry; returns the words after it.
#[inline]
fn put_enter<'w>(more: u8, words: &'w [u64], body: &mut Body) -> Option<&'w [u64]> {
    let ([word], rest) = words.split_first_chunk()?;
    match body {
        Body::Enter(call) => put_call(*word, more, rest, call),
        other => {
            let mut call = no_call();
            let rest = put_call(*word, more, rest, &mut call);
            *other = Body::Enter(call);
            rest
        }
    }
}

/// Makes `body` an exit; returns the words after it.
#[inline]
fn put_exit<'w>(
    more: u8,
    words: &'w [u64],
    body: &mut Body,
    found: &mut Findings,
) -> Option<&'w [u64]> {
    let ([word, result, began, known], rest) = words.split_first_chunk()?;
    found.began = (more & BEGAN != 0).then_some(Began { from: *began, until: *known });
    let began = (more & ENTERED != 0).then_some(*began);
    found.entered = (more & FOUND != 0).then_some(*known);
    match body {
        Body::Exit { call, ret, entered } => {
            (*ret, *entered) = (*result as i64, began);
            put_call(*word, more, rest, call)
        }
        other => {
            let mut call = no_call();
            let rest = put_call(*word, more, rest, &mut call);
            *other = Body::Exit { call, ret: *result as i64, entered: began };
            rest
        }
    }
}

/// Makes `body` an event of scheduling; returns the words after it.
#[inline]
fn put_sched<'w>(
    kind: u8,
    more: u8,
    words: &'w [u64],
    body: &mut Body,
    found: &mut Findings,
) -> Option<&'w [u64]> {
    let ([thread, places], rest) = words.split_first_chunk()?;
    let (tid, upper, prio, other) =
        (*thread as u32, quarter(*thread, 2), (*thread >> 48) as u8, (*thread >> 56) as u8);
    if kind == MIGRATE {
        *body =
            Body::Migrate { thread: tid, prio, from: quarter(*places, 0), to: quarter(*places, 1) };
        return Some(rest);
    }
    (found.queued_on, found.runs_on) = (quarter(*places, 0), quarter(*places, 1));
    found.woken_on = (more & WOKEN != 0).then_some(quarter(*places, 2));
    let flag = more & FLAG != 0;
    *body = if kind == WAKING {
        let context = WakeContext::from_bits(more >> CONTEXT);
        Body::Waking {
            wakee: tid,
            prio,
            state: upper,
            cpu: quarter(*places, 3),
            new: flag,
            context,
        }
    } else {
        Body::Switch {
            prev_prio: prio,
            prev_state: upper,
            preempted: flag,
            io_wait: more & IO_WAIT != 0,
            next: tid,
            next_prio: other,
        }
    };
    Some(rest)
}

/// A call to be written over.
fn no_call() -> Call {
    Call { nr: 0, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

/// Makes `call` the call of these words; returns those after its arguments.
#[inline]
fn put_call<'w>(word: u64, more: u8, words: &'w [u64], call: &mut Call) -> Option<&'w [u64]> {
    let count = usize::from(more & COUNT);
    call.nr = quarter(word, 0);
    call.abi = match quarter(word, 1) {
        1 => Abi::Compat,
        2 => Abi::X32,
        _ => Abi::Native,
    };
    call.nargs = quarter(word, 2) as u8;
    call.strings.clear();
    // Nearly always as many words follow as there can be arguments: they are taken, and those of
    // what follows made 0.
    if let Some(six) = words.first_chunk::<6>() {
        for ((arg, word), index) in call.args.iter_mut().zip(six).zip(0..) {
            *arg = if index < count { *word } else { 0 };
        }
    } else {
        call.args = [0; 6];
        call.args.iter_mut().zip(words).take(count).for_each(|(arg, word)| *arg = *word);
    }
    words.get(count..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use flightrec_format::abi::record::StringStatus;
    use flightrec_format::abi::record::stack::Status;
    use flightrec_format::decode::Stack;
    use flightrec_reader::pipeline::testing::{fork, text};

    fn calls() -> impl Strategy<Value = Call> {
        let abi = prop::sample::select(vec![Abi::Native, Abi::Compat, Abi::X32]);
        let arg = prop_oneof![Just(0), any::<u64>()];
        (
            any::<u16>(),
            abi,
            any::<u8>(),
            prop::array::uniform6(arg),
            prop::option::weighted(0.2, ".{0,9}"),
        )
            .prop_map(|(nr, abi, nargs, args, path)| {
                let strings = path.iter().map(|path| text(1, StringStatus::Whole, path)).collect();
                Call { nr, abi, nargs, args, strings }
            })
    }

    fn bodies() -> impl Strategy<Value = Body> {
        prop_oneof![
            3 => calls().prop_map(Body::Enter),
            3 => (calls(), any::<i64>(), any::<Option<u64>>())
                .prop_map(|(call, ret, entered)| Body::Exit { call, ret, entered }),
            1 => any::<(u8, u16, bool, bool, u32, u8)>().prop_map(|thread| {
                let (prev_prio, prev_state, preempted, io_wait, next, next_prio) = thread;
                Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio }
            }),
            1 => (any::<(u32, u8, u16, u16, bool)>(), 0u8..5).prop_map(|(wakeup, context)| {
                let (wakee, prio, state, cpu, new) = wakeup;
                let context = WakeContext::from_bits(context);
                Body::Waking { wakee, prio, state, cpu, new, context }
            }),
            1 => any::<(u32, u8, u16, u16)>()
                .prop_map(|(thread, prio, from, to)| Body::Migrate { thread, prio, from, to }),
            1 => any::<[u32; 3]>().prop_map(|frames| Body::Stack(Stack {
                slept: Some(7),
                status: Status::Taken,
                cut: true,
                frames: frames.into(),
            })),
            1 => Just(Body::Fork(fork(1, 2, 3, 4, "x"))),
        ]
    }

    fn items() -> impl Strategy<Value = (Item, u64)> {
        let event = (any::<(u64, u16, u32)>(), bodies());
        let found =
            prop_oneof![Just((None, 0, 0, None)), any::<(Option<u64>, u16, u16, Option<u16>)>()];
        (event, found, any::<u64>()).prop_map(|(((time, cpu, tid), body), found, before)| {
            let (entered, queued_on, runs_on, woken_on) = found;
            let is_exit = matches!(body, Body::Exit { .. });
            let began = Began { from: before / 3, until: before / 2 };
            let began = (is_exit && before % 2 == 0).then_some(began);
            let found = Findings { entered, began, queued_on, runs_on, woken_on };
            (Item { found, ..Item::new(Event { time, cpu, tid, body }.into()) }, before)
        })
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            uses in prop::collection::vec(prop::collection::vec(items(), 0..40), 1..4),
        ) {
            let mut packed = Packed::default();
            for items in uses {
                let as_told = |(item, before): &(Item, u64)| {
                    ((*item.event).clone(), item.found, *before)
                };
                let expected: Vec<(Event, Findings, u64)> = items.iter().map(as_told).collect();
                for (mut item, before) in items {
                    packed.push(&mut item, before);
                }
                prop_assert_eq!(packed.len(), expected.len());
                let mut out = Vec::new();
                packed
                    .each(|event, found, before| {
                        // Whoever takes an event leaves any other in its place.
                        out.push((mem::take(event), *found, before));
                        Ok::<(), ()>(())
                    })
                    .unwrap();
                prop_assert_eq!(out, expected);
                packed.clear();
            }
        }
    }

    #[test]
    fn whoever_has_enough_gets_no_more() {
        let mut packed = Packed::default();
        for time in 0..5 {
            let fork = Event { time, cpu: 0, tid: 1, body: Body::Fork(fork(1, 2, 3, 4, "x")) };
            packed.push(&mut Item::new(fork.into()), 0);
            packed.push(&mut Item::new(Event { time, ..Event::default() }.into()), 0);
        }
        for enough in 0..10 {
            let mut taken = 0;
            let result = packed.each(|_, _, _| {
                taken += 1;
                if taken > enough { Err(()) } else { Ok(()) }
            });
            assert_eq!((result, taken), (Err(()), enough + 1));
        }
    }
}
