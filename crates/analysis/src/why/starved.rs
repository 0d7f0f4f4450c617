//! Who had the CPU that a thread waited for.

use std::cmp::Reverse;

use flightrec_format::human::counted;
use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::record::Comm;

use super::answer::time;
use super::chain::{Chain, like};
use super::leaf::priority;
use super::names::Names;
use super::pieces::Piece;
use super::story::Story;

/// Processes that run for less, ns, are a storm of processes, where they are many.
const SHORT_RUN_NS: u64 = 20_000_000;
/// So many processes, or fewer, need no word about who created them.
const FEW_PROCESSES: usize = 3;
/// Threads that ran instead are said by name, up to so many names.
const NAMES_MAX: usize = 3;

impl<N: Names> Chain<'_, N> {
    /// Others had its CPU.
    pub(super) fn starved(&mut self, tid: u32, piece: &Piece<'_>) {
        let story = self.story;
        let (mut by_thread, mut by_cpu) = (FxHashMap::default(), FxHashMap::default());
        for wait in &piece.waits {
            for (cpu, from, until) in story.queued_on(wait) {
                *by_cpu.entry(cpu).or_insert(0) += until.saturating_sub(from);
                for (other, ns) in story.ran_on(cpu, from, until) {
                    if other != tid {
                        *by_thread.entry(other).or_insert(0) += ns;
                    }
                }
            }
        }
        let (from, until) = piece.waits.first().map_or((0, 0), |wait| (wait.from, wait.until));
        let mut link = self.link(tid, from, until);
        (link.state, link.ns, link.count) = ("runnable", piece.ns, piece.count);
        let mut cpus: Vec<(u16, u64)> = by_cpu.into_iter().collect();
        cpus.sort_by_key(|(cpu, ns)| (Reverse(*ns), *cpu));
        let cpu = match cpus[..] {
            // Nearly all of the time: on its way to the one that it ran on then.
            [(cpu, ns), ..] if u128::from(ns) * 10 >= u128::from(piece.ns) * 9 => {
                format!("CPU {cpu}")
            }
            _ => "a CPU".to_owned(),
        };
        let often = if piece.count > 1 {
            format!(" ({})", counted(piece.count, "wait"))
        } else {
            String::new()
        };
        link.did = format!("waited {} for {cpu}{often}", time(piece.ns));
        link.by = ", where";
        if self.is_held_back(tid, piece) {
            link.doubt = Some(
                "threads of no higher priority had several turns each while it had none: the CPU \
                 quota (throttling) or a low weight of its control group may hold it back; no \
                 throttling event was recorded"
                    .to_owned(),
            );
        }
        self.links.push(link);
        let seen: u64 = by_thread.values().sum();
        if seen.saturating_mul(2) < piece.waits.iter().map(crate::Interval::ns).sum() {
            self.is_complete = false;
            self.doubt("which threads ran on its CPU meanwhile is not recorded".to_owned());
            return;
        }
        // Threads of the same name and priority are one to who looks for them.
        let mut groups: FxHashMap<_, (u64, Vec<(u64, u32)>)> = FxHashMap::default();
        for (other, ns) in by_thread {
            let key = story.tracks.get(other).map(|track| (track.comm, track.prio));
            let (sum, threads) = groups.entry(key).or_default();
            *sum += ns;
            threads.push((ns, other));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(key, (ns, _))| (Reverse(*ns), *key));
        for (at, (key, (ns, mut threads))) in groups.into_iter().take(NAMES_MAX).enumerate() {
            threads.sort_unstable_by_key(|(ns, tid)| (Reverse(*ns), *tid));
            let Some((_, most)) = threads.first().copied() else { continue };
            let parent = self.parent(&threads);
            let is_short = ns / (threads.len() as u64) < SHORT_RUN_NS;
            if let Some((parent, _)) = parent.as_ref().filter(|_| is_short) {
                self.blame(Some(*parent), "short-lived processes", None, None, ns);
            }
            self.blame(Some(most), "CPU taken", None, None, ns);
            let prio = key.and_then(|(_, prio)| prio).and_then(priority);
            let prio = prio.map_or(String::new(), |prio| format!(" with {prio}"));
            let said = format!("ran for {}{prio}{}", time(ns), self.alike(tid, &threads));
            if at == 0 {
                let mut link = self.link(most, from, until);
                (link.state, link.ns, link.count) = ("running", ns, threads.len() as u64);
                let parent = parent.map(|(_, words)| words);
                link.did = format!("{said}{}", parent.unwrap_or_default());
                self.links.push(link);
            } else if let Some(last) = self.links.last_mut() {
                let who = story.who(most, self.names).label();
                last.evidence.push(format!("{who} {said}"));
            }
        }
    }

    /// Of several threads, how many they are, and whose.
    pub(super) fn alike(&self, tid: u32, threads: &[(u64, u32)]) -> String {
        let pid = |tid: u32| self.story.tracks.get(tid).map_or(0, |track| track.pid);
        let of = threads.first().map_or(0, |(_, tid)| pid(*tid));
        let is_one = of != 0 && threads.iter().all(|(_, tid)| pid(*tid) == of);
        match threads.len() {
            0 | 1 => String::new(),
            count if is_one && of == pid(tid) => {
                format!(" ({count} threads of that name, of its own process)")
            }
            count if is_one => {
                format!(" ({count} threads of that name, of the process {})", self.label(of))
            }
            count => like(count),
        }
    }

    /// Who created the processes of some threads, and in words, if they are many and one did, or
    /// several of one name.
    pub(super) fn parent(&self, threads: &[(u64, u32)]) -> Option<(u32, String)> {
        let Story { tracks, facts, .. } = self.story;
        let parent_of = |tid: u32| facts.parents.get(&tracks.get(tid)?.pid).copied();
        let pids: FxHashSet<u32> =
            threads.iter().filter_map(|(_, tid)| Some(tracks.get(*tid)?.pid)).collect();
        if pids.len() <= FEW_PROCESSES {
            return None;
        }
        // Parents of one name are one to who looks for them.
        let mut parents: FxHashMap<Comm, (u32, FxHashMap<u32, u32>)> = FxHashMap::default();
        for parent in threads.iter().filter_map(|(_, tid)| parent_of(*tid)) {
            let comm = tracks.get(parent).map_or([0; 16], |track| track.comm);
            let (sum, of) = parents.entry(comm).or_default();
            *sum += 1;
            *of.entry(parent).or_default() += 1;
        }
        let (comm, (sum, of)) = parents.into_iter().max_by_key(|(comm, (sum, _))| (*sum, *comm))?;
        let (most, _) = of.iter().max_by_key(|(tid, count)| (**count, **tid))?;
        let others = if comm == [0; 16] { String::new() } else { like(of.len()) };
        let is_storm = sum as usize * 2 > threads.len();
        is_storm.then(|| (*most, format!(", created by {}{others}", self.label(*most))))
    }
}
