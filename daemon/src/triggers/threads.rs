//! Who a thread is, and where it belongs, as it was when it was looked last.

use std::collections::HashMap;

use flightrec_format::abi::record::Comm;
use flightrec_format::abi::slot::{KTHREAD, TaskSlot};
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;

use crate::snapshots::names::text;

/// Most threads that ended and are remembered until it is looked again.
const ENDED_MOST: usize = 1 << 14;

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its process.
    pub tgid: u32,
    /// Its control group; 0: not known.
    pub cgroup: u64,
    /// Its name.
    pub comm: Comm,
}

/// The threads that live, and those that have just ended.
#[derive(Debug, Default)]
pub struct Threads {
    live: Vec<TaskSlot>,
    known: HashMap<u32, Known>,
    /// As it was known before: what has ended since is still told of.
    before: HashMap<u32, Known>,
}

impl Threads {
    /// Looks again.
    pub fn look(&mut self, live: Vec<TaskSlot>) {
        let known = live.iter().map(|slot| (slot.tid, Known::of(slot))).collect();
        self.before = std::mem::replace(&mut self.known, known);
        self.live = live;
    }

    /// A thread came, or became something else, since it was looked.
    pub fn learn(&mut self, event: &Event) {
        let (tid, known) = match &event.body {
            Body::Fork(fork) => (fork.tid, Known { tgid: fork.tgid, cgroup: fork.cgroup, comm: fork.comm }),
            Body::Exec { exec, .. } => (exec.tid, Known { tgid: exec.tgid, cgroup: exec.cgroup, comm: exec.comm }),
            _ => return,
        };
        if self.known.len() < self.live.len() + ENDED_MOST {
            self.known.insert(tid, known);
        }
    }

    /// All that live.
    pub fn live(&self) -> &[TaskSlot] {
        &self.live
    }

    /// A thread.
    pub fn get(&self, tid: u32) -> Option<&Known> {
        self.known.get(&tid).or_else(|| self.before.get(&tid))
    }

    /// A thread for people: `name (1234)`.
    pub fn text(&self, tid: u32) -> String {
        self.get(tid).map_or_else(|| format!("thread {tid}"), |known| format!("{} ({tid})", text(&known.comm)))
    }

    /// The name of a thread's process: that of its first thread, or, where that is gone, its own.
    pub fn process(&self, tid: u32) -> String {
        let Some(known) = self.get(tid) else { return "?".into() };
        let leader = self.get(known.tgid).unwrap_or(known);
        text(&leader.comm)
    }
}

impl Known {
    fn of(slot: &TaskSlot) -> Self {
        Self { tgid: slot.tgid, cgroup: slot.cgroup, comm: slot.comm }
    }
}

/// Whether it is a kernel thread.
pub fn is_kernel(slot: &TaskSlot) -> bool {
    slot.flags & KTHREAD != 0
}

/// Whether a control group is, or is in, a systemd unit.
pub fn is_of_unit(meta: &Meta, cgroup: u64, unit: &str) -> bool {
    meta.cgroups.get(&cgroup).is_some_and(|path| path.split('/').any(|part| part == unit))
}

/// A control group for people: the unit that it is of, else its path.
pub fn group(meta: &Meta, cgroup: u64) -> String {
    const UNITS: [&str; 6] = [".service", ".scope", ".socket", ".mount", ".swap", ".slice"];
    let Some(path) = meta.cgroups.get(&cgroup) else {
        return if cgroup == 0 { "the machine".into() } else { format!("control group {cgroup}") };
    };
    let unit = path.rsplit('/').find(|part| UNITS.iter().any(|end| part.ends_with(end)));
    unit.unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_just_ended_is_still_known() {
        let comm = *b"short\0\0\0\0\0\0\0\0\0\0\0";
        let fork = flightrec_format::abi::record::Fork {
            parent_tid: 1,
            parent_tgid: 1,
            tid: 9,
            tgid: 9,
            start_time: 0,
            cgroup: 4,
            comm,
        };
        let mut threads = Threads::default();
        threads.learn(&Event { time: 1, cpu: 0, tid: 1, body: Body::Fork(fork) });
        threads.look(Vec::new());
        assert_eq!((threads.text(9), threads.process(9)), ("short (9)".to_owned(), "short".to_owned()));
        threads.look(Vec::new());
        assert_eq!((threads.text(9), threads.get(9)), ("thread 9".to_owned(), None));
    }

    #[test]
    fn units_by_whole_parts_of_the_path() {
        let groups = [(1, "/"), (5, "/system.slice/web.service/worker"), (6, "/machine/x")];
        let cgroups = groups.into_iter().map(|(id, path)| (id, path.to_owned())).collect();
        let meta = Meta { cgroups, ..Meta::default() };
        assert!(is_of_unit(&meta, 5, "web.service") && is_of_unit(&meta, 5, "system.slice"));
        assert!(!is_of_unit(&meta, 5, "web") && !is_of_unit(&meta, 7, "web.service"));
        let texts = [1, 5, 6, 7, 0].map(|id| group(&meta, id));
        assert_eq!(texts, ["/", "web.service", "/machine/x", "control group 7", "the machine"]);
    }
}
