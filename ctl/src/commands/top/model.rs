//! What each thread did in an interval: accounting over events, in the order of time.
//!
//! At any moment a thread runs, waits for a CPU, is held back, or sleeps; the four add up to the
//! interval, but for a thread that was born, died, or of which nothing was known in it.

use rustc_hash::FxHashMap;

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::ring::Gap;

use super::doing::Doing;
use super::table::{Figures, Row, State, Table};
use crate::source::Recording;
use crate::text::sched::gave_way_to_idle;
use crate::threads::Threads;

/// Beyond so many threads those that did nothing in the last interval are forgotten.
const THREADS_MAX: usize = 1 << 16;
/// Most rows of threads that ended, or whose ids were used again, in one interval.
const ENDED_MAX: usize = 1 << 16;
/// `TASK_DEAD` (include/linux/sched.h).
const DEAD: u16 = 0x80;
/// `ERESTART*` (include/linux/errno.h): a call that was interrupted and goes on is no failure.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
/// `MAX_ERRNO` (include/linux/err.h).
const ERRNO_MAX: i64 = 4095;

#[derive(Debug, Default)]
struct Thread {
    state: State,
    since: u64,
    figures: Figures,
    /// It did something in this interval.
    active: bool,
    dead: bool,
    /// The call that it is in.
    call: Option<Box<Call>>,
}

