//! A table of threads as text: the columns of the screen, and the table of `--once`.

use std::fmt::Write as _;

use super::column::Column;
use super::table::{Row, Table};
use crate::options::color::ColorArg;
use crate::output::Output;
use crate::text::escape;
use crate::text::paint::Paint;
use flightrec_format::human::counted;

/// Width of a name.
const COMM: usize = 15;

/// Width of the figures, with all before them.
const FIGURES: usize = 80;
/// Where the letter of the state stands.
const STATE: usize = 32;
/// Least width for what threads are in.
const DOING_LEAST: usize = 20;
/// Greatest width of a unit's name.
const UNIT_MOST: usize = 24;
/// Width of what woke a thread: most names, with their ids.
const WOKEN: usize = 20;
/// Between two columns of text.
const GAP: usize = 2;

/// Columns after the figures, where there is room for them; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wide {
    unit: usize,
    woken: usize,
    doing: usize,
}

impl Wide {
    /// Whether there is room for any.
    pub fn has_room(width: usize) -> bool {
        width >= FIGURES + GAP + DOING_LEAST
    }

    /// What there is room for beside these rows.
    pub fn new(rows: &[&Row], width: usize) -> Self {
        if !Self::has_room(width) {
            return Self::default();
        }
        let mut room = width.saturating_sub(FIGURES + GAP);
        // A column of this width, if the last one then still has enough.
        let mut take = |width: usize| {
            let is_there = width != 0 && room >= width + GAP + DOING_LEAST;
            room -= if is_there { width + GAP } else { 0 };
            if is_there { width } else { 0 }
        };
        let longest = rows.iter().map(|row| row.unit.len()).max().unwrap_or(0).min(UNIT_MOST);
        let unit = take(longest);
        let woken = take(if rows.iter().any(|row| !row.woken.is_empty()) { WOKEN } else { 0 });
        Self { unit, woken, doing: room }
    }

    /// Appends a line's, cut to their columns; every character takes one.
    fn append(self, [unit, woken, doing]: [&str; 3], line: &mut String) {
        let room = self.doing;
        for (text, width) in [(unit, self.unit), (woken, self.woken)] {
            if width != 0 {
                let text = text.get(..width).unwrap_or(text);
                // Writing to a string can't fail.
                let _ = write!(line, "{:GAP$}{text:<width$}", "");
            }
        }
        if room != 0 && !doing.is_empty() {
            let _ = write!(line, "{:GAP$}{}", "", doing.get(..room).unwrap_or(doing));
        }
        line.truncate(line.trim_end().len());
    }
}

/// The names of the columns, the one that is sorted by in capitals.
pub fn head(sort: Column, wide: Wide) -> String {
    let name = |column: Column| {
        let name = match column {
            Column::Syscalls => "calls/s",
            Column::Errors => "errors/s",
            Column::Run => "run %",
            Column::Delay => "delay %",
            Column::Held => "held %",
            Column::Blocked => "block %",
        };
        if column == sort { name.to_uppercase() } else { name.to_owned() }
    };
    let [syscalls, errors, run, delay, held, blocked] = Column::ALL.map(name);
    let mut head = format!(
        "{:>7} {:>7} {:<COMM$} S {syscalls:>7} {errors:>8} {run:>6} {delay:>7} {held:>6} \
         {blocked:>7}",
        "tid", "pid", "name"
    );
    wide.append(["unit", "woken by", "waits for (or is in)"], &mut head);
    head
}

/// A thread's line.
pub fn line(row: &Row, length: u64, wide: Wide) -> String {
    let seconds = length.max(1) as f64 / 1e9;
    let rate = |n: u64| n as f64 / seconds;
    // Ends of intervals are not sharp: what began in the one before may end in this one.
    let percent = |ns: u64| (ns as f64 * 100.0 / length.max(1) as f64).min(100.0);
    let figures = row.figures;
    let mut line = format!(
        "{:>7} {:>7} {:<COMM$} {} {:>7.0} {:>8.0} {:>6.1} {:>7.1} {:>6.1} {:>7.1}",
        row.tid,
        row.pid,
        name(row),
        row.state.letter(),
        rate(figures.syscalls),
        rate(figures.errors),
        percent(figures.run),
        percent(figures.delay),
        percent(figures.held),
        percent(figures.blocked),
    );
    wide.append([&row.unit, &row.woken, &row.doing], &mut line);
    line
}

/// A line in three parts: before the letter of the state, the letter, and after it.
pub fn parts(line: &str) -> (&str, &str, &str) {
    let (before, rest) = line.split_at_checked(STATE).unwrap_or((line, ""));
    let (letter, after) = rest.split_at_checked(1).unwrap_or((rest, ""));
    (before, letter, after)
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

/// How a table of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal.
    pub width: usize,
    /// Terminal colours.
    pub colour: bool,
    /// Most threads.
    pub lines: usize,
}

impl Look {
    /// On this output: as wide as its terminal is, or as `COLUMNS` says, else 80.
    pub fn of(output: &Output, color: ColorArg, lines: usize) -> Self {
        let terminal =
            output.is_terminal().then(|| ratatui::crossterm::terminal::size().ok()).flatten();
        let told = || std::env::var("COLUMNS").ok()?.parse().ok();
        let width = terminal
            .map(|(columns, _)| usize::from(columns))
            .filter(|columns| *columns != 0)
            .or_else(told);
        let colour = output.colours(color, std::env::var_os("NO_COLOR").as_deref());
        Self { width: width.unwrap_or(80), colour, lines }
    }
}

