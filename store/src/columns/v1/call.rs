//! The model of system calls.
//!
//! A thread does again what it did before, and so do other threads that run the same program. So a
//! call is predicted by the one that once followed the same calls, its arguments either as they
//! were then, or, for addresses, at the same distance from the thread's last address of that
//! region: programs are loaded at random places. What is right costs a bit in one byte.

use super::super::column::{Column, RESULT as RESULT_PLANES, VALUE};
use super::super::stream::{Reading, Stream};
use super::record::{Call, RESULT, form};
use super::value::{self, region};

/// Slots of a table by the calls before.
const HISTORY_BITS: u32 = 10;
const HISTORY: usize = 1 << HISTORY_BITS;
/// Slots of the table by call: number, and form.
const CALLS: usize = 2048;
/// Calls before that the two tables look at.
const LONG: u32 = 4;
const SHORT: u32 = 2;

/// In [`Column::Miss`]: the call is not the predicted one, or not of its form. Bits 0 to 6: that
/// value is not as predicted.
const OTHER: u8 = 0x80;

/// In [`Column::Shape`], above the form: number, argument count, count of strings follow.
const NUMBER: u8 = 1 << 2;
const COUNT: u8 = 1 << 3;
const STRINGS: u8 = 1 << 4;

/// A call that was seen.
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
    /// The values' distances to the thread's anchors, of when one was last coded by more than a
    /// prediction of the whole call.
    distances: [u64; 7],
}

impl Past {
    /// A value's distance, from where the anchors are now.
    fn moved(&self, i: usize, anchors: &[u64; 4]) -> u64 {
        anchors[usize::from(self.areas >> (2 * i) & 3)].wrapping_add(self.distances[i])
    }

    /// What it predicts for a value.
    fn predict(&self, i: usize, anchors: &[u64; 4], flip: bool) -> u64 {
        select((self.relative >> i & 1 != 0) != flip, self.moved(i, anchors), self.values[i])
    }

    /// What it predicts for all values.
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

    fn is(&self, call: &Call) -> bool {
        self.tag != 0 && self.aux == call.aux && self.form == call.form
    }
}

/// One of two values, without a branch.
fn select(first: bool, one: u64, other: u64) -> u64 {
    other ^ (one ^ other) & u64::from(first).wrapping_neg()
}

/// What is known of a thread's calls.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// Its last calls, the last one lowest, 16 bits each.
    calls: u64,
    /// Its last values by region of the address space (`value::region`).
    anchors: [u64; 4],
    /// Arguments and result of its last call.
    last: [u64; 7],
    /// Result of the one before.
    result_before: u64,
}

/// Calls seen so far in a block.
pub(super) struct Calls {
    /// The first one is empty.
    past: Vec<Past>,
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
fn key(calls: u64, count: u32) -> (usize, u16) {
    let mixed = (calls << (64 - 16 * count)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> (64 - HISTORY_BITS)) as usize, (mixed >> 20) as u16 | 1)
}

/// The slot of a call in the table by call.
fn slot(call: &Call) -> usize {
    (usize::from(call.aux) ^ usize::from(call.form) << 9) % CALLS
}

/// The values that a call has, a bit each.
fn places(call: &Call) -> u8 {
    let arguments = (1u8 << call.count.min(RESULT as u8)) - 1;
    arguments | u8::from(call.form != form::ENTERED) << RESULT
}

