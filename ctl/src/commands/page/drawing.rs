//! The second pass: the timeline, and where the time of the drawn threads went.

use flightrec_analysis::{CallId, State};
use flightrec_export::devices::Devices;
use flightrec_export::page::lane::{Lane, Span};
use flightrec_export::page::model::{self, Row, Shares, Sort, Timeline};
use flightrec_export::printable::printable;
use flightrec_export::redact::Redact;
use flightrec_format::decode::{Body, Call};
use flightrec_format::ring::Gap;
use flightrec_reader::Session;
use flightrec_reader::boots::{self, BootId};
use flightrec_reader::coverage::Coverage;
use flightrec_reader::fds::Kept;
use flightrec_reader::source::PageSet;
use flightrec_reader::window::Window;
use rustc_hash::FxHashMap;
use std::sync::Arc;

use super::chosen::{Chosen, who};
use super::lines::Raw;
use super::occurrences::Occurrences;
use super::whats::Whats;
use crate::report::{self, Part, Report, Seen, Shape, Sums};
use crate::text::{Options, Renderer};

/// Stretches of all rows of threads and CPUs together: far from the cause, and near it.
const FAR_MAX: usize = 46_000;
const NEAR_MAX: usize = 16_000;
/// The same of a row.
const ROW_FAR: (usize, usize) = (300, 8000);
const ROW_NEAR: (usize, usize) = (150, 4000);
/// Most gaps of a CPU that are drawn by themselves.
const GAPS_MAX: usize = 200;
/// Most marks.
const MARKS_MAX: usize = 100;
/// Ways to spend its time that are told apart of a thread; parts that are shown.
const WAYS_MAX: usize = 256;
const PARTS_MAX: usize = 8;
/// Longest text of a mark, bytes.
const MARK_MAX: usize = 200;

/// A thread.
struct Thread {
    chosen: Chosen,
    states: Lane,
    calls: Lane,
    /// The call that it is in: since when, and which.
    open: Option<(u64, Call, Kept)>,
    /// How it spent its time: for how long, how often.
    ways: FxHashMap<(Sort, u32), (u64, u64)>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It returned this.
    Returned(i64),
    /// Its thread ended in it.
    Never,
    /// It goes on at the end of the window.
    Later,
}

/// A CPU.
struct Cpu {
    number: u16,
    runs: Lane,
    gaps: Vec<(u64, u64, String)>,
}

/// The timeline in the making.
pub(super) struct Drawing {
    window: Window,
    near: Vec<Window>,
    threads: Vec<Thread>,
    by_tid: FxHashMap<u32, usize>,
    cpus: Vec<Cpu>,
    by_cpu: FxHashMap<u16, usize>,
    occurrences: Occurrences,
    whats: Whats,
    raw: Raw,
    marks: Vec<(u64, String)>,
    /// Of the recording that is read.
    renderer: Option<(Arc<Session>, Renderer)>,
    session: Option<Arc<Session>>,
    boot: Option<BootId>,
    /// The window has events of another boot, too.
    has_other_boot: bool,
    text: Vec<u8>,
    redact: Redact,
}

impl Drawing {
    /// Of a window, with everything `near` that has room.
    pub(super) fn new(
        window: Window,
        near: Vec<Window>,
        threads: Vec<Chosen>,
        cpus: &[u16],
        raw: Raw,
        redact: &Redact,
    ) -> Self {
        let rows = (cpus.len() + 2 * threads.len()).max(1);
        let room = |all: usize, (least, most): (usize, usize)| (all / rows).clamp(least, most);
        let lane = || Lane::new(room(FAR_MAX, ROW_FAR), room(NEAR_MAX, ROW_NEAR));
        let occurrences = Occurrences::new(cpus, threads.iter().map(|of| of.tid));
        let by_tid = threads.iter().enumerate().map(|(at, of)| (of.tid, at)).collect();
        let by_cpu = cpus.iter().enumerate().map(|(at, cpu)| (*cpu, at)).collect();
        let thread = |chosen| Thread {
            chosen,
            states: lane(),
            calls: lane(),
            open: None,
            ways: FxHashMap::default(),
        };
        let mut whats = Whats::new(redact.clone());
        // The first one stands for those for which there is no room.
        whats.number(Sort::OnCpu, [""; 4]);
        Self {
            window,
            near,
            threads: threads.into_iter().map(thread).collect(),
            by_tid,
            cpus: cpus
                .iter()
                .map(|cpu| Cpu { number: *cpu, runs: lane(), gaps: Vec::new() })
                .collect(),
            by_cpu,
            occurrences,
            whats,
            raw,
            marks: Vec::new(),
            renderer: None,
            session: None,
            boot: None,
            has_other_boot: false,
            text: Vec::new(),
            redact: redact.clone(),
        }
    }

