//! A table of threads as text: the columns of the screen, and the table of `--once`.

use std::fmt::Write as _;

use super::Column;
use super::table::{Row, Table};
use crate::human::counted;
use crate::text::escape;

/// Width of a name.
const COMM: usize = 15;

/// The names of the columns, the one that is sorted by in capitals.
pub fn head(sort: Column) -> String {
    let name = |column: Column| {
        let name = match column {
            Column::Syscalls => "calls/s",
            Column::Errors => "errors/s",
            Column::Run => "run %",
            Column::Delay => "delay %",
            Column::Blocked => "block %",
        };
        if column == sort { name.to_uppercase() } else { name.to_owned() }
    };
    let [syscalls, errors, run, delay, blocked] = Column::ALL.map(name);
    format!("{:>7} {:>7} {:<COMM$} S {syscalls:>10} {errors:>9} {run:>6} {delay:>7} {blocked:>7}", "tid", "pid", "name")
}

/// A thread's line.
pub fn line(row: &Row, length: u64) -> String {
    let seconds = length.max(1) as f64 / 1e9;
    let rate = |n: u64| n as f64 / seconds;
    // Ends of intervals are not sharp: what began in the one before may end in this one.
    let percent = |ns: u64| (ns as f64 * 100.0 / length.max(1) as f64).min(100.0);
    let figures = row.figures;
    format!(
        "{:>7} {:>7} {:<COMM$} {} {:>10.0} {:>9.0} {:>6.1} {:>7.1} {:>7.1}",
        row.tid,
        row.pid,
        name(row),
        row.state.letter(),
        rate(figures.syscalls),
        rate(figures.errors),
        percent(figures.run),
        percent(figures.delay),
        percent(figures.blocked),
    )
}

/// A thread's name, printable, cut to its column.
pub fn name(row: &Row) -> String {
    if row.comm.is_empty() {
        return "?".to_owned();
    }
    let mut name = Vec::new();
    escape(&row.comm, &mut name);
    name.truncate(COMM);
    String::from_utf8_lossy(&name).into_owned()
}

/// What is not in the table.
pub fn skipped(events: u64) -> String {
    let are = if events == 1 { "is" } else { "are" };
    format!("{} {are} not in it: too fast, or refused by the budget", counted(events, "event"))
}

/// The table as text, with what is not in it.
pub fn text(table: &Table, filter: &str, sort: Column, lines: usize) -> String {
    let mut text = self::table(table, filter, sort, lines);
    if table.skipped != 0 {
        // Writing to a string can't fail.
        let _ = writeln!(text, "# {}", skipped(table.skipped));
    }
    if table.unlisted != 0 {
        let threads = counted(table.unlisted, "thread");
        let _ = writeln!(text, "# {threads} that ended had no room in it");
    }
    text
}

/// The table as text, with at most `lines` threads.
pub fn table(table: &Table, filter: &str, sort: Column, lines: usize) -> String {
    let rows = table.view(filter, sort);
    let mut text = head(sort);
    text.push('\n');
    for row in rows.iter().take(lines) {
        text.push_str(&line(row, table.length));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::table::{Figures, State};

    #[test]
    fn the_table_fits_80_columns_and_has_no_raw_bytes() {
        let row = |tid, comm: &[u8], figures| Row {
            tid,
            pid: 4_194_303,
            comm: comm.into(),
            state: State::Asleep(2),
            figures,
            ..Row::default()
        };
        let busy = Figures { syscalls: 2_500_000, errors: 1_000_000, run: 999_000_000, delay: 500_000, blocked: 0 };
        let rows = vec![row(4_194_303, b"\x1b[2J\n\xffabcdefghij", busy), row(1, b"", Figures::default())];
        let text = table(&Table { length: 1_000_000_000, rows, ..Table::default() }, "", Column::Syscalls, 9);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        assert!(text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)), "{text:?}");
        assert!(lines[0].contains("CALLS/S") && lines[0].contains("errors/s"), "{text}");
        assert!(lines[1].ends_with("D    2500000   1000000   99.9     0.1     0.0"), "{text}");
        assert!(lines[2].contains(" ? "), "{text}");
        assert_eq!(table(&Table::default(), "", Column::Run, 9).lines().count(), 1);
    }
}
