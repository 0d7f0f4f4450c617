//! What each thread did in an interval: accounting over events, in the order of time.
//!
//! At any moment a thread runs, waits for a CPU, or sleeps; the three add up to the interval, but for a thread that
//! was born, died, or of which nothing was known in it.

use rustc_hash::FxHashMap;

use flightrec_format::decode::{Body, Event};

use super::Column;
use crate::pipeline::threads::Threads;

/// Beyond so many threads those that did nothing in the last interval are forgotten.
const THREADS_MAX: usize = 1 << 16;
/// `ERESTART*` (include/linux/errno.h): a call that was interrupted and goes on is no failure.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
/// `MAX_ERRNO` (include/linux/err.h).
const ERRNO_MAX: i64 = 4095;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Runs.
    Running,
    /// Waits for a CPU.
    Waiting,
    /// Sleeps, in this `task_struct.__state`.
    Asleep(u16),
}

impl State {
    /// One letter, as `ps` has them.
    pub fn letter(self) -> char {
        const INTERRUPTIBLE: u16 = 1;
        const UNINTERRUPTIBLE: u16 = 2;
        const STOPPED: u16 = 0x4 | 0x8;
        const NO_LOAD: u16 = 0x400;
        match self {
            Self::Unknown => '?',
            Self::Running | Self::Waiting => 'R',
            Self::Asleep(state) if state & INTERRUPTIBLE != 0 => 'S',
            Self::Asleep(state) if state & UNINTERRUPTIBLE != 0 && state & NO_LOAD != 0 => 'I',
            Self::Asleep(state) if state & UNINTERRUPTIBLE != 0 => 'D',
            Self::Asleep(state) if state & STOPPED != 0 => 'T',
            Self::Asleep(_) => 'X',
        }
    }
}

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
            Column::Blocked => self.blocked,
        }
    }
}

/// A thread in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// All threads that did anything in an interval, or sleep uninterruptibly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Length of the interval, ns.
    pub length: u64,
    /// The threads, in no order.
    pub rows: Vec<Row>,
    /// Events that were written over before they were read.
    pub skipped: u64,
}

impl Table {
    /// The rows that a person asked for: with `filter` in name, thread id or process id, greatest first.
    pub fn view(&self, filter: &str, sort: Column) -> Vec<&Row> {
        let wanted = |row: &&Row| {
            filter.is_empty()
                || row.tid.to_string().contains(filter)
                || row.pid.to_string().contains(filter)
                || String::from_utf8_lossy(&row.comm).contains(filter)
        };
        let mut rows: Vec<&Row> = self.rows.iter().filter(wanted).collect();
        rows.sort_by_key(|row| {
            let Figures { run, syscalls, .. } = row.figures;
            (std::cmp::Reverse((row.figures.get(sort), run, syscalls)), row.tid)
        });
        rows
    }

    /// The sum of a figure.
    pub fn total(&self, column: Column) -> u64 {
        self.rows.iter().map(|row| row.figures.get(column)).fold(0, u64::saturating_add)
    }
}

#[derive(Debug, Default)]
struct Thread {
    state: State,
    since: u64,
    figures: Figures,
    /// It did something in this interval.
    active: bool,
    dead: bool,
}

impl Thread {
    /// Accounts for the time up to now.
    fn settle(&mut self, now: u64) {
        let time = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        let figure = match self.state {
            State::Unknown => return,
            State::Running => &mut self.figures.run,
            State::Waiting => &mut self.figures.delay,
            State::Asleep(_) => &mut self.figures.blocked,
        };
        *figure = figure.saturating_add(time);
    }

    fn set(&mut self, state: State, now: u64) {
        self.settle(now);
        self.since = self.since.max(now);
        (self.state, self.active) = (state, true);
    }
}

/// All threads, now.
#[derive(Debug)]
pub struct Model {
    names: Threads,
    threads: FxHashMap<u32, Thread>,
    /// Thread that runs, by CPU; 0: none, or unknown.
    running: Vec<u32>,
    /// When the interval began.
    begun: u64,
    skipped: u64,
}

impl Model {
    /// No accounts yet; `names` at the time of the first event to come.
    pub fn new(names: Threads) -> Self {
        Self { names, threads: FxHashMap::default(), running: Vec::new(), begun: 0, skipped: 0 }
    }

