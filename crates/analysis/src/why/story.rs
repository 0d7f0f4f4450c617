//! What happened in a window, kept so that questions can be asked of it.

use rustc_hash::FxHashMap;

use flightrec_format::abi::kinds::{
    BlockComplete, Compaction, Contention, Interrupt, IoComplete, Kind, OomVictim, Reclaim,
    SignalGenerate, SockState, TcpRetransmit, Throttle,
};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Comm, WakeContext};
use flightrec_format::decode::{Body, Event, Plain};
use flightrec_format::meta::Meta;
use flightrec_format::ring::{Gap, is_loss};

use super::Told;
use super::facts::{
    Facts, GapRow, InterruptRow, MoveRow, OperationRow, RequestRow, RetransmitRow, SignalRow,
    ThrottleRow,
};
use super::kinds::Kinds;
use super::track::{CallSpan, Count, Deed, DeedSpan, Room, SampleRow, StackRow, Track, Tracks};
use crate::syscalls::CallKind;
use crate::{CallId, Failures, Interval, Restarts, State, Threads};

/// Memory that a story takes, about, if nothing else is said.
const BYTES: usize = 96 << 20;
/// A call that took as long, ns, is kept in words.
const LONG_NS: u64 = 500_000;
/// Most processes whose creator is remembered.
const PROCESSES_MAX: usize = 65_536;
/// Kinds of calls of one thread that are counted.
const COUNTS_MAX: usize = 128;
/// `result` of [`SignalGenerate`]: the target gets it, with or without its details.
const DELIVERED: u32 = 0;
const LOSE_INFO: u32 = 4;
/// `new_state` of [`SockState`]: it takes connections (include/net/tcp_states.h).
const TCP_LISTEN: u32 = 10;
/// `limit` of [`Reclaim`]: what a control group may have.
const GROUP_LIMIT: u32 = 1;

/// What the reader knows of an event beyond itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// The event's process; the thread's own id where it is not known.
    pub pid: u32,
    /// Name of the event's thread, filled up with NUL.
    pub comm: Comm,
    /// Name of the other thread: the next of a switch, the wakee.
    pub other: Comm,
    /// Control group of the event's thread; 0: not known.
    pub cgroup: u64,
    /// Of an exit: when the call began, ns of `CLOCK_MONOTONIC`; where that is not known, before
    /// which moment.
    pub entered: Option<u64>,
    /// Of a request to a disk that is done: the thread that made it, and the time in the queue and
    /// with the disk, ns.
    pub request: Option<(Option<u32>, u64, u64)>,
    /// Of an operation of io_uring that has a result: the thread that handed it over, and how long
    /// it took, ns.
    pub operation: Option<(u32, u64)>,
}

/// A thread that was blocked all the time from before the first event, as the table of threads has
/// it.
#[derive(Debug, Clone, Copy)]
pub struct Sleeper {
    /// Its id.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name, filled up with NUL.
    pub comm: Comm,
    /// Its control group; 0: not known.
    pub cgroup: u64,
    /// Since when it has been blocked, ns of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// In which state (`task_struct.__state`).
    pub state: u16,
    /// In which call; `None`: in none.
    pub call: Option<CallId>,
}

/// Who ran on each CPU, in the order of time: from, until, thread.
pub(super) type Runs = FxHashMap<u16, Vec<(u64, u64, u32)>>;

/// What happened in a window.
///
/// Memory is bounded: a story may be full ([`Self::is_full`]), and then goes on as another one
/// ([`Self::part`]). Of what it is given beyond that, it leaves out what it has no room for, and
/// each answer says so.
#[derive(Debug)]
pub struct Story {
    /// What is asked about, ns of `CLOCK_MONOTONIC`.
    pub(super) from: u64,
    pub(super) until: u64,
    /// The same of all parts.
    pub(super) whole: (u64, u64),
    /// Where the events end.
    pub(super) end: u64,
    /// From when on there are events: before the window, too.
    pub(super) since: u64,
    pub(super) tracks: Tracks,
    pub(super) facts: Facts,
    pub(super) kinds: Kinds,
    pub(super) failures: Failures,
    pub(super) cpus: Runs,
    pub(super) threads: Threads<()>,
    pub(super) restarts: Restarts,
}

