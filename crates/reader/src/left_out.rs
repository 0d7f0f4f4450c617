//! Which processes' events the quiet ring left out, and when.
//!
//! Where the quiet ring stands in for a ring that was written over, busy processes are missing for
//! a time while others are whole. What is concluded from one event about another of the same thread
//! (which entry an exit is of, where a wakee runs) holds for those others alone; and whether a
//! window is complete depends on who is asked for.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::page::{Lane, RING_LANES};
use flightrec_format::abi::record::{Fork, TaskExit};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::Body;
use flightrec_format::kept::{ANYONE, LeftOut, YOUNG};
use flightrec_format::ring::LaneStream;

use crate::source::PageSet;

/// A thread from its birth to its end. Its id has others before and after: a storm of threads uses
/// up all 32,768 ids that Linux hands out by default within seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Life {
    tid: u32,
    /// ns of `CLOCK_MONOTONIC`.
    began: u64,
    /// `u64::MAX`: nothing tells of its end.
    ended: u64,
    tgid: u32,
}

/// The lives that are known of each thread id.
#[derive(Debug, Default)]
struct Lives {
    /// By id, and in order.
    all: Vec<Life>,
}

impl Lives {
    /// Those that a recording tells of.
    fn of_recording(recording: &PageSet) -> Self {
        let mut lives = Self::default();
        let alive = |slot: &TaskSlot| Life {
            tid: slot.tid,
            began: slot.start_time,
            ended: u64::MAX,
            tgid: slot.tgid,
        };
        lives.all.extend(recording.slots.iter().map(alive));
        // When a thread took its leader's id, which had ended before.
        let mut taken = Vec::new();
        let task = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task);
        for event in task.flat_map(LaneStream::events) {
            let ended = event.time;
            lives.all.push(match event.body {
                Body::Fork(Fork { tid, tgid, start_time, .. }) => {
                    let began = if start_time == 0 { event.time } else { start_time };
                    Life { tid, began, ended: u64::MAX, tgid }
                }
                Body::TaskExit(TaskExit { tid, tgid, start_time, .. }) => {
                    Life { tid, began: start_time, ended, tgid }
                }
                Body::Exec { exec, .. } if exec.old_tid != exec.tid => {
                    taken.push((exec.tid, event.time));
                    continue;
                }
                _ => continue,
            });
        }
        lives.settle(&recording.slots);
        for (tid, time) in taken {
            lives.take_over(tid, time);
        }
        lives
    }

    /// Makes one life of all that was heard of it: it ends at its last end, unless `alive` has it.
    fn settle(&mut self, alive: &[TaskSlot]) {
        let alive: FxHashSet<(u32, u64)> =
            alive.iter().map(|slot| (slot.tid, slot.start_time)).collect();
        self.all.sort_unstable();
        self.all.dedup_by(|next, before| {
            let same = (next.tid, next.began) == (before.tid, before.began);
            if same && before.ended == u64::MAX {
                before.ended = next.ended;
            } else if same && next.ended != u64::MAX {
                before.ended = before.ended.max(next.ended);
            }
            same
        });
        for life in &mut self.all {
            if alive.contains(&(life.tid, life.began)) {
                life.ended = u64::MAX;
            }
        }
    }

    /// The id's life goes on after `time`, as another thread's that took its birth over too
    /// (`de_thread`, fs/exec.c, Linux 6.1).
    fn take_over(&mut self, tid: u32, time: u64) {
        let at = self.all.partition_point(|life| (life.tid, life.began) <= (tid, time));
        if let Some(life) = at.checked_sub(1).and_then(|at| self.all.get_mut(at))
            && life.tid == tid
            && life.ended <= time
        {
            life.ended = u64::MAX;
        }
    }

    /// Those of an id, in order.
    fn of(&self, tid: u32) -> &[Life] {
        let begin = self.all.partition_point(|life| life.tid < tid);
        let rest = self.all.get(begin..).unwrap_or_default();
        rest.get(..rest.partition_point(|life| life.tid == tid)).unwrap_or_default()
    }

    /// The one that the id has at a moment.
    fn at(&self, tid: u32, time: u64) -> Option<&Life> {
        let lives = self.of(tid);
        let before = lives.partition_point(|life| life.began <= time);
        before.checked_sub(1).and_then(|at| lives.get(at)).filter(|life| life.ended >= time)
    }
}

