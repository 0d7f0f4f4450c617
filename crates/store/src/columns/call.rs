//! The model of system calls.
//!
//! A thread does again what it did before, and so do other threads that run the same program: a
//! call is predicted to be the one that once followed the same three calls. Where it is not, the
//! words of its record tell which of them differ, and by how much. Arguments are not taken apart:
//! the difference of two words has few bytes that are not 0, wherever in the word they stand.

use super::column::Column;
use super::record::{Call, RESULT, What, form};
use super::seen::Seen;
use super::stream::Stream;

/// Bits of a slot's number in the table by the calls before.
const HISTORY_BITS: u32 = 11;
const HISTORY: usize = 1 << HISTORY_BITS;
/// Slots of the table by call.
const CALLS: usize = 1024;
/// Calls before that the prediction looks at, 16 bits each.
const BEFORE: u32 = 3;

/// Bits of [`Column::Miss`] above those of [`Call::differs`]: it is another call.
const CALL: u8 = RESULT << 1;
/// What comes is told by [`Column::Op`].
pub(super) const OTHER: u8 = 0x80;

const _: () = assert!(CALL << 1 == OTHER);

/// In [`Column::Shape`], above the form: the length and the number of strings follow.
const LENGTH: u8 = 1 << 2;

/// Calls seen so far in a block.
pub(super) struct Calls {
    /// By the thread's last calls.
    next: Table<HISTORY>,
    /// By the call itself, as it was when it was last not wholly as predicted.
    same: Table<CALLS>,
}

/// Calls by slot.
struct Table<const N: usize>(Box<[Call; N]>);

impl<const N: usize> Table<N> {
    fn new() -> Self {
        // Made where it stays: it is too large for the stack.
        let calls = vec![Call::NONE; N].into_boxed_slice();
        Self(calls.try_into().unwrap_or_else(|_| Box::new([Call::NONE; N])))
    }
}

/// The slot of a thread's last calls.
#[inline]
fn slot(history: u64) -> usize {
    ((history << (64 - 16 * BEFORE)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HISTORY_BITS))
        as usize
}

/// The slot of a call in the table by call.
#[inline]
fn place(what: What) -> usize {
    (usize::from(what.aux()) ^ usize::from(what.form() == form::EXITED) << 9) % CALLS
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { next: Table::new(), same: Table::new() }
    }

    /// Forgets all, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.next.0.fill(Call::NONE);
        self.same.0.fill(Call::NONE);
    }

    /// What [`Column::Miss`] says of a call; `history` are the calls of its thread.
    #[inline(always)]
    pub(super) fn misses(&self, history: u64, call: &Call) -> u8 {
        let next = &self.next.0[slot(history)];
        if next.what == call.what {
            return call.differs(next);
        }
        // Of one that is longer, what is after this one's end does not matter.
        let own = (1u8 << call.what.arguments().div_ceil(2)) - 1;
        CALL | call.differs(&self.same.0[place(call.what)]) & (own | RESULT)
    }

    /// Codes a call, but for its times; `miss` is what [`Self::misses`] says of it.
    #[inline(always)]
    pub(super) fn code<S: Stream>(
        &mut self,
        s: &mut S,
        history: &mut u64,
        call: &mut Call,
        miss: u8,
        seen: &mut Seen,
    ) {
        let slot = slot(*history);
        if miss == 0 {
            let next = &self.next.0[slot];
            if S::WRITES {
                call.fine = next.fine;
            } else {
                call.set(next, S::CONTENTS);
            }
        } else {
            self.missed(s, slot, call, miss, seen);
        }
        if call.what == What::NONE {
            s.fail();
        }
        *history = *history << 16 | call.step();
    }

    /// Codes a call that is not wholly as predicted.
    #[inline(never)]
    fn missed<S: Stream>(
        &mut self,
        s: &mut S,
        slot: usize,
        call: &mut Call,
        miss: u8,
        seen: &mut Seen,
    ) {
        let known = miss & CALL == 0;
        let what = if known { self.next.0[slot].what } else { self.what(s, call.what) };
        let place = place(what);
        let (next, same) = (&mut self.next.0[slot], &mut self.same.0[place]);
        let guide = if known { *next } else { *same };
        // What is known from now on is the guide, but for what differs. That is stored word by
        // word after the rest: a processor waits where it copies at once what it stored in
        // smaller pieces.
        let new = Call { what, ..guide };
        next.set(&new, S::CONTENTS);
        same.set(&new, S::CONTENTS);
        if S::WRITES {
            call.fine = guide.fine;
            if what.form() == form::ENTERED {
                call.result = guide.result;
            }
        } else {
            call.set(&new, S::CONTENTS);
        }
        let mut words = if S::CONTENTS { miss & (RESULT - 1) } else { 0 };
        while words != 0 {
            let i = words.trailing_zeros() as usize;
            words &= words - 1;
            let expected = guide.words[i];
            let columns = [Column::Source, Column::Value];
            let word =
                expected.wrapping_add(s.difference(columns, call.words[i].wrapping_sub(expected)));
            (call.words[i], next.words[i], same.words[i]) = (word, word, word);
        }
        if miss & RESULT != 0 {
            let columns = [Column::ResultSource, Column::Result];
            let result = guide
                .result
                .wrapping_add(s.difference(columns, call.result.wrapping_sub(guide.result)));
            (call.result, next.result, same.result) = (result, result, result);
        }
        // Whether the arguments are as long as they say, the head in the first of their words
        // tells.
        if miss & CALL != 0 || (call.words[0] ^ guide.words[0]) as u16 != 0 {
            call.tidy();
            next.set(call, S::CONTENTS);
            same.set(call, S::CONTENTS);
            if S::WRITES {
                seen.shape(call);
            }
        }
        if S::WRITES && miss & (CALL | RESULT) != 0 && what.form() != form::ENTERED {
            seen.result(what.aux(), call.result as i64);
        }
    }

    /// Codes which call it is.
    fn what<S: Stream>(&self, s: &mut S, what: What) -> What {
        let like = |what| self.same.0[place(what)].what;
        let as_like = |what: What| {
            (like(what).length(), like(what).strings()) == (what.length(), what.strings())
        };
        let shape = s.byte(Column::Shape, what.form() | if as_like(what) { 0 } else { LENGTH });
        let [low, high] = what.aux().to_le_bytes();
        let aux =
            u16::from_le_bytes([s.byte(Column::CallLow, low), s.byte(Column::CallHigh, high)]);
        let like = like(What::new(shape & 3, aux, 0, 0));
        let (length, strings) = if shape & LENGTH == 0 {
            (like.length(), like.strings())
        } else {
            (s.byte(Column::Count, what.length()), s.byte(Column::Count, what.strings()))
        };
        let what = What::new(shape & 3, aux, length, strings);
        if !what.is_call() {
            s.fail();
        }
        what
    }
}
