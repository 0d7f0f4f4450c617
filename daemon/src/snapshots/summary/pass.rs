//! One pass over the events of a window.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use flightrec_format::abi::record::Abi;
use flightrec_format::abi::slot::{BLOCKED, IN_SYSCALL, TaskSlot};
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_store::snapshot::{About, Failure, Hog, Involved, Summary, Wait, WaitKind};

use crate::snapshots::names::{self, Names};

/// Lines of each list.
const LINES: usize = 10;
/// Waits of one thread that are told.
const WAITS_OF_ONE: usize = 2;
/// Waits that are held until the list is cut to what can still be told.
const WAITS_HELD: usize = 4096;
/// Threads, and kinds of failure, that are followed.
const FOLLOWED_MOST: usize = 1 << 16;
/// The greatest error number (`MAX_ERRNO`, include/linux/err.h).
const ERRNO_MOST: i64 = 4095;
/// `TASK_UNINTERRUPTIBLE`; with `TASK_NOLOAD` beside it, the thread is idle (`TASK_IDLE`,
/// include/linux/sched.h).
const UNINTERRUPTIBLE: u16 = 0x2;
const NOLOAD: u16 = 0x400;

/// `EXIT_DEAD`, `EXIT_ZOMBIE`, `TASK_DEAD`: it does not wait for anything any more.
const ENDED: u16 = 0x10 | 0x20 | 0x80;

/// In the place of a waker: the thread could run, and gave way to idle.
const IDLE: u32 = u32::MAX;

/// A system call, by number and table.
type CallId = (u16, bool);

/// A thread, as the events tell.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    running: Option<u64>,
    /// Blocked since when, in which state.
    off: Option<(u64, u16)>,
    /// Since when it could run, and who woke it; 0: nobody did, it was preempted; [`IDLE`].
    ready: Option<(u64, u32)>,
    call: Option<CallId>,
    ran: u64,
    queued: u64,
    blocked: u64,
    calls: u64,
}

/// A wait, not yet named.
#[derive(Debug, Clone, Copy)]
struct Found {
    tid: u32,
    since: u64,
    ns: u64,
    kind: WaitKind,
    state: u16,
    call: Option<CallId>,
    waker: u32,
}

/// What has been seen so far.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    from: u64,
    until: u64,
    about: &'a About,
    meta: &'a Meta,
    threads: &'a [TaskSlot],
    names: Names,
    states: HashMap<u32, State>,
    /// CPUs of which a switch was seen.
    switched: Vec<bool>,
    waits: Vec<Found>,
    failures: HashMap<(CallId, i32, u32), u64>,
}

impl<'a> Pass<'a> {
    /// Over [`from`, `until`) (ns of `CLOCK_MONOTONIC`).
    pub(super) fn new(
        from: u64,
        until: u64,
        about: &'a About,
        meta: &'a Meta,
        threads: &'a [TaskSlot],
    ) -> Self {
        // Whoever the cause names has room, however many others there are.
        let mut names = Names::of(threads);
        about.threads.iter().for_each(|tid| names.expect(*tid));
        Self {
            from,
            until,
            about,
            meta,
            threads,
            names,
            states: about.threads.iter().map(|tid| (*tid, State::default())).collect(),
            switched: Vec::new(),
            waits: Vec::new(),
            failures: HashMap::new(),
        }
    }