impl Story {
    /// Of a recording with these metadata. The window is `from` to `until`, and events come from
    /// `since` on; ns of `CLOCK_MONOTONIC`.
    pub fn new(meta: &Meta, since: u64, from: u64, until: u64) -> Self {
        Self::with_room(meta, (since, from, until), BYTES)
    }

    /// The same, in about so many bytes of memory.
    pub fn with_room(meta: &Meta, (since, from, until): (u64, u64, u64), bytes: usize) -> Self {
        let mut story = Self {
            from,
            until,
            whole: (from, until),
            end: until,
            since,
            tracks: Tracks::new(Room::of(bytes)),
            facts: Facts::default(),
            kinds: Kinds::new(meta),
            failures: Failures::new(meta),
            cpus: Runs::default(),
            threads: Threads::new(since, false),
            restarts: Restarts::new(meta),
        };
        story.know(meta);
        story
    }

    /// Nothing is missing from where the events begin but what [`Self::miss`] tells.
    #[must_use]
    pub fn complete(self) -> Self {
        Self { threads: Threads::new(self.since, true).asleep_until_woken(), ..self }
    }

    /// Learns of a thread of which there may be no event. To be told before any event of it.
    pub fn asleep(&mut self, of: &Sleeper) {
        let Sleeper { tid, pid, comm, cgroup, since, state, call } = *of;
        if since >= self.since || !self.tracks.has_place(tid) {
            return;
        }
        let open =
            call.map(|call| CallSpan { from: since, until: u64::MAX, ret: None, call, told: None });
        let is_user = call.is_some();
        let track = self.tracks.track(tid);
        *track = Track { pid, comm, cgroup, open, is_user, ..Track::default() };
        self.threads.asleep(tid, State::after(state, false, false), since, call);
    }

    /// Takes over the names of control groups of these metadata, which are of the same recording.
    pub fn know(&mut self, meta: &Meta) {
        let groups = meta.cgroups.iter().map(|(id, path)| (*id, path.as_str().into()));
        self.facts.groups.extend(groups);
    }