/// The table as text, with what is not in it.
pub fn text(table: &Table, filter: &str, sort: Column, look: Look) -> String {
    let mut text = self::table(table, filter, sort, look);
    if table.skipped != 0 {
        // Writing to a string can't fail.
        let _ = writeln!(text, "# {}", skipped(table.skipped));
    }
    if table.unlisted != 0 {
        let threads = counted(table.unlisted, "thread");
        let _ = writeln!(text, "# {threads} had no room in it");
    }
    text
}

/// The table as text.
fn table(table: &Table, filter: &str, sort: Column, look: Look) -> String {
    let mut rows = table.view(filter, sort);
    rows.truncate(look.lines);
    let wide = Wide::new(&rows, look.width);
    let mut text = head(sort, wide);
    text.push('\n');
    for row in rows {
        let line = line(row, table.length, wide);
        if look.colour && row.state.is_uninterruptible() {
            let (before, letter, after) = parts(&line);
            let mut painted = Vec::new();
            Paint(true).stuck(&mut painted);
            painted.extend_from_slice(letter.as_bytes());
            Paint(true).end(&mut painted);
            text.extend([before, &String::from_utf8_lossy(&painted), after]);
        } else {
            text.push_str(&line);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::table::Figures;
    use flightrec_analysis::State;

    const LOOK: Look = Look { width: 80, colour: false, lines: 9 };

    #[test]
    fn the_width_that_there_is_is_used() {
        let row = |tid, unit: &str, doing: String, state| {
            let figures = Figures { syscalls: 9 - u64::from(tid), ..Figures::default() };
            Row { tid, pid: tid, state, figures, unit: unit.into(), doing, ..Row::default() }
        };
        let call = format!("read(3</{}>, 0x1000, 512)", "x".repeat(200));
        let rows = vec![
            row(1, "nginx.service", call, State::Blocked(2)),
            row(2, "a-unit-with-quite-a-long-name.service", "a CPU".into(), State::Runnable),
            row(3, "", String::new(), State::Running),
        ];
        let table = Table { length: 1_000_000_000, rows, ..Table::default() };
        let lines = |width| {
            let text = text(&table, "", Column::Syscalls, Look { width, ..LOOK });
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let narrow = lines(80);
        for (width, words) in [
            (103, ["read(3</xxx", "a CPU"]),
            (160, ["nginx.service             read(3</x", "a-unit-with-quite-a-long  a CPU"]),
        ] {
            let wide = lines(width);
            assert!(wide.iter().all(|line| line.len() <= width), "{wide:#?}");
            assert!(
                wide[0].contains("waits for (or is in)") && wide[1].contains(words[0]),
                "{wide:#?}"
            );
            assert!(
                words.iter().all(|words| wide.iter().any(|line| line.contains(words))),
                "{wide:#?}"
            );
            // What was there stays where it is.
            assert!(
                wide.iter().zip(&narrow).all(|(wide, narrow)| wide.starts_with(narrow.as_str())),
                "{wide:#?}"
            );
        }
        assert!(lines(160)[0].contains(" unit ") && !lines(103)[0].contains("unit"));
        assert!(!lines(160)[0].contains("woken"), "none of them was");
        let mut table = table.clone();
        table.rows[0].woken = "hardirq".into();
        let of = |width| text(&table, "", Column::Syscalls, Look { width, ..LOOK });
        let (wide, less) = (of(160), of(120));
        assert!(wide.contains("  woken by              waits for") && !less.contains("woken"));
        assert!(
            wide.contains("nginx.service             hardirq               read(3</x"),
            "{wide}"
        );
        assert!(narrow.iter().all(|line| line.len() <= 80 && !line.contains("CPU")), "{narrow:#?}");
        // In colour, who can't be interrupted.
        let painted = text(&table, "", Column::Syscalls, Look { colour: true, ..LOOK });
        assert_eq!(painted.matches("\x1b[1;31mD\x1b[0m").count(), 1, "{painted:?}");
        assert_eq!(
            painted.replace("\x1b[1;31m", "").replace("\x1b[0m", ""),
            text(&table, "", Column::Syscalls, LOOK)
        );
    }

    #[test]
    fn the_table_fits_80_columns_and_has_no_raw_bytes() {
        let row = |tid, comm: &[u8], figures| Row {
            tid,
            pid: 4_194_303,
            comm: comm.into(),
            state: State::Blocked(2),
            figures,
            ..Row::default()
        };
        let busy = Figures {
            syscalls: 2_500_000,
            errors: 1_000_000,
            run: 999_000_000,
            delay: 500_000,
            ..Figures::default()
        };
        let rows =
            vec![row(4_194_303, b"\x1b[2J\n\xffabcdefghij", busy), row(1, b"", Figures::default())];
        let text = table(
            &Table { length: 1_000_000_000, rows, ..Table::default() },
            "",
            Column::Syscalls,
            LOOK,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        assert!(text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)), "{text:?}");
        assert!(lines[0].contains("CALLS/S") && lines[0].contains("errors/s"), "{text}");
        assert!(lines[1].ends_with("D 2500000  1000000   99.9     0.1    0.0     0.0"), "{text}");
        assert!(lines[2].contains(" ? "), "{text}");
        assert_eq!(table(&Table::default(), "", Column::Run, LOOK).lines().count(), 1);
    }
}
