//! The model of system calls.
//!
//! A thread does again what it did before, and so do other threads that run the same program. So a call is predicted by the
//! one that once followed the same calls, its arguments either as they were then, or, for addresses, at the same
//! distance from the thread's last address of that region: programs are loaded at random places. What is right
//! costs a bit in one byte.

use super::column::{Column, RESULT as RESULT_PLANES, VALUE};
use super::record::{Call, Packed, RESULT, form, strings};
use super::stream::{Stream, Writing};
use super::threads::Thread;
use super::value::{self, region};

/// Slots of a table by the calls before.
const HISTORY_BITS: u32 = 10;
const HISTORY: usize = 1 << HISTORY_BITS;
/// Slots of the table by call: number, and form.
const CALLS: usize = 2048;
/// Calls before that the two tables look at.
const LONG: u32 = 4;
const SHORT: u32 = 2;

/// In [`Column::Miss`]: the call is not the predicted one, or not of its form. Bits 0 to 6: that value is not as predicted.
const OTHER: u8 = 0x80;

/// In [`Column::Shape`], above the form: number, argument count, count of strings follow.
const NUMBER: u8 = 1 << 2;
const COUNT: u8 = 1 << 3;
const STRINGS: u8 = 1 << 4;

/// A call that was seen. Two cache lines, which processors fetch as a pair.
#[repr(align(128))]
#[derive(Debug, Clone, Default)]
struct Past {
    /// What came before it; 0 in the empty entry alone.
    tag: u16,
    aux: u16,
    form: u8,
    count: u8,
    strings: u8,
    /// By value: whether its distance is predicted, not itself.
    relative: u8,
    /// By value, two bits each: the anchor that its distance is to.
    areas: u16,
    /// Usual steps (`Stream::interval`) of the time before it, and of its duration.
    gap: u16,
    ticks: u16,
    values: [u64; 7],
    /// The values' distances to the thread's anchors, of when one was last coded by more than a prediction of the whole call.
    distances: [u64; 7],
}

impl Past {
    /// A value's distance, from where the anchors are now.
    #[inline]
    fn moved(&self, i: usize, anchors: &[u64; 4]) -> u64 {
        anchors[usize::from(self.areas >> (2 * i) & 3)].wrapping_add(self.distances[i])
    }

    /// What it predicts for a value.
    #[inline]
    fn predict(&self, i: usize, anchors: &[u64; 4], flip: bool) -> u64 {
        select((self.relative >> i & 1 != 0) != flip, self.moved(i, anchors), self.values[i])
    }

    /// What it predicts for all values.
    #[inline]
    fn all(&self, anchors: &[u64; 4]) -> [u64; 7] {
        let mut all = self.values;
        if self.relative != 0 {
            for (i, value) in all.iter_mut().enumerate() {
                if self.relative >> i & 1 != 0 {
                    *value = self.moved(i, anchors);
                }
            }
        }
        all
    }

    #[inline]
    fn is(&self, call: &Call) -> bool {
        self.tag != 0 && self.aux == call.aux && self.form == call.form
    }
}

/// One of two values, without a branch.
#[inline]
fn select(first: bool, one: u64, other: u64) -> u64 {
    other ^ (one ^ other) & u64::from(first).wrapping_neg()
}

/// Calls seen so far in a block.
pub(super) struct Calls {
    /// The first one is empty.
    past: Vec<Past>,
    /// What they were taken from, at the same places: where columns are written.
    packed: Vec<Packed>,
    /// Places in `past`, by the last calls, and by the call itself.
    long: Box<[Tagged; HISTORY]>,
    short: Box<[u16; HISTORY]>,
    same: Box<[u16; CALLS]>,
}

/// A place in `past`, and the tag of what is there: another one is seen without going there.
#[derive(Debug, Clone, Copy, Default)]
struct Tagged {
    place: u16,
    tag: u16,
}

/// The slot and the tag of a thread's last calls.
#[inline]
fn key(calls: u64, count: u32) -> (usize, u16) {
    let mixed = (calls << (64 - 16 * count)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> (64 - HISTORY_BITS)) as usize, (mixed >> 20) as u16 | 1)
}

