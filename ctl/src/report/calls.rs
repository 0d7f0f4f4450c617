//! `report calls`: system calls, as `strace -c` sums them up.

use flightrec_analysis::groups::{Order, Sum};
use flightrec_format::decode::Body;
use flightrec_sums::model::Table;

use super::{Column, Extra, Facts, Key, Needs, Report, Seen, Shape, Sums, Unit};

/// Errors; calls without a time.
const ERRORS: usize = 0;
const UNTIMED: usize = 1;

/// The table of calls.
pub(super) static SHAPE: Shape = Shape {
    name: "calls",
    keys: &[Key::Syscall, Key::File, Key::Cpu, Key::Errno],
    default: &[Key::Syscall],
    unit: Unit::Ns,
    value: "duration",
    counted: "CALLS",
    extras: &[
        Extra { name: "errors", head: "ERRORS", unit: Unit::None },
        Extra { name: "untimed", head: "UNTIMED", unit: Unit::None },
    ],
    columns: &[
        Column::Count,
        Column::Extra(ERRORS),
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
        "a call counts where it ends, so exit_group, which never returns, does not; UNTIMED calls \
         have no time: their beginning is not recorded, or the budget dropped it",
    ],
};

/// Counts calls where they end.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    /// Only calls that failed count.
    pub(super) is_of_failures: bool,
}

impl Calls {
    /// Whether a call counts that ended with this error, or with none.
    pub(super) fn counts(self, failure: Option<i32>) -> bool {
        !self.is_of_failures || failure.is_some()
    }

    /// Adds a call: how long it took, if that is known, and with which error it ended.
    pub(super) fn add(sum: &mut Sum, took: Option<u64>, failure: Option<i32>) {
        if let Some(ns) = took {
            sum.add(ns);
        } else {
            sum.add_untold();
            sum.extra(UNTIMED, 1);
        }
        sum.extra(ERRORS, u64::from(failure.is_some()));
    }
}

impl Report for Calls {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn tables(&self) -> &'static [Table] {
        if self.is_of_failures { &[Table::Errors] } else { &[Table::Calls] }
    }

    fn of_ends(&self) -> Option<Calls> {
        Some(*self)
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        let Body::Exit { call, ret, .. } = &seen.event.body else { return };
        if !seen.is_wanted {
            return;
        }
        let session = to.session();
        let failure = session.and_then(|of| of.failures().failure(call.abi, call.nr, *ret));
        if !self.counts(failure) {
            return;
        }
        let file = if to.is_by(Key::File) { seen.object() } else { None };
        let sum = to.of(&Facts { errno: failure, file: file.as_deref(), ..seen.facts() });
        Self::add(sum, seen.known.duration_ns, failure);
    }
}