    /// Whether the window has events of two boots, whose clocks have nothing to do with one
    /// another.
    pub(super) fn has_other_boot(&self) -> bool {
        self.has_other_boot
    }

    /// The recording that was read last.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.session.clone()
    }

    fn is_near(&self, from: u64, until: u64) -> bool {
        self.near.iter().any(|near| from < near.until && near.from <= until)
    }

    /// The renderer of the recording that is read.
    fn renderer(&mut self, to: &Sums) -> Option<&mut Renderer> {
        let session = to.session()?;
        if !self.renderer.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, session)) {
            let renderer = Renderer::new(session.meta(), Options::default());
            self.renderer = Some((session.clone(), renderer));
        }
        self.renderer.as_mut().map(|(_, renderer)| renderer)
    }

    /// A call of a drawn thread is over, or goes on at the end.
    fn call(
        &mut self,
        at: usize,
        (from, until): (u64, u64),
        (call, end): (&Call, End),
        fds: flightrec_reader::fds::FdNames<'_>,
        to: &Sums,
    ) {
        let (from, until) = (from.max(self.window.from), until.min(self.window.until));
        if from > until || until < self.window.from || from >= self.window.until {
            return;
        }
        let is_near = self.is_near(from, until);
        let Some(session) = to.session().cloned() else { return };
        let failure = match end {
            End::Returned(ret) => session.failures().failure(call.abi, call.nr, ret),
            End::Never | End::Later => None,
        };
        let sort = if failure.is_some() { Sort::Failed } else { Sort::Call };
        let name = name(&session, CallId { nr: call.nr, abi: call.abi });
        let is_joined = self
            .threads
            .get(at)
            .is_some_and(|of| until.saturating_sub(from) < of.calls.resolution(is_near));
        let what = if is_joined {
            self.whats.number(sort, [&name, &name, "", ""])
        } else {
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            if let Some(renderer) = self.renderer(to) {
                match end {
                    End::Returned(ret) => renderer.result(call, ret, fds, &mut text),
                    End::Never => renderer.call(call, fds, &mut text),
                    End::Later => {
                        renderer.call(call, fds, &mut text);
                        text.extend_from_slice(b" (goes on)");
                    }
                }
            }
            let what = self.whats.number(sort, [&String::from_utf8_lossy(&text), &name, "", ""]);
            self.text = text;
            what
        };
        if let Some(thread) = self.threads.get_mut(at) {
            thread.calls.add(Span::new(from, until, what, usize::from(failure.is_some()), is_near));
        }
    }

    /// A drawn thread does not return any more from the call that it is in.
    fn close(&mut self, at: usize, until: u64, end: End, to: &Sums) {
        let open = self.threads.get_mut(at).and_then(|of| of.open.take());
        if let Some((from, call, names)) = open {
            self.call(at, (from, until), (&call, end), names.names(), to);
        }
    }

    /// A stretch of a drawn thread.
    fn state(&mut self, at: usize, part: &Part<'_>, to: &Sums) {
        let Window { from, until } = part.within;
        let is_near = self.is_near(from, until);
        let interval = &part.stretch.interval;
        let cpu = interval.cpu;
        let (sort, class, title) = match interval.state {
            State::Running => (Sort::Running, 0, format!("on CPU {cpu}")),
            State::Runnable => (Sort::Runnable, 1, format!("for CPU {cpu}")),
            State::Held => (Sort::Held, 1, format!("CPU {cpu} was idle")),
            State::Blocked(_) | State::Stopped(_) => {
                let reason = report::reason(part, to);
                let title = printable(reason.to_string().as_bytes()).into_owned();
                match interval.state {
                    State::Stopped(_) => (Sort::Stopped, 3, title),
                    _ if reason.is_idle() => (Sort::Idle, 3, title),
                    _ => (Sort::Blocked, 2, title),
                }
            }
            State::Unknown | State::Dead => return,
        };
        let way = match sort {
            Sort::Running | Sort::Runnable | Sort::Held => 0,
            _ => self.whats.words.number(&title),
        };
        let Some(thread) = self.threads.get_mut(at) else { return };
        let has_room = thread.ways.len() < WAYS_MAX || thread.ways.contains_key(&(sort, way));
        let sum = thread.ways.entry((sort, if has_room { way } else { 0 })).or_default();
        *sum = (sum.0 + part.ns, sum.1 + 1);
        let is_joined = until.saturating_sub(from) < thread.states.resolution(is_near);
        let what = if is_joined {
            self.whats.number(sort, [&title, "", "", ""])
        } else {
            let Some(session) = to.session().cloned() else { return };
            let call = interval.call.map(|call| name(&session, call)).unwrap_or_default();
            let call = match part.facts.file {
                Some(file) if !call.is_empty() => format!("{call} {}", printable(file)),
                _ => call,
            };
            let waker = match sort {
                Sort::Running => String::new(),
                Sort::Runnable | Sort::Held if interval.waker.is_none() => String::new(),
                _ => printable(&report::waker(part, to)).into_owned(),
            };
            let stack = stack(part, &session);
            self.whats.number(sort, [&title, &call, &waker, &stack])
        };
        if let Some(thread) = self.threads.get_mut(at) {
            thread.states.add(Span::new(from, until, what, class, is_near));
        }
    }

    /// A stretch of a thread on a CPU.
    fn run(&mut self, part: &Part<'_>) {
        let interval = &part.stretch.interval;
        let Some(at) = self.by_cpu.get(&interval.cpu).copied() else { return };
        let Window { from, until } = part.within;
        let is_near = self.is_near(from, until);
        let title = who(&printable(part.facts.comm), interval.tid);
        let what = self.whats.number(Sort::OnCpu, [&title, "", "", ""]);
        if let Some(cpu) = self.cpus.get_mut(at) {
            cpu.runs.add(Span::new(from, until, what, 0, is_near));
        }
    }

    fn gap(&mut self, gap: &Gap) {
        let from = gap.from.max(self.window.from);
        let until = gap.until.min(self.window.until);
        let Some(cpu) = self.by_cpu.get(&gap.cpu).and_then(|at| self.cpus.get_mut(*at)) else {
            return;
        };
        if from >= until {
            return;
        }
        let lane = gap.lane.name();
        let missing = flightrec_export::gaps::missing(gap);
        let many = missing.map_or(String::new(), |n| format!("{n} events of "));
        let text = format!("{many}lane {lane}: {}", gap.reason.describe());
        let base = self.window.from;
        if cpu.gaps.len() < GAPS_MAX {
            return cpu.gaps.push((from - base, until - base, text));
        }
        // What is beyond is drawn as one, and said to be.
        if let Some(last) = cpu.gaps.last_mut() {
            last.0 = last.0.min(from - base);
            last.1 = last.1.max(until - base);
            "many gaps: the coverage counts them".clone_into(&mut last.2);
        }
    }

    /// The timeline, shares, lines, and what was merged in words.
    pub(super) fn finish(self) -> (Timeline, Vec<Shares>, model::Lines, Vec<String>) {
        let Self { window, near, threads, cpus, occurrences, whats, raw, marks, .. } = self;
        let base = window.from;
        let mut timeline = Timeline {
            near: near.iter().map(|of| (of.from - base, of.until - base)).collect(),
            marks,
            ..Timeline::default()
        };
        let lanes: Vec<&Lane> = cpus
            .iter()
            .map(|cpu| &cpu.runs)
            .chain(threads.iter().flat_map(|of| [&of.states, &of.calls]))
            .chain(occurrences.lanes())
            .collect();
        // The first one, those near the cause, and then the longest.
        let mut spans: Vec<&Span> = lanes.iter().flat_map(|lane| lane.spans()).collect();
        spans.sort_by_key(|span| (!span.is_near, std::cmp::Reverse(span.ns())));
        let used = std::iter::once(0).chain(spans.iter().map(|span| span.what));
        let told = whats.tell(used, &mut timeline);
        let row = |of, lane: &Lane| row(of, lane, base, &told);
        let cpu_lanes = cpus.iter().map(|cpu| model::Lane {
            label: format!("CPU {}", cpu.number),
            rows: std::iter::once(row("cpu", &cpu.runs))
                .chain(occurrences.of_cpu(cpu.number).map(|lane| row("irq", lane)))
                .collect(),
            gaps: cpu.gaps.clone(),
            ..model::Lane::default()
        });
        let thread_lanes = threads.iter().map(|of| model::Lane {
            label: if of.chosen.comm.is_empty() {
                "(no name)".into()
            } else {
                of.chosen.comm.clone()
            },
            sub: if of.chosen.pid == of.chosen.tid || of.chosen.pid == 0 {
                format!("{}", of.chosen.tid)
            } else {
                format!("{} of {}", of.chosen.tid, of.chosen.pid)
            },
            tid: of.chosen.tid,
            named: of.chosen.is_named(),
            rows: [row("state", &of.states), row("call", &of.calls)]
                .into_iter()
                .chain(occurrences.of_thread(of.chosen.tid).map(|lane| row("signal", lane)))
                .collect(),
            ..model::Lane::default()
        });
        let disk_lanes = occurrences.disks().map(|disk| model::Lane {
            label: format!("disk {}", disk.name),
            rows: vec![row("disk", &disk.requests)],
            ..model::Lane::default()
        });
        // Those that the answer names stand above the CPUs.
        let (named, others): (Vec<_>, Vec<_>) = thread_lanes.partition(|of| of.named);
        let shared = cpu_lanes.chain(disk_lanes);
        timeline.lanes = named.into_iter().chain(shared).chain(others).collect();
        let shares = threads.iter().map(|of| shares(of, &whats)).collect();
        let mut merged = merged(&lanes, &whats, told.cut);
        merged.extend(occurrences.remark());
        (timeline, shares, raw.finish(base), merged)
    }
}