/// The slot of a call in the table by call.
#[inline]
fn slot(call: &Call) -> usize {
    (usize::from(call.aux) ^ usize::from(call.form) << 9) % CALLS
}

/// The values that a call has, a bit each.
#[inline]
fn places(call: &Call) -> u8 {
    let arguments = (1u8 << call.count.min(RESULT as u8)) - 1;
    arguments | u8::from(call.form != form::ENTERED) << RESULT
}

/// Puts a call into a table's slot.
#[inline]
fn keep<S: Stream>(
    (past, packed): (&mut Vec<Past>, &mut Vec<Packed>),
    slot: &mut u16,
    (call, record): (&Past, &Packed),
    tag: u16,
) {
    if *slot == 0 {
        *slot = past.len() as u16;
        past.push(Past::default());
        if S::WRITES {
            packed.push(Packed::default());
        }
    }
    if let Some(place) = past.get_mut(usize::from(*slot)) {
        place.clone_from(call);
        place.tag = tag;
    }
    if let Some(place) = packed.get_mut(usize::from(*slot)) {
        *place = *record;
    }
}

impl Calls {
    pub(super) fn new() -> Self {
        let (past, packed) = (vec![Past::default()], vec![Packed::default()]);
        Self {
            past,
            packed,
            long: Box::new([Tagged::default(); HISTORY]),
            short: Box::new([0; HISTORY]),
            same: Box::new([0; CALLS]),
        }
    }