    /// Takes the next event, in the order of time. `told` says the call that the event begins or
    /// ends in words, or the file of its operation, or the program that is executed; it is asked of
    /// few events.
    pub fn take(&mut self, event: &Event, known: &Known, told: &mut dyn FnMut() -> Told) {
        if event.time >= self.end {
            return;
        }
        self.threads.take(event, &mut self.tracks);
        let in_window = event.time >= self.from;
        match &event.body {
            Body::Enter(call) => {
                let id = self.restarts.begun(event.tid, CallId { nr: call.nr, abi: call.abi });
                let track = self.note(event.tid, known);
                track.is_user = true;
                let open =
                    CallSpan { from: event.time, until: u64::MAX, ret: None, call: id, told: None };
                track.open = Some(open);
            }
            Body::Exit { call, ret, .. } => {
                let id = CallId { nr: call.nr, abi: call.abi };
                let id = self.restarts.ended(event.tid, id, *ret);
                self.ended(event, id, *ret, known, told);
            }
            Body::Switch { prev_prio, next, next_prio, io_wait, .. } => {
                if event.tid != 0 {
                    let has_room = !*io_wait || self.tracks.has_fact();
                    let track = self.note(event.tid, known);
                    if *io_wait && has_room {
                        track.io_waits.push(event.time);
                    }
                    if in_window {
                        track.prio = Some(track.prio.map_or(*prev_prio, |of| of.min(*prev_prio)));
                    }
                }
                if *next != 0 {
                    let track = self.tracks.track(*next);
                    name(&mut track.comm, &known.other);
                    if in_window {
                        track.prio = Some(track.prio.map_or(*next_prio, |of| of.min(*next_prio)));
                    }
                }
            }
            Body::Waking { wakee, .. } => {
                let track = self.tracks.track(*wakee);
                name(&mut track.comm, &known.other);
            }
            Body::Migrate { thread, from, to, .. } if self.tracks.has_row() => {
                let row = MoveRow { time: event.time, from: *from, to: *to };
                self.facts.moves.entry(*thread).or_default().push(row);
            }
            Body::Stack(stack)
                if !stack.frames.is_empty()
                    && self.tracks.has_fact()
                    && self.tracks.has_bytes(4 * stack.frames.len()) =>
            {
                let row = StackRow { time: event.time, frames: stack.frames.clone() };
                self.note(event.tid, known).stacks.push(row);
            }
            Body::Sample(of)
                if event.tid != 0
                    && self.tracks.has_fact()
                    && self.tracks.has_bytes(4 * of.kernel.len() + 16 * of.user.len()) =>
            {
                let row = SampleRow { time: event.time, of: of.clone() };
                let track = self.note(event.tid, known);
                track.is_user |= of.user_mode;
                track.samples.push(row);
            }
            Body::Fork(fork) if fork.tgid != fork.parent_tgid => {
                self.note(event.tid, known);
                let parents = &mut self.facts.parents;
                if parents.len() < PROCESSES_MAX {
                    parents.insert(fork.tgid, fork.parent_tgid);
                }
            }
            Body::TaskExit(exit) => {
                self.restarts.gone(exit.tid);
                // As wait(2) has it: the low bits are the signal.
                let signal = exit.code & 0x7f;
                if signal != 0 && self.tracks.has_fact() {
                    self.facts.deaths.insert(event.tid, (event.time, signal));
                }
            }
            Body::Exec { exec, .. } => {
                if self.tracks.has_fact()
                    && let Some(at) = self.tracks.keep(told(), true)
                {
                    self.facts.programs.insert(exec.tgid, at);
                }
            }
            Body::Plain(plain) => self.fact(event, plain, known, told),
            _ => {}
        }
    }

    /// Events are missing after `gap.from`. Call it when all events up to that time were taken,
    /// and before the first one that the gap [begins before](Gap::begins_before).
    pub fn miss(&mut self, gap: &Gap) {
        let is_lost = gap.missing() != Some(0) || is_loss(&gap.refused);
        let is_sched = gap.lane == Lane::Sched;
        if is_lost && gap.lane == Lane::Syscall {
            self.restarts.forget();
        }
        if is_lost && (is_sched || gap.lane == Lane::Syscall) && self.tracks.has_fact() {
            let Gap { from, until, cpu, .. } = *gap;
            self.facts.gaps.push(GapRow { from, until, cpu, is_sched });
        }
        self.threads.miss(gap, &mut self.tracks);
    }

    /// No more events come. `open` tells of a thread the call that it is in, in words, by when the
    /// call began; it is asked of threads that have been in one for long.
    pub fn finish(&mut self, mut open: impl FnMut(u32, u64) -> Option<Told>) {
        let until = self.until;
        let mut last: Vec<Interval> = Vec::new();
        self.threads.settle(until, |(), interval| last.push(*interval));
        for interval in last {
            crate::Observer::ended(&mut self.tracks, &mut (), &interval);
        }
        let long = |call: &CallSpan| until.saturating_sub(call.from) >= LONG_NS;
        let tids: Vec<(u32, u64)> = (self.tracks.all.iter())
            .filter_map(|(tid, track)| Some((*tid, track.open.filter(long)?.from)))
            .collect();
        for (tid, from) in tids {
            let told = open(tid, from).and_then(|told| self.tracks.keep(told, true));
            if let Some(call) = &mut self.tracks.track(tid).open {
                call.told = told.or(call.told);
            }
        }
        let Self { tracks, cpus, .. } = self;
        for (tid, track) in &mut tracks.all {
            // Out of order are those of ids that two threads had.
            track.spans.sort_by_key(|span| span.from);
            track.calls.sort_by_key(|call| call.from);
            for span in track.spans.iter().filter(|span| span.state == State::Running) {
                cpus.entry(span.cpu).or_default().push((span.from, span.until, *tid));
            }
        }
        for runs in cpus.values_mut() {
            runs.sort_unstable();
        }
        self.facts.requests.sort_by_key(|row| row.until);
    }

