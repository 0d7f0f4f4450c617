//! `report functions`: which functions run, by samples.

use std::sync::Arc;

use flightrec_analysis::groups::Order;
use flightrec_format::decode::{Body, Sample};
use flightrec_reader::Session;
use flightrec_reader::binaries::Binaries;

use super::{Column, Extra, Facts, Key, Needs, Report, Seen, Shape, Sums, Unit};
use crate::text::sample;
use crate::text::stack::is_entry;

const USER: usize = 0;
const KERNEL: usize = 1;

/// The table of functions.
pub(super) static SHAPE: Shape = Shape {
    name: "functions",
    keys: &[Key::Function, Key::Stack, Key::Cpu],
    default: &[Key::Function],
    unit: Unit::None,
    value: "",
    counted: "SAMPLES",
    extras: &[
        Extra { name: "user_samples", head: "USER", unit: Unit::None },
        Extra { name: "kernel_samples", head: "KERNEL", unit: Unit::None },
    ],
    columns: &[Column::Count, Column::Extra(USER), Column::Extra(KERNEL), Column::Share],
    partners: None,
    order: Order::Count,
    needs: Needs::EVENTS,
    remarks: &[
        "samples of what ran (flightd.toml, section sampling): shares have a statistical error. \
         For exact counts of one function: flightctl probe add, then flightctl report functions \
         --probed",
    ],
};

/// Counts samples.
#[derive(Default)]
pub(super) struct Samples {
    session: Option<Arc<Session>>,
    binaries: Binaries,
}

impl Samples {
    fn learn(&mut self, session: &Arc<Session>) {
        if !self.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session)) {
            self.binaries = Binaries::new(session.meta());
            self.session = Some(session.clone());
        }
    }

    /// Functions from the innermost one out: those of the kernel, then those of the program.
    fn frames(&self, sample: &Sample, most: usize) -> Vec<Vec<u8>> {
        let Some(session) = &self.session else { return Vec::new() };
        let symbols = session.symbols();
        let is_entry = |frame: &&u32| symbols.find(**frame).is_some_and(|of| is_entry(of.function));
        let entries = sample.kernel.iter().rev().take_while(is_entry).count();
        let kernel = sample.kernel.get(..sample.kernel.len() - entries).unwrap_or_default();
        let kernel = kernel.iter().map(|frame| symbols.name(*frame).into_bytes());
        let user = sample.user.iter().enumerate().map(|(at, frame)| {
            let mut name = Vec::new();
            sample::user(*frame, at == 0, &self.binaries, &mut name);
            name
        });
        kernel.chain(user).take(most).collect()
    }
}

impl Report for Samples {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        let Body::Sample(sample) = &seen.event.body else { return };
        let Some(session) = to.session().filter(|_| seen.is_wanted).cloned() else { return };
        self.learn(&session);
        let most = if to.is_by(Key::Stack) { usize::MAX } else { 1 };
        let frames = self.frames(sample, most);
        let function: &[u8] = match frames.first() {
            Some(function) => function,
            // Its frames were refused, or it has none.
            None if sample.user_mode => b"(program)",
            None => b"(kernel)",
        };
        let stack = if most > 1 { frames.join(&b';') } else { Vec::new() };
        let stack = if stack.is_empty() { function } else { &stack };
        let own = [(Key::Function, function), (Key::Stack, stack)];
        let sum = to.of(&Facts { own: &own, ..seen.facts() });
        sum.add_untold();
        sum.extra(if sample.user_mode { USER } else { KERNEL }, 1);
    }
}