impl Report for Drawing {
    fn shape(&self) -> &'static Shape {
        &report::WHOLE
    }

    fn coverage(&mut self, recording: &PageSet, reports: &[Coverage]) {
        let boot = boots::of_meta(&recording.meta);
        self.has_other_boot |= *self.boot.get_or_insert(boot) != boot;
        for report in reports {
            report.gaps().into_iter().for_each(|gap| self.gap(gap));
        }
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        let event = seen.event;
        if let Some(at) = self.by_tid.get(&event.tid).copied() {
            match &event.body {
                Body::Enter(call) => {
                    let open = Some((event.time, call.clone(), seen.known.fds.keep(call, None)));
                    if let Some(thread) = self.threads.get_mut(at) {
                        thread.open = open;
                    }
                }
                Body::Exit { call, ret, .. } => {
                    if let Some(thread) = self.threads.get_mut(at) {
                        thread.open = None;
                    }
                    let took = seen.known.duration_ns.or(seen.known.at_least_ns).unwrap_or(0);
                    let span = (event.time.saturating_sub(took), event.time);
                    self.call(at, span, (call, End::Returned(*ret)), seen.known.fds, to);
                }
                Body::TaskExit(_) => self.close(at, event.time, End::Never, to),
                _ => {}
            }
        }
        if !seen.is_wanted {
            return;
        }
        if let Body::Mark(text) = &event.body
            && self.marks.len() < MARKS_MAX
        {
            let text = self.redact.cut(&printable(&text.bytes), MARK_MAX);
            self.marks.push((event.time.saturating_sub(self.window.from), text));
        }
        let near = &self.near;
        let is_near = |from, until| near.iter().any(|of| from < of.until && of.from <= until);
        let devices = || to.session().map(|of| Devices::new(of.meta())).unwrap_or_default();
        self.occurrences.take(seen, self.window, is_near, devices, &mut self.whats);
        let mut raw = std::mem::take(&mut self.raw);
        raw.take(event, |out| {
            if let Some(renderer) = self.renderer(to) {
                renderer.line(event, seen.known, out);
            }
        });
        self.raw = raw;
    }

    fn stretch(&mut self, part: &Part<'_>, to: &mut Sums) {
        let interval = &part.stretch.interval;
        if interval.state == State::Running && interval.tid != 0 {
            self.run(part);
        }
        if let Some(at) = self.by_tid.get(&interval.tid).copied() {
            self.state(at, part, to);
        }
    }

    fn end(&mut self, to: &mut Sums) {
        self.session = to.session().cloned();
        for at in 0..self.threads.len() {
            self.close(at, self.window.until, End::Later, to);
        }
    }
}

