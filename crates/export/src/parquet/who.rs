//! Threads with their processes and names, each kept once for a group of rows.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Comm;
use flightrec_reader::threads::trim;

use super::dictionary::{Places, numbers};
use crate::printable::printable;

/// Threads that are found without a hash table; a power of two.
const RECENT: usize = 64;

/// Which thread each row has.
#[derive(Debug)]
pub(super) struct Who {
    rows: Vec<u32>,
    all: Vec<Thread>,
    known: FxHashMap<Thread, u32>,
    /// The last ones, by number.
    recent: Box<[Option<(Thread, u32)>; RECENT]>,
}

/// A thread, its process, its name.
type Thread = (u32, u32, Comm);

impl Default for Who {
    fn default() -> Self {
        let recent = Box::new([None; RECENT]);
        Self { rows: Vec::new(), all: Vec::new(), known: FxHashMap::default(), recent }
    }
}

impl Who {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.all.clear();
        self.known.clear();
        self.recent.fill(None);
    }

    /// Appends a row.
    #[inline]
    pub(super) fn push(&mut self, tid: u32, pid: u32, comm: &Comm) {
        let slot = &mut self.recent[tid as usize % RECENT];
        let place = match slot {
            Some(((of, process, name), place))
                if (*of, *process) == (tid, pid) && *name == *comm =>
            {
                *place
            }
            slot => {
                let thread = (tid, pid, *comm);
                let place = *self.known.entry(thread).or_insert_with(|| {
                    self.all.push(thread);
                    self.all.len() as u32 - 1
                });
                *slot = Some((thread, place));
                place
            }
        };
        self.rows.push(place);
    }

    /// The rows in another order.
    pub(super) fn sort(&mut self, order: &[u32]) {
        self.rows = sorted(&self.rows, order);
    }

    /// The rows with what each thread has, by its place in `of`.
    fn rows_of(&self, of: &Places) -> Vec<u32> {
        let place = |who: &u32| of.rows.get(*who as usize).copied().unwrap_or_default();
        self.rows.iter().map(place).collect()
    }

    /// What the rows have of a number.
    fn numbers(&self, number: impl Fn(&Thread) -> u32) -> (Places, Option<(i64, i64)>) {
        let all: Vec<i64> = self.all.iter().map(|who| i64::from(number(who) as i32)).collect();
        let (of, range) = numbers(size_of::<i32>(), &all);
        (Places { rows: self.rows_of(&of), ..of }, range)
    }

    /// The threads' numbers.
    pub(super) fn tids(&self) -> (Places, Option<(i64, i64)>) {
        self.numbers(|(tid, _, _)| *tid)
    }

    /// Those of their processes.
    pub(super) fn pids(&self) -> (Places, Option<(i64, i64)>) {
        self.numbers(|(_, pid, _)| *pid)
    }

    /// Their names.
    pub(super) fn comms(&self) -> Places {
        let mut of = Places::default();
        for (_, _, comm) in &self.all {
            let place = of.append(&printable(trim(comm)));
            of.rows.push(place);
        }
        let of = of.once();
        Places { rows: self.rows_of(&of), ..of }
    }
}

/// Values in another order: by what is there, where each comes from.
pub(super) fn sorted<T: Copy + Default>(values: &[T], order: &[u32]) -> Vec<T> {
    let value = |row: &u32| values.get(*row as usize).copied().unwrap_or_default();
    order.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_threads() {
        let name = |text: &[u8]| {
            let mut comm = Comm::default();
            comm[..text.len()].copy_from_slice(text);
            comm
        };
        let mut who = Who::default();
        let rows = [(7, 5, "a"), (6, 5, "a"), (7, 5, "a"), (7, 5, "b"), (7 + 64, 1, "b")];
        for (tid, pid, text) in rows {
            who.push(tid, pid, &name(text.as_bytes()));
        }
        who.sort(&[4, 3, 2, 1, 0]);
        let (tids, range) = who.tids();
        assert_eq!((tids.count(), range), (3, Some((6, 71))));
        let (pids, _) = who.pids();
        let comms = who.comms();
        let int = |of: &Places, row: usize| {
            i32::from_le_bytes(of.value(of.rows[row]).try_into().unwrap())
        };
        let text = |row: usize| String::from_utf8_lossy(&comms.value(comms.rows[row])[4..]);
        for (row, (tid, pid, name)) in rows.into_iter().rev().enumerate() {
            let told = (int(&tids, row), int(&pids, row), text(row));
            assert_eq!(told, (tid as i32, pid as i32, name.into()));
        }
        who.clear();
        assert_eq!(who.tids().0.count(), 0);
    }
}