    /// Goes past an event.
    pub fn take(&mut self, event: &Event) {
        let (tid, now) = (event.tid, event.time);
        match &event.body {
            Body::Enter(_) => self.call(tid, now, |figures| figures.syscalls += 1),
            Body::Exit { ret, .. } => {
                let failed = (-ERRNO_MAX..0).contains(ret) && !RESTARTS.contains(ret);
                self.call(tid, now, |figures| figures.errors += u64::from(failed));
            }
            Body::Switch { prev_state, preempted, next, .. } => {
                let sleeps = *prev_state != 0 && !preempted;
                self.stop(tid, now, if sleeps { State::Asleep(*prev_state) } else { State::Waiting });
                self.run(event.cpu, tid, *next, now);
            }
            Body::Waking { wakee, .. } => {
                if let Some(thread) = self.thread(*wakee)
                    && matches!(thread.state, State::Asleep(_) | State::Unknown)
                {
                    thread.set(State::Waiting, now);
                }
            }
            Body::Exec { exec, .. } if exec.old_tid != exec.tid => {
                // It goes on under the id of its process.
                if let Some(thread) = self.threads.remove(&exec.old_tid) {
                    self.threads.insert(exec.tid, thread);
                }
                for running in self.running.iter_mut().filter(|tid| **tid == exec.old_tid) {
                    *running = exec.tid;
                }
            }
            Body::Fork(fork) => {
                self.threads.insert(fork.tid, Thread { since: now, ..Thread::default() });
            }
            Body::TaskExit(exit) => {
                if let Some(thread) = self.thread(exit.tid) {
                    (thread.dead, thread.active) = (true, true);
                }
            }
            _ => {}
        }
        self.names.apply(event);
    }

    /// Events are missing up to a moment: what threads do is then unknown.
    pub fn miss(&mut self, events: u64, until: u64) {
        self.skipped = self.skipped.saturating_add(events);
        for thread in self.threads.values_mut() {
            thread.set(State::Unknown, until);
        }
        self.running.clear();
    }

    /// Ends the interval: what was done in it.
    pub fn table(&mut self, now: u64) -> Table {
        let mut rows = Vec::new();
        for (tid, thread) in &mut self.threads {
            thread.settle(now);
            let figures = std::mem::take(&mut thread.figures);
            if thread.active || thread.state == State::Running || thread.state.letter() == 'D' {
                let comm = self.names.comm(*tid, 0, now).into();
                rows.push(Row { tid: *tid, pid: self.names.tgid(*tid, now), comm, state: thread.state, figures });
            }
        }
        self.threads.retain(|_, thread| !thread.dead);
        if self.threads.len() > THREADS_MAX {
            self.threads.retain(|_, thread| thread.active);
        }
        for thread in self.threads.values_mut() {
            thread.active = false;
        }
        let length = now.saturating_sub(self.begun);
        self.begun = now;
        Table { length, rows, skipped: std::mem::take(&mut self.skipped) }
    }

    /// A thread's account. The idle threads have none.
    fn thread(&mut self, tid: u32) -> Option<&mut Thread> {
        (tid != 0).then(|| self.threads.entry(tid).or_default())
    }

    /// Whoever makes system calls runs.
    fn call(&mut self, tid: u32, now: u64, count: impl FnOnce(&mut Figures)) {
        let Some(thread) = self.thread(tid) else { return };
        if thread.state != State::Running {
            thread.set(State::Running, now);
        }
        thread.active = true;
        count(&mut thread.figures);
    }

    fn stop(&mut self, tid: u32, now: u64, state: State) {
        if let Some(thread) = self.thread(tid) {
            // The switch itself says that it ran.
            thread.set(state, now);
        }
    }