/// Young processes' events, left out.
#[derive(Debug, Clone, Copy)]
struct Young {
    from: u64,
    until: u64,
    /// When the processes were born at the earliest.
    born: u64,
}

/// When which processes' events of a lane were left out.
#[derive(Debug, Default)]
struct Stretches {
    /// By process; [`ANYONE`] stands for all.
    of: FxHashMap<u32, Vec<(u64, u64)>>,
    /// Of young processes, by CPU; in order.
    young: FxHashMap<u16, Vec<Young>>,
}

impl Stretches {
    fn add(&mut self, cpu: u16, left_out: &LeftOut) {
        let LeftOut { process, from, until, born, .. } = *left_out;
        if from >= until {
            return;
        }
        if process == YOUNG {
            self.young.entry(cpu).or_default().push(Young { from, until, born });
        } else {
            self.of.entry(process).or_default().push((from, until));
        }
    }

    fn settle(&mut self) {
        self.of.values_mut().for_each(merge);
        self.young.values_mut().for_each(|of_cpu| of_cpu.sort_by_key(|young| young.until));
    }

    fn is_empty(&self) -> bool {
        self.of.is_empty() && self.young.is_empty()
    }

    /// Whether events of a process are left out between two moments.
    fn has(&self, process: u32, from: u64, until: u64) -> bool {
        self.of.get(&process).is_some_and(|of| within(of, from, until).is_some())
    }

    /// Whether anything is.
    fn has_any(&self, from: u64, until: u64) -> bool {
        self.of.values().any(|of| within(of, from, until).is_some())
            || self.has_young(u64::MAX, from, until)
    }

    /// Whether events of a process that was born at a moment may be left out as those of a young
    /// one.
    fn has_young(&self, born: u64, from: u64, until: u64) -> bool {
        self.young.values().any(|of_cpu| {
            let first = of_cpu.partition_point(|young| young.until <= from);
            let rest = of_cpu.get(first..).unwrap_or_default();
            rest.iter().take_while(|young| young.from < until).any(|young| young.born <= born)
        })
    }
}

/// What was left out of a recording.
#[derive(Debug, Default)]
pub struct LeftOuts {
    /// By lane.
    stretches: [Stretches; RING_LANES],
    /// Of the lane `sched`, by CPU.
    scheduling: FxHashMap<u16, Vec<(u64, u64)>>,
    lives: Lives,
}

impl LeftOuts {
    /// Of a recording; `None`: nothing.
    pub fn of(recording: &PageSet) -> Option<Arc<Self>> {
        let mut left_outs = Self::default();
        for stream in &recording.streams {
            let Some(of_lane) = left_outs.stretches.get_mut(stream.lane() as usize) else {
                continue;
            };
            for left_out in stream.left_out() {
                of_lane.add(stream.cpu(), &left_out);
                if stream.lane() == Lane::Sched {
                    let of_cpu = left_outs.scheduling.entry(stream.cpu()).or_default();
                    of_cpu.push((left_out.from, left_out.until));
                }
            }
        }
        if left_outs.stretches.iter().all(Stretches::is_empty) {
            return None;
        }
        left_outs.stretches.iter_mut().for_each(Stretches::settle);
        left_outs.scheduling.values_mut().for_each(merge);
        left_outs.lives = Lives::of_recording(recording);
        Some(Arc::new(left_outs))
    }

    /// Whether events of a thread may be left out of a lane between two moments.
    pub fn has(&self, lane: Lane, tid: u32, from: u64, until: u64) -> bool {
        let Some(stretches) = self.stretches.get(lane as usize) else { return false };
        let life = self.lives.at(tid, from).filter(|life| until.saturating_sub(1) <= life.ended);
        let Some(life) = life else { return stretches.has_any(from, until) };
        let born = self.lives.at(life.tgid, from).map_or(u64::MAX, |leader| leader.began);
        stretches.has(life.tgid, from, until)
            || stretches.has(ANYONE, from, until)
            || stretches.has_young(born, from, until)
    }

