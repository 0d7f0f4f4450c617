//! Who a thread is, and where it belongs, as it was when it was looked last.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use flightrec_format::abi::record::Comm;
use flightrec_format::abi::slot::{KTHREAD, TaskSlot};
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::units;

use crate::snapshots::names::text;
use crate::snapshots::quota::Owner;

/// Most threads that ended and are remembered until it is looked again.
const ENDED_MOST: usize = 1 << 14;
/// How far above a process that is gone its user is looked for.
const ANCESTORS_MOST: usize = 8;
/// Most names of others that a thread, and all threads, had since it was looked and that are
/// remembered.
const NAMES_MOST: usize = 8;
const CHANGED_MOST: usize = 1 << 14;

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownThread {
    /// Its process.
    pub tgid: u32,
    /// Its control group; 0: not known.
    pub cgroup: u64,
    /// Its name.
    pub comm: Comm,
    /// The process that made its process; 0: not known.
    pub parent: u32,
}

/// What threads were until they became something else, with that moment (ns of `CLOCK_MONOTONIC`),
/// in the order of time.
type Past = HashMap<u32, Vec<(u64, KnownThread)>>;

/// The threads that live, and those that have just ended.
#[derive(Debug, Default)]
pub struct Threads {
    live: Vec<TaskSlot>,
    known: HashMap<u32, KnownThread>,
    /// As it was known before: what has ended since is still told of.
    before: HashMap<u32, KnownThread>,
    /// What they were since it was looked, and before that.
    past: Past,
    past_before: Past,
}

impl Threads {
    /// Looks again. What was recorded until then is to be learned before.
    pub fn look(&mut self, live: Vec<TaskSlot>) {
        let known = live.iter().map(|slot| (slot.tid, KnownThread::of(slot))).collect();
        self.before = std::mem::replace(&mut self.known, known);
        self.past_before = std::mem::take(&mut self.past);
        self.live = live;
    }

    /// A thread came, became something else, or ended, since it was looked; in the order of time.
    pub fn learn(&mut self, event: &Event) {
        // What an event does not tell stays as it was.
        let held = |tid: u32| self.get(tid).map_or((0, 0), |known| (known.cgroup, known.parent));
        let (tid, was, known) = match &event.body {
            Body::Fork(fork) => {
                // A thread of the same process has that process's parent.
                let parent = if fork.tgid == fork.parent_tgid {
                    held(fork.tgid).1
                } else {
                    fork.parent_tgid
                };
                (
                    fork.tid,
                    None,
                    KnownThread { tgid: fork.tgid, cgroup: fork.cgroup, comm: fork.comm, parent },
                )
            }
            Body::Exec { exec, .. } => {
                let (_, parent) = held(exec.tid);
                (
                    exec.tid,
                    None,
                    KnownThread { tgid: exec.tgid, cgroup: exec.cgroup, comm: exec.comm, parent },
                )
            }
            Body::Rename(rename) => {
                let (cgroup, parent) = held(rename.tid);
                let of = |comm| KnownThread { tgid: rename.tgid, cgroup, comm, parent };
                (rename.tid, Some(of(rename.old)), of(rename.new))
            }
            Body::TaskExit(exit) => {
                let (cgroup, parent) = held(exit.tid);
                (exit.tid, None, KnownThread { tgid: exit.tgid, cgroup, comm: exit.comm, parent })
            }
            _ => return,
        };
        if let Some(was) = was.or(self.get(tid).copied()).filter(|was| *was != known) {
            let room = self.past.len() < CHANGED_MOST || self.past.contains_key(&tid);
            if room
                && let names = self.past.entry(tid).or_default()
                && names.len() < NAMES_MOST
            {
                names.push((event.time, was));
            }
        }
        if self.known.len() < self.live.len() + ENDED_MOST || self.known.contains_key(&tid) {
            self.known.insert(tid, known);
        }
    }

    /// All that live.
    pub fn live(&self) -> &[TaskSlot] {
        &self.live
    }

