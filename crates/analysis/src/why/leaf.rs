//! Links at which a chain ends: what runs, what is interrupted, throttled or stopped.

use std::cmp::Reverse;

use flightrec_format::human::counted;
use rustc_hash::FxHashMap;

use super::about::short;
use super::answer::{Link, time};
use super::chain::Chain;
use super::facts::RetransmitRow;
use super::names::Names;
use super::pieces::{Doing, Piece};
use super::story::trimmed;
use super::wait::Wait;
use crate::syscalls::CallKind;

/// Frames of a stack of functions that are said.
const FRAMES: usize = 3;
/// Frames of a stack of a wait that are said.
const WAIT_FRAMES: usize = 8;
/// Calls a second that are many.
const BUSY_CALLS: u64 = 1_000;
/// Signals a second that are many.
const MANY_SIGNALS: u64 = 200;
/// The signals that stop (arch/x86/include/uapi/asm/signal.h): SIGSTOP to SIGTTOU; and SIGCONT.
const STOPS: std::ops::RangeInclusive<u32> = 19..=22;
const SIGCONT: u32 = 18;
/// How long before it stops a thread a signal may have been sent, ns.
const SIGNAL_NS: u64 = 1_000_000_000;
/// How far a signal may be recorded after the stop that it caused, ns.
const AFTER_NS: u64 = 1_000_000;
/// Interrupts are said by name up to so many.
const NAMES_MAX: usize = 3;

