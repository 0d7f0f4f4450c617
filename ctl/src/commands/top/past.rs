//! The busiest threads of a time that is over: a table of any window, of any source that `dump`
//! reads.

use anyhow::Result;
use jiff::tz::TimeZone;
use rustc_hash::FxHashMap;

use flightrec_analysis::State;
use flightrec_format::ring::{Gap, LaneStream};
use flightrec_reader::boots::{self, BootId};
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::events;
use flightrec_reader::source::PageSet;
use flightrec_reader::source::history::{self, Chapter, Go};
use flightrec_reader::window::Window;

use super::column::Column;
use super::model::Model;
use super::plain::{self, Look, Wide};
use super::plan::{PastPlan, TopPlan};
use super::table::{Row, Table};
use crate::announce::announce;
use crate::exit::Exit;
use crate::output::Output;
use crate::text::coverage::Telling;
use flightrec_cli::note;

/// Most rows that are kept from one chapter to the next: as many as threads are followed at once.
/// There are up to twice as many between two times at which they are thinned out.
const ROWS_MAX: usize = if cfg!(test) { 8 } else { 1 << 16 };

/// Prints the table of a window, with at most `lines` threads.
pub fn run(plan: &TopPlan, past: &PastPlan, lines: usize, zone: &TimeZone) -> Result<Exit> {
    let mut output = Output::standard();
    let look = Look::of(&output, plan.color, lines);
    let PastPlan { past, dump } = past;
    let mut whole = Whole {
        plan,
        is_wide: Wide::has_room(look.width),
        told: Telling::new(zone),
        rows: FxHashMap::default(),
        table: Table::default(),
    };
    let question = past.question(false);
    let mut take = |chapter: Chapter| {
        whole.take(&chapter);
        anyhow::Ok(Go::On)
    };
    if let Some(dump) = dump {
        let mut source = dump.open()?;
        announce(&source, zone);
        dump.read(&mut source, question, &mut take)?;
    } else {
        history::read(&past.history, question, &mut take)?;
    }
    let Whole { told, rows, mut table, .. } = whole;
    table.rows.extend(rows.into_values());
    let text = plain::text(&table, &plan.filter, plan.sort, look);
    output.print(text.as_bytes())?;
    drop(output);
    for line in told.finish() {
        note(&line);
    }
    Ok(if table.view(&plan.filter, plan.sort).is_empty() { Exit::Nothing } else { Exit::Fine })
}

/// The table of all chapters of a window.
struct Whole<'a> {
    plan: &'a TopPlan,
    /// Whether what threads are in is shown.
    is_wide: bool,
    /// What is covered.
    told: Telling<'a>,
    /// Threads that may go on in the next chapter.
    rows: FxHashMap<(BootId, u32, u32), Row>,
    table: Table,
}

impl Whole<'_> {
    fn take(&mut self, chapter: &Chapter) {
        let recording = &chapter.recording;
        let mut wall = recording.wall_clock(chapter.clock.wall_offset);
        let windows = chapter.windows(&wall);
        // What was read before the window.
        if windows.is_empty() && chapter.joins.is_some_and(|joins| joins.after) {
            return;
        }
        self.told.add(chapter, Coverage::of_all(chapter, &windows), &windows, &mut wall);
        for window in windows.iter() {
            self.add(recording, window);
        }
    }

    /// What threads did in one stretch of the window.
    fn add(&mut self, recording: &PageSet, window: Window) {
        let Table { length, rows, skipped, unlisted } = table(recording, window, self.is_wide);
        self.table.length = self.table.length.saturating_add(length);
        self.table.skipped = self.table.skipped.saturating_add(skipped);
        self.table.unlisted = self.table.unlisted.saturating_add(unlisted);
        let boot = boots::of_meta(&recording.meta);
        for row in rows {
            if row.state == State::Dead {
                // It may have begun in a chapter before.
                let begun = self.rows.remove(&(boot, row.tid, row.pid));
                self.table.rows.push(joined(begun, row));
            } else {
                let begun = self.rows.remove(&(boot, row.tid, row.pid));
                self.rows.insert((boot, row.tid, row.pid), joined(begun, row));
            }
        }
        if self.rows.len() + self.table.rows.len() > 2 * ROWS_MAX {
            let TopPlan { filter, sort, .. } = self.plan;
            thin_out(&mut self.rows, &mut self.table, filter, *sort);
        }
    }
}

