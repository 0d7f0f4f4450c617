//! Which events are wanted. Different kinds of filter must all agree; of the values of one, any will do.

use rustc_hash::FxHashSet;
use thiserror::Error;

use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::{Meta, Syscall};

use crate::kind::{Kind, Kinds};
use crate::pipeline::threads::Threads;
use crate::suggest::{hint, nearest};

/// A filter as typed; system calls are still names, which only a recording can explain.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPlan {
    pids: Vec<u32>,
    tids: Vec<u32>,
    comms: Vec<String>,
    cpus: Vec<u16>,
    syscalls: Vec<String>,
    kinds: Kinds,
}

/// A name that means nothing.
#[derive(Debug, Error)]
pub enum FilterError {
    /// No such kind of event.
    #[error("--event: there is no kind `{name}`{hint} (kinds: {})", kind_names())]
    Event {
        /// What was typed.
        name: String,
        /// The nearest names.
        hint: String,
    },
    /// No such system call in the recording's tables.
    #[error("--syscall: the recorded kernel has no system call `{name}`{hint}")]
    Syscall {
        /// What was typed.
        name: String,
        /// The nearest names.
        hint: String,
    },
}

fn kind_names() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

impl FilterPlan {
    /// Takes the filters as typed; fails for a kind of event that does not exist.
    pub fn new(
        pids: Vec<u32>,
        tids: Vec<u32>,
        comms: Vec<String>,
        cpus: Vec<u16>,
        syscalls: Vec<String>,
        events: &[String],
    ) -> Result<Self, FilterError> {
        let mut kinds = Kinds::NONE;
        for name in events {
            let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
                let hint = hint(&nearest(name, Kind::ALL.map(Kind::name)));
                return Err(FilterError::Event { name: name.clone(), hint });
            };
            kinds = kinds.with(kind);
        }
        if events.is_empty() {
            kinds = if syscalls.is_empty() { Kinds::ALL } else { Kinds::SYSCALLS };
        }
        Ok(Self { pids, tids, comms, cpus, syscalls, kinds })
    }

    /// A filter that wants everything.
    pub fn all() -> Self {
        let (pids, tids, comms, cpus, syscalls) = Default::default();
        Self { pids, tids, comms, cpus, syscalls, kinds: Kinds::ALL }
    }

    /// Looks the names up in a recording's own tables.
    pub fn resolve(&self, meta: &Meta) -> Result<Filter, FilterError> {
        let mut calls = FxHashSet::default();
        for name in &self.syscalls {
            let before = calls.len();
            let number = name.parse::<u16>().ok();
            let mut take = |table: &[Syscall], abis: &[Abi], number: Option<u16>| {
                for call in table.iter().filter(|call| call.name == *name || Some(call.nr) == number) {
                    calls.extend(abis.iter().map(|abi| (*abi, call.nr)));
                }
            };
            take(&meta.native, &[Abi::Native, Abi::X32], number);
            take(&meta.compat, &[Abi::Compat], None); // a number means the machine's own table
            if let Some(number) = number {
                calls.insert((Abi::Native, number));
            } else if calls.len() == before {
                let names = meta.native.iter().chain(&meta.compat).map(|call| call.name.as_str());
                // The same name given twice adds nothing, and is no error.
                if !names.clone().any(|known| known == name) {
                    return Err(FilterError::Syscall { name: name.clone(), hint: hint(&nearest(name, names)) });
                }
            }
        }
        Ok(Filter {
            pids: self.pids.iter().copied().collect(),
            tids: self.tids.iter().copied().collect(),
            comms: self.comms.iter().map(|comm| comm.as_bytes().into()).collect(),
            cpus: self.cpus.iter().copied().collect(),
            calls: (!self.syscalls.is_empty()).then_some(calls),
            kinds: self.kinds,
        })
    }
}

