//! System calls: slices on the tracks of their threads.

use flightrec_format::decode::{Call, Event};
use flightrec_reader::pipeline::EventContext;

use super::field::slice;
use super::{Perfetto, Slice, TIME_MAX, note};
use crate::exporter::{Value, Words};

impl Perfetto {
    pub(super) fn enter(
        &mut self,
        event: &Event,
        call: &Call,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let time = event.time.min(TIME_MAX);
        let track = self.own_track(event, known);
        self.close(event, known, time);
        let name = self.interned.name(words.call(call));
        self.arguments(call, known, words);
        let category = self.interned.category("call");
        self.part(time, slice::BEGIN, &Slice { track, category, name });
        self.opened(event, known, Some((call.nr, call.abi as u8)), time);
    }

    pub(super) fn exit(
        &mut self,
        event: &Event,
        (call, ret, entered): (&Call, i64, Option<u64>),
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let time = event.time.min(TIME_MAX);
        let track = self.own_track(event, known);
        let who = Self::who(&self.labels, event, known);
        let thread = self.tracks.thread(&who, &mut self.packets);
        let (is_open, last) = (thread.open == Some((call.nr, call.abi as u8)), thread.last);
        let (name, category) =
            (self.interned.name(words.call(call)), self.interned.category("call"));
        let of = Slice { track, category, name };
        if !is_open {
            self.close(event, known, time);
            self.note("entry", Value::Text("not recorded"));
            if call.nargs > 0 || !call.strings.is_empty() {
                self.arguments(call, known, words);
            }
            let took = known.duration_ns.or(known.at_least_ns);
            let began = took.map(|ns| time.saturating_sub(ns)).or(entered).unwrap_or(time);
            self.part(began.max(last).min(time), slice::BEGIN, &of);
        }
        self.note("ret", Value::Signed(ret));
        if let Some(error) = words.error(call, ret) {
            note(&mut self.interned, &mut self.notes, "error", Value::Text(error));
        }
        self.part(time, slice::END, &of);
        self.opened(event, known, None, time);
    }

    /// The event's thread is in this call from now on.
    pub(super) fn opened(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        call: Option<(u16, u8)>,
        time: u64,
    ) {
        let who = Self::who(&self.labels, event, known);
        let thread = self.tracks.thread(&who, &mut self.packets);
        thread.open = call;
        thread.last = time;
    }

    /// Ends a call whose exit is not recorded.
    pub(super) fn close(&mut self, event: &Event, known: &EventContext<'_>, time: u64) {
        let who = Self::who(&self.labels, event, known);
        let thread = self.tracks.thread(&who, &mut self.packets);
        if thread.open.take().is_some() {
            let of = Slice { track: thread.track, category: 0, name: 0 };
            self.note("end", Value::Text("not recorded"));
            self.part(time, slice::END, &of);
        }
    }

    pub(super) fn arguments(
        &mut self,
        call: &Call,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let Self { interned, notes, .. } = self;
        words.arguments(call, known, &mut |key, value| note(interned, notes, key, value));
    }
}