/// Puts a call into a table's slot.
fn keep(past: &mut Vec<Past>, slot: &mut u16, call: &Past, tag: u16) {
    if *slot == 0 {
        *slot = past.len() as u16;
        past.push(Past::default());
    }
    if let Some(place) = past.get_mut(usize::from(*slot)) {
        place.clone_from(call);
        place.tag = tag;
    }
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            past: vec![Past::default()],
            long: Box::new([Tagged::default(); HISTORY]),
            short: Box::new([0; HISTORY]),
            same: Box::new([0; CALLS]),
        }
    }

    fn at(&self, place: u16) -> &Past {
        self.past.get(usize::from(place)).unwrap_or(&self.past[0])
    }

    /// The place of the call that followed the thread's last ones, and whether it is that of the
    /// longer history.
    fn next(&self, (long, tag): (usize, u16), short: usize) -> (u16, bool) {
        let next = self.long[long];
        if next.tag == tag { (next.place, true) } else { (self.short[short], false) }
    }

    /// Puts a call into the slot of the longer history.
    fn keep_long(&mut self, (slot, tag): (usize, u16), call: &Past) {
        let slot = &mut self.long[slot];
        keep(&mut self.past, &mut slot.place, call, tag);
        slot.tag = tag;
    }

    /// Reads a call of a thread. `now` is the time field that it would have at once.
    pub(super) fn read(
        &mut self,
        s: &mut Reading<'_>,
        thread: &mut History,
        call: &mut Call,
        now: u32,
    ) {
        let (long, (short, short_tag)) = (key(thread.calls, LONG), key(thread.calls, SHORT));
        let (place, known) = self.next(long, short);
        let miss = s.byte(Column::Miss, 0);
        if miss != 0 {
            self.other(s, thread, call, now, (place, known, miss), (long, short, short_tag));
        } else {
            let Some(next) = self.past.get_mut(usize::from(place)).filter(|next| next.tag != 0)
            else {
                return s.fail();
            };
            (call.aux, call.form, call.count, call.strings) =
                (next.aux, next.form, next.count, next.strings);
            call.values = next.all(&thread.anchors);
            next.values = call.values;
            times(s, call, now, &mut next.gap, &mut next.ticks);
            if !known {
                let next = next.clone();
                self.keep_long(long, &next);
            }
        }
        remember(thread, call);
    }

    /// Reads a call that is not wholly as predicted.
    fn other(
        &mut self,
        s: &mut Reading<'_>,
        thread: &mut History,
        call: &mut Call,
        now: u32,
        (place, known, miss): (u16, bool, u8),
        (long, short, short_tag): ((usize, u16), usize, u16),
    ) {
        let next = self.at(place);
        if miss & OTHER == 0 {
            (call.aux, call.form, call.count, call.strings) =
                (next.aux, next.form, next.count, next.strings);
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
        call.values = std::array::from_fn(|i| {
            if places >> i & 1 == 0 { 0 } else { guide.predict(i, &before, false) }
        });
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
            let moved = (guide.moved(i, &before) == value)
                & (usize::from(guide.areas >> (2 * i) & 3) == area);
            changed |= u8::from(still != moved) << i;
            relative |= u8::from(moved) << i;
        }
        new.relative = (guide.relative & !changed | relative & changed) & places;
        times(s, call, now, &mut new.gap, &mut new.ticks);
        // What the longer history got right, the shorter ones need not learn.
        if miss & OTHER != 0 || !known {
            keep(&mut self.past, &mut self.same[same], &new, 1);
            keep(&mut self.past, &mut self.short[short], &new, short_tag);
        }
        self.keep_long(long, &new);
    }

    /// Reads which call it is.
    fn shape(&self, s: &mut Reading<'_>, call: &mut Call, expected: u16) {
        let shape = s.byte(Column::Shape, 0);
        call.form = shape & 3;
        call.aux = expected;
        if shape & NUMBER != 0 {
            let low = s.byte(Column::CallLow, 0);
            call.aux = u16::from_le_bytes([low, s.byte(Column::CallHigh, 0)]);
        }
        let like = self.at(self.same[slot(call)]);
        let (count, strings) = (like.count, like.strings);
        call.count = if shape & COUNT == 0 { count } else { s.byte(Column::Count, 0) };
        call.strings = if shape & STRINGS == 0 { strings } else { s.byte(Column::Count, 0) };
        if call.count > 6 || call.form == form::EXITED && call.count > 0 {
            s.fail();
            call.count = 0;
        }
    }
}

/// Reads when a call was, and how long it took.
fn times(
    s: &mut Reading<'_>,
    call: &mut Call,
    now: u32,
    usual_gap: &mut u16,
    usual_ticks: &mut u16,
) {
    let gap = s.interval(Column::Gap, 0, usual_gap);
    call.upper = now.wrapping_add(gap);
    call.ticks = match call.form {
        form::FOLDED => s.interval(Column::Ticks, 0, usual_ticks),
        _ => 0,
    };
}

/// Brings a thread up to what a call says.
fn remember(thread: &mut History, call: &Call) {
    // What is no address has a place of its own, which is put right below. What the call does not
    // have is 0.
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
    let step = u64::from(call.aux & 0xfff)
        | u64::from(call.form) << 12
        | u64::from(failed) << 14
        | 1 << 15;
    thread.calls = thread.calls << 16 | step;
}

/// Reads a value that was not as predicted, and makes it the anchor of those behind it.
fn missed(
    s: &mut Reading<'_>,
    i: usize,
    call: &Call,
    guide: &Past,
    like: &Past,
    thread: &mut History,
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
    let columns =
        if i == RESULT { (Column::ResultSource, &RESULT_PLANES) } else { (Column::Source, &VALUE) };
    let value = value::read(s, columns, &candidates, anchors);
    let area = region(value);
    if area != 0 || i == 0 && value < 4096 {
        thread.anchors[area] = value;
    }
    value
}