    /// Forgets all but the empty entry, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.past.truncate(1);
        self.packed.truncate(1);
        self.long.fill(Tagged::default());
        self.short.fill(0);
        self.same.fill(0);
    }

    #[inline]
    fn at(&self, place: u16) -> &Past {
        self.past.get(usize::from(place)).unwrap_or(&self.past[0])
    }

    /// The place of the call that followed the thread's last ones, and whether it is that of the longer history.
    #[inline]
    fn next(&self, (long, tag): (usize, u16), short: usize) -> (u16, bool) {
        let next = self.long[long];
        if next.tag == tag { (next.place, true) } else { (self.short[short], false) }
    }

    /// Puts a call into the slot of the longer history.
    #[inline]
    fn keep_long<S: Stream>(&mut self, (slot, tag): (usize, u16), call: (&Past, &Packed)) {
        let slot = &mut self.long[slot];
        keep::<S>((&mut self.past, &mut self.packed), &mut slot.place, call, tag);
        slot.tag = tag;
    }

    /// Codes a call of a thread. `now` is the time field that it would have at once.
    #[inline]
    pub(super) fn code<S: Stream>(&mut self, s: &mut S, thread: &mut Thread, call: &mut Call, now: u32) {
        let (long, (short, short_tag)) = (key(thread.calls, LONG), key(thread.calls, SHORT));
        let (place, known) = self.next(long, short);
        let miss = s.byte(Column::Miss, if S::WRITES { self.misses(self.at(place), thread, call) } else { 0 });
        if miss != 0 {
            self.other(s, thread, call, now, (place, known, miss), (long, short, short_tag));
        } else {
            let Some(next) = self.past.get_mut(usize::from(place)).filter(|next| next.tag != 0) else {
                return s.fail();
            };
            if !S::WRITES {
                (call.aux, call.form, call.count, call.strings) = (next.aux, next.form, next.count, next.strings);
                call.values = next.all(&thread.anchors);
            }
            next.values = call.values;
            times(s, call, now, &mut next.gap, &mut next.ticks);
            if let Some(packed) = self.packed.get_mut(usize::from(place)) {
                *packed = call.packed;
            }
            if !known {
                let next = next.clone();
                self.keep_long::<S>(long, (&next, &call.packed));
            }
        }
        remember(thread, call);
    }

    /// Writes the call at the front of a page's words, where it is wholly as predicted and its arguments are what they were
    /// the last time: most are, and that is seen without taking them apart. It writes what [`Self::code`] writes. Returns the
    /// record's length, the number of strings that follow it, and the call's number and table, its time and its ticks.
    #[inline]
    pub(super) fn again(
        &mut self,
        s: &mut Writing,
        thread: &mut Thread,
        words: &[[u8; 8]],
        now: u32,
    ) -> Option<(usize, u8, u16, u32, u32)> {
        let ((long, tag), (short, _)) = (key(thread.calls, LONG), key(thread.calls, SHORT));
        let (place, known) = self.next((long, tag), short);
        let (length, result, ticks) = self.packed.get(usize::from(place))?.again(words)?;
        let next = self.past.get_mut(usize::from(place))?;
        let strings = strings(words.get(length..).unwrap_or_default());
        if next.form != form::FOLDED
            || next.strings != strings
            || next.predict(RESULT, &thread.anchors, false) != result
        {
            return None;
        }
        let mut relative = next.relative & !(1 << RESULT);
        while relative != 0 {
            let i = relative.trailing_zeros() as usize;
            relative &= relative - 1;
            if next.moved(i, &thread.anchors) != next.values[i] {
                return None;
            }
        }
        s.byte(Column::Op, 0);
        s.byte(Column::Miss, 0);
        next.values[RESULT] = result;
        let upper = (super::record::word(words, 0) >> 32) as u32;
        let mut call = Call { form: form::FOLDED, upper, ticks, ..Call::default() };
        times(s, &mut call, now, &mut next.gap, &mut next.ticks);
        (call.aux, call.count, call.values) = (next.aux, next.count, next.values);
        if !known {
            let (next, packed) = (next.clone(), self.packed.get(usize::from(place)).copied().unwrap_or_default());
            self.keep_long::<Writing>((long, tag), (&next, &packed));
        }
        remember(thread, &call);
        Some((length, strings, call.aux, upper, ticks))
    }

    /// Codes a call that is not wholly as predicted.
    fn other<S: Stream>(
        &mut self,
        s: &mut S,
        thread: &mut Thread,
        call: &mut Call,
        now: u32,
        (place, known, miss): (u16, bool, u8),
        (long, short, short_tag): ((usize, u16), usize, u16),
    ) {
        let next = self.at(place);
        if miss & OTHER == 0 {
            (call.aux, call.form, call.count, call.strings) = (next.aux, next.form, next.count, next.strings);
        } else {
            self.shape(s, call, next.aux);
        }
        let same = slot(call);
        let like = self.at(self.same[same]);
        let next = self.at(place);
        let guide = if next.is(call) { next } else { like };
        let places = places(call);
        let mut new = Past {
            tag: 0,
            aux: call.aux,
            form: call.form,
            count: call.count,
            strings: call.strings,
            ..Past::default()
        };
        (new.gap, new.ticks) = (guide.gap, guide.ticks);
        let before = thread.anchors;
        if !S::WRITES {
            call.values =
                std::array::from_fn(|i| if places >> i & 1 == 0 { 0 } else { guide.predict(i, &before, false) });
        }
        let mut missing = miss & places;
        while missing != 0 {
            let i = missing.trailing_zeros() as usize;
            missing &= missing - 1;
            call.values[i] = missed(s, i, call, guide, like, thread, &before);
        }
        new.values = call.values;
        let (mut changed, mut relative) = (0, 0);
        for i in 0..=RESULT {
            let value = call.values[i];
            let area = region(value);
            let there = u64::from(places >> i & 1).wrapping_neg();
            new.distances[i] = value.wrapping_sub(before[area]) & there;
            new.areas |= (area as u16) << (2 * i);
            let still = guide.values[i] == value;
            let moved = (guide.moved(i, &before) == value) & (usize::from(guide.areas >> (2 * i) & 3) == area);
            changed |= u8::from(still != moved) << i;
            relative |= u8::from(moved) << i;
        }
        new.relative = (guide.relative & !changed | relative & changed) & places;
        times(s, call, now, &mut new.gap, &mut new.ticks);
        // What the longer history got right, the shorter ones need not learn.
        if miss & OTHER != 0 || !known {
            keep::<S>((&mut self.past, &mut self.packed), &mut self.same[same], (&new, &call.packed), 1);
            keep::<S>((&mut self.past, &mut self.packed), &mut self.short[short], (&new, &call.packed), short_tag);
        }
        self.keep_long::<S>(long, (&new, &call.packed));
    }

    /// What [`Column::Miss`] says of a call.
    #[inline]
    fn misses(&self, next: &Past, thread: &Thread, call: &Call) -> u8 {
        let is = next.is(call);
        let as_predicted = is && next.count == call.count && next.strings == call.strings;
        let guide = if is { next } else { self.at(self.same[slot(call)]) };
        let predicted = guide.all(&thread.anchors);
        let mut miss = 0;
        for (i, (predicted, value)) in predicted.iter().zip(&call.values).enumerate() {
            miss |= u8::from(predicted != value) << i;
        }
        miss & places(call) | if as_predicted { 0 } else { OTHER }
    }

    /// Codes which call it is.
    fn shape<S: Stream>(&self, s: &mut S, call: &mut Call, expected: u16) {
        let like = self.at(self.same[slot(call)]);
        let mut shape = call.form;
        for (differs, bit) in
            [(call.aux != expected, NUMBER), (call.count != like.count, COUNT), (call.strings != like.strings, STRINGS)]
        {
            shape |= if differs { bit } else { 0 };
        }
        let shape = s.byte(Column::Shape, shape);
        call.form = shape & 3;
        if shape & NUMBER != 0 {
            let low = s.byte(Column::CallLow, call.aux as u8);
            call.aux = u16::from_le_bytes([low, s.byte(Column::CallHigh, (call.aux >> 8) as u8)]);
        } else {
            call.aux = expected;
        }
        let like = self.at(self.same[slot(call)]);
        let (count, strings) = (like.count, like.strings);
        call.count = if shape & COUNT == 0 { count } else { s.byte(Column::Count, call.count) };
        call.strings = if shape & STRINGS == 0 { strings } else { s.byte(Column::Count, call.strings) };
        if call.count > 6 || call.form == form::EXITED && call.count > 0 {
            s.fail();
            call.count = 0;
        }
    }
}

