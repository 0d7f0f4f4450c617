//! Calls of somebody who is named take long: those that have ended, and those that have not.

use std::collections::{HashMap, HashSet, VecDeque};

use flightrec_format::abi::record::{Abi, NR_INVALID};
use flightrec_format::abi::slot::{BLOCKED, IN_SYSCALL, TaskSlot};
use flightrec_format::decode::CallRecord;
use flightrec_format::meta::Meta;
use flightrec_reader::holes::Holes;
use flightrec_reader::pairing::{At, Pairing};

use super::threads::{KnownThread, Threads, is_of_unit};
use crate::config::SlowRule;
use crate::snapshots::names::{self, text};

/// Most threads whose calls are followed.
const CALLS_MOST: usize = 1 << 16;
/// Most executed programs that are remembered until the calls of their threads are read.
const EXECUTED_MOST: usize = 1 << 14;
/// Most calls of a thread that were told, and whose ends have not been read.
const TOLD_MOST: usize = 16;

/// A rule, with its calls by number.
#[derive(Debug)]
struct Rule {
    process: Option<String>,
    unit: Option<String>,
    /// None: any.
    calls: Vec<String>,
    slower_than: u64,
}

/// A call that took, or takes, long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slow {
    /// Whose.
    pub tid: u32,
    /// Its name.
    pub call: String,
    /// How long so far, ns.
    pub ns: u64,
    /// When it ended, or was found not to have; ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Whether it has ended.
    pub ended: bool,
}

/// Finds slow calls.
#[derive(Debug)]
pub struct SlowCalls {
    rules: Vec<Rule>,
    /// Numbers of the calls that any rule names, with their table; `None`: all.
    wanted: Option<HashSet<(u16, bool)>>,
    least: u64,
    /// Those that have begun.
    begun: Pairing<()>,
    /// Programs that were executed, and whose calls have not been read yet: when, the thread's id
    /// before, and its id.
    executed: VecDeque<(u64, u32, u32)>,
    /// Told while they went on, by thread: since when they wait, until their ends are read. Those
    /// may come later than the next calls are looked at.
    told: HashMap<u32, VecDeque<u64>>,
}

impl SlowCalls {
    /// By these rules; `None`: there are none.
    pub fn new(rules: &[SlowRule], meta: &Meta) -> Option<Self> {
        let least = rules.iter().map(nanos).min()?;
        let any = rules.iter().any(|rule| rule.calls.is_empty());
        let is_named =
            |name: &str| rules.iter().any(|rule| rule.calls.iter().any(|call| call == name));
        let tables = [(&meta.native, false), (&meta.compat, true)];
        let numbers = tables.into_iter().flat_map(|(table, compat)| {
            table.iter().filter(|call| is_named(&call.name)).map(move |call| (call.nr, compat))
        });
        let wanted = (!any).then(|| numbers.collect());
        let rules = rules.iter().map(|rule| Rule {
            process: rule.process.clone(),
            unit: rule.unit.clone(),
            calls: rule.calls.clone(),
            slower_than: nanos(rule),
        });
        let rules = rules.collect();
        let begun = Pairing::new(Holes::default(), CALLS_MOST);
        let (executed, told) = (VecDeque::new(), HashMap::new());
        Some(Self { rules, wanted, least, begun, executed, told })
    }

    /// Whether a record may be of a call of any rule: an exit may have lost its number.
    pub fn wants(&self, abi: Abi, nr: u16) -> bool {
        let is_wanted = |wanted: &HashSet<(u16, bool)>| wanted.contains(&(nr, abi == Abi::Compat));
        nr == NR_INVALID || self.wanted.as_ref().is_none_or(is_wanted)
    }

    /// Records are missing: what has begun may have ended.
    pub fn forget(&mut self) {
        self.begun.attach(0, |_| ());
    }

    /// A thread has executed a program; its id before.
    pub fn executed(&mut self, time: u64, old: u32, tid: u32) {
        if self.executed.len() >= EXECUTED_MOST {
            self.executed.pop_front();
        }
        self.executed.push_back((time, old, tid));
    }

    /// Takes what threads have executed up to a moment.
    fn execute(&mut self, until: u64) {
        while let Some((time, old, tid)) = self.executed.pop_front_if(|(time, ..)| *time <= until) {
            // It may be read only when later calls of the two were.
            let is_later = |of: u32| self.begun.seen(of).is_some_and(|seen| seen > time);
            if is_later(tid) {
                self.begun.take(old);
            } else if !is_later(old) {
                self.begun.execute(old, tid);
            }
        }
    }