fn name(session: &Session, call: CallId) -> String {
    printable(session.call_label(call.abi, call.nr).as_bytes()).into()
}

/// Functions of the kernel in which a thread waited, a line each, from the innermost one out.
fn stack(part: &Part<'_>, session: &Session) -> String {
    let frames = &part.stretch.frames;
    let is_entry = |frame: &&u32| {
        let symbol = session.symbols().find(**frame);
        symbol.is_some_and(|of| crate::text::stack::is_entry(of.function))
    };
    let shown = frames.len() - frames.iter().rev().take_while(is_entry).count();
    let name = |frame: &u32| printable(session.symbols().name(*frame).as_bytes()).into_owned();
    frames.iter().take(shown).map(name).collect::<Vec<_>>().join("\n")
}

/// A row, as the page has it.
fn row(of: &'static str, lane: &Lane, base: u64, told: &super::whats::Told) -> Row {
    let mut row =
        Row { of, resolution: (lane.resolution(false), lane.resolution(true)), ..Row::default() };
    let mut end = base;
    for (at, span) in (0..).zip(lane.spans()) {
        row.times.push(span.from as i64 - end as i64);
        row.times.push(span.ns() as i64);
        row.whats.push(told.number(span.what));
        if span.n > 1 {
            row.merged.extend([at, u64::from(span.n)]);
            let part = |ns: &u64| ns.saturating_mul(1000).checked_div(span.ns()).unwrap_or(0);
            row.merged.extend(span.sums.iter().map(part));
        }
        end = span.until;
    }
    row
}