    /// Whether scheduling events of a CPU are left out around a moment.
    pub fn has_scheduling(&self, cpu: u16, time: u64) -> bool {
        let stretches = self.scheduling.get(&cpu);
        stretches.is_some_and(|stretches| within(stretches, time, time.saturating_add(1)).is_some())
    }

    /// Whether a process may have begun between two moments.
    pub fn may_begin(&self, process: u32, from: u64, until: u64) -> bool {
        let lives = self.lives.of(process);
        let began = |life: &Life| life.tgid == process && (from..=until).contains(&life.began);
        lives.is_empty() || lives.iter().any(began)
    }

    /// The processes that a thread id may have been of between two moments; `None`: any.
    pub fn processes(
        &self,
        tid: u32,
        from: u64,
        until: u64,
    ) -> Option<impl Iterator<Item = u32> + '_> {
        let lives = self.lives.of(tid);
        let then = move |life: &&Life| life.began <= until && life.ended >= from;
        (!lives.is_empty()).then(|| lives.iter().filter(then).map(|life| life.tgid))
    }
}

/// Adds what was left out of the next stretch of a recording: what began in one may end in the
/// next.
/// Returns whether what was left out of an earlier one is forgotten.
pub fn learn(known: &mut Vec<Arc<LeftOuts>>, next: &Arc<LeftOuts>) -> bool {
    let is_full = known.len() == 2;
    if is_full {
        known.remove(0);
    }
    known.push(next.clone());
    is_full
}

/// Sorts stretches of time, and makes one of those that touch.
pub fn merge(stretches: &mut Vec<(u64, u64)>) {
    stretches.sort_unstable();
    stretches.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
}

/// The first of some stretches, merged, that has a moment of another.
fn within(stretches: &[(u64, u64)], from: u64, until: u64) -> Option<(u64, u64)> {
    let at = stretches.partition_point(|(_, end)| *end <= from);
    stretches.get(at).copied().filter(|(begin, _)| *begin < until)
}

#[cfg(test)]
mod tests {
    use flightrec_format::control::Totals;
    use flightrec_format::decode::{Event, Page};
    use flightrec_format::encode::PageWriter;
    use flightrec_format::kept::{KeptWriter, YOUNG_NS};
    use flightrec_format::meta::{Lanes, Meta};

    use super::*;
    use crate::pipeline::testing::{enter, event, fork, switch};
    use crate::source::Collector;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;
    /// The first event of a ring.
    const BEGIN: u64 = 100 * S;

    /// Three pages of a lane, one event each 1 ms.
    fn ring(lane: Lane) -> Vec<Page> {
        let mut writer = PageWriter::new(1, lane, 0, 0);
        let mut pages = Vec::new();
        for i in 0.. {
            let time = BEGIN + i * MS;
            let event =
                if lane == Lane::Sched { switch(time, 0, 9, 1, 8) } else { enter(time, 0, 9, 0) };
            writer.push(&event).unwrap();
            pages.extend(writer.take().into_iter().map(|page| Page::new(page).unwrap()));
            if pages.len() == 3 {
                return pages;
            }
        }
        pages
    }

    /// What a recording tells whose ring of a lane has its third page alone, while the quiet ring
    /// has the first with `left_out`, and up to the third; beside it events of the task lane.
    fn left_outs(lane: Lane, left_out: LeftOut, task: &[Event]) -> Arc<LeftOuts> {
        let pages = ring(lane);
        let mut kept = KeptWriter::new(&pages[0]);
        kept.leave_out(&[left_out]);
        assert!(pages.iter().all(|page| kept.append(page, &[])));
        let lanes = Lanes::new([1 << 20; RING_LANES], [false; RING_LANES]);
        let meta = Meta { session: 1, cpus: vec![0], lanes, ..Meta::default() };
        let mut collector = Collector::new(meta);
        collector.add(kept.page().unwrap().as_slice()).unwrap();
        collector.add(pages[2].bytes()).unwrap();
        let mut writer = PageWriter::new(1, Lane::Task, 0, 0);
        for event in task {
            writer.push(event).unwrap();
        }
        writer.finish().iter().for_each(|page| collector.add(page.as_slice()).unwrap());
        LeftOuts::of(&collector.finish(Totals::default())).unwrap()
    }