    /// A record of a call, in the order of time over all CPUs.
    pub fn record(&mut self, record: &CallRecord, meta: &Meta, threads: &Threads) -> Option<Slow> {
        let call = (record.call.abi, record.call.nr);
        let at = |time| At { time, tid: record.tid, cpu: 0 };
        let (begin, (abi, nr), end) = match (record.entered, record.exited) {
            (Some(begin), Some((end, _))) => {
                self.begun.see(record.tid, end);
                (begin, call, end)
            }
            (Some(begin), None) => {
                self.execute(begin);
                // When one ends that there is no room for is not known.
                _ = self.begun.enter(at(begin), call, ());
                return None;
            }
            (None, Some((end, _))) => {
                self.execute(end);
                let entry = self.begun.exit(at(end), call).entry()?;
                (entry.time, entry.call, end)
            }
            (None, None) => return None,
        };
        let ns = end.saturating_sub(begin);
        if ns < self.least {
            return None;
        }
        let name = names::call(meta, nr, abi == Abi::Compat);
        let slow = Slow { tid: record.tid, call: name, ns, time: end, ended: true };
        let is_told = self.told.get_mut(&record.tid).is_some_and(|told| {
            let is_told = told.iter().any(|since| (begin..=end).contains(since));
            told.retain(|since| *since > end);
            is_told
        });
        (!is_told && self.is_of_a_rule(&slow, meta, threads)).then_some(slow)
    }

    /// Calls that go on for too long already, each once.
    pub fn look(&mut self, threads: &Threads, meta: &Meta, now: u64) -> Vec<Slow> {
        let mut found = Vec::new();
        let waits = |slot: &&TaskSlot| slot.flags & (BLOCKED | IN_SYSCALL) == BLOCKED | IN_SYSCALL;
        for slot in threads.live().iter().filter(waits) {
            let (nr, compat) = (slot.nr as u16, slot.abi == Abi::Compat as u32);
            let ns = now.saturating_sub(slot.since.max(meta.started));
            let wanted = self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&(nr, compat)));
            if ns < self.least || !wanted {
                continue;
            }
            let slow = Slow {
                tid: slot.tid,
                call: names::call(meta, nr, compat),
                ns,
                time: now,
                ended: false,
            };
            if !self.is_of_a_rule(&slow, meta, threads) {
                continue;
            }
            let told = self.told.entry(slot.tid).or_default();
            if !told.contains(&slot.since) {
                found.push(slow);
                if told.len() >= TOLD_MOST {
                    told.pop_front();
                }
                told.push_back(slot.since);
            }
        }
        self.told.retain(|tid, _| threads.get(*tid).is_some());
        // Whoever is gone ends no call any more (exit_group).
        self.begun.retain(|tid| threads.get(tid).is_some());
        found
    }

    fn is_of_a_rule(&self, slow: &Slow, meta: &Meta, threads: &Threads) -> bool {
        let Some(known) = threads.at(slow.tid, slow.time) else { return false };
        self.rules.iter().any(|rule| {
            slow.ns >= rule.slower_than
                && (rule.calls.is_empty() || rule.calls.contains(&slow.call))
                && rule.process.as_ref().is_none_or(|name| is_named(name, known, slow, threads))
                && rule.unit.as_ref().is_none_or(|unit| is_of_unit(meta, known.cgroup, unit))
        })
    }
}

/// Whether a thread, or its process, has this name.
fn is_named(name: &str, known: &KnownThread, slow: &Slow, threads: &Threads) -> bool {
    text(&known.comm) == name || threads.process(slow.tid, slow.time) == name
}

