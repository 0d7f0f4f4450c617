//! `report bytes`: how much was read and written, by process or by file.

use std::sync::Arc;

use flightrec_analysis::groups::Order;
use flightrec_analysis::syscalls::{Moves, moves, operation_writes};
use flightrec_format::abi::kinds::{IoComplete, Kind};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::Body;
use flightrec_reader::Session;
use flightrec_reader::names::NUMBERS;
use flightrec_sums::model::Table;

use super::{Column, Extra, Facts, Key, Needs, Report, Seen, Shape, Sums, Unit};

const READ: usize = 0;
const WRITTEN: usize = 1;

/// The table of bytes.
pub(super) static SHAPE: Shape = Shape {
    name: "bytes",
    keys: &[Key::File, Key::Op, Key::Syscall, Key::Cpu],
    default: &[Key::Comm, Key::Pid],
    unit: Unit::Bytes,
    value: "size",
    counted: "TRANSFERS",
    extras: &[
        Extra { name: "read_bytes", head: "READ", unit: Unit::Bytes },
        Extra { name: "written_bytes", head: "WRITTEN", unit: Unit::Bytes },
    ],
    columns: &[
        Column::Count,
        Column::Extra(READ),
        Column::Extra(WRITTEN),
        Column::Average,
        Column::P50,
        Column::P99,
        Column::Max,
        Column::Share,
    ],
    partners: None,
    order: Order::Total,
    needs: Needs { stretches: false, runs: false, arguments: true },
    remarks: &[
        "sendfile, splice, tee and copy_file_range count twice: read from one file, and written to \
         the other. Memory that files are mapped to, and calls that tell messages instead of bytes \
         (recvmmsg, sendmmsg), are not counted",
    ],
};

/// Adds up what calls and operations of io_uring moved.
#[derive(Default)]
pub(super) struct Bytes {
    session: Option<Arc<Session>>,
    native: Vec<Moves>,
    compat: Vec<Moves>,
}

impl Bytes {
    /// Learns the numbers of calls of the recording that is read.
    fn learn(&mut self, session: &Arc<Session>) {
        if self.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session)) {
            return;
        }
        let table = |abi| {
            let name = |nr| session.call_name(abi, nr);
            (0..NUMBERS as u16).map(|nr| name(nr).map(moves).unwrap_or_default()).collect()
        };
        (self.native, self.compat) = (table(Abi::Native), table(Abi::Compat));
        self.session = Some(session.clone());
    }
}

impl Report for Bytes {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn tables(&self) -> &'static [Table] {
        &[Table::Bytes]
    }

    fn minute_keys(&self) -> &'static [Key] {
        &[Key::Unit]
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        if !seen.is_wanted {
            return;
        }
        let Some(session) = to.session() else { return };
        match &seen.event.body {
            Body::Exit { call, ret, .. } => {
                let Ok(bytes @ 1..) = u64::try_from(*ret) else { return };
                self.learn(&session.clone());
                let table = if call.abi == Abi::Compat { &self.compat } else { &self.native };
                let of = table.get(usize::from(call.nr)).copied().unwrap_or_default();
                for (at, which) in [(of.reads, READ), (of.writes, WRITTEN)] {
                    let Some(at) = at else { continue };
                    let fd = call.args.get(usize::from(at)).filter(|_| at < call.nargs);
                    let file = fd.and_then(|fd| seen.known.fds.get(*fd as i32));
                    add(seen.facts(), file, (which, bytes), to);
                }
            }
            Body::Plain(plain) if plain.kind() == Kind::IoComplete => {
                let Some(done) = IoComplete::read(plain.bytes()) else { return };
                let Ok(bytes @ 1..) = u64::try_from(done.result) else { return };
                let Some(is_write) = operation_writes(done.op) else { return };
                let which = if is_write { WRITTEN } else { READ };
                let operation = seen.known.operation;
                let file = operation.and_then(|of| seen.known.fds.get(of.submit.fd));
                let who = operation.map_or(seen.facts(), |of| seen.facts_of(of.submitted_by));
                add(who, file, (which, bytes), to);
            }
            _ => {}
        }
    }
}

fn add(facts: Facts<'_>, file: Option<&[u8]>, (which, bytes): (usize, u64), to: &mut Sums) {
    let op: &[u8] = if which == READ { b"read" } else { b"write" };
    let own = [(Key::Op, op)];
    let sum = to.of(&Facts { file, own: &own, ..facts });
    sum.add(bytes);
    sum.extra(which, bytes);
}