    fn born(time: u64, tid: u32, tgid: u32) -> Event {
        let mut fork = fork(1, 1, tid, tgid, "x");
        fork.start_time = time;
        event(time, 0, 1, Body::Fork(fork))
    }

    fn ended(time: u64, began: u64, tid: u32, tgid: u32) -> Event {
        let exit = TaskExit { tid, tgid, code: 0, left: 0, start_time: began, comm: [0; 16] };
        event(time, 0, tid, Body::TaskExit(exit))
    }

    /// A process of 10 s is young for others that were looked at 2 s later; nothing of it is left
    /// out before the page that says so, nor where the ring itself begins.
    #[test]
    fn young_processes_are_left_out_where_the_page_is_and_nowhere_else() {
        let ring = ring(Lane::Syscall)[2].header().base_mono;
        let until = BEGIN + S;
        let left_out =
            LeftOut { process: YOUNG, events: 9, from: BEGIN, until, born: until - YOUNG_NS };
        let task = [born(BEGIN - S / 2, 7, 7), born(BEGIN - 9 * S, 8, 8)];
        let left_outs = left_outs(Lane::Syscall, left_out, &task);
        let has = |tid, from, until| left_outs.has(Lane::Syscall, tid, from, until);
        assert!(has(7, BEGIN, BEGIN + 5) && has(7, ring - 5, ring + 5));
        assert!(!has(7, BEGIN - 100 * MS, BEGIN - MS), "before the kept page");
        assert!(!has(7, ring, ring + 5), "in the ring");
        assert!(!has(8, BEGIN, BEGIN + 5), "an older one");
        assert!(has(6, BEGIN, BEGIN + 5) && !has(6, ring, ring + 5), "an unknown one");
        assert!(!left_outs.has(Lane::Sched, 7, BEGIN, BEGIN + 5), "in another lane");
    }

    #[test]
    fn an_id_is_the_process_that_it_was_then() {
        let left_out = LeftOut { process: 50, events: 9, from: BEGIN, until: BEGIN + S, born: 0 };
        let cut = BEGIN + 10 * MS;
        let task = [
            born(1, 50, 50),
            born(BEGIN - S, 7, 50),
            ended(cut, BEGIN - S, 7, 50),
            born(cut + MS, 7, 7),
            ended(cut + 5 * MS, cut + MS, 7, 7),
            born(cut + 6 * MS, 7, 50),
        ];
        for lane in [Lane::Syscall, Lane::Sched] {
            let left_outs = left_outs(lane, left_out, &task);
            let has = |from| left_outs.has(lane, 7, from, from + 5);
            assert!(has(cut - MS) && has(cut + 7 * MS), "a thread of 50");
            assert!(!has(cut + MS) && !has(cut + 4 * MS), "a process of its own");
            let then =
                |from, until| left_outs.processes(7, from, until).unwrap().collect::<Vec<u32>>();
            assert_eq!(then(cut + 2 * MS, cut + 3 * MS), [7]);
            assert_eq!(then(cut, cut + MS), [50, 7]);
            assert!(left_outs.may_begin(7, cut, cut + 2 * MS));
            assert!(!left_outs.may_begin(7, cut + 2 * MS, cut + 9 * MS), "a thread did");
            assert!(left_outs.may_begin(6, 0, 1), "of which nothing is known");
        }
    }

    #[test]
    fn who_takes_the_leaders_id_goes_on_as_the_process() {
        use flightrec_format::abi::record::Exec;
        let left_out = LeftOut { process: 7, events: 9, from: BEGIN, until: BEGIN + S, born: 0 };
        let exec = Exec { tid: 7, old_tid: 8, tgid: 7, args_len: 0, cgroup: 0, comm: [0; 16] };
        let time = BEGIN - S;
        let exec = event(time + 2, 0, 7, Body::Exec { exec, file: None, args: None });
        let other = LeftOut { process: 3, ..left_out };
        for (left_out, is_left_out) in [(left_out, true), (other, false)] {
            let task = [born(5, 7, 7), born(6, 8, 7), ended(time, 5, 7, 7), exec.clone()];
            let left_outs = left_outs(Lane::Syscall, left_out, &task);
            assert_eq!(left_outs.has(Lane::Syscall, 7, BEGIN, BEGIN + 5), is_left_out);
        }
    }
}