    /// The thread of an event, with what is known of it.
    #[inline]
    fn note(&mut self, tid: u32, known: &Known) -> &mut Track {
        let track = self.tracks.track(tid);
        if known.pid != 0 {
            track.pid = known.pid;
        }
        if known.cgroup != 0 {
            track.cgroup = known.cgroup;
        }
        name(&mut track.comm, &known.comm);
        track
    }

    fn ended(
        &mut self,
        event: &Event,
        call: CallId,
        ret: i64,
        known: &Known,
        told: &mut dyn FnMut() -> Told,
    ) {
        let Event { time, tid, .. } = *event;
        let from = known.entered.unwrap_or(time).min(time);
        let kind = self.kinds.kind(call);
        let error = self.failures.failure(call.abi, call.nr, ret).unwrap_or(0);
        let (so_far, sleeps) = {
            let track = self.note(tid, known);
            track.is_user = true;
            track.open = None;
            track.sleeps += u64::from(kind == CallKind::Sleep);
            (track.counts.get(&(call, error)).copied(), track.sleeps)
        };
        let is_first = so_far.is_none();
        // The words of what is called again and again are those of a late one: the first ones may
        // be of a program's start. So is what fails once before the thread sleeps, and again.
        let is_sample = so_far.is_none_or(|count| {
            let is_next = error != 0 && count.is_next_round(sleeps);
            (count.all + 1).is_power_of_two() || is_next && (count.rounds + 1).is_power_of_two()
        });
        let is_long = time.saturating_sub(from) >= LONG_NS;
        // What fails to open a file is asked about by its number alone.
        let tells = kind.tells() && (error == 0 || kind != CallKind::Open);
        let is_told = is_long || is_sample || tells;
        let words = is_told.then(&mut *told);
        if let Some(told) = &words
            && kind == CallKind::Open
            && error == 0
            && let Ok(fd) = i32::try_from(ret)
            && self.facts.open_flags.len() < 262_144
        {
            self.facts.open_flags.insert((known.pid, fd), told.open_flags);
        }
        let told = words.and_then(|told| self.tracks.keep(told, is_long));
        let has_room = self.tracks.has_row();
        let has_count = !is_first || self.tracks.has_count();
        let in_window = time >= self.from;
        let track = self.tracks.track(tid);
        if has_room {
            let ret = Some(ret.clamp(i32::MIN.into(), i32::MAX.into()) as i32);
            track.calls.push(CallSpan { from, until: time, ret, call, told });
        }
        if has_count && (track.counts.len() < COUNTS_MAX || !is_first) {
            let count =
                track.counts.entry((call, error)).or_insert(Count { told, ..Count::default() });
            count.add(in_window, sleeps);
            if is_sample {
                count.told = told.or(count.told);
            }
        }
    }

