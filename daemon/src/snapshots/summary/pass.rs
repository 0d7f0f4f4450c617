//! One pass over the events of a window.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use flightrec_analysis::{CallId, Failures, Interval, Observer, State, Threads, Waker, gives_way};
use flightrec_format::abi::record::Abi;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::abi::slot::{BLOCKED, IN_SYSCALL, TaskSlot};
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_format::symbols::Symbols;
use flightrec_store::snapshot::{About, Failure, Hog, Involved, Summary, Wait, WaitKind};

use super::Living;
use crate::snapshots::names::{self, Names};

/// Lines of each list.
const LINES: usize = 10;
/// Waits of one thread that are told.
const WAITS_OF_ONE: usize = 2;
/// Waits that are held until the list is cut to what can still be told.
const WAITS_HELD: usize = 4096;
/// Threads that have ended, and kinds of failure, that are followed.
const FOLLOWED_MOST: usize = 1 << 16;

/// What a thread did.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    ran: u64,
    queued: u64,
    held: u64,
    blocked: u64,
    calls: u64,
}

/// What threads did, and the longest times that they waited.
#[derive(Debug)]
struct Waits<'a> {
    about: &'a About,
    longest: Vec<Interval>,
    /// Stacks of waits, by thread and when the wait began; at most [`WAITS_HELD`], and in the end
    /// those of `longest`.
    stacks: HashMap<(u32, u64), Box<[u32]>>,
    /// Threads that have ended.
    over: HashMap<u32, Account>,
    /// Threads of a positive nice value, when they came to a CPU last; at most [`FOLLOWED_MOST`].
    nice: HashSet<u32>,
}

/// What has been seen so far.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    from: u64,
    until: u64,
    about: &'a About,
    meta: &'a Meta,
    symbols: Symbols,
    living: &'a Living,
    /// By CPU: when the last thread came there.
    came: HashMap<u16, u64>,
    names: Names,
    threads: Threads<Account>,
    waits: Waits<'a>,
    errors: Failures,
    failures: HashMap<(CallId, i32, u32), u64>,
}

impl Account {
    fn add(&mut self, interval: &Interval) {
        let sum = match interval.state {
            State::Unknown | State::Dead => return,
            State::Running => &mut self.ran,
            State::Runnable => &mut self.queued,
            State::Held => &mut self.held,
            State::Blocked(_) | State::Stopped(_) => &mut self.blocked,
        };
        *sum += interval.ns();
    }

    fn sum(&mut self, other: Self) {
        let Self { ran, queued, held, blocked, calls } = other;
        self.ran += ran;
        self.queued += queued;
        self.held += held;
        self.blocked += blocked;
        self.calls += calls;
    }
}

impl Observer for Waits<'_> {
    type Account = Account;

    fn ended(&mut self, account: &mut Account, interval: &Interval) {
        account.add(interval);
        if !matches!(interval.state, State::Unknown | State::Running | State::Dead) {
            self.longest.push(*interval);
        }
        if self.longest.len() >= WAITS_HELD {
            self.cut();
        }
    }

    fn gone(&mut self, tid: u32, account: Account, _: State, _: u64) {
        self.over.entry(tid).or_default().sum(account);
        if self.over.len() >= FOLLOWED_MOST {
            let long = hogs(&self.over).into_iter().map(|(_, tid)| tid);
            let kept: HashSet<u32> = long.chain(self.about.threads.iter().copied()).collect();
            self.over.retain(|tid, _| kept.contains(tid));
        }
    }
}

impl Waits<'_> {
    /// A thread comes to a CPU with this priority.
    fn learn(&mut self, tid: u32, prio: u8) {
        if !gives_way(prio) {
            self.nice.remove(&tid);
        } else if self.nice.len() < FOLLOWED_MOST {
            self.nice.insert(tid);
        }
    }

    /// Leaves the worst waits.
    fn cut(&mut self) {
        let (about, nice) = (self.about, &self.nice);
        self.longest.sort_by_key(|wait| (rank(about, nice, wait), Reverse(wait.ns())));
        let mut of: HashMap<u32, usize> = HashMap::new();
        self.longest.retain(|wait| {
            let told = of.entry(wait.tid).or_default();
            *told += 1;
            *told <= WAITS_OF_ONE
        });
        self.longest.truncate(LINES);
        let kept: HashSet<(u32, u64)> = self.longest.iter().map(|of| (of.tid, of.from)).collect();
        self.stacks.retain(|of, _| kept.contains(of));
    }

    /// A stack of a wait that began at `from`.
    fn stack(&mut self, tid: u32, from: u64, frames: &[u32]) {
        self.stacks.insert((tid, from), frames.into());
        if self.stacks.len() >= WAITS_HELD {
            self.cut();
        }
    }
}

