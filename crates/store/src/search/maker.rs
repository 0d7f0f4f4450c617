//! What is in a block, from its pages.

use std::collections::{BTreeMap, BTreeSet};

use flightrec_format::abi::kinds::Unit;
use flightrec_format::abi::record::StringStatus;
use flightrec_format::decode::{Body, Call, Event, Page, Text};

use super::components::{Components, hash, names};
use super::pairs::Lone;
use super::{BlockEntry, CallKey, CpuEntry};

/// Greatest number of an error.
const ERRNO_MAX: i64 = 4095;

/// `EFAULT`
const EFAULT: i64 = 14;

/// What records of a call lack, a bit for each argument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missing {
    /// There is no string of it that could be read, and it is no null pointer, or is missing itself.
    pub strings: u8,
    /// It is missing itself.
    pub arguments: u8,
}

impl Missing {
    /// Of one record.
    pub fn of(call: &Call) -> Self {
        let nargs = usize::from(call.nargs);
        let mut missing = Self::default();
        for (index, value) in call.args.iter().enumerate() {
            let is_given = index < nargs;
            let has_string = || {
                call.strings.iter().any(|text| {
                    text.is_string()
                        && usize::from(text.index) == index
                        && text.status != StringStatus::Unreadable
                })
            };
            missing.arguments |= u8::from(!is_given) << index;
            missing.strings |= u8::from((!is_given || *value != 0) && !has_string()) << index;
        }
        missing
    }

    /// Without what an entry says could not be read: the call's exit may have it.
    fn without(self, unread: u8) -> Self {
        Self { strings: self.strings & !unread, ..self }
    }

    /// What either of two lacks.
    pub(super) fn and(self, other: Self) -> Self {
        Self { strings: self.strings | other.strings, arguments: self.arguments | other.arguments }
    }
}

/// What is in these pages, which take so many bytes in a file; the records of calls whose beginning
/// or end stands alone are added to `lone`.
pub(super) fn entry<'p>(
    pages: impl IntoIterator<Item = &'p Page>,
    data_len: usize,
    lone: &mut Vec<Lone>,
) -> BlockEntry {
    let mut made = Making::default();
    let mut event = Event::default();
    for page in pages {
        let mut events = page.events();
        while events.read(&mut event) {
            made.take(&event, lone);
        }
        lone.extend(made.begun.take());
    }
    while let Some((tid, _)) = made.unread.first_key_value() {
        let tid = *tid;
        made.give_up(tid);
    }
    let cpus = made.cpus.into_iter().map(|(cpu, (_, idles, ends_idle))| CpuEntry {
        cpu,
        idles,
        ends_idle,
    });
    let names: Vec<u32> = made.names.into_iter().collect();
    let mut entry = BlockEntry {
        kinds: made.kinds,
        threads: made.threads.into_iter().collect(),
        calls: made.calls.into_iter().collect(),
        failures: made.failures.into_iter().collect(),
        cpus: cpus.collect(),
        components: Components::new(&names, data_len, made.vague),
        missing: made.missing.into_iter().collect(),
        ..BlockEntry::default()
    };
    entry.took(made.longest);
    entry
}

#[derive(Default)]
struct Making {
    kinds: u16,
    threads: BTreeSet<u32>,
    /// The thread that was named last: most events are of the one before.
    last: Option<u32>,
    calls: BTreeSet<CallKey>,
    failures: BTreeSet<(CallKey, u16)>,
    /// By CPU: when it switched last, whether it idled, and whether it idles now.
    cpus: BTreeMap<u16, (u64, bool, bool)>,
    /// The names in paths.
    names: BTreeSet<u32>,
    /// Some paths are not recorded whole.
    vague: bool,
    missing: BTreeMap<CallKey, Missing>,
    /// By thread: the call that it is in, with the strings that could not be read when it began.
    unread: BTreeMap<u32, (CallKey, u8)>,
    /// The longest of the calls that ended within their records, ns.
    longest: u64,
    /// The beginning before the next event, which may be the end of that call.
    begun: Option<Lone>,
}

