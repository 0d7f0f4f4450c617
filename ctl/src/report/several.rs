//! Several reports in one pass.

use std::sync::Arc;

use flightrec_analysis::groups::Order;
use flightrec_sums::model::{Cell, Group, Table as SumsTable};

use super::{Key, Needs, Part, Report, Seen, Shape, Sums, Table, Unit};

/// What a pass needs that makes no table itself: all that there is.
pub static SHAPE: Shape = Shape {
    name: "several",
    keys: &[],
    default: &[],
    unit: Unit::None,
    value: "",
    counted: "",
    extras: &[],
    columns: &[],
    partners: None,
    order: Order::Count,
    needs: Needs { stretches: true, runs: false, arguments: true },
    remarks: &[],
};

/// Several reports, each with sums of its own.
pub struct Several {
    parts: Vec<(Box<dyn Report>, Vec<Key>, Sums)>,
}

impl Several {
    /// Of these, each grouped by its keys.
    pub fn new(reports: impl IntoIterator<Item = (Box<dyn Report>, Vec<Key>)>) -> Self {
        let part = |(report, by): (Box<dyn Report>, Vec<Key>)| {
            let sums = Sums::new(report.shape(), &by);
            (report, by, sums)
        };
        Self { parts: reports.into_iter().map(part).collect() }
    }

    /// The tables, in the order of the reports; `whole` is what the pass made, and `most` how many
    /// groups are told apart.
    pub fn tables(self, whole: &Table, most: usize) -> Vec<Table> {
        let table = |(report, by, sums): (Box<dyn Report>, Vec<Key>, Sums)| {
            let (ranked, words) = sums.finish(most);
            Table {
                shape: report.shape(),
                by,
                ranked,
                words,
                periods: whole.periods.clone(),
                is_complete: whole.is_complete,
                coverage: whole.coverage.clone(),
                limits: report.limits(),
                unknown_ns: whole.unknown_ns,
                sums: whole.sums.clone(),
            }
        };
        self.parts.into_iter().map(table).collect()
    }

    fn each(&mut self, to: &Sums, mut act: impl FnMut(&mut dyn Report, &mut Sums)) {
        let Some(session) = to.session() else { return };
        for (report, _, sums) in &mut self.parts {
            if !sums.session().is_some_and(|known| Arc::ptr_eq(known, session)) {
                sums.go_on(session.clone());
            }
            act(&mut **report, sums);
        }
    }
}

impl Report for Several {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        self.each(to, |report, sums| report.event(seen, sums));
    }

    fn stretch(&mut self, part: &Part<'_>, to: &mut Sums) {
        self.each(to, |report, sums| report.stretch(part, sums));
    }

    fn tables(&self) -> &'static [SumsTable] {
        SumsTable::ALL
    }

    fn join_minutes(&mut self) {
        self.parts.iter_mut().for_each(|(report, ..)| report.join_minutes());
    }

    fn minute(&mut self, group: &Group, keys: &[(Key, &[u8])], cell: &Cell, _: &mut Sums) {
        for (report, _, sums) in &mut self.parts {
            report.minute(group, keys, cell, sums);
        }
    }

    fn end(&mut self, to: &mut Sums) {
        self.each(to, |report, sums| report.end(sums));
    }
}