/// A filter whose names are looked up. Empty sets want everything.
#[derive(Debug)]
pub struct Filter {
    pids: FxHashSet<u32>,
    tids: FxHashSet<u32>,
    comms: FxHashSet<Box<[u8]>>,
    cpus: FxHashSet<u16>,
    calls: Option<FxHashSet<(Abi, u16)>>,
    kinds: Kinds,
}

impl Filter {
    /// Whether entries of system calls are wanted at all.
    pub fn wants_entries(&self) -> bool {
        self.kinds.has(Kind::SysEnter)
    }

    /// Whether the event is wanted, given the threads as they are when it happens.
    pub fn wants(&self, event: &Event, threads: &Threads) -> bool {
        self.kinds.has(Kind::of(&event.body))
            && (self.cpus.is_empty() || self.cpus.contains(&event.cpu))
            && self.wants_call(event)
            && self.wants_thread(event, threads)
    }

    fn wants_call(&self, event: &Event) -> bool {
        match (&self.calls, &event.body) {
            (Some(calls), Body::Enter(Call { nr, abi, .. }) | Body::Exit { call: Call { nr, abi, .. }, .. }) => {
                calls.contains(&(*abi, *nr))
            }
            _ => true,
        }
    }

    fn wants_thread(&self, event: &Event, threads: &Threads) -> bool {
        let other = match &event.body {
            Body::Switch { next, .. } => Some(*next),
            Body::Waking { wakee, .. } => Some(*wakee),
            Body::Migrate { thread, .. } => Some(*thread),
            Body::Fork(fork) => Some(fork.tid),
            _ => None,
        };
        let any = |matches: &dyn Fn(u32) -> bool| matches(event.tid) || other.is_some_and(matches);
        (self.tids.is_empty() || any(&|tid| self.tids.contains(&tid)))
            && (self.pids.is_empty()
                || self.named_pid(event)
                || any(&|tid| self.pids.contains(&threads.tgid(tid, event.time))))
            && (self.comms.is_empty()
                || self.named_comm(event)
                || any(&|tid| self.comms.contains(threads.comm(tid, event.cpu, event.time))))
    }

    /// Events of a task's life name its process themselves.
    fn named_pid(&self, event: &Event) -> bool {
        match &event.body {
            Body::Fork(fork) => self.pids.contains(&fork.parent_tgid) || self.pids.contains(&fork.tgid),
            Body::Exec { exec, .. } => self.pids.contains(&exec.tgid),
            Body::Rename(rename) => self.pids.contains(&rename.tgid),
            Body::TaskExit(exit) => self.pids.contains(&exit.tgid),
            _ => false,
        }
    }

