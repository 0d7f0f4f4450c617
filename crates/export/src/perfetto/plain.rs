//! Kinds of event that have fields only: slices and instants.

use flightrec_format::abi::kinds::{BlockIssue, Interrupt, Kind, Value as FieldValue};
use flightrec_format::abi::record::WakeContext;
use flightrec_format::decode::{Event, Plain};
use flightrec_reader::pipeline::EventContext;

use super::field::slice;
use super::tracks::Of;
use super::{Perfetto, Slice, TIME_MAX};
use crate::exporter::{Value, Words};

impl Perfetto {
    pub(super) fn plain(
        &mut self,
        event: &Event,
        plain: &Plain,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let kind = plain.kind();
        let until = event.time.min(TIME_MAX);
        let took = match kind {
            Kind::BlockComplete => known.request.and_then(|request| request.service_ns),
            Kind::IoComplete => known.operation.map(|operation| operation.duration_ns),
            Kind::Function => known.function.and_then(|call| call.duration_ns),
            _ => duration(plain),
        };
        let title = match kind {
            Kind::Interrupt => "name",
            Kind::Function => "function",
            Kind::SignalGenerate | Kind::SignalDeliver => "signal",
            Kind::BlockInsert | Kind::BlockIssue | Kind::BlockComplete | Kind::IoComplete => "op",
            _ => "",
        };
        let name = self.fields(event, known, words, title);
        let name = name.unwrap_or_else(|| kind.name().to_owned());
        self.note("tid", Value::Unsigned(u64::from(event.tid)));
        let from = until.saturating_sub(took.unwrap_or(0));
        let is_threads = event.tid != 0 && context(plain).is_none_or(|c| c == WakeContext::Thread);
        let who = Self::who(&self.labels, event, known);
        let Self { tracks, packets, .. } = self;
        let track = match kind {
            Kind::BlockInsert | Kind::BlockIssue | Kind::BlockComplete => {
                let device = BlockIssue::read(plain.bytes()).map_or(0, |of| of.device);
                tracks.stretch(Of::Disk(self.devices.name(device)), from, until, packets)
            }
            Kind::Interrupt => {
                let class = Interrupt::read(plain.bytes()).map_or(0, |of| of.class);
                let name = if class == 0 { "interrupts" } else { "softirqs" };
                tracks.stretch(Of::Cpu(name, event.cpu), from, until, packets)
            }
            Kind::Throttle => tracks.stretch(Of::Cpu("throttled", event.cpu), from, until, packets),
            Kind::Function if is_threads => tracks.below(&who, "Functions", (from, until), packets),
            _ if took.is_some() && is_threads => {
                tracks.below(&who, "Kernel", (from, until), packets)
            }
            _ if took.is_some() || event.tid == 0 => {
                tracks.stretch(Of::Cpu("events", event.cpu), from, until, packets)
            }
            _ => tracks.thread(&who, packets).track,
        };
        let category = self.interned.category(kind.name());
        let name = self.interned.name(&name);
        let of = Slice { track, category, name };
        if took.is_some() {
            self.stretch(from, until, &of);
        } else {
            self.part(until, slice::INSTANT, &of);
        }
    }
}

/// How long a thing took that is told at its end.
fn duration(plain: &Plain) -> Option<u64> {
    let mut found = plain.fields().filter(|(field, _)| field.name == "duration");
    match found.next() {
        Some((_, FieldValue::Unsigned(ns))) => Some(ns),
        _ => None,
    }
}

/// In what it ran, where the event tells.
fn context(plain: &Plain) -> Option<WakeContext> {
    let mut found = plain.fields().filter(|(field, _)| field.name == "context");
    match found.next() {
        Some((_, FieldValue::Unsigned(context))) => Some(WakeContext::from_bits(context as u8)),
        _ => None,
    }
}
