//! `report irq`: interrupts that took long.

use flightrec_analysis::groups::Order;
use flightrec_format::abi::kinds::{Interrupt, Kind};
use flightrec_format::decode::Body;
use flightrec_reader::threads::trim;

use super::{Column, Facts, Key, Needs, Report, Seen, Shape, Sums, Unit};

/// The table of interrupts.
pub(super) static SHAPE: Shape = Shape {
    name: "irq",
    keys: &[Key::Interrupt, Key::Cpu],
    default: &[Key::Interrupt],
    unit: Unit::Ns,
    value: "duration",
    counted: "TIMES",
    extras: &[],
    columns: &[
        Column::Count,
        Column::Total,
        Column::Average,
        Column::P50,
        Column::P99,
        Column::Max,
        Column::Share,
    ],
    partners: None,
    order: Order::Total,
    needs: Needs::EVENTS,
    remarks: &[
        "only interrupts that took long are recorded (flightd.toml, section interrupts); thread, \
         process and unit are those of whom they interrupted",
    ],
};

/// Adds up interrupts.
pub(super) struct Interrupts;

impl Report for Interrupts {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        let Body::Plain(plain) = &seen.event.body else { return };
        if !seen.is_wanted || plain.kind() != Kind::Interrupt {
            return;
        }
        let Some(of) = Interrupt::read(plain.bytes()) else { return };
        let mut name: Vec<u8> =
            format!("{} {} ", if of.class == 0 { "hardirq" } else { "softirq" }, of.number).into();
        name.extend_from_slice(trim(&of.name));
        let own = [(Key::Interrupt, &*name)];
        to.of(&Facts { own: &own, ..seen.facts() }).add(of.duration);
    }
}
