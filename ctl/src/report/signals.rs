//! `report signals`: which signals were sent, by whom, to whom.

use flightrec_analysis::groups::Order;
use flightrec_format::abi::field::Value;
use flightrec_format::abi::kinds::{Kind, SignalGenerate};
use flightrec_format::decode::Body;
use flightrec_reader::names::signal;
use flightrec_reader::threads::trim;

use super::{Column, Facts, Key, Needs, Report, Seen, Shape, Sums, Unit};

/// The table of signals.
pub(super) static SHAPE: Shape = Shape {
    name: "signals",
    keys: &[Key::Signal, Key::Target, Key::Result, Key::Cpu],
    default: &[Key::Signal, Key::Comm, Key::Target, Key::Result],
    unit: Unit::None,
    value: "",
    counted: "SIGNALS",
    extras: &[],
    columns: &[Column::Count, Column::Share],
    partners: None,
    order: Order::Count,
    needs: Needs::EVENTS,
    remarks: &[
        "thread, process and unit are those of the sender; of a signal by the kernel, those of the \
         thread in whose context it was sent",
    ],
};

/// Counts signals where they are sent.
pub(super) struct Signals;

impl Report for Signals {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        let Body::Plain(plain) = &seen.event.body else { return };
        if !seen.is_wanted || plain.kind() != Kind::SignalGenerate {
            return;
        }
        let Some(of) = SignalGenerate::read(plain.bytes()) else { return };
        let signal = signal(of.signal).unwrap_or_else(|| of.signal.to_string().into());
        let mut target = trim(&of.target_comm).to_vec();
        if to.is_by(Key::Target) && to.is_by(Key::Pid) {
            target.extend_from_slice(format!(" ({})", of.target_pid).as_bytes());
        }
        let named = plain.fields().find(|(field, _)| field.name == "result");
        let result = named.and_then(|(field, value)| match (field.unit, value) {
            (flightrec_format::abi::kinds::Unit::OneOf(names), Value::Unsigned(value)) => {
                names.iter().find(|(of, _)| *of == value).map(|(_, name)| *name)
            }
            _ => None,
        });
        let own = [
            (Key::Signal, signal.as_bytes()),
            (Key::Target, &*target),
            (Key::Result, result.unwrap_or("unknown").as_bytes()),
        ];
        to.of(&Facts { own: &own, ..seen.facts() }).add_untold();
    }
}