/// Keeps the [`ROWS_MAX`] rows that come first in the table; the others are counted.
fn thin_out(
    rows: &mut FxHashMap<(BootId, u32, u32), Row>,
    table: &mut Table,
    filter: &str,
    sort: Column,
) {
    let place = |row: &Row| (!row.is_wanted(filter), row.place(sort));
    let mut places: Vec<_> = rows.values().chain(&table.rows).map(place).collect();
    let before = places.len();
    if before <= ROWS_MAX {
        return;
    }
    let (_, first_out, _) = places.select_nth_unstable(ROWS_MAX);
    rows.retain(|_, row| place(row) < *first_out);
    table.rows.retain(|row| place(row) < *first_out);
    let left_out = before.saturating_sub(rows.len() + table.rows.len());
    table.unlisted = table.unlisted.saturating_add(left_out as u64);
}

/// A thread's row, with what it did before.
fn joined(before: Option<Row>, mut row: Row) -> Row {
    if let Some(before) = before {
        row.figures.add(&before.figures);
    }
    row
}

/// What each thread did in a window of a recording.
fn table(recording: &PageSet, window: Window, is_wide: bool) -> Table {
    let mut model = Model::new(recording.threads(), &recording.meta);
    if is_wide {
        model = model.telling(recording);
    }
    let gaps: Vec<Gap> = recording.streams.iter().flat_map(LaneStream::gaps).collect();
    let (before, within): (Vec<Gap>, Vec<Gap>) =
        gaps.into_iter().partition(|gap| gap.from < window.from);
    let mut events =
        events(recording, window, false).take_while(|event| event.time < window.until).peekable();
    // What each does when the window begins is known from what it did shortly before.
    model.take_all(std::iter::from_fn(|| events.next_if(|event| event.time < window.from)), before);
    model.table(window.from);
    model.take_all(events, within.into_iter().filter(|gap| gap.from < window.until).collect());
    model.table(window.until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::table::Figures;
    use flightrec_format::abi::page::Lane;
    use flightrec_format::control::Totals;
    use flightrec_format::encode::PageWriter;
    use flightrec_format::meta::{Lanes, Meta};
    use flightrec_reader::pipeline::testing::{enter, switch};
    use flightrec_reader::source::Collector;

    #[test]
    fn of_many_threads_the_first_of_the_table_stay() {
        let boot = boots::of_meta(&Meta::default());
        let row = |tid: u32, comm: &[u8]| {
            let figures = Figures { syscalls: u64::from(tid % 100), ..Figures::default() };
            Row { tid, pid: tid, comm: comm.into(), figures, ..Row::default() }
        };
        let going = || (1..=20).map(|tid| ((boot, tid, tid), row(tid, b"web"))).collect();
        let ended = || (101..=120).map(|tid| row(tid, b"sh")).collect();
        let kept = |filter: &str| {
            let mut rows: FxHashMap<_, _> = going();
            let mut table = Table { rows: ended(), unlisted: 5, ..Table::default() };
            thin_out(&mut rows, &mut table, filter, Column::Syscalls);
            assert_eq!(table.unlisted, 5 + 40 - ROWS_MAX as u64);
            // Once more changes nothing.
            let once = table.clone();
            thin_out(&mut rows, &mut table, filter, Column::Syscalls);
            assert_eq!(table, once);
            let mut tids: Vec<u32> = rows.values().chain(&table.rows).map(|row| row.tid).collect();
            tids.sort_unstable();
            tids
        };
        assert_eq!(kept(""), [17, 18, 19, 20, 117, 118, 119, 120]);
        assert_eq!(kept("web"), [13, 14, 15, 16, 17, 18, 19, 20]);
    }

    #[test]
    fn a_window_begins_with_what_was_known_and_ends_where_it_ends() {
        let meta = Meta {
            session: 1,
            cpus: vec![0],
            lanes: Lanes::new([1 << 20; 4], [false; 4]),
            ..Meta::default()
        };
        let mut collector = Collector::new(meta);
        let events = [switch(100, 0, 7, 1, 5), switch(300, 0, 5, 1, 0), switch(900, 0, 0, 0, 5)];
        let mut sched = PageWriter::new(1, Lane::Sched, 0, 0);
        for event in &events {
            sched.push(event).unwrap();
        }
        let mut calls = PageWriter::new(1, Lane::Syscall, 0, 0);
        for time in [150, 250, 950] {
            calls.push(&enter(time, 0, 5, 0)).unwrap();
        }
        for page in sched.current().into_iter().chain(calls.current()) {
            collector.add(&page[..]).unwrap();
        }
        let table =
            table(&collector.finish(Totals::default()), Window { from: 200, until: 600 }, false);
        let five: Vec<_> =
            table.rows.iter().filter(|row| row.tid == 5).map(|row| row.figures).collect();
        assert_eq!(five, [Figures { syscalls: 1, run: 100, blocked: 300, ..Figures::default() }]);
        assert_eq!(table.length, 400);
    }
}
