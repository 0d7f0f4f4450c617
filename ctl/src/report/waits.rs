//! `report waits`, `report offcpu` and `report wakers`: for what threads waited, where, and what
//! woke them.

use flightrec_analysis::groups::Order;
use flightrec_analysis::reason::{Reason, Wait};
use flightrec_analysis::{State, Waker};
use flightrec_format::abi::value_names::BLOCK_OPS;
use flightrec_format::symbols::Symbols;
use flightrec_sums::model::{Cell, Group, Table};

use super::{Column, Facts, Key, Needs, Part, Report, Shape, Sums, Unit};
use crate::text::stack::is_entry;

const KEYS: &[Key] =
    &[Key::Reason, Key::Stack, Key::Waker, Key::Syscall, Key::File, Key::Device, Key::Cpu];
const COLUMNS: &[Column] = &[
    Column::Count,
    Column::Total,
    Column::Average,
    Column::P50,
    Column::P99,
    Column::Max,
    Column::Share,
];
const NEEDS: Needs = Needs { stretches: true, runs: false, arguments: false };
/// Said of all of them.
const BEGAN_BEFORE: &str = "a wait that began more than 2 s before the window is counted only if \
                            an event showed its thread in between";
const STACKS: &str = "stacks are recorded of long waits only (flightd.toml, section stacks)";

/// The table of reasons.
pub(super) static WAITS: Shape = Shape {
    name: "waits",
    keys: KEYS,
    default: &[Key::Reason],
    unit: Unit::Ns,
    value: "duration",
    counted: "WAITS",
    extras: &[],
    columns: COLUMNS,
    partners: None,
    order: Order::Total,
    needs: NEEDS,
    remarks: &[BEGAN_BEFORE],
};

/// Off-CPU time by stack.
pub(super) static OFFCPU: Shape = Shape {
    name: "offcpu",
    keys: KEYS,
    default: &[Key::Comm, Key::Stack],
    unit: Unit::Ns,
    value: "duration",
    counted: "TIMES",
    extras: &[],
    columns: COLUMNS,
    partners: None,
    order: Order::Total,
    needs: NEEDS,
    remarks: &[BEGAN_BEFORE, STACKS],
};

/// Off-CPU time by waker.
pub(super) static WAKERS: Shape = Shape {
    name: "wakers",
    keys: KEYS,
    default: &[Key::Comm, Key::Waker, Key::Stack],
    unit: Unit::Ns,
    value: "duration",
    counted: "WAITS",
    extras: &[],
    columns: COLUMNS,
    partners: None,
    order: Order::Total,
    needs: NEEDS,
    remarks: &[
        BEGAN_BEFORE,
        STACKS,
        "of a waker its system call is known, not its stack: that is not recorded",
    ],
};

/// Adds up waits.
pub(super) struct Waits {
    shape: &'static Shape,
    /// Waits for what others, or the time, bring do not count.
    leaves_out_idle: bool,
    /// Reasons are told without the files that they are about, as sums have them.
    is_plain: bool,
}

impl Waits {
    pub(super) fn new(shape: &'static Shape) -> Self {
        Self { shape, leaves_out_idle: false, is_plain: false }
    }

    /// Of waits that keep work from being done.
    pub(super) fn of_work() -> Self {
        Self { shape: &WAITS, leaves_out_idle: true, is_plain: false }
    }
}

impl Report for Waits {
    fn shape(&self) -> &'static Shape {
        self.shape
    }

    fn tables(&self) -> &'static [Table] {
        if self.shape.name == WAITS.name { &[Table::Waits] } else { &[] }
    }

    fn join_minutes(&mut self) {
        self.is_plain = true;
    }

    fn minute(&mut self, group: &Group, keys: &[(Key, &[u8])], cell: &Cell, to: &mut Sums) {
        let is_idle = group.keys.get(2).is_some_and(|word| &**word == b"idle");
        if group.table == Table::Waits && !(is_idle && self.leaves_out_idle) {
            to.of_words(keys).merge(&cell.to_sum());
        }
    }

    fn stretch(&mut self, part: &Part<'_>, to: &mut Sums) {
        let Some(session) = to.session().cloned() else { return };
        let state = part.stretch.interval.state;
        let waits_for_cpu = matches!(state, State::Runnable | State::Held);
        let is_off_cpu = self.shape.name == OFFCPU.name;
        match state {
            State::Blocked(_) | State::Stopped(_) => {}
            _ if waits_for_cpu && is_off_cpu => {}
            _ => return,
        }
        let symbols = session.symbols();
        if self.leaves_out_idle && reason(part, to, self.is_plain).is_idle() {
            return;
        }
        let reason = if waits_for_cpu {
            if state == State::Held { "its CPU was idle" } else { "waits for a CPU" }.to_owned()
        } else if to.is_by(Key::Reason) || to.is_by(Key::Stack) {
            reason(part, to, self.is_plain).to_string()
        } else {
            String::new()
        };
        let stack = if to.is_by(Key::Stack) { stack(part, symbols, &reason) } else { Vec::new() };
        let waker = if to.is_by(Key::Waker) { waker(part, to) } else { Vec::new() };
        let disk = part.stretch.disk().map(|(device, _)| device);
        let own = [(Key::Reason, reason.as_bytes()), (Key::Stack, &*stack), (Key::Waker, &*waker)];
        to.of(&Facts { own: &own, device: disk, ..part.facts }).add(part.ns);
    }
}