    /// `next` runs on `cpu`, on which `prev` stopped.
    fn run(&mut self, cpu: u16, prev: u32, next: u32, now: u64) {
        let at = usize::from(cpu);
        if at >= self.running.len() {
            self.running.resize(at + 1, 0);
        }
        let before = self.running.get(at).copied().unwrap_or(0);
        // Events between were lost.
        if before != prev
            && let Some(thread) = self.threads.get_mut(&before)
            && thread.state == State::Running
        {
            thread.set(State::Unknown, now);
        }
        if let Some(running) = self.running.get_mut(at) {
            *running = next;
        }
        if let Some(thread) = self.thread(next) {
            thread.set(State::Running, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::testing::{comm, enter, event, exit, fork, switch, waking};
    use flightrec_format::abi::record::{Exec, TaskExit};

    fn run(events: Vec<Event>) -> Model {
        let mut model = Model::new(Threads::default());
        for event in events {
            model.take(&event);
        }
        model
    }

    fn of(table: &Table, tid: u32) -> Row {
        table.rows.iter().find(|row| row.tid == tid).unwrap_or_else(|| panic!("no {tid} in {table:?}")).clone()
    }

    fn failing(time: u64, tid: u32, ret: i64) -> Event {
        let Event { body: Body::Exit { call, entered, .. }, .. } = exit(time, 0, tid, 0) else { panic!() };
        event(time, 0, tid, Body::Exit { call, ret, entered })
    }

    #[test]
    fn a_thread_runs_waits_and_sleeps() {
        let mut model = run(vec![
            switch(100, 0, 7, 1, 5),
            switch(130, 0, 5, 0, 7), // preempted
            switch(150, 0, 7, 1, 5),
            switch(160, 0, 5, 1, 0), // sleeps
            waking(190, 1, 7, 5, 0),
            switch(195, 0, 0, 0, 5),
        ]);
        let table = model.table(200);
        let row = of(&table, 5);
        assert_eq!((row.figures.run, row.figures.delay, row.figures.blocked), (30 + 10 + 5, 20 + 5, 30));
        assert_eq!(row.state, State::Running);
        assert!(table.rows.iter().all(|row| row.tid != 0), "the idle thread is none");
        // It goes on running, without any event.
        let next = of(&model.table(300), 5);
        assert_eq!(next.figures, Figures { run: 100, ..Figures::default() });
    }

    #[test]
    fn calls_and_failures_but_no_restarts() {
        let mut model = run(vec![
            enter(10, 0, 5, 0),
            failing(11, 5, -2),
            enter(12, 0, 5, 0),
            failing(13, 5, -512),
            enter(14, 0, 5, 0),
            failing(15, 5, -5000),
        ]);
        let row = of(&model.table(20), 5);
        assert_eq!((row.figures.syscalls, row.figures.errors, row.figures.run), (3, 1, 10));
    }

    #[test]
    fn who_does_nothing_is_left_out_unless_it_is_stuck() {
        let mut model = run(vec![switch(10, 0, 5, 1, 6), switch(20, 0, 6, 2, 0)]);
        assert_eq!(model.table(30).rows.len(), 2);
        let table = model.table(40);
        assert_eq!(table.rows.iter().map(|row| row.tid).collect::<Vec<_>>(), [6]);
        assert_eq!((of(&table, 6).state.letter(), of(&table, 6).figures.blocked), ('D', 10));
    }

    #[test]
    fn the_dead_are_shown_once() {
        let gone = TaskExit { tid: 5, tgid: 5, code: 0, reserved: 0, start_time: 0, comm: comm("x") };
        let mut model = run(vec![
            event(10, 0, 1, Body::Fork(fork(1, 1, 5, 5, "sh"))),
            waking(10, 0, 1, 5, 0),
            switch(12, 0, 1, 1, 5),
            event(18, 0, 5, Body::TaskExit(gone)),
            switch(19, 0, 5, 0x80, 0),
        ]);
        let row = of(&model.table(20), 5);
        assert_eq!((row.figures.delay, row.figures.run, row.state.letter()), (2, 7, 'X'));
        assert!(model.table(30).rows.is_empty());
    }

    #[test]
    fn exec_takes_the_leaders_id() {
        let exec = Exec { tid: 7, old_tid: 9, tgid: 7, args_len: 0, cgroup: 0, comm: comm("new") };
        let mut model = run(vec![
            switch(10, 0, 0, 0, 9),
            event(20, 0, 7, Body::Exec { exec, file: None, args: None }),
            switch(30, 0, 7, 1, 0),
        ]);
        let table = model.table(30);
        assert_eq!((of(&table, 7).figures.run, table.rows.len()), (20, 1));
    }

    #[test]
    fn what_is_missed_is_not_made_up() {
        let mut model = run(vec![switch(10, 0, 5, 1, 6)]);
        model.miss(99, 50);
        let table = model.table(60);
        assert_eq!(table.skipped, 99);
        assert_eq!((of(&table, 6).figures.run, of(&table, 6).state), (40, State::Unknown));
        // Without a gap that anyone told of: another thread runs there.
        let mut model = run(vec![switch(10, 0, 5, 1, 6), switch(20, 0, 8, 1, 9)]);
        assert_eq!(of(&model.table(30), 6).figures.run, 10);
    }

    #[test]
    fn the_view_is_filtered_and_sorted() {
        let row = |tid, name: &str, run, delay| {
            let figures = Figures { run, delay, ..Figures::default() };
            Row { tid, pid: 700, comm: name.as_bytes().into(), state: State::Running, figures }
        };
        let table =
            Table { rows: vec![row(1, "web", 5, 0), row(2, "db", 9, 1), row(3, "web2", 7, 1)], ..Table::default() };
        let tids = |filter, sort| table.view(filter, sort).iter().map(|row| row.tid).collect::<Vec<_>>();
        assert_eq!(tids("", Column::Run), [2, 3, 1]);
        assert_eq!(tids("", Column::Delay), [2, 3, 1]);
        assert_eq!(tids("web", Column::Run), [3, 1]);
        assert_eq!(tids("2", Column::Run), [2, 3]);
        assert_eq!(tids("700", Column::Blocked), [2, 3, 1]);
        assert_eq!(tids("nobody", Column::Run), [0; 0]);
        assert_eq!((table.total(Column::Run), table.total(Column::Errors)), (21, 0));
    }
}