    fn fact(
        &mut self,
        event: &Event,
        plain: &Plain,
        known: &Known,
        told: &mut dyn FnMut() -> Told,
    ) {
        let (bytes, time, tid) = (plain.bytes(), event.time, event.tid);
        let began = |ns: u64| time.saturating_sub(ns);
        match plain.kind() {
            Kind::BlockComplete => {
                let (Some(of), Some((by, queue, service))) =
                    (BlockComplete::read(bytes), known.request)
                else {
                    return;
                };
                if of.left == 0 && self.tracks.has_fact() {
                    let issued = began(service);
                    self.facts.requests.push(RequestRow {
                        from: issued.saturating_sub(queue),
                        issued,
                        until: time,
                        device: of.device,
                        by,
                    });
                }
            }
            Kind::Interrupt => {
                if let Some(of) = Interrupt::read(bytes)
                    && self.tracks.has_fact()
                {
                    self.facts.interrupts.entry(tid).or_default().push(InterruptRow {
                        from: began(of.duration),
                        until: time,
                        is_soft: of.class != 0,
                        name: of.name,
                    });
                }
            }
            Kind::Throttle => {
                if let Some(of) = Throttle::read(bytes)
                    && self.tracks.has_fact()
                {
                    let rows = self.facts.throttles.entry(of.throttled_cpu as u16).or_default();
                    rows.push(ThrottleRow {
                        from: began(of.duration),
                        until: time,
                        cgroup: of.cgroup,
                    });
                }
            }
            Kind::SignalGenerate => {
                if let Some(of) = SignalGenerate::read(bytes)
                    && self.tracks.has_fact()
                {
                    self.note(tid, known);
                    self.facts.signals.push(SignalRow {
                        time,
                        signal: of.signal,
                        code: of.code,
                        is_new: matches!(of.result, DELIVERED | LOSE_INFO),
                        by: tid,
                        target_tid: of.target_tid,
                        target_pid: of.target_pid,
                    });
                }
            }
            Kind::IoComplete => {
                let (Some(of), Some((submitted_by, ns))) =
                    (IoComplete::read(bytes), known.operation)
                else {
                    return;
                };
                if self.tracks.has_fact() {
                    let told = if ns >= LONG_NS { self.tracks.keep(told(), true) } else { None };
                    self.facts.operations.push(OperationRow {
                        from: began(ns),
                        until: time,
                        submitted_by,
                        done_by: tid,
                        op: of.op,
                        told,
                    });
                }
            }
            Kind::TcpRetransmit => {
                if let Some(of) = TcpRetransmit::read(bytes)
                    && self.tracks.has_fact()
                {
                    let row = RetransmitRow { time, remote: of.remote, port: of.remote_port };
                    self.facts.retransmits.push(row);
                }
            }
            Kind::OomVictim => {
                if let Some(of) = OomVictim::read(bytes)
                    && self.tracks.has_fact()
                {
                    self.facts.victims.push((of.target_tid, of.target_pid));
                }
            }
            Kind::SockState => {
                if let Some(of) = SockState::read(bytes)
                    && of.new_state == TCP_LISTEN
                    && of.context == WakeContext::Thread as u32
                    && self.tracks.has_fact()
                {
                    self.note(tid, known);
                    self.facts.listeners.insert(of.local_port, tid);
                }
            }
            Kind::Reclaim => {
                if let Some(of) = Reclaim::read(bytes) {
                    let deed = Deed::Reclaim { is_group: of.limit == GROUP_LIMIT };
                    self.deed(event, known, (of.duration, deed));
                }
            }
            Kind::Compaction => {
                if let Some(of) = Compaction::read(bytes) {
                    self.deed(event, known, (of.duration, Deed::Compaction));
                }
            }
            Kind::Contention => {
                if let Some(of) = Contention::read(bytes)
                    && of.context == WakeContext::Thread as u32
                {
                    self.deed(event, known, (of.duration, Deed::Contention));
                }
            }
            _ => {}
        }
    }

    fn deed(&mut self, event: &Event, known: &Known, (ns, deed): (u64, Deed)) {
        if self.tracks.has_fact() {
            let (from, until) = (event.time.saturating_sub(ns), event.time);
            self.note(event.tid, known).deeds.push(DeedSpan { from, until, deed });
        }
    }
}

/// Takes over a name that is known.
#[inline]
fn name(known: &mut Comm, comm: &Comm) {
    if comm.first() != Some(&0) {
        *known = *comm;
    }
}

/// The bytes of a name before its NUL.
pub(super) fn trimmed(comm: &Comm) -> &[u8] {
    comm.split(|byte| *byte == 0).next().unwrap_or_default()
}
