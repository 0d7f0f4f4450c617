//! What each thread did in an interval: the sums of the intervals that `flightrec_analysis` finds
//! in the events.
//!
//! Run, delay, held and blocked time add up to the interval, but for a thread that was born or died
//! in it, and for times in which it is not known what the thread did.

use flightrec_analysis::{self as analysis, Failures, Interval, Observer, State, Waker};
use flightrec_format::abi::page::Refusal;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_reader::source::PageSet;
use flightrec_reader::threads::Threads;

use super::doing::Doing;
use super::table::{Figures, Row, Table};
use crate::text::escape;

/// Most rows of threads that ended, or whose ids were used again, in one interval.
const ENDED_MAX: usize = 1 << 16;

/// What a thread did in this interval.
#[derive(Debug, Default)]
struct Account {
    figures: Figures,
    /// It did something.
    active: bool,
    /// The call that it is in, where that is told.
    call: Option<Box<Call>>,
    /// What woke it last, in any interval.
    waker: Option<Waker>,
}

impl Account {
    fn add(&mut self, interval: &Interval) {
        self.waker = interval.waker.or(self.waker);
        let figure = match interval.state {
            State::Unknown | State::Dead => return,
            State::Running => &mut self.figures.run,
            State::Runnable => &mut self.figures.delay,
            State::Held => &mut self.figures.held,
            State::Blocked(_) | State::Stopped(_) => &mut self.figures.blocked,
        };
        *figure = figure.saturating_add(interval.ns());
    }
}

/// All threads, now.
#[derive(Debug)]
pub struct Model {
    threads: analysis::Threads<Account>,
    failures: Failures,
    rows: Rows,
    /// When the interval began.
    begun: u64,
    skipped: u64,
}

/// Makes rows of accounts.
#[derive(Debug)]
struct Rows {
    names: Threads,
    /// Threads that have ended since the interval began.
    ended: Vec<Row>,
    /// Those that there was no room for.
    unlisted: u64,
    /// What is told of threads beside the figures, if anything.
    doing: Option<Box<Doing>>,
}

impl Model {
    /// No accounts yet; `names` at the time of the first event to come.
    pub fn new(names: Threads, meta: &Meta) -> Self {
        let mut threads = analysis::Threads::new(0, false);
        threads.know(meta);
        Self {
            threads,
            failures: Failures::new(meta),
            rows: Rows { names, ended: Vec::new(), unlisted: 0, doing: None },
            begun: 0,
            skipped: 0,
        }
    }

    /// The same, with what threads are in the middle of, and their units. `recording` begins with
    /// the first event to come.
    #[must_use]
    pub fn telling(mut self, recording: &PageSet) -> Self {
        self.rows.doing = Some(Box::new(Doing::new(recording)));
        self
    }

    /// Goes past events, and past what is missing between them.
    pub fn take_all(&mut self, events: impl Iterator<Item = Event>, mut gaps: Vec<Gap>) {
        gaps.sort_by_key(|gap| gap.from);
        let mut gaps = gaps.iter().peekable();
        for event in events {
            while let Some(gap) = gaps.next_if(|gap| gap.begins_before(event.time)) {
                self.miss(gap);
            }
            self.take(&event);
        }
        gaps.for_each(|gap| self.miss(gap));
    }

    /// Goes past an event.
    pub fn take(&mut self, event: &Event) {
        if let Some(account) = self.threads.take(event, &mut self.rows) {
            account.active = true;
            account.call = None;
            match &event.body {
                Body::Enter(call) => {
                    account.figures.syscalls += 1;
                    account.call = self.rows.doing.is_some().then(|| Box::new(call.clone()));
                }
                Body::Exit { call, ret, .. } => {
                    let failure = self.failures.failure(call.abi, call.nr, *ret);
                    account.figures.errors += u64::from(failure.is_some());
                }
                _ => {}
            }
        }
        if let Some(doing) = &mut self.rows.doing {
            doing.apply(event, &self.rows.names);
        }
        self.rows.names.apply(event);
    }

    /// Events are missing.
    pub fn miss(&mut self, gap: &Gap) {
        let refused = gap
            .refused
            .iter()
            .take(Refusal::Own as usize)
            .fold(0, |sum: u64, n| sum.saturating_add(*n));
        let missing = gap.missing().unwrap_or(0).saturating_add(refused);
        self.skipped = self.skipped.saturating_add(missing);
        self.threads.miss(gap, &mut self.rows);
    }

    /// Ends the interval: what was done in it.
    pub fn table(&mut self, now: u64) -> Table {
        let mut rows = std::mem::take(&mut self.rows.ended);
        self.threads.settle(now, |account, interval| {
            account.add(interval);
            let figures = std::mem::take(&mut account.figures);
            let active = std::mem::take(&mut account.active);
            let shows = match interval.state {
                State::Running | State::Runnable | State::Held => true,
                state => active || state.is_uninterruptible(),
            };
            if shows {
                let call = account.call.as_deref().filter(|_| interval.call.is_some());
                let woken = account.waker;
                rows.push(self.rows.row(interval.tid, interval.state, (call, woken), figures, now));
            }
        });
        let length = now.saturating_sub(self.begun);
        self.begun = now;
        let (skipped, unlisted) =
            (std::mem::take(&mut self.skipped), std::mem::take(&mut self.rows.unlisted));
        Table { length, rows, skipped, unlisted }
    }
}