impl Thread {
    /// Accounts for the time up to now.
    fn settle(&mut self, now: u64) {
        let time = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        let figure = match self.state {
            State::Unknown => return,
            // Who has ended waits for nothing.
            state if state.is_over() => return,
            State::Running => &mut self.figures.run,
            State::Waiting => &mut self.figures.delay,
            State::Held => &mut self.figures.held,
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
    /// Threads whose ids were used again since.
    ended: Vec<Row>,
    /// Those that there was no room for.
    unlisted: u64,
    /// What is told of threads beside the figures, if anything.
    doing: Option<Box<Doing>>,
}

impl Model {
    /// No accounts yet; `names` at the time of the first event to come.
    pub fn new(names: Threads) -> Self {
        Self {
            names,
            threads: FxHashMap::default(),
            running: Vec::new(),
            begun: 0,
            skipped: 0,
            ended: Vec::new(),
            unlisted: 0,
            doing: None,
        }
    }

    /// The same, with what threads are in the middle of, and their units. `recording` begins with
    /// the first event to come.
    #[must_use]
    pub fn telling(self, recording: &Recording) -> Self {
        Self { doing: Some(Box::new(Doing::new(recording))), ..self }
    }

    /// Goes past events, and past what is missing between them.
    pub fn take_all(&mut self, events: impl Iterator<Item = Event>, mut gaps: Vec<Gap>) {
        gaps.sort_by_key(|gap| gap.from);
        let mut gaps = gaps.iter().peekable();
        for event in events {
            while let Some(gap) = gaps.next_if(|gap| gap.from <= event.time) {
                self.miss(gap);
            }
            self.take(&event);
        }
        gaps.for_each(|gap| self.miss(gap));
    }

    /// Goes past an event.
    pub fn take(&mut self, event: &Event) {
        let (tid, now) = (event.tid, event.time);
        match &event.body {
            Body::Enter(call) => {
                let call = self.doing.is_some().then(|| Box::new(call.clone()));
                self.call(tid, now, call, |figures| figures.syscalls += 1);
            }
            Body::Exit { ret, .. } => {
                let failed = (-ERRNO_MAX..0).contains(ret) && !RESTARTS.contains(ret);
                self.call(tid, now, None, |figures| figures.errors += u64::from(failed));
            }
            Body::Switch { prev_state, preempted, next, .. } => {
                let state = match *prev_state {
                    state if gave_way_to_idle(state, *next == 0) => State::Held,
                    state if state != 0 && !preempted => State::Asleep(state),
                    _ => State::Waiting,
                };
                self.stop(tid, now, state);
                self.run(event.cpu, tid, *next, now);
            }
            Body::Waking { wakee, new, .. } => {
                // A new one never slept: who did had its id before, and nobody told of its end.
                if *new
                    && self
                        .threads
                        .get(wakee)
                        .is_some_and(|thread| matches!(thread.state, State::Asleep(_)))
                {
                    self.part(*wakee, now);
                }
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
                // Who had its id before has ended.
                self.part(fork.tid, now);
                if self.threads.len() >= THREADS_MAX {
                    self.part_with_the_dead(now);
                }
                self.threads.insert(fork.tid, Thread { since: now, ..Thread::default() });
            }
            Body::TaskExit(exit) => {
                if let Some(thread) = self.thread(exit.tid) {
                    (thread.dead, thread.active) = (true, true);
                }
            }
            _ => {}
        }
        if let Some(doing) = &mut self.doing {
            doing.apply(event, &self.names);
        }
        self.names.apply(event);
    }

    /// Events are missing. Where those are of scheduling, what threads do is unknown from then on.
    pub fn miss(&mut self, gap: &Gap) {
        let refused = gap
            .refused
            .iter()
            .take(Refusal::Own as usize)
            .fold(0, |sum: u64, n| sum.saturating_add(*n));
        let missing = gap.missing().unwrap_or(0).saturating_add(refused);
        self.skipped = self.skipped.saturating_add(missing);
        if gap.lane != Lane::Sched || missing == 0 && gap.lost.is_some() {
            return;
        }
        for thread in self.threads.values_mut() {
            thread.settle(gap.from);
            thread.state = State::Unknown;
        }
        self.running.clear();
    }

    /// Ends the interval: what was done in it.
    pub fn table(&mut self, now: u64) -> Table {
        let mut rows = std::mem::take(&mut self.ended);
        let mut threads = std::mem::take(&mut self.threads);
        for (tid, thread) in &mut threads {
            thread.settle(now);
            let figures = std::mem::take(&mut thread.figures);
            if thread.active || thread.state == State::Running || thread.state.is_stuck() {
                rows.push(self.row(*tid, thread, figures, now));
            }
        }
        threads.retain(|_, thread| !thread.dead);
        if threads.len() > THREADS_MAX {
            threads.retain(|_, thread| thread.active);
        }
        for thread in threads.values_mut() {
            thread.active = false;
        }
        self.threads = threads;
        let length = now.saturating_sub(self.begun);
        self.begun = now;
        let (skipped, unlisted) =
            (std::mem::take(&mut self.skipped), std::mem::take(&mut self.unlisted));
        Table { length, rows, skipped, unlisted }
    }

    /// A thread's row, at `now`.
    fn row(&self, tid: u32, thread: &Thread, figures: Figures, now: u64) -> Row {
        let (pid, state) = (self.names.tgid(tid, now), thread.state);
        let doing = self.doing.as_ref().map(|doing| {
            let unit = doing.unit(self.names.cgroup(tid, now));
            (unit, doing.text(state, thread.call.as_deref(), tid, pid))
        });
        let (unit, doing) = doing.unwrap_or_default();
        Row { tid, pid, comm: self.names.comm(tid, 0, now).into(), state, figures, unit, doing }
    }

    /// Ends the account of whoever has this id: it is another's from now on.
    fn part(&mut self, tid: u32, now: u64) {
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        // Who slept before its end was not heard of: until when is not known.
        if !matches!(thread.state, State::Asleep(_)) {
            thread.settle(now);
        }
        thread.state = State::Asleep(DEAD);
        if thread.figures == Figures::default() {
            return;
        }
        if self.ended.len() < ENDED_MAX {
            let row = self.row(tid, &thread, thread.figures, now);
            self.ended.push(row);
        } else {
            self.unlisted += 1;
        }
    }

    /// Ends the accounts of all that have ended.
    fn part_with_the_dead(&mut self, now: u64) {
        let dead = |(tid, thread): (&u32, &Thread)| thread.dead.then_some(*tid);
        let dead: Vec<u32> = self.threads.iter().filter_map(dead).collect();
        for tid in dead {
            self.part(tid, now);
        }
    }

    /// A thread's account. The idle threads have none.
    fn thread(&mut self, tid: u32) -> Option<&mut Thread> {
        (tid != 0).then(|| self.threads.entry(tid).or_default())
    }

    /// Whoever makes system calls runs.
    fn call(
        &mut self,
        tid: u32,
        now: u64,
        call: Option<Box<Call>>,
        count: impl FnOnce(&mut Figures),
    ) {
        let Some(thread) = self.thread(tid) else { return };
        if thread.state != State::Running {
            thread.set(State::Running, now);
        }
        (thread.active, thread.call) = (true, call);
        count(&mut thread.figures);
    }

    fn stop(&mut self, tid: u32, now: u64, state: State) {
        if state.is_over() {
            // Its end may have been in the interval before.
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.set(state, now);
                thread.dead = true;
            }
        } else if let Some(thread) = self.thread(tid) {
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
        table
            .rows
            .iter()
            .find(|row| row.tid == tid)
            .unwrap_or_else(|| panic!("no {tid} in {table:?}"))
            .clone()
    }

    fn failing(time: u64, tid: u32, ret: i64) -> Event {
        let Event { body: Body::Exit { call, entered, .. }, .. } = exit(time, 0, tid, 0) else {
            panic!()
        };
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
        assert_eq!(
            (row.figures.run, row.figures.delay, row.figures.blocked),
            (30 + 10 + 5, 20 + 5, 30)
        );
        assert_eq!(row.state, State::Running);
        assert!(table.rows.iter().all(|row| row.tid != 0), "the idle thread is none");
        // It goes on running, without any event.
        let next = of(&model.table(300), 5);
        assert_eq!(next.figures, Figures { run: 100, ..Figures::default() });
    }

    /// The quota of its control group is spent: nobody takes the CPU, and nobody wakes it.
    #[test]
    fn who_gives_way_to_idle_does_not_wait_for_a_cpu() {
        let mut model =
            run(vec![switch(100, 0, 7, 1, 5), switch(130, 0, 5, 0, 0), switch(180, 0, 0, 0, 5)]);
        let held =
            |row: &Row| (row.figures.run, row.figures.held, row.figures.delay, row.figures.blocked);
        assert_eq!(held(&of(&model.table(190), 5)), (40, 50, 0, 0));
        model.take(&switch(200, 0, 5, 0, 0));
        let row = of(&model.table(250), 5);
        assert_eq!((held(&row), row.state, row.state.letter()), ((10, 50, 0, 0), State::Held, 'R'));
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
        let gone =
            TaskExit { tid: 5, tgid: 5, code: 0, reserved: 0, start_time: 0, comm: comm("x") };
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

    /// A thread's end, as its own events tell.
    fn ended(time: u64, tid: u32, name: &str) -> [Event; 2] {
        let gone =
            TaskExit { tid, tgid: tid, code: 0, reserved: 0, start_time: 0, comm: comm(name) };
        [event(time, 0, tid, Body::TaskExit(gone)), switch(time + 1, 0, tid, DEAD, 0)]
    }

    #[test]
    fn nobody_is_blocked_before_its_birth_or_behind_its_end() {
        let mut events = vec![event(10, 0, 1, Body::Fork(fork(1, 1, 5, 5, "first")))];
        events.extend([
            waking(12, 0, 1, 5, 0),
            switch(12, 0, 1, 1, 5),
            switch(15, 0, 5, 1, 0),
            waking(25, 0, 1, 5, 0),
        ]);
        events.push(switch(25, 0, 0, 0, 5));
        events.extend(ended(27, 5, "first"));
        // Its id is used again, long after.
        events.push(event(500, 0, 1, Body::Fork(fork(1, 1, 5, 5, "other"))));
        events.extend([waking(502, 0, 1, 5, 0), switch(502, 0, 0, 0, 5)]);
        events.extend(ended(505, 5, "other"));
        let table = run(events).table(1000);
        let mut rows: Vec<_> = table
            .rows
            .iter()
            .filter(|row| row.tid == 5)
            .map(|row| (row.figures, row.state.letter()))
            .collect();
        rows.sort_by_key(|(figures, _)| figures.run);
        let figures = |run, delay, blocked| Figures { run, delay, blocked, ..Figures::default() };
        assert_eq!(rows, [(figures(4, 0, 0), 'X'), (figures(6, 0, 10), 'X')]);
        assert!(table.rows.iter().any(|row| &*row.comm == b"first"), "{table:?}");
    }

    #[test]
    fn what_threads_are_in_is_told_where_it_is_asked_for() {
        let events = || {
            vec![enter(10, 0, 5, 0), switch(20, 0, 5, 1, 6), enter(30, 0, 6, 0), exit(40, 0, 6, 0)]
        };
        let meta = flightrec_format::meta::Meta::default();
        let recording = crate::source::Collector::new(meta)
            .finish(flightrec_format::control::Totals::default());
        let mut telling = Model::new(Threads::default()).telling(&recording);
        telling.take_all(events().into_iter(), Vec::new());
        let table = telling.table(50);
        assert_eq!((&*of(&table, 5).doing, &*of(&table, 6).doing), ("read()", ""));
        assert_eq!(of(&run(events()).table(50), 5).doing, "");
    }

    #[test]
    fn a_birth_that_nobody_told_of_ends_the_one_before() {
        let mut new = waking(500, 0, 1, 5, 0);
        if let Body::Waking { new, .. } = &mut new.body {
            *new = true;
        }
        let mut model = run(vec![switch(10, 0, 5, 1, 0), new, switch(503, 0, 0, 0, 5)]);
        assert_eq!(
            of(&model.table(504), 5).figures,
            Figures { run: 1, delay: 3, ..Figures::default() }
        );
    }

    #[test]
    fn an_end_over_two_intervals_leaves_nothing_behind() {
        let mut model = run(vec![switch(10, 0, 0, 0, 5)]);
        let [exit, switch] = ended(19, 5, "x");
        model.take(&exit);
        assert_eq!(of(&model.table(20), 5).figures.run, 10);
        model.take(&switch);
        assert!(model.table(30).rows.is_empty() && model.threads.is_empty());
    }

    #[test]
    fn more_threads_than_are_kept_end_one_by_one() {
        let mut model = Model::new(Threads::default());
        let births = THREADS_MAX as u32 + 1000;
        for i in 0..births {
            let (tid, time) = (10 + i, 1 + u64::from(i) * 10);
            model.take(&event(time, 0, 1, Body::Fork(fork(1, 1, tid, tid, "sh"))));
            model.take(&waking(time + 1, 0, 1, tid, 0));
            model.take(&switch(time + 2, 0, 0, 0, tid));
            let [exit, switch] = ended(time + 3, tid, "sh");
            model.take(&exit);
            model.take(&switch);
            assert!(model.threads.len() <= THREADS_MAX + 1);
        }
        let table = model.table(u64::from(births) * 10 + 100);
        let all = table.rows.len() as u64 + table.unlisted;
        // The thread that makes them does nothing else.
        assert_eq!(
            (all, table.rows.iter().all(|row| row.figures.run == 2)),
            (u64::from(births), true)
        );
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
        let gap = |lane, from, until| Gap {
            lane,
            cpu: 0,
            from,
            until,
            lost: Some(flightrec_format::abi::counts::Counts::first([99])),
            refused: [0, 1, 0],
            reason: flightrec_format::ring::Reason::Overwritten,
        };
        model.miss(&gap(Lane::Syscall, 20, 25));
        model.miss(&gap(Lane::Sched, 30, 50));
        let table = model.table(60);
        assert_eq!(table.skipped, 200);
        assert_eq!((of(&table, 6).figures.run, of(&table, 6).state), (20, State::Unknown));
        // Without a gap that anyone told of: another thread runs there.
        let mut model = run(vec![switch(10, 0, 5, 1, 6), switch(20, 0, 8, 1, 9)]);
        assert_eq!(of(&model.table(30), 6).figures.run, 10);
    }
}