/// Codes when a call was, and how long it took.
#[inline]
fn times<S: Stream>(s: &mut S, call: &mut Call, now: u32, usual_gap: &mut u16, usual_ticks: &mut u16) {
    let gap = s.interval(Column::Gap, call.upper.wrapping_sub(now), usual_gap);
    call.upper = now.wrapping_add(gap);
    call.ticks = match call.form {
        form::FOLDED => s.interval(Column::Ticks, call.ticks, usual_ticks),
        _ => 0,
    };
}

/// Brings a thread up to what a call says.
#[inline]
fn remember(thread: &mut Thread, call: &Call) {
    // What is no address has a place of its own, which is put right below. What the call does not have is 0.
    let small = thread.anchors[0];
    for value in call.values {
        thread.anchors[region(value)] = value;
    }
    thread.anchors[0] = small;
    // Small ones that the next call may take up: descriptors.
    for value in [call.values[0], call.values[RESULT]] {
        if (3..4096).contains(&value) {
            thread.anchors[0] = value;
        }
    }
    thread.result_before = thread.last[RESULT];
    thread.last = call.values;
    let failed = (call.values[RESULT] as i64) < 0;
    let step = u64::from(call.aux & 0xfff) | u64::from(call.form) << 12 | u64::from(failed) << 14 | 1 << 15;
    thread.calls = thread.calls << 16 | step;
}

/// Codes a value that was not as predicted, and makes it the anchor of those behind it.
#[inline]
fn missed<S: Stream>(
    s: &mut S,
    i: usize,
    call: &Call,
    guide: &Past,
    like: &Past,
    thread: &mut Thread,
    before: &[u64; 4],
) -> u64 {
    let anchors = &thread.anchors;
    let candidates = [
        guide.predict(i, before, true),
        guide.predict(i, anchors, false),
        guide.predict(i, anchors, true),
        like.predict(i, anchors, false),
        like.predict(i, anchors, true),
        thread.last[i],
        thread.last[RESULT],
        thread.last[0],
        if i > 2 { call.values[2] } else { 0 },
        thread.result_before,
    ];
    let columns = if i == RESULT { (Column::ResultSource, &RESULT_PLANES) } else { (Column::Source, &VALUE) };
    let value = value::code(s, columns, call.values[i], &candidates, anchors);
    let area = region(value);
    if area != 0 || i == 0 && value < 4096 {
        thread.anchors[area] = value;
    }
    value
}