impl Rows {
    /// A thread's row, at `now`.
    fn row(
        &self,
        tid: u32,
        state: State,
        (call, waker): (Option<&Call>, Option<Waker>),
        figures: Figures,
        now: u64,
    ) -> Row {
        let pid = self.names.tgid(tid, now);
        let doing = self.doing.as_ref().map(|doing| {
            let unit = doing.unit(self.names.cgroup(tid, now));
            (unit, doing.text(state, call, tid, pid))
        });
        let (unit, doing) = doing.unwrap_or_default();
        let woken = waker.map(|waker| self.woken(waker, now)).unwrap_or_default();
        let comm = self.names.comm(tid, 0, now).into();
        Row { tid, pid, comm, state, figures, unit, woken, doing }
    }

    /// The thread that woke another, or the interrupt.
    fn woken(&self, waker: Waker, now: u64) -> String {
        let Some(tid) = waker.thread() else { return waker.context.name().to_owned() };
        let mut name = Vec::new();
        escape(self.names.comm(tid, 0, now), &mut name);
        format!("{} {tid}", String::from_utf8_lossy(&name)).trim_start().to_owned()
    }
}

impl Observer for Rows {
    type Account = Account;

    #[inline]
    fn ended(&mut self, account: &mut Account, interval: &Interval) {
        account.add(interval);
        account.active |= matches!(interval.state, State::Running | State::Runnable | State::Held);
    }

    fn gone(&mut self, tid: u32, account: Account, state: State, now: u64) {
        if account.figures == Figures::default() {
            return;
        }
        if self.ended.len() < ENDED_MAX {
            let row = self.row(tid, state, (None, account.waker), account.figures, now);
            self.ended.push(row);
        } else {
            self.unlisted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::abi::page::Lane;
    use flightrec_format::abi::record::{Exec, TaskExit, WakeContext};
    use flightrec_reader::pipeline::testing::{comm, enter, event, exit, fork, switch, waking};

    fn run(events: Vec<Event>) -> Model {
        let mut model = Model::new(Threads::default(), &Meta::default());
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

    #[test]
    fn what_woke_a_thread_last() {
        let mut by_interrupt = waking(190, 0, 7, 5, 0);
        if let Body::Waking { context, .. } = &mut by_interrupt.body {
            *context = WakeContext::Softirq;
        }
        let mut model = run(vec![
            switch(100, 0, 5, 1, 7),
            by_interrupt,
            switch(195, 0, 7, 0, 5),
            switch(200, 0, 5, 1, 0),
        ]);
        assert_eq!(of(&model.table(210), 5).woken, "softirq");
        model.take(&waking(220, 1, 7, 5, 0));
        assert_eq!(of(&model.table(230), 5).woken, "7", "a thread without a name");
        assert_eq!(of(&model.table(240), 5).woken, "7", "and nothing since");
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
        let gone = TaskExit { tid: 5, tgid: 5, code: 0, left: 0, start_time: 0, comm: comm("x") };
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
        let gone = TaskExit { tid, tgid: tid, code: 0, left: 0, start_time: 0, comm: comm(name) };
        [event(time, 0, tid, Body::TaskExit(gone)), switch(time + 1, 0, tid, 0x80, 0)]
    }

    #[test]
    fn nobody_is_blocked_before_its_birth_or_after_its_end() {
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
        let meta = Meta::default();
        let recording = flightrec_reader::source::Collector::new(meta)
            .finish(flightrec_format::control::Totals::default());
        let mut telling = Model::new(Threads::default(), &Meta::default()).telling(&recording);
        telling.take_all(events().into_iter(), Vec::new());
        let table = telling.table(50);
        assert_eq!((&*of(&table, 5).doing, &*of(&table, 6).doing), ("read()", ""));
        assert_eq!(of(&run(events()).table(50), 5).doing, "");
    }

    #[test]
    fn a_birth_that_nobody_told_of_ends_the_one_before() {
        let mut new = waking(500, 1, 1, 5, 0);
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
        assert!(model.table(30).rows.is_empty());
    }

    #[test]
    fn more_threads_than_are_listed_are_counted() {
        let mut model = Model::new(Threads::default(), &Meta::default());
        let births = ENDED_MAX as u32 + 1000;
        for i in 0..births {
            let (tid, time) = (10 + i, 1 + u64::from(i) * 10);
            model.take(&event(time, 0, 1, Body::Fork(fork(1, 1, tid, tid, "sh"))));
            model.take(&waking(time + 1, 0, 1, tid, 0));
            model.take(&switch(time + 2, 0, 0, 0, tid));
            let [exit, switch] = ended(time + 3, tid, "sh");
            model.take(&exit);
            model.take(&switch);
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