fn shares(of: &Thread, whats: &Whats) -> Shares {
    let mut parts: Vec<(u32, String, u64, u64)> = of
        .ways
        .iter()
        .map(|((sort, way), (ns, n))| (*sort as u32, whats.words.text(*way).to_owned(), *ns, *n))
        .collect();
    parts.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.1.cmp(&b.1)));
    // What is beyond is one part of each sort.
    let rest = parts.split_off(PARTS_MAX.min(parts.len()));
    for (sort, _, ns, n) in rest {
        match parts.iter_mut().skip(PARTS_MAX).find(|part| part.0 == sort) {
            Some(part) => (part.2, part.3) = (part.2 + ns, part.3 + n),
            None => parts.push((sort, "(others)".to_owned(), ns, n)),
        }
    }
    let all = parts.iter().map(|(_, _, ns, _)| ns).sum();
    Shares { who: of.chosen.who(), why: of.chosen.why, parts, of: all }
}

/// What was merged, cut or left out.
fn merged(lanes: &[&Lane], whats: &Whats, cut: u64) -> Vec<String> {
    let mut out = Vec::new();
    let all: u64 = lanes.iter().flat_map(|lane| lane.spans()).map(|of| u64::from(of.n)).sum();
    let drawn = lanes.iter().flat_map(|lane| lane.spans()).count();
    let coarsest = |is_near| lanes.iter().map(|of| of.resolution(is_near)).max().unwrap_or(0);
    let length = |ns: u64| match ns {
        0..1_000_000 => format!("{} µs", ns.div_ceil(1000)),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    };
    let (far, near) = (coarsest(false), coarsest(true));
    if far == 0 && near == 0 {
        out.push(format!("The timeline has all {all} stretches of its rows, each by itself."));
    } else {
        out.push(format!(
            "The timeline has {all} stretches of runs, waits, calls, interrupts, signals and \
             requests to disks, drawn as {drawn}: in each \
             row, neighbours that are shorter than its resolution (at most {}) are merged into \
             one, which says how many they are and how their time parts.",
            length(far.max(near))
        ));
        out.push(if near == 0 {
            "Around the cause nothing is merged.".to_owned()
        } else {
            format!(
                "Around the cause, what is shorter than a row's own resolution there (at most {}) \
                 is merged.",
                length(near)
            )
        });
    }
    if cut != 0 || whats.words.refused() != 0 {
        out.push(
            "There was no room for the arguments of all calls: the shortest ones far from the \
             cause have none."
                .to_owned(),
        );
    }
    out
}