    /// The next event, in the order of time.
    pub(super) fn event(&mut self, event: &Event) {
        self.names.learn(event);
        if event.time < self.from {
            return;
        }
        let known = self.states.contains_key(&event.tid) || self.states.len() < FOLLOWED_MOST;
        // Whoever does something runs. Where its switch was not seen, nothing is known of what it
        // waited for.
        if let Some(state) = self.states.get_mut(&event.tid)
            && state.running.is_none()
            && (state.off.is_some() || state.ready.is_some())
        {
            (state.running, state.off, state.ready) = (Some(event.time), None, None);
        }
        match &event.body {
            Body::Switch { prev_state, preempted, next, .. } => {
                let state = if *preempted { 0 } else { *prev_state };
                self.stops(event.time, event.cpu, event.tid, state, *next == 0);
                self.starts(event.time, *next);
            }
            Body::Waking { wakee, .. }
                if self.states.contains_key(wakee) || self.states.len() < FOLLOWED_MOST =>
            {
                let state = self.states.entry(*wakee).or_default();
                if state.running.is_none() {
                    state.ready.get_or_insert((event.time, event.tid));
                }
            }
            Body::Enter(call) if known => {
                let state = self.states.entry(event.tid).or_default();
                state.call = Some((call.nr, call.abi == Abi::Compat));
                state.calls += 1;
            }
            Body::Exit { call, ret, .. } if known => {
                self.states.entry(event.tid).or_default().call = None;
                if (-ERRNO_MOST..0).contains(ret) {
                    let key = ((call.nr, call.abi == Abi::Compat), -*ret as i32, event.tid);
                    if self.failures.contains_key(&key) || self.failures.len() < FOLLOWED_MOST {
                        *self.failures.entry(key).or_default() += 1;
                    }
                }
            }
            _ => {}
        }
    }

    /// A thread stops running; `idles`: its CPU runs no other one.
    fn stops(&mut self, time: u64, cpu: u16, tid: u32, why: u16, idles: bool) {
        let cpu = usize::from(cpu);
        if self.switched.len() <= cpu {
            self.switched.resize(cpu + 1, false);
        }
        let first = self.switched.get_mut(cpu).is_some_and(|seen| !std::mem::replace(seen, true));
        if tid == 0 || !self.states.contains_key(&tid) && self.states.len() >= FOLLOWED_MOST {
            return;
        }
        let state = self.states.entry(tid).or_default();
        // Whoever a CPU switches from first has run since the window began.
        let since = state.running.take().or(first.then_some(self.from));
        state.ran += since.map_or(0, |since| time.saturating_sub(since));
        if why == 0 {
            state.ready = Some((time, if idles { IDLE } else { 0 }));
        } else if why & ENDED == 0 {
            state.off = Some((time, why));
        }
    }

    /// A thread starts running: what it waited for is over.
    fn starts(&mut self, time: u64, tid: u32) {
        if tid == 0 || !self.states.contains_key(&tid) && self.states.len() >= FOLLOWED_MOST {
            return;
        }
        let state = self.states.entry(tid).or_default();
        let (off, ready) = (state.off.take(), state.ready.take());
        state.running = Some(time);
        let call = state.call;
        if let Some((since, why)) = off {
            let (end, waker) = ready.unwrap_or((time, 0));
            let ns = end.saturating_sub(since);
            state.blocked += ns;
            self.waits.push(Found {
                tid,
                since,
                ns,
                kind: WaitKind::Blocked,
                state: why,
                call,
                waker,
            });
        }
        if let Some((since, waker)) = ready {
            let ns = time.saturating_sub(since);
            if let Some(state) = self.states.get_mut(&tid) {
                state.queued += ns;
            }
            self.waits.push(Found {
                tid,
                since,
                ns,
                kind: WaitKind::Queued,
                state: 0,
                call,
                waker,
            });
        }
        if self.waits.len() >= WAITS_HELD {
            self.cut();
        }
    }

    /// Leaves the worst waits.
    fn cut(&mut self) {
        let about = self.about;
        self.waits.sort_by_key(|wait| (rank(about, wait), Reverse(wait.ns)));
        let mut of: HashMap<u32, usize> = HashMap::new();
        self.waits.retain(|wait| {
            let told = of.entry(wait.tid).or_default();
            *told += 1;
            *told <= WAITS_OF_ONE
        });
        self.waits.truncate(LINES);
    }