/// Why the thread waited.
pub(super) fn reason(part: &Part<'_>, to: &Sums, is_plain: bool) -> Reason {
    let Some(session) = to.session() else { return Reason::of(&Wait::default()) };
    let stretch = part.stretch;
    let interval = &stretch.interval;
    let names = stretch.frames.iter().filter_map(|frame| session.symbols().find(*frame));
    let frames: Vec<&str> = names.map(|frame| frame.function).collect();
    let disk = stretch.disk().map(|(device, op)| {
        let mut name = Vec::new();
        to.device(device, &mut name);
        (String::from_utf8_lossy(&name).into_owned(), op_name(op))
    });
    let by = interval.waker.and_then(Waker::thread);
    Reason::of(&Wait {
        state: interval.state,
        call: interval.call.and_then(|call| session.call_name(call.abi, call.nr)),
        command: stretch.told.as_ref().and_then(|told| told.command),
        object: part.facts.file.filter(|_| !is_plain),
        frames: &frames,
        disk: disk.as_ref().map(|(device, op)| (&**device, *op)),
        waker: interval.waker,
        waker_name: by.map_or(b"", |tid| part.names.comm(tid, interval.cpu, interval.until)),
        io_wait: stretch.io_wait,
    })
}

/// The name of what is done on a disk.
pub(super) fn op_name(op: u32) -> &'static str {
    let known = BLOCK_OPS.iter().find(|(number, _)| *number == u64::from(op));
    known.map_or("other", |(_, name)| name)
}

/// Functions, from the innermost one out, with `;` between them; without a stack the reason.
fn stack(part: &Part<'_>, symbols: &Symbols, reason: &str) -> Vec<u8> {
    let frames = &part.stretch.frames;
    let is_entry = |frame: &&u32| symbols.find(**frame).is_some_and(|of| is_entry(of.function));
    let shown = frames.len() - frames.iter().rev().take_while(is_entry).count();
    let names: Vec<String> = frames.iter().take(shown).map(|frame| symbols.name(*frame)).collect();
    if names.is_empty() { format!("[{reason}]").into_bytes() } else { names.join(";").into_bytes() }
}

/// What woke it: a thread, with its call; a disk; an interrupt.
pub(super) fn waker(part: &Part<'_>, to: &Sums) -> Vec<u8> {
    let stretch = part.stretch;
    let Some(waker) = stretch.interval.waker else {
        return if stretch.is_open { b"(still waits)".into() } else { Vec::new() };
    };
    if let Some((device, op)) = stretch.disk() {
        let mut word = b"disk ".to_vec();
        to.device(device, &mut word);
        word.extend_from_slice(b": ");
        word.extend_from_slice(op_name(op).as_bytes());
        return word;
    }
    let Some(tid) = waker.thread() else {
        return if waker.tid == 0 && !waker.context.is_interrupt() {
            b"idle".into()
        } else {
            waker.context.name().into()
        };
    };
    let interval = &stretch.interval;
    let mut word = part.names.comm(tid, interval.cpu, interval.until).to_vec();
    if word.is_empty() {
        word.extend_from_slice(format!("thread {tid}").as_bytes());
    }
    let call = stretch.woken.call.zip(to.session());
    let name = call.and_then(|(call, session)| session.call_name(call.abi, call.nr));
    if let Some(name) = name {
        word.extend_from_slice(b" in ");
        word.extend_from_slice(name.as_bytes());
    }
    word
}
