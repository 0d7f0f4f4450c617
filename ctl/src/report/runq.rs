//! `report runq`: for how long threads waited for a CPU, and who ran there instead.

use flightrec_analysis::State;
use flightrec_analysis::groups::Order;
use flightrec_sums::model::Table;

use super::{Column, Extra, Key, Needs, Part, Report, Shape, Sums, Unit};

const RUNNING: usize = 0;
const HELD: usize = 1;
/// Stands for whoever ran where that is not known.
const UNKNOWN: &[u8] = b"not known";

/// The table of run-queue delays.
pub(super) static SHAPE: Shape = Shape {
    name: "runq",
    keys: &[Key::Cpu, Key::Syscall],
    default: &[Key::Comm, Key::Tid],
    unit: Unit::Ns,
    value: "delay",
    counted: "DELAYS",
    extras: &[
        Extra { name: "running_ns", head: "RUNNING", unit: Unit::Ns },
        Extra { name: "held_ns", head: "HELD", unit: Unit::Ns },
    ],
    columns: &[
        Column::Count,
        Column::Total,
        Column::Average,
        Column::P50,
        Column::P99,
        Column::Max,
        Column::Extra(RUNNING),
        Column::Extra(HELD),
        Column::Partner,
    ],
    partners: Some("ran_instead"),
    order: Order::Total,
    needs: Needs { stretches: true, runs: true, arguments: false },
    remarks: &[
        "HELD: the thread was runnable when its CPU went idle: a CPU quota, or a move to another \
         CPU",
    ],
};

/// Adds up the times in which threads waited for a CPU.
pub(super) struct RunQueue;

impl Report for RunQueue {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn tables(&self) -> &'static [Table] {
        &[Table::RunQueue, Table::Cpus]
    }

    fn minute_keys(&self) -> &'static [Key] {
        &[Key::Unit]
    }

    fn stretch(&mut self, part: &Part<'_>, to: &mut Sums) {
        let at = match part.stretch.interval.state {
            State::Runnable => {
                return delay(part, to);
            }
            State::Running => RUNNING,
            State::Held => HELD,
            _ => return,
        };
        to.of(&part.facts).extra(at, part.ns);
    }
}

fn delay(part: &Part<'_>, to: &mut Sums) {
    let ran = part.ran;
    let mut rest = part.ns;
    let mut partners = Vec::with_capacity(ran.threads.len() + 2);
    for (tid, ns) in &ran.threads {
        let comm = part.names.comm(*tid, part.facts.cpu, part.within.until);
        let mut word = comm.to_vec();
        word.extend_from_slice(format!(" ({tid})").as_bytes());
        partners.push((to.partners.id(&word), *ns));
        rest = rest.saturating_sub(*ns);
    }
    if ran.unknown_ns != 0 {
        partners.push((to.partners.id(UNKNOWN), ran.unknown_ns));
        rest = rest.saturating_sub(ran.unknown_ns);
    }
    if rest != 0 {
        partners.push((to.partners.id(b"idle, or an interrupt"), rest));
    }
    let sum = to.of(&part.facts);
    sum.add(part.ns);
    for (partner, ns) in partners {
        sum.partners.add(partner, ns);
    }
}