    /// What it comes to.
    pub(super) fn finish(mut self) -> Summary {
        self.still_waiting();
        let until = self.until;
        for state in self.states.values_mut() {
            state.ran += state.running.map_or(0, |since| until.saturating_sub(since));
        }
        self.cut();
        Summary {
            from: self.from,
            until,
            notes: Vec::new(),
            involved: self.involved(),
            waits: self.waits.iter().map(|found| self.wait(found)).collect(),
            hogs: self.hogs(),
            failures: self.failures(),
        }
    }

    /// Waits that were not over at the end; those from before the window are in the table of
    /// threads.
    fn still_waiting(&mut self) {
        let until = self.until;
        let mut open: Vec<Found> = Vec::new();
        for (tid, state) in &mut self.states {
            let (kind, since, why, waker) = match (state.running, state.ready, state.off) {
                (Some(_), ..) | (None, None, None) => continue,
                (None, Some((since, waker)), _) => (WaitKind::Queued, since, 0, waker),
                (None, None, Some((since, why))) => (WaitKind::Blocked, since, why, 0),
            };
            let ns = until.saturating_sub(since);
            match kind {
                WaitKind::Queued => state.queued += ns,
                WaitKind::Blocked => state.blocked += ns,
            }
            open.push(Found { tid: *tid, since, ns, kind, state: why, call: state.call, waker });
        }
        for slot in self.threads.iter().filter(|slot| slot.flags & BLOCKED != 0 && slot.since != 0)
        {
            if slot.since >= self.from
                || self.states.get(&slot.tid).is_some_and(|state| state.off.is_some())
            {
                continue;
            }
            let call = (slot.flags & IN_SYSCALL != 0)
                .then_some((slot.nr as u16, slot.abi == Abi::Compat as u32));
            let (tid, since, state) = (slot.tid, slot.since, slot.state as u16);
            let ns = until.saturating_sub(since);
            open.push(Found { tid, since, ns, kind: WaitKind::Blocked, state, call, waker: 0 });
        }
        self.waits.append(&mut open);
    }

    fn wait(&self, found: &Found) -> Wait {
        Wait {
            thread: self.names.thread(found.tid),
            since: found.since,
            ns: found.ns,
            kind: found.kind,
            state: found.state,
            call: found.call.map(|(nr, compat)| names::call(self.meta, nr, compat)),
            waker: (found.waker != 0 && found.waker != IDLE)
                .then(|| self.names.thread(found.waker)),
            idle: found.waker == IDLE,
        }
    }

    fn involved(&self) -> Vec<Involved> {
        let of = |tid: &u32| {
            let state = self.states.get(tid).copied().unwrap_or_default();
            let State { ran, queued, blocked, calls, .. } = state;
            Involved { thread: self.names.thread(*tid), ran, queued, blocked, calls }
        };
        self.about.threads.iter().take(LINES).map(of).collect()
    }

    fn hogs(&self) -> Vec<Hog> {
        let mut ran: Vec<(u64, u32)> =
            self.states.iter().map(|(tid, state)| (state.ran, *tid)).collect();
        ran.sort_unstable_by_key(|(ns, tid)| (Reverse(*ns), *tid));
        let long = ran.into_iter().take(LINES).take_while(|(ns, _)| *ns != 0);
        long.map(|(ns, tid)| Hog { thread: self.names.thread(tid), ns }).collect()
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
        let failure = |(((nr, compat), error), (count, _, tid)): ((CallId, i32), Sum)| Failure {
            call: names::call(self.meta, nr, compat),
            error: names::error(error),
            count,
            thread: self.names.thread(tid),
        };
        sums.into_iter().take(LINES).map(failure).collect()
    }
}

/// What is told first: waits of those that the cause names; then for a CPU, or such as nothing can
/// interrupt; then sleep, which is most often nothing but that.
fn rank(about: &About, wait: &Found) -> u8 {
    let uninterruptible = wait.state & UNINTERRUPTIBLE != 0 && wait.state & NOLOAD == 0;
    if about.threads.contains(&wait.tid) {
        0
    } else if wait.kind == WaitKind::Queued || uninterruptible {
        1
    } else {
        2
    }
}