impl<N: Names> Chain<'_, N> {
    /// A thread ran.
    pub(super) fn ran(&mut self, tid: u32, (from, until): (u64, u64), pieces: &[Piece<'_>]) {
        let story = self.story;
        let running = || pieces.iter().filter(|piece| piece.is_running());
        let ns: u64 = running().map(|piece| piece.ns).sum();
        let Some(most) = running().max_by_key(|piece| piece.ns) else { return };
        let is_user = story.tracks.get(tid).is_none_or(|track| track.is_user);
        let mut link = self.link(tid, from, until);
        (link.state, link.ns) = ("running", ns);
        let (place, call) = match most.doing {
            Doing::Call(call) => {
                let name = story.kinds.name(call);
                (format!(", {} of it in {name}", time(most.ns)), Some(name))
            }
            _ if !is_user => (String::from(", in the kernel"), None),
            _ if self.is_in_kernel(tid, (from, until)) => {
                (String::from(", in the kernel, in no call"), None)
            }
            _ => (String::from(", in user code"), None),
        };
        let of_kernel = call.is_some() || !place.ends_with("user code");
        let mut did = format!("ran on CPU for {}{place}", time(ns));
        let functions = self.functions(tid, (from, until), of_kernel, &mut link);
        if let Some(functions) = &functions {
            did = format!("{did}: {functions}");
        }
        let memory = self.memory_beside(tid, (from, until), ns);
        if let Some(work) = &memory {
            did = format!("{did}; it {}", work.words());
        }
        if let Some(busy) = self.busy(tid, from, until) {
            did = format!("{did}; {busy}");
        }
        link.call.clone_from(&call);
        let storm = self.storm(tid, from, until);
        if let Some((text, ..)) = &storm {
            did = format!("{did}; {text}");
        }
        link.did = did;
        self.links.push(link);
        if let Some((_, by, signal)) = storm {
            self.blame(by, "signal", None, Some(signal), ns);
        }
        self.blame(Some(tid), "on CPU", call, functions, ns);
        if let Some(work) = memory {
            self.blame(Some(tid), work.mechanism(), None, work.group, work.ns);
        }
    }

    /// Whether samples of a thread outside of calls are mostly of the kernel: it handles page
    /// faults, or ends.
    fn is_in_kernel(&self, tid: u32, (from, until): (u64, u64)) -> bool {
        let Some(track) = self.story.tracks.get(tid) else { return false };
        let rows = track.samples.iter().filter(|row| (from..until).contains(&row.time));
        let (mut kernel, mut user) = (0, 0);
        for row in rows.filter(|row| track.call_at(row.time).is_none()) {
            *if row.of.user_mode { &mut user } else { &mut kernel } += 1;
        }
        kernel > user
    }

    /// The functions that samples of a thread show most, in words.
    fn functions(
        &self,
        tid: u32,
        (from, until): (u64, u64),
        of_kernel: bool,
        link: &mut Link,
    ) -> Option<String> {
        let track = self.story.tracks.get(tid)?;
        let first = track.samples.partition_point(|row| row.time < from);
        let rows = track.samples.get(first..)?.iter().take_while(|row| row.time < until);
        let mut stacks: FxHashMap<Vec<String>, u64> = FxHashMap::default();
        let mut inner: FxHashMap<String, u64> = FxHashMap::default();
        let mut binaries: FxHashMap<String, u64> = FxHashMap::default();
        let mut all = 0;
        for row in rows.filter(|row| row.of.user_mode != of_kernel) {
            let frames: Vec<String> = if of_kernel {
                row.of.kernel.iter().take(FRAMES).map(|frame| self.names.kernel(*frame)).collect()
            } else {
                let frames = row.of.user.iter().take(FRAMES).enumerate();
                frames.map(|(at, frame)| self.names.user(*frame, at == 0)).collect()
            };
            let Some(innermost) = frames.first() else { continue };
            all += 1;
            let frame = row.of.user.first().filter(|_| !of_kernel);
            if let Some(binary) = frame.and_then(|frame| self.names.binary(*frame)) {
                *binaries.entry(binary).or_default() += 1;
            }
            *inner.entry(innermost.clone()).or_default() += 1;
            *stacks.entry(frames).or_default() += 1;
        }
        let (innermost, count) =
            inner.into_iter().max_by_key(|(name, n)| (*n, Reverse(name.clone())))?;
        let stack = stacks
            .into_iter()
            .filter(|(stack, _)| stack.first() == Some(&innermost))
            .max_by_key(|(stack, n)| (*n, Reverse(stack.clone())))?;
        link.evidence.push(format!("{count} of {} in {innermost}", counted(all, "sample")));
        // Where no function stands out, the binary may.
        let binary = binaries.into_iter().max_by_key(|(name, n)| (*n, Reverse(name.clone())));
        if let Some((binary, of_binary)) = binary.filter(|(_, n)| count * 2 < all && n * 2 > all) {
            return Some(format!("{binary} ({of_binary} of {})", counted(all, "sample")));
        }
        Some(format!("{} ({count} of {})", stack.0.join(" <- "), counted(all, "sample")))
    }

    /// What a thread calls again and again, in words, if it does.
    fn busy(&self, tid: u32, from: u64, until: u64) -> Option<String> {
        let track = self.story.tracks.get(tid)?;
        let ((call, error), count) =
            track.counts.iter().max_by_key(|(key, count)| (count.calls, Reverse(**key)))?;
        let window = self.story.until.saturating_sub(self.story.from).max(1);
        let rate = u128::from(count.calls) * 1_000_000_000 / u128::from(window);
        if rate < u128::from(BUSY_CALLS) || until.saturating_sub(from).saturating_mul(2) < window {
            return None;
        }
        let told = self.story.tracks.told(count.told);
        let text = told.map_or_else(|| self.story.kinds.name(*call), |told| short(&told.text));
        let how = match *error {
            0 => String::new(),
            error => format!(", which failed with {}", self.names.error(error)),
        };
        Some(format!("it called {text} {} times{how}", count.calls))
    }

    /// The signals that a thread takes all the time, in words; who sends most of them, if a thread
    /// does; and which.
    fn storm(&self, tid: u32, from: u64, until: u64) -> Option<(String, Option<u32>, String)> {
        let pid = self.story.tracks.get(tid)?.pid;
        let mut sums: FxHashMap<(Option<u32>, u32), u64> = FxHashMap::default();
        for row in &self.story.facts.signals {
            let is_its = row.target_tid == tid || row.target_pid == pid && pid != 0;
            if is_its && row.is_new && (from..until).contains(&row.time) {
                let by = row.is_by_thread().then_some(row.by);
                *sums.entry((by, row.signal)).or_default() += 1;
            }
        }
        let ((by, signal), count) =
            sums.into_iter().max_by_key(|(key, count)| (*count, Reverse(*key)))?;
        let rate =
            u128::from(count) * 1_000_000_000 / u128::from(until.saturating_sub(from).max(1));
        let signal = self.names.signal(signal);
        let by_whom = by.map_or("the kernel".to_owned(), |by| self.label(by));
        let text = format!("it took {count} signals {signal} from {by_whom}");
        (rate >= u128::from(MANY_SIGNALS)).then_some((text, by, signal))
    }

    /// Interrupts had its CPU.
    pub(super) fn interrupted(&mut self, tid: u32, (from, until): (u64, u64), piece: &Piece<'_>) {
        let mut link = self.link(tid, from, until);
        (link.state, link.ns, link.count) = ("interrupted", piece.ns, piece.count);
        let mut sums: FxHashMap<String, u64> = FxHashMap::default();
        for row in self.story.interrupts(tid, from, until) {
            let name = self.names.text(trimmed(&row.name));
            let class = if row.is_soft { "softirq" } else { "interrupt" };
            let ns = row.until.saturating_sub(row.from);
            *sums.entry(format!("{class} {name}")).or_default() += ns;
        }
        let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(name, ns)| (Reverse(*ns), name.clone()));
        let names: Vec<String> = sums
            .into_iter()
            .take(NAMES_MAX)
            .map(|(name, ns)| format!("{name} {}", time(ns)))
            .collect();
        link.did = format!("was interrupted for {}: {}", time(piece.ns), names.join(", "));
        self.links.push(link);
        self.blame(None, "interrupts", None, names.into_iter().next(), piece.ns);
    }

    /// Its control group had used up its CPU time: the kernel says so, or (`is_told` is false) it
    /// follows from that nothing else keeps a thread that can run from a CPU that idles.
    pub(super) fn throttled(&mut self, tid: u32, piece: &Piece<'_>, is_told: bool) {
        let (from, until) = piece.waits.first().map_or((0, 0), |wait| (wait.from, wait.until));
        let mut link = self.link(tid, from, until);
        (link.state, link.ns, link.count) = (piece.doing.state(), piece.ns, piece.count);
        // The root has no limit; a limit of cgroup v1 is of a group that is not known.
        let group = link.who.group.clone().filter(|group| group != "/");
        let of = group.as_deref().map_or(String::new(), |group| format!(" {group}"));
        let quota = "CPU quota (cpu.max; in cgroup v1 cpu.cfs_quota_us)";
        let (ns, often) = (time(piece.ns), counted(piece.count, "time"));
        link.did = if is_told {
            format!(
                "was throttled for {ns} ({often}): its control group{of} had used up its {quota}"
            )
        } else {
            link.doubt = Some(
                "no throttling event was recorded: this is inferred, as the thread was runnable and \
                 its CPU was idle"
                    .to_owned(),
            );
            format!(
                "was probably throttled for {ns} ({often}): it was runnable while its CPU was idle, \
                 as when its control group{of} has used up its {quota}"
            )
        };
        self.links.push(link);
        self.blame(None, "CPU quota", None, group, piece.ns);
    }

    /// It was stopped by a signal.
    pub(super) fn stopped(&mut self, tid: u32, piece: &Piece<'_>) {
        let story = self.story;
        let (from, until) = piece.waits.first().map_or((0, 0), |wait| (wait.from, wait.until));
        let pid = story.tracks.get(tid).map_or(0, |track| track.pid);
        let mut link = self.link(tid, from, until);
        (link.state, link.ns, link.count) = ("stopped", piece.ns, piece.count);
        let is_for =
            |target_tid: u32, target_pid: u32| target_tid == tid || target_pid == pid && pid != 0;
        let signals = &story.facts.signals;
        let stop = signals.iter().rev().find(|row| {
            STOPS.contains(&row.signal)
                && is_for(row.target_tid, row.target_pid)
                && row.time <= from.saturating_add(AFTER_NS)
                && row.time.saturating_add(SIGNAL_NS) >= from
        });
        let Some(stop) = stop else {
            link.did = format!("was stopped for {} by a signal", time(piece.ns));
            link.doubt = Some("who sent the signal is not recorded".to_owned());
            self.links.push(link);
            self.is_complete = false;
            return;
        };
        let name = self.names.signal(stop.signal);
        link.did = format!("was stopped for {} by {name}", time(piece.ns));
        link.by = ", sent by";
        let go = signals.iter().find(|row| {
            row.signal == SIGCONT && is_for(row.target_tid, row.target_pid) && row.time > from
        });
        if let Some(go) = go {
            let after = time(go.time.saturating_sub(stop.time));
            let sender = self.label(go.by);
            link.evidence.push(format!("SIGCONT came {after} later, from {sender}"));
        }
        if !stop.is_by_thread() {
            link.did = format!("{}, which the kernel sent", link.did);
            self.links.push(link);
            return self.blame(None, "stopped by a signal", None, Some(name), piece.ns);
        }
        self.links.push(link);
        self.push_bare(stop.by, stop.time, stop.time);
        self.blame(Some(stop.by), "stopped by a signal", None, Some(name), piece.ns);
    }

    /// It was stopped by its debugger.
    pub(super) fn traced(&mut self, tid: u32, piece: &Piece<'_>) {
        let (from, until) = piece.waits.first().map_or((0, 0), |wait| (wait.from, wait.until));
        let mut link = self.link(tid, from, until);
        (link.state, link.ns, link.count) = ("traced", piece.ns, piece.count);
        link.did = format!(
            "was stopped for {} ({}) by ptrace",
            time(piece.ns),
            counted(piece.count, "time")
        );
        link.by = ", traced by";
        let mut tracers: FxHashMap<u32, u64> = FxHashMap::default();
        let ends = piece.waits.iter().filter_map(|wait| Some((wait.waker?.thread()?, wait.ns())));
        ends.for_each(|(tid, ns)| *tracers.entry(tid).or_default() += ns);
        let tracer = tracers.into_iter().max_by_key(|(tid, ns)| (*ns, *tid)).map(|(tid, _)| tid);
        if tracer.is_none() {
            link.doubt = Some("its tracer is not recorded".to_owned());
        }
        self.links.push(link);
        if let Some(tracer) = tracer {
            self.push_bare(tracer, from, until);
            self.blame(Some(tracer), "ptrace", None, None, piece.ns);
        }
    }

    /// What shows how a wait ended.
    pub(super) fn tell_wait(&self, link: &mut Link, wait: &Wait<'_>, with_stack: &Wait<'_>) {
        if let Some(told) = wait.told {
            link.evidence.push(format!("in {}", short(&told.text)));
        }
        let track = self.story.tracks.get(wait.span.tid);
        let whole = track.and_then(|track| track.within(wait.span.from, wait.span.until).first());
        if let Some(before) = whole.and_then(|whole| self.story.from.checked_sub(whole.from))
            && before != 0
        {
            link.evidence.push(format!("had waited for {} when the window began", time(before)));
        }
        if let Some(waker) = wait.span.waker {
            let context = waker.context.name();
            let by = match waker.thread() {
                Some(by) => format!("woken by {} ({context})", self.label(by)),
                None => {
                    format!("woken by an interrupt ({context}) on the CPU of thread {}", waker.tid)
                }
            };
            link.evidence.push(by);
        }
        if !with_stack.functions.is_empty() {
            let shown: Vec<&str> =
                with_stack.functions.iter().take(WAIT_FRAMES).map(String::as_str).collect();
            link.evidence.push(format!("kernel stack: {}", shown.join(" <- ")));
        }
    }

    /// What was retransmitted meanwhile.
    pub(super) fn tell_retransmits(&self, link: &mut Link, wait: &Wait<'_>, peer: Option<&str>) {
        let rows = self.story.facts.retransmits.iter();
        let rows: Vec<_> =
            rows.filter(|row| row.time >= wait.span.from && row.time <= wait.span.until).collect();
        let of_peer = |row: &&&RetransmitRow| {
            peer.is_some_and(|peer| peer == format!("{}:{}", row.remote, row.port))
        };
        let to_peer = rows.iter().filter(of_peer).count() as u64;
        if to_peer != 0 {
            // No answer came to what it had sent, or the answer was lost.
            let why = match wait.kind {
                // A SYN that gets no answer: full queue, or lost.
                CallKind::Connect => {
                    ", as the first ones got no answer (a full queue of connections, or packets \
                     that were lost)"
                }
                _ => "",
            };
            link.did = format!("{}; {} retransmitted{why}", link.did, were(to_peer));
        } else if let Some(row) = rows.first() {
            let (were, row) = (were(rows.len() as u64), (row.remote, row.port));
            link.evidence.push(format!("{were} retransmitted, the first to {}:{}", row.0, row.1));
        }
    }
}

/// `1 packet was`, `3 packets were`
fn were(packets: u64) -> String {
    let verb = if packets == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(packets, "packet"))
}

/// A priority that is not the usual one, in words; as events have it (0-99 real time, 100-139 nice
/// -20 to 19, 255 deadline).
pub(super) fn priority(prio: u8) -> Option<String> {
    match prio {
        120 => None,
        u8::MAX => Some("a deadline".to_owned()),
        0..=99 => Some(format!("real-time priority {0} (r:{0})", 99 - prio)),
        _ => Some(format!("nice {}", i16::from(prio) - 120)),
    }
}
