//! `report block`: requests to disks.

use flightrec_analysis::groups::Order;
use flightrec_format::abi::kinds::{BlockComplete, Kind};
use flightrec_format::decode::Body;
use flightrec_sums::model::Table;

use super::waits::op_name;
use super::{Column, Extra, Facts, Key, Needs, Report, Seen, Shape, Sums, Unit};

const BYTES: usize = 0;
const QUEUE: usize = 1;
const QUEUED: usize = 2;
const ERRORS: usize = 3;
const UNTIMED: usize = 4;

/// The table of requests.
pub(super) static SHAPE: Shape = Shape {
    name: "block",
    keys: &[Key::Device, Key::Op, Key::Cpu],
    default: &[Key::Device, Key::Op],
    unit: Unit::Ns,
    value: "service",
    counted: "REQUESTS",
    extras: &[
        Extra { name: "bytes", head: "BYTES", unit: Unit::Bytes },
        Extra { name: "queue_ns", head: "QUEUE", unit: Unit::Ns },
        Extra { name: "queued", head: "QUEUED", unit: Unit::None },
        Extra { name: "errors", head: "ERRORS", unit: Unit::None },
        Extra { name: "untimed", head: "UNTIMED", unit: Unit::None },
    ],
    columns: &[
        Column::Count,
        Column::Extra(BYTES),
        Column::Extra(ERRORS),
        Column::Extra(QUEUE),
        Column::Total,
        Column::Average,
        Column::P50,
        Column::P99,
        Column::Max,
    ],
    partners: None,
    order: Order::Total,
    needs: Needs::EVENTS,
    remarks: &[
        "a request counts where the disk has done it; its time is from when the driver got it, and \
         before that in the queue of the I/O scheduler, if there is one",
    ],
};

/// Counts requests where they are done.
pub(super) struct Block;

impl Report for Block {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn tables(&self) -> &'static [Table] {
        &[Table::Block]
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        let Body::Plain(plain) = &seen.event.body else { return };
        if !seen.is_wanted || plain.kind() != Kind::BlockComplete {
            return;
        }
        let Some(done) = BlockComplete::read(plain.bytes()) else { return };
        let request = seen.known.request.unwrap_or_default();
        // The end is told by an interrupt: the request is of who made it.
        let who = match request.issued_by {
            Some(tid) => seen.facts_of(tid),
            None => Facts { cpu: seen.event.cpu, ..Facts::default() },
        };
        let own = [(Key::Op, op_name(done.op).as_bytes())];
        let sum = to.of(&Facts { device: Some(done.device), own: &own, ..who });
        sum.extra(BYTES, u64::from(done.bytes));
        sum.extra(ERRORS, u64::from(done.error != 0));
        if done.left != 0 {
            // A part of a request: it counts when all of it is done.
            return;
        }
        if let Some(ns) = request.service_ns {
            sum.add(ns);
        } else {
            sum.add_untold();
            sum.extra(UNTIMED, 1);
        }
        if let Some(ns) = request.queue_ns {
            sum.extra(QUEUE, ns);
            sum.extra(QUEUED, 1);
        }
    }
}
