//! Tables of reports, and distributions, as the page has them.

use flightrec_analysis::groups::Sum;
use flightrec_analysis::histogram::Histogram;
use flightrec_export::page::model::{self, Cell, Unit};
use flightrec_export::printable::printable;

use crate::report::{self, Key, Report, Several, Table, Value, figures};

/// Most rows of a table.
const ROWS_MAX: usize = 100;

/// A table to make.
struct Asked {
    title: &'static str,
    remark: &'static str,
    by: &'static [Key],
    make: fn() -> Option<Box<dyn Report>>,
}

/// The tables, in the order in which they are shown.
const TABLES: [Asked; 4] = [
    Asked {
        title: "Waits",
        by: &[Key::Comm, Key::Tid, Key::Reason],
        remark: "Waits for the time, and for others to bring work, are left out.",
        make: || Some(report::waits_of_work()),
    },
    Asked {
        title: "Calls",
        by: &[Key::Comm, Key::Syscall],
        remark: "",
        make: || report::of("calls").map(|kind| (kind.make)()),
    },
    Asked {
        title: "Failures",
        by: &[Key::Comm, Key::Syscall, Key::Errno, Key::File],
        remark: "",
        make: || Some(report::failures()),
    },
    Asked {
        title: "Block I/O",
        by: &[Key::Device, Key::Op, Key::Comm],
        remark: "",
        make: || report::of("block").map(|kind| (kind.make)()),
    },
];

/// What adds them up.
pub(super) fn reports() -> Several {
    Several::new(TABLES.iter().filter_map(|of| Some(((of.make)()?, of.by.to_vec()))))
}

/// The tables of a pass.
pub(super) fn tables(several: Several, whole: &Table) -> Vec<model::Table> {
    let made = several.tables(whole, ROWS_MAX);
    TABLES.iter().zip(&made).map(|(of, table)| self::table(of, table)).collect()
}

fn table(of: &Asked, table: &Table) -> model::Table {
    let head = |name: &str| {
        let name = name.strip_suffix("_ns").or(name.strip_suffix("_bytes")).unwrap_or(name);
        name.replace('_', " ")
    };
    let mut columns: Vec<(String, Unit)> = table
        .by
        .iter()
        .map(|key| (key.name().to_owned(), if key.is_word() { Unit::Text } else { Unit::Id }))
        .collect();
    let keys = columns.len();
    let mut by = keys;
    let sample = figures(table.shape, &Sum::default());
    for (name, _) in &sample {
        let unit = if name.ends_with("_ns") {
            Unit::Ns
        } else if name.ends_with("bytes") {
            Unit::Bytes
        } else {
            Unit::Number
        };
        // Reports are ordered by the sum of their values.
        if name.starts_with("total_") && of.title != "Failures" {
            by = columns.len();
        }
        columns.push((head(name), unit));
    }
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (keys, sum) in &table.ranked.rows {
        let words = table.values(keys).map(|(_, value)| match value {
            Value::Number(number) => Cell::Number(number),
            Value::Word(word) => Cell::Text(printable(word).into_owned()),
            Value::Crowded => Cell::Text("(others)".into()),
            Value::Unknown => Cell::Unknown,
        });
        let values = figures(table.shape, sum);
        let values = values.into_iter().map(|(_, value)| value.map_or(Cell::Unknown, Cell::Number));
        rows.push(words.chain(values).collect());
    }
    let mut remark = of.remark.to_owned();
    let others = &table.ranked.others;
    if others.groups != 0 {
        let more = format!(
            " {} more rows, with a count of {} together, are left out: the {ROWS_MAX} greatest \
             are here.",
            others.groups, others.sum.count
        );
        remark.push_str(&more);
    }
    // A column of nothing but zeros tells nothing.
    let is_empty = |at: usize| {
        at >= keys
            && at != by
            && rows
                .iter()
                .all(|row| matches!(row.get(at), None | Some(Cell::Number(0) | Cell::Unknown)))
    };
    let dropped: Vec<usize> = (0..columns.len()).filter(|at| is_empty(*at)).collect();
    for at in dropped.iter().rev() {
        columns.remove(*at);
        for row in &mut rows {
            row.remove(*at);
        }
    }
    by -= dropped.iter().filter(|at| **at < by).count();
    model::Table { title: of.title.to_owned(), remark, columns, by, rows }
}

/// A distribution.
pub(super) fn histogram(title: &str, of: &Histogram) -> model::Histogram {
    let percentile = |percent| of.percentile(percent).unwrap_or(0);
    model::Histogram {
        title: title.to_owned(),
        count: of.count(),
        facts: (percentile(50), percentile(99), of.max()),
        buckets: of.powers(),
    }
}