    /// A thread, as it was last.
    pub fn get(&self, tid: u32) -> Option<&KnownThread> {
        self.known.get(&tid).or_else(|| self.before.get(&tid))
    }

    /// A thread, as it was at a moment (ns of `CLOCK_MONOTONIC`) of the last look or two.
    pub fn at(&self, tid: u32, time: u64) -> Option<&KnownThread> {
        let past =
            [&self.past_before, &self.past].into_iter().filter_map(|past| past.get(&tid)).flatten();
        let then = past.into_iter().find(|(until, _)| time < *until).map(|(_, known)| known);
        then.or_else(|| self.get(tid))
    }

    /// A thread for people: `name (1234)`, by its name at a moment.
    pub fn text(&self, tid: u32, time: u64) -> String {
        self.at(tid, time).map_or_else(
            || format!("thread {tid}"),
            |known| format!("{} ({tid})", text(&known.comm)),
        )
    }

    /// The name of a thread's process at a moment: that of its first thread, or, where that is
    /// gone, its own.
    pub fn process(&self, tid: u32, time: u64) -> String {
        let Some(known) = self.at(tid, time) else { return "?".into() };
        let leader = self.at(known.tgid, time).unwrap_or(known);
        text(&leader.comm)
    }

    /// Because of whom something is that a thread did or suffered at a moment: the user, as far as
    /// /proc (`proc`) or the control group tells it; else the group. Of a process that is gone, the
    /// user of the nearest one above it that is not.
    pub fn owner(&self, proc: &Path, meta: &Meta, tid: u32, time: u64) -> Owner {
        let (process, group) =
            self.at(tid, time).map_or((tid, 0), |known| (known.tgid, known.cgroup));
        let above = |process: &u32| {
            self.at(*process, time).map(|known| known.parent).filter(|parent| *parent != 0)
        };
        let mut line = std::iter::successors(Some(process), above).take(ANCESTORS_MOST);
        let uid = line.find_map(|process| uid(proc, process));
        Owner::of(uid, group, meta.cgroups.get(&group).map(String::as_str))
    }
}