impl Making {
    fn take(&mut self, event: &Event, lone: &mut Vec<Lone>) {
        let begun = self.begun.take();
        let ends = |entered: Option<u64>| {
            begun.as_ref().is_some_and(|of| of.tid == event.tid && entered == Some(of.time))
        };
        match &event.body {
            Body::Exit { entered, .. } if ends(*entered) => {}
            _ => lone.extend(begun),
        }
        self.kinds |= 1 << (event.body.kind() as u8 & 0xf);
        self.thread(event.tid);
        match &event.body {
            Body::Enter(call) => {
                self.call(call);
                self.give_up(event.tid);
                let unread = unread(call);
                self.lacks(key(call), Missing::of(call).without(unread));
                if unread != 0 {
                    self.unread.insert(event.tid, (key(call), unread));
                }
                self.begun = Some(Lone { time: event.time, tid: event.tid, end: None });
            }
            Body::Exit { call, ret, entered } => {
                self.call(call);
                // The address of the path was bad, so the call had no path.
                if *ret == -EFAULT {
                    self.unread.remove(&event.tid);
                } else if let Some((_, strings)) = self.unread.get_mut(&event.tid) {
                    *strings &= Missing::of(call).strings;
                    self.give_up(event.tid);
                }
                match entered {
                    Some(entered) => {
                        self.longest = self.longest.max(event.time.saturating_sub(*entered));
                    }
                    None => lone.push(Lone {
                        time: event.time,
                        tid: event.tid,
                        end: Some((key(call), Missing::of(call))),
                    }),
                }
                if (-ERRNO_MAX..0).contains(ret) {
                    self.failures.insert((key(call), ret.unsigned_abs() as u16));
                }
            }
            Body::Switch { next, .. } => {
                self.thread(*next);
                let idle = *next == 0;
                let (time, idles, ends_idle) =
                    self.cpus.entry(event.cpu).or_insert((event.time, false, idle));
                *idles |= idle;
                // Pages of a CPU need not stand in order.
                if event.time >= *time {
                    (*time, *ends_idle) = (event.time, idle);
                }
            }
            Body::Waking { wakee, .. } => self.thread(*wakee),
            Body::Migrate { thread, .. } => self.thread(*thread),
            Body::Fork(fork) => {
                for id in [fork.parent_tid, fork.parent_tgid, fork.tid, fork.tgid] {
                    self.thread(id);
                }
            }
            Body::Exec { exec, .. } => {
                for id in [exec.tid, exec.old_tid, exec.tgid] {
                    self.thread(id);
                }
            }
            Body::Rename(rename) => {
                self.thread(rename.tid);
                self.thread(rename.tgid);
            }
            Body::TaskExit(exit) => {
                self.thread(exit.tid);
                self.thread(exit.tgid);
            }
            Body::Plain(plain) => {
                for unit in [Unit::Thread, Unit::Process] {
                    plain.ids(unit).for_each(|id| self.thread(id));
                }
            }
            Body::IoSubmit { paths, .. } => paths.iter().for_each(|path| self.path(path)),
            Body::Stack(_)
            | Body::Sample(_)
            | Body::Tracepoint(_)
            | Body::Mark(_)
            | Body::Act(..) => {}
        }
    }

    fn thread(&mut self, tid: u32) {
        if self.last != Some(tid) {
            self.last = Some(tid);
            self.threads.insert(tid);
        }
    }

    fn lacks(&mut self, key: CallKey, missing: Missing) {
        let all = self.missing.entry(key).or_default();
        *all = all.and(missing);
    }

    /// What could not be read when a thread's call began is not read.
    fn give_up(&mut self, tid: u32) {
        if let Some((key, strings)) = self.unread.remove(&tid) {
            self.lacks(key, Missing { strings, arguments: 0 });
        }
    }

    fn call(&mut self, call: &Call) {
        self.calls.insert(key(call));
        call.strings.iter().filter(|text| text.is_string()).for_each(|text| self.path(text));
    }

    fn path(&mut self, text: &Text) {
        match text.status {
            StringStatus::Whole => self.names.extend(names(&text.bytes).map(hash)),
            StringStatus::Unreadable => {}
            StringStatus::Cut | StringStatus::Ends => self.vague = true,
        }
    }
}

/// The strings of a call that could not be read, a bit for each.
fn unread(call: &Call) -> u8 {
    let is_unread = |text: &&Text| text.is_string() && text.status == StringStatus::Unreadable;
    let bit = |text: &Text| 1u8.checked_shl(text.index.into()).unwrap_or(0);
    call.strings.iter().filter(is_unread).fold(0, |bits, text| bits | bit(text))
}

fn key(call: &Call) -> CallKey {
    (call.abi as u8, call.nr)
}
