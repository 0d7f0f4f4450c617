//! What events mean, in the words of the text and of the JSON lines.

use std::sync::Arc;

use flightrec_export::printable::printable;
use flightrec_export::{self as export, Value};
use flightrec_format::abi::record::NR_INVALID;
use flightrec_format::architecture::Architecture;
use flightrec_format::decode::{Call, Event};
use flightrec_format::meta::Meta;
use flightrec_reader::fds::Naming;
use flightrec_reader::names::errno;
use flightrec_reader::pipeline::EventContext;

use super::members;
use crate::json::Renderer;
use crate::text::argument::{self, Kind, Number};
use crate::text::call::{Result, bare_name};
use crate::text::plan::Plans;

/// Whether every event has it, so that exporters know it by themselves.
fn is_common(name: &str) -> bool {
    matches!(name, "time" | "mono_ns" | "cpu" | "tid" | "pid" | "comm" | "event")
}

/// The words of a recording.
pub(super) struct Words {
    plans: Arc<Plans>,
    json: Renderer,
    /// Where a name or a value is made.
    text: Vec<u8>,
}

impl Words {
    pub(super) fn new(meta: &Meta, fds: Naming) -> Self {
        let json = Renderer::new(meta, false, []).name_fds(fds);
        Self { plans: Arc::new(Plans::new(meta)), json, text: Vec::new() }
    }
}

impl export::Words for Words {
    fn call(&mut self, call: &Call) -> &str {
        self.text.clear();
        match self.plans.get(call.abi, call.nr).filter(|_| call.nr != NR_INVALID) {
            Some(plan) => self.text.extend_from_slice(&plan.name),
            None => bare_name(None, call, &mut self.text),
        }
        std::str::from_utf8(&self.text).unwrap_or("?")
    }

    fn descriptors(&mut self, call: &Call) -> u8 {
        let plan = self.plans.get(call.abi, call.nr).filter(|_| call.nr != NR_INVALID);
        let kinds = plan.and_then(|plan| plan.arguments.as_deref()).unwrap_or_default();
        let is_one = |kind: &Kind| matches!(kind, Kind::Descriptor | Kind::Directory);
        let bits = (0_u32..).zip(kinds).filter(|(_, kind)| is_one(kind));
        bits.fold(0, |all, (index, _)| all | 1_u8.checked_shl(index).unwrap_or(0))
    }

    fn arguments(
        &mut self,
        call: &Call,
        known: &EventContext<'_>,
        each: &mut dyn FnMut(&str, Value<'_>),
    ) {
        if call.nr == NR_INVALID {
            // The only argument is the number itself.
            return;
        }
        let recorded = usize::from(call.nargs).min(call.args.len());
        let Self { plans, text, .. } = self;
        let (machine, plan) = (plans.architecture, plans.get(call.abi, call.nr));
        let kinds = plan.and_then(|plan| plan.arguments.as_deref().map(|kinds| (kinds, plan)));
        let Some((kinds, plan)) = kinds else {
            for index in 0..recorded {
                let number = argument::number(Kind::Unknown, false, call, index);
                value(
                    (machine, Kind::Unknown),
                    call,
                    index,
                    Some(number),
                    known,
                    text,
                    &mut |value| {
                        each(ARGUMENTS.get(index).copied().unwrap_or("arg"), value);
                    },
                );
            }
            return;
        };
        for (index, (kind, label)) in kinds.iter().zip(&plan.labels).enumerate() {
            // Strings are recorded by themselves: a later one may still be there.
            if index >= recorded && call.strings.iter().all(|text| text.argument() < index) {
                return;
            }
            let number =
                (index < recorded).then(|| argument::number(*kind, label.signed, call, index));
            let name = std::str::from_utf8(&label.name).unwrap_or("?");
            let is_taken =
                value((machine, *kind), call, index, number, known, text, &mut |value| {
                    each(name, value);
                });
            if !is_taken {
                return;
            }
        }
    }

    fn error(&mut self, call: &Call, ret: i64) -> Option<&str> {
        let result = Result::new(self.plans.get(call.abi, call.nr), call, ret);
        let error = result.error()?;
        self.text.clear();
        match errno(error) {
            Some(name) => self.text.extend_from_slice(name.as_bytes()),
            None => self.text.extend_from_slice(error.to_string().as_bytes()),
        }
        std::str::from_utf8(&self.text).ok()
    }

    fn fields(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        each: &mut dyn FnMut(&str, Value<'_>),
    ) {
        self.text.clear();
        self.json.fields(event, known, &mut self.text);
        let mut give = |name: &str, value: Value<'_>| {
            if !is_common(name) {
                each(name, value);
            }
        };
        // What this program writes reads.
        let _ = members::read(&self.text, &mut give);
    }
}

/// Names of arguments of a call that has none.
const ARGUMENTS: [&str; 6] = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"];

/// Gives an argument's value; `false`: the call does not take it, nor what stands after it.
fn value(
    (machine, kind): (Architecture, Kind),
    call: &Call,
    index: usize,
    number: Option<Number>,
    known: &EventContext<'_>,
    text: &mut Vec<u8>,
    give: &mut dyn FnMut(Value<'_>),
) -> bool {
    if let Some(number) = number.filter(|number| argument::reads_as(kind, *number))
        && !argument::has_name(kind, call, index, known.fds)
    {
        give(match number {
            Number::Signed(number) => Value::Signed(number),
            Number::Unsigned(number) => Value::Unsigned(number),
        });
        return true;
    }
    text.clear();
    let string = match kind {
        Kind::Pointer | Kind::Unknown => argument::recorded_string(call, index),
        _ => None,
    };
    if let Some(string) = string {
        let (head, tail) = string.parts();
        if tail.is_none() && !string.is_cut() {
            give(Value::Text(&printable(head)));
            return true;
        }
        let tail = tail.map(printable).unwrap_or_default();
        give(Value::Text(&format!("{}...{tail}", printable(head))));
        return true;
    }
    let is_there = number.is_some() || call.strings.iter().any(|text| text.argument() == index);
    if !is_there {
        give(Value::Text("..."));
        return true;
    }
    if !argument::write_named(kind, machine, call, index, known.fds, text) {
        return false;
    }
    give(Value::Text(&printable(text)));
    true
}