/// The user whose process it is, while there is something left of it.
fn uid(proc: &Path, process: u32) -> Option<u32> {
    let status = fs::read_to_string(proc.join(process.to_string()).join("status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}

impl KnownThread {
    fn of(slot: &TaskSlot) -> Self {
        Self { tgid: slot.tgid, cgroup: slot.cgroup, comm: slot.comm, parent: slot.ppid }
    }
}

/// Whether it is a kernel thread.
pub fn is_kernel(slot: &TaskSlot) -> bool {
    slot.flags & KTHREAD != 0
}

/// Whether a control group is, or is in, a systemd unit.
pub fn is_of_unit(meta: &Meta, cgroup: u64, unit: &str) -> bool {
    meta.cgroups.get(&cgroup).is_some_and(|path| units::is_in(path, unit))
}

/// A control group for people: the unit that it is of, else its path.
pub fn group(meta: &Meta, cgroup: u64) -> String {
    let Some(path) = meta.cgroups.get(&cgroup) else {
        return if cgroup == 0 { "the machine".into() } else { format!("control group {cgroup}") };
    };
    units::unit(path).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::record::{Fork, Rename, TaskExit};

    use super::*;

    /// Process 9 of group 4, which process 1 creates.
    fn born(comm: Comm) -> Fork {
        let (parent_tid, parent_tgid, tid, tgid) = (1, 1, 9, 9);
        Fork { parent_tid, parent_tgid, tid, tgid, start_time: 0, cgroup: 4, comm, shares: 0 }
    }

    #[test]
    fn who_has_just_ended_is_still_known() {
        let fork = born(*b"short\0\0\0\0\0\0\0\0\0\0\0");
        let mut threads = Threads::default();
        threads.learn(&Event { time: 1, cpu: 0, tid: 1, body: Body::Fork(fork) });
        threads.look(Vec::new());
        assert_eq!(
            (threads.text(9, 1), threads.process(9, 1)),
            ("short (9)".to_owned(), "short".to_owned())
        );
        threads.look(Vec::new());
        assert_eq!((threads.text(9, 1), threads.get(9)), ("thread 9".to_owned(), None));
    }

    fn comm(name: &str) -> Comm {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        comm
    }

    #[test]
    fn a_thread_has_the_name_that_it_had_then() {
        let rename = |time, old, new| {
            let rename = Rename { tid: 9, tgid: 9, old: comm(old), new: comm(new) };
            Event { time, cpu: 0, tid: 9, body: Body::Rename(rename) }
        };
        let exit = |time, name| {
            let exit =
                TaskExit { tid: 9, tgid: 9, code: 0, left: 0, start_time: 0, comm: comm(name) };
            Event { time, cpu: 0, tid: 9, body: Body::TaskExit(exit) }
        };
        let mut threads = Threads::default();
        threads.learn(&rename(100, "a", "b"));
        threads.learn(&rename(200, "b", "c"));
        threads.learn(&exit(300, "c"));
        let names = |threads: &Threads| [50, 150, 250, 350].map(|time| threads.process(9, time));
        assert_eq!(names(&threads), ["a", "b", "c", "c"]);
        // Until the next look, when it is gone.
        threads.look(Vec::new());
        assert_eq!(names(&threads), ["a", "b", "c", "c"]);
        threads.look(Vec::new());
        assert_eq!(names(&threads), ["?"; 4]);
        // A flood of names is bounded.
        (0..1000).for_each(|i| threads.learn(&rename(i, "x", if i % 2 == 0 { "y" } else { "z" })));
        assert!(threads.past[&9].len() == NAMES_MOST && threads.process(9, 2000) == "z");
    }

    #[test]
    fn whose_a_thread_is() {
        let fork = born(comm("x"));
        let second = Fork { parent_tid: 9, parent_tgid: 9, tid: 10, ..fork };
        let mut threads = Threads::default();
        for (time, fork) in [(1, fork), (2, second)] {
            threads.learn(&Event { time, cpu: 0, tid: fork.parent_tid, body: Body::Fork(fork) });
        }
        let mut meta = Meta {
            cgroups: [(4, "/system.slice/db.service".to_owned())].into(),
            ..Meta::default()
        };
        let proc = tempfile::tempdir().unwrap();
        let owner = |meta: &Meta| threads.owner(proc.path(), meta, 10, 3);
        assert_eq!(owner(&meta), Owner::Group(4));
        meta.cgroups.insert(4, "/user.slice/user-1005.slice/x.scope".into());
        assert_eq!(owner(&meta), Owner::User(1005));
        // It is gone: its maker is not.
        fs::create_dir(proc.path().join("1")).unwrap();
        fs::write(proc.path().join("1/status"), "Name:\ty\nUid:\t1002\t1002\t1002\t1002\n")
            .unwrap();
        assert_eq!(owner(&meta), Owner::User(1002));
        fs::create_dir(proc.path().join("9")).unwrap();
        fs::write(proc.path().join("9/status"), "Name:\tx\nUid:\t1001\t0\t0\t0\n").unwrap();
        assert_eq!(owner(&meta), Owner::User(1001));
    }

    #[test]
    fn units_by_whole_parts_of_the_path() {
        let groups = [(1, "/"), (5, "/system.slice/web.service/worker"), (6, "/machine/x")];
        let cgroups = groups.into_iter().map(|(id, path)| (id, path.to_owned())).collect();
        let meta = Meta { cgroups, ..Meta::default() };
        assert!(is_of_unit(&meta, 5, "web.service") && is_of_unit(&meta, 5, "system.slice"));
        assert!(is_of_unit(&meta, 5, "web") && !is_of_unit(&meta, 7, "web.service"));
        let texts = [1, 5, 6, 7, 0].map(|id| group(&meta, id));
        assert_eq!(texts, ["/", "web.service", "/machine/x", "control group 7", "the machine"]);
    }
}
