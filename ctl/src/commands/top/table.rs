//! The busiest threads as a table: what each did, which of them are shown, and in which order.

use std::cmp::Reverse;

use flightrec_analysis::State;

use super::column::Column;

/// What a thread did: numbers of calls, and ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// System calls begun.
    pub syscalls: u64,
    /// System calls that failed.
    pub errors: u64,
    /// Time on a CPU.
    pub run: u64,
    /// Time in which it could run, and waited for a CPU.
    pub delay: u64,
    /// Time in which it could run, and was held back while its CPU idled.
    pub held: u64,
    /// Time asleep.
    pub blocked: u64,
}

impl Figures {
    /// One of them.
    pub fn get(&self, column: Column) -> u64 {
        match column {
            Column::Syscalls => self.syscalls,
            Column::Errors => self.errors,
            Column::Run => self.run,
            Column::Delay => self.delay,
            Column::Held => self.held,
            Column::Blocked => self.blocked,
        }
    }

    /// Adds what was done in another interval.
    pub fn add(&mut self, other: &Self) {
        let Self { syscalls, errors, run, delay, held, blocked } = self;
        let sums = [syscalls, errors, run, delay, held, blocked];
        for (sum, column) in sums.into_iter().zip(Column::ALL) {
            *sum = sum.saturating_add(other.get(column));
        }
    }
}

/// A thread in the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// Thread.
    pub tid: u32,
    /// Process.
    pub pid: u32,
    /// Name; any bytes.
    pub comm: Box<[u8]>,
    /// What it does at the end of the interval.
    pub state: State,
    /// What it did.
    pub figures: Figures,
    /// The systemd unit that it is in, as far as that is known; printable.
    pub unit: String,
    /// What woke it last: a thread, or the context of an interrupt; printable, empty: nothing that
    /// was seen.
    pub woken: String,
    /// The call that it is in at the end of the interval, or what it waits for; printable.
    pub doing: String,
}

/// Where a row stands in a table: the least is the first.
pub type RowOrder = (Reverse<(u64, u64, u64)>, u32);

impl Row {
    /// Whether `filter` is in name, thread id or process id.
    pub fn is_wanted(&self, filter: &str) -> bool {
        filter.is_empty()
            || self.tid.to_string().contains(filter)
            || self.pid.to_string().contains(filter)
            || String::from_utf8_lossy(&self.comm).contains(filter)
    }

    /// Its place among others.
    pub fn place(&self, sort: Column) -> RowOrder {
        let Figures { run, syscalls, .. } = self.figures;
        (Reverse((self.figures.get(sort), run, syscalls)), self.tid)
    }
}

/// All threads that did anything in an interval, or sleep uninterruptibly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Length of the interval, ns.
    pub length: u64,
    /// The threads, in no order.
    pub rows: Vec<Row>,
    /// Events that are missing: written over before they were read, or refused.
    pub skipped: u64,
    /// Threads that are not among the rows, as there are too many.
    pub unlisted: u64,
}

impl Table {
    /// The rows that a person asked for: with `filter` in name, thread id or process id, greatest
    /// first.
    pub fn view(&self, filter: &str, sort: Column) -> Vec<&Row> {
        let wanted = |row: &&Row| row.is_wanted(filter);
        let mut rows: Vec<&Row> = self.rows.iter().filter(wanted).collect();
        rows.sort_by_key(|row| row.place(sort));
        rows
    }

    /// The sum of a figure.
    pub fn total(&self, column: Column) -> u64 {
        self.rows.iter().map(|row| row.figures.get(column)).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_is_filtered_and_sorted() {
        let row = |tid, name: &str, run, delay| {
            let figures = Figures { run, delay, ..Figures::default() };
            Row {
                tid,
                pid: 700,
                comm: name.as_bytes().into(),
                state: State::Running,
                figures,
                ..Row::default()
            }
        };
        let table = Table {
            rows: vec![row(1, "web", 5, 0), row(2, "db", 9, 1), row(3, "web2", 7, 1)],
            ..Table::default()
        };
        let tids =
            |filter, sort| table.view(filter, sort).iter().map(|row| row.tid).collect::<Vec<_>>();
        assert_eq!(tids("", Column::Run), [2, 3, 1]);
        assert_eq!(tids("", Column::Delay), [2, 3, 1]);
        assert_eq!(tids("web", Column::Run), [3, 1]);
        assert_eq!(tids("2", Column::Run), [2, 3]);
        assert_eq!(tids("700", Column::Blocked), [2, 3, 1]);
        assert_eq!(tids("nobody", Column::Run), [0; 0]);
        assert_eq!((table.total(Column::Run), table.total(Column::Errors)), (21, 0));
    }
}