    /// A name that begins or ends with this event counts as well.
    fn named_comm(&self, event: &Event) -> bool {
        let has = |comm| self.comms.contains(crate::pipeline::threads::trim(comm));
        match &event.body {
            Body::Fork(fork) => has(&fork.comm),
            Body::Exec { exec, .. } => has(&exec.comm),
            Body::Rename(rename) => has(&rename.old) || has(&rename.new),
            Body::TaskExit(exit) => has(&exit.comm),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::testing::{call, comm, enter, event, fork, switch, waking};

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn meta() -> Meta {
        let table = |names: &[(&str, u16)]| {
            names.iter().map(|(name, nr)| Syscall { nr: *nr, name: (*name).into(), args: None }).collect()
        };
        Meta {
            native: table(&[("read", 0), ("openat", 257), ("getpid", 39)]),
            compat: table(&[("read", 3), ("waitpid", 7), ("mkdir", 39)]),
            ..Meta::default()
        }
    }

    fn filter(plan: &FilterPlan) -> Filter {
        plan.resolve(&meta()).unwrap()
    }

    #[test]
    fn everything_by_default() {
        let filter = filter(&FilterPlan::all());
        assert!(filter.wants(&enter(1, 0, 5, 0), &Threads::default()));
        assert!(filter.wants(&switch(1, 0, 5, 1, 6), &Threads::default()));
    }

    #[test]
    fn a_system_call_means_its_number_in_each_table() {
        let plan = FilterPlan { syscalls: strings(&["read"]), kinds: Kinds::SYSCALLS, ..FilterPlan::all() };
        let filter = filter(&plan);
        let threads = Threads::default();
        assert!(filter.wants(&enter(1, 0, 5, 0), &threads));
        assert!(!filter.wants(&enter(1, 0, 5, 3), &threads));
        let compat = |nr| event(1, 0, 5, Body::Enter(Call { abi: Abi::Compat, ..call(nr) }));
        assert!(filter.wants(&compat(3), &threads) && !filter.wants(&compat(0), &threads));
        assert!(!filter.wants(&switch(1, 0, 5, 1, 6), &threads));
    }

    #[test]
    fn numbers_are_native() {
        let plan = FilterPlan { syscalls: strings(&["39"]), ..FilterPlan::all() };
        let filter = filter(&plan);
        assert!(filter.wants(&enter(1, 0, 5, 39), &Threads::default()));
        let mkdir = event(1, 0, 5, Body::Enter(Call { abi: Abi::Compat, ..call(39) }));
        assert!(!filter.wants(&mkdir, &Threads::default()));
    }

    #[test]
    fn a_system_call_filter_leaves_named_kinds_in() {
        let plan =
            FilterPlan::new(vec![], vec![], vec![], vec![], strings(&["read"]), &strings(&["switch", "sys_exit"]));
        let filter = filter(&plan.unwrap());
        assert!(filter.wants(&switch(1, 0, 5, 1, 6), &Threads::default()));
        assert!(!filter.wants(&enter(1, 0, 5, 0), &Threads::default()));
    }

    #[test]
    fn unknown_system_calls_bring_suggestions() {
        let plan = FilterPlan { syscalls: strings(&["opneat"]), ..FilterPlan::all() };
        let e = plan.resolve(&meta()).unwrap_err().to_string();
        assert!(e.contains("`opneat`") && e.contains("openat"), "{e}");
        let twice = FilterPlan { syscalls: strings(&["read", "read"]), ..FilterPlan::all() };
        assert!(twice.resolve(&meta()).is_ok());
    }

    #[test]
    fn both_sides_of_a_switch_and_of_a_wakeup() {
        let plan = FilterPlan { tids: vec![6], ..FilterPlan::all() };
        let filter = filter(&plan);
        let threads = Threads::default();
        assert!(filter.wants(&switch(1, 0, 5, 1, 6), &threads));
        assert!(filter.wants(&switch(1, 0, 6, 1, 5), &threads));
        assert!(filter.wants(&waking(1, 0, 5, 6, 0), &threads));
        assert!(!filter.wants(&switch(1, 0, 5, 1, 7), &threads));
    }

    #[test]
    fn kinds_of_filter_combine_with_and() {
        let plan = FilterPlan { pids: vec![100], cpus: vec![1], ..FilterPlan::all() };
        let filter = filter(&plan);
        let mut threads = Threads::default();
        threads.apply(&event(0, 0, 100, Body::Fork(fork(100, 100, 101, 100, "web"))));
        assert!(filter.wants(&enter(1, 1, 101, 0), &threads));
        assert!(!filter.wants(&enter(1, 0, 101, 0), &threads), "wrong CPU");
        assert!(!filter.wants(&enter(1, 1, 7, 0), &threads), "wrong process");
    }

    #[test]
    fn names_old_and_new() {
        let plan = FilterPlan { comms: strings(&["web"]), ..FilterPlan::all() };
        let filter = filter(&plan);
        let mut threads = Threads::default();
        let rename = flightrec_format::abi::record::Rename { tid: 5, tgid: 5, old: comm("sh"), new: comm("web") };
        let event = event(1, 0, 5, Body::Rename(rename));
        assert!(filter.wants(&event, &threads));
        assert!(!filter.wants(&enter(2, 0, 5, 0), &threads));
        threads.apply(&event);
        assert!(filter.wants(&enter(2, 0, 5, 0), &threads));
    }
}