impl<'a> Pass<'a> {
    /// Over [`from`, `until`) (ns of `CLOCK_MONOTONIC`).
    pub(super) fn new(
        from: u64,
        until: u64,
        about: &'a About,
        meta: &'a Meta,
        living: &'a Living,
    ) -> Self {
        // Whoever the cause names has room, however many others there are.
        let mut names = Names::of(&living.threads);
        let mut threads = Threads::new(from, true);
        for tid in &about.threads {
            names.expect(*tid);
            threads.expect(*tid);
        }
        Self {
            from,
            until,
            about,
            meta,
            symbols: Symbols::new(meta),
            living,
            came: HashMap::new(),
            names,
            threads,
            waits: Waits {
                about,
                longest: Vec::new(),
                stacks: HashMap::new(),
                over: HashMap::new(),
                nice: HashSet::new(),
            },
            errors: Failures::new(meta),
            failures: HashMap::new(),
        }
    }

    /// The next event, in the order of time.
    pub(super) fn event(&mut self, event: &Event) {
        self.names.learn(event);
        if event.time < self.from {
            return;
        }
        match &event.body {
            Body::Switch { next, next_prio, .. } => {
                self.came.insert(event.cpu, event.time);
                self.waits.learn(*next, *next_prio);
            }
            // After the switch to its thread.
            Body::Stack(stack) if stack.status == Status::Taken => {
                let came = self.came.get(&event.cpu);
                if let Some((came, slept)) = came.copied().zip(stack.slept) {
                    self.waits.stack(event.tid, came.saturating_sub(slept), &stack.frames);
                }
            }
            _ => {}
        }
        let Some(account) = self.threads.take(event, &mut self.waits) else { return };
        match &event.body {
            Body::Enter(_) => account.calls += 1,
            Body::Exit { call, ret, .. } => {
                let Some(error) = self.errors.failure(call.abi, call.nr, *ret) else { return };
                let key = (CallId { nr: call.nr, abi: call.abi }, error, event.tid);
                if self.failures.contains_key(&key) || self.failures.len() < FOLLOWED_MOST {
                    *self.failures.entry(key).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    /// Events are missing.
    pub(super) fn miss(&mut self, gap: &Gap) {
        self.threads.miss(gap, &mut self.waits);
    }

    /// What it comes to.
    pub(super) fn finish(mut self) -> Summary {
        self.end();
        self.waits.cut();
        Summary {
            from: self.from,
            until: self.until,
            notes: Vec::new(),
            why: None,
            involved: self.involved(),
            waits: self.waits.longest.iter().map(|wait| self.wait(wait)).collect(),
            hogs: self.hogs(),
            failures: self.failures(),
        }
    }

    /// Ends what goes on at the end; waits from before the window are in the table of threads.
    fn end(&mut self) {
        let (until, waits) = (self.until, &mut self.waits);
        let mut blocked = HashSet::new();
        self.threads.settle(until, |account, interval| {
            waits.ended(account, interval);
            waits.over.entry(interval.tid).or_default().sum(*account);
            if matches!(interval.state, State::Blocked(_) | State::Stopped(_)) {
                blocked.insert(interval.tid);
            }
        });
        let waiting = |slot: &&TaskSlot| slot.flags & BLOCKED != 0 && slot.since != 0;
        for slot in self.living.threads.iter().filter(waiting) {
            if slot.since >= self.from || blocked.contains(&slot.tid) {
                continue;
            }
            let abi = if slot.abi == Abi::Compat as u32 { Abi::Compat } else { Abi::Native };
            let call = CallId { nr: slot.nr as u16, abi };
            waits.longest.push(Interval {
                tid: slot.tid,
                state: State::Blocked(slot.state as u16),
                from: slot.since,
                until,
                waker: None,
                call: (slot.flags & IN_SYSCALL != 0).then_some(call),
                cpu: 0,
            });
        }
    }

    fn wait(&self, wait: &Interval) -> Wait {
        let (kind, state) = match wait.state {
            State::Blocked(state) | State::Stopped(state) => (WaitKind::Blocked, state),
            _ => (WaitKind::Queued, 0),
        };
        Wait {
            thread: self.names.thread(wait.tid),
            since: wait.from,
            ns: wait.ns(),
            kind,
            state,
            call: wait.call.map(|call| self.call(call)),
            waker: wait.waker.and_then(Waker::thread).map(|waker| self.names.thread(waker)),
            waker_context: wait.waker.map(|waker| waker.context.name().to_owned()),
            stack: self.stack(wait),
            idle: wait.state == State::Held,
        }
    }

    /// Where a thread was blocked: as it is recorded, or as it is now where it still waits.
    fn stack(&self, wait: &Interval) -> Vec<String> {
        if !matches!(wait.state, State::Blocked(_) | State::Stopped(_)) {
            return Vec::new();
        }
        let recorded = self.waits.stacks.get(&(wait.tid, wait.from)).map(|frames| &**frames);
        let frames = recorded.or_else(|| self.living.stack(wait.tid, wait.from));
        frames.into_iter().flatten().map(|frame| self.symbols.name(*frame)).collect()
    }

    fn call(&self, call: CallId) -> String {
        names::call(self.meta, call.nr, call.abi == Abi::Compat)
    }

    fn involved(&self) -> Vec<Involved> {
        let of = |tid: &u32| {
            let account = self.waits.over.get(tid).copied().unwrap_or_default();
            let Account { ran, queued, held, blocked, calls } = account;
            Involved { thread: self.names.thread(*tid), ran, queued, held, blocked, calls }
        };
        self.about.threads.iter().take(LINES).map(of).collect()
    }

    fn hogs(&self) -> Vec<Hog> {
        let hog = |(ns, tid)| Hog { thread: self.names.thread(tid), ns };
        hogs(&self.waits.over).into_iter().map(hog).collect()
    }

    fn failures(&self) -> Vec<Failure> {
        /// How often, and how often to whom the most.
        type Sum = (u64, u64, u32);
        let mut sums: BTreeMap<(CallId, i32), Sum> = BTreeMap::new();
        for ((call, error, tid), count) in &self.failures {
            let (sum, most, who) = sums.entry((*call, *error)).or_default();
            *sum += count;
            if (*count, Reverse(*tid)) > (*most, Reverse(*who)) {
                (*most, *who) = (*count, *tid);
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(key, (sum, ..))| (Reverse(*sum), *key));
        let failure = |((call, error), (count, _, tid)): ((CallId, i32), Sum)| Failure {
            call: self.call(call),
            error: names::error(error),
            count,
            thread: self.names.thread(tid),
        };
        sums.into_iter().take(LINES).map(failure).collect()
    }
}

/// Who ran the longest, and how long.
fn hogs(accounts: &HashMap<u32, Account>) -> Vec<(u64, u32)> {
    let ran = accounts.iter().map(|(tid, account)| (account.ran, *tid));
    let mut ran: Vec<(u64, u32)> = ran.filter(|(ns, _)| *ns != 0).collect();
    ran.sort_unstable_by_key(|(ns, tid)| (Reverse(*ns), *tid));
    ran.truncate(LINES);
    ran
}

/// What is told first: waits of those that the cause names; then for what there is pressure on;
/// then for a CPU, or such as nothing can interrupt; then sleep, which is most often nothing but
/// that, and waits for a CPU of threads that asked to wait, by a nice value.
fn rank(about: &About, nice: &HashSet<u32>, wait: &Interval) -> u8 {
    let is_queued =
        matches!(wait.state, State::Runnable | State::Held) && !nice.contains(&wait.tid);
    let is_uninterruptible = wait.state.is_uninterruptible();
    // `triggers::pressure` names the resource.
    let is_short = match (about.cause.as_str(), about.subject.as_str()) {
        ("pressure", "cpu") => is_queued,
        ("pressure", _) => is_uninterruptible,
        _ => false,
    };
    match () {
        () if about.threads.contains(&wait.tid) => 0,
        () if is_short => 1,
        () if is_queued || is_uninterruptible => 2,
        () => 3,
    }
}