fn nanos(rule: &SlowRule) -> u64 {
    u64::try_from(rule.slower_than.duration().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use flightrec_format::decode::Call;
    use flightrec_format::meta::Syscall;

    use super::*;

    const MS: u64 = 1_000_000;

    fn meta() -> Meta {
        let native = [(0, "read"), (74, "fsync")].map(|(nr, name)| Syscall {
            nr,
            name: name.into(),
            args: None,
        });
        let cgroups = [(9, "/system.slice/db.service".to_owned())].into();
        Meta { native: native.to_vec(), cgroups, ..Meta::default() }
    }

    fn slot(tid: u32, name: &[u8], since: u64) -> TaskSlot {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name);
        TaskSlot {
            seq: 0,
            tid,
            tgid: tid,
            flags: BLOCKED | IN_SYSCALL,
            start_time: 1,
            cgroup: 9,
            comm,
            since,
            state: 2,
            nr: 74,
            args: [0; 6],
            ppid: 1,
            prio: 120,
            abi: 0,
            known: 0,
        }
    }

    fn threads(slots: &[TaskSlot]) -> Threads {
        let mut threads = Threads::default();
        threads.look(slots.to_vec());
        threads
    }

    fn rule(process: Option<&str>, unit: Option<&str>) -> SlowRule {
        SlowRule {
            process: process.map(Into::into),
            unit: unit.map(Into::into),
            calls: vec!["fsync".into()],
            slower_than: "500ms".parse().unwrap(),
        }
    }

    fn record(tid: u32, nr: u16, entered: Option<u64>, exited: Option<u64>) -> CallRecord {
        let call = Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() };
        CallRecord {
            tid,
            call,
            entered,
            exited: exited.map(|time| (time, 0)),
            strings: 0,
            relative: 0,
        }
    }

    #[test]
    fn calls_that_ended() {
        let (meta, threads) = (meta(), threads(&[slot(5, b"mysqld", 1), slot(6, b"other", 1)]));
        let mut slow = SlowCalls::new(&[rule(Some("mysqld"), None)], &meta).unwrap();
        assert!(
            slow.wants(Abi::Native, 74)
                && !slow.wants(Abi::Native, 0)
                && !slow.wants(Abi::Compat, 74)
        );
        let mut end = |tid, begin, end| {
            assert_eq!(slow.record(&record(tid, 74, Some(begin), None), &meta, &threads), None);
            slow.record(&record(tid, 74, None, Some(end)), &meta, &threads)
        };
        let found =
            Slow { tid: 5, call: "fsync".into(), ns: 500 * MS, time: 600 * MS, ended: true };
        assert_eq!(end(5, 100 * MS, 600 * MS), Some(found));
        assert_eq!(end(5, 100 * MS, 599 * MS), None, "fast enough");
        assert_eq!(end(6, 100 * MS, 900 * MS), None, "another process");
        assert_eq!(end(7, 100 * MS, 900 * MS), None, "nobody knows it");
        assert_eq!(
            slow.record(&record(5, 74, None, Some(9000 * MS)), &meta, &threads),
            None,
            "its beginning is not known"
        );
    }

    /// A thread takes over its leader's id within execve, whose exit has lost its number.
    #[test]
    fn a_call_goes_on_under_another_id() {
        let (meta, threads) = (meta(), threads(&[slot(5, b"mysqld", 1)]));
        let mut slow = SlowCalls::new(&[rule(Some("mysqld"), None)], &meta).unwrap();
        assert!(slow.wants(Abi::Native, NR_INVALID));
        let begin = record(6, 74, Some(100 * MS), None);
        assert_eq!(slow.record(&begin, &meta, &threads), None);
        slow.executed(300 * MS, 6, 5);
        let end = record(5, NR_INVALID, None, Some(700 * MS));
        let found =
            Slow { tid: 5, call: "fsync".into(), ns: 600 * MS, time: 700 * MS, ended: true };
        assert_eq!(slow.record(&end, &meta, &threads), Some(found));
    }

    #[test]
    fn calls_that_go_on_are_told_once() {
        let meta = meta();
        let mut slow = SlowCalls::new(&[rule(None, Some("db.service"))], &meta).unwrap();
        let stuck = threads(&[slot(5, b"a", 100 * MS)]);
        let told: Vec<usize> =
            [500, 700, 800].map(|now| slow.look(&stuck, &meta, now * MS).len()).to_vec();
        assert_eq!(told, [0, 1, 0]);
        // Its end is no news.
        assert_eq!(slow.record(&record(5, 74, Some(99 * MS), None), &meta, &stuck), None);
        assert_eq!(slow.record(&record(5, 74, None, Some(900 * MS)), &meta, &stuck), None);
        let again = threads(&[slot(5, b"a", 1000 * MS)]);
        assert_eq!(slow.look(&again, &meta, 2000 * MS).len(), 1);
        assert!(SlowCalls::new(&[], &meta).is_none());
    }

    /// Beside a storm, records are read late: the thread's next call is looked at before.
    #[test]
    fn an_end_that_is_read_late_is_no_news() {
        let meta = meta();
        let mut slow = SlowCalls::new(&[rule(None, Some("db.service"))], &meta).unwrap();
        let (first, next) =
            (threads(&[slot(5, b"a", 100 * MS)]), threads(&[slot(5, b"a", 1000 * MS)]));
        assert_eq!(slow.look(&first, &meta, 700 * MS).len(), 1);
        assert_eq!(slow.look(&next, &meta, 1700 * MS).len(), 1);
        for (begin, end) in [(99, 900), (999, 1900)] {
            assert_eq!(slow.record(&record(5, 74, Some(begin * MS), None), &meta, &next), None);
            assert_eq!(slow.record(&record(5, 74, None, Some(end * MS)), &meta, &next), None);
        }
        // One that was not looked at is.
        assert_eq!(slow.record(&record(5, 74, Some(2000 * MS), None), &meta, &next), None);
        assert!(slow.record(&record(5, 74, None, Some(2900 * MS)), &meta, &next).is_some());
    }

    #[test]
    fn who_is_gone_keeps_no_room() {
        let (meta, gone) = (meta(), threads(&[]));
        let mut slow = SlowCalls::new(&[rule(Some("mysqld"), None)], &meta).unwrap();
        for tid in 0..2 * CALLS_MOST as u32 {
            slow.record(&record(tid, 74, Some(1), None), &meta, &gone);
        }
        slow.look(&gone, &meta, 2);
        let late = 2 * CALLS_MOST as u32;
        let threads = threads(&[slot(late, b"mysqld", 1)]);
        slow.record(&record(late, 74, Some(100 * MS), None), &meta, &threads);
        assert!(slow.record(&record(late, 74, None, Some(700 * MS)), &meta, &threads).is_some());
    }
}
