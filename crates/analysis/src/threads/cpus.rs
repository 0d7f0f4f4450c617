//! What each CPU runs, as far as events tell, and where events of it are missing.

use flightrec_format::abi::page::Lane;

use super::table::Thread;

/// A CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    /// Thread that runs, 0 the idle one; `None`: not known.
    running: Option<u32>,
    /// Something was heard of it.
    is_known: bool,
    /// When a switch was last found not to have been seen.
    hole: u64,
    /// When the gap ends in which switches are missing, and that in which calls are; 0: there is
    /// none.
    switches_missing: u64,
    calls_missing: u64,
}

/// The end of a gap.
pub(super) struct End {
    pub(super) lane: Lane,
    pub(super) cpu: u16,
    pub(super) time: u64,
}

/// All CPUs.
#[derive(Debug, Clone)]
pub(super) struct Cpus {
    cpus: Vec<Cpu>,
    /// When the next gap ends.
    next_end: u64,
}

impl Default for Cpus {
    fn default() -> Self {
        Self { cpus: Vec::new(), next_end: u64::MAX }
    }
}

impl Cpus {
    /// The thread that runs on a CPU, if it is known.
    #[inline]
    pub(super) fn running(&self, cpu: u16) -> Option<u32> {
        self.cpus.get(usize::from(cpu))?.running
    }

    /// A switch was seen: `next` runs on `cpu`.
    pub(super) fn run(&mut self, cpu: u16, next: u32) {
        self.cpu(cpu).running = Some(next);
    }

    /// `tid` runs on `cpu`, whatever was thought to. Returns the thread that was, and whether
    /// nothing was heard of the CPU before.
    pub(super) fn found_running(&mut self, cpu: u16, tid: u32, time: u64) -> (Option<u32>, bool) {
        let cpu = self.cpu(cpu);
        let is_first = !std::mem::replace(&mut cpu.is_known, true);
        let other = cpu.running.replace(tid);
        if other.is_some() {
            cpu.hole = time;
        }
        (other, is_first)
    }

    /// Whether a thread that waits for a CPU may have had it meanwhile, though nothing says so: a
    /// switch was not seen there, and none of its own ever was. Of a thread whose switches are
    /// seen, the one with which it gave the CPU up would have been, too.
    #[inline]
    pub(super) fn is_in_doubt<A>(&self, thread: &Thread<A>) -> bool {
        thread.is_queued()
            && !thread.is_seen
            && self.cpus.get(usize::from(thread.cpu)).is_some_and(|cpu| cpu.hole > thread.queued)
    }

    /// A thread goes on under another id.
    pub(super) fn rename(&mut self, old: u32, new: u32) {
        for cpu in self.cpus.iter_mut().filter(|cpu| cpu.running == Some(old)) {
            cpu.running = Some(new);
        }
    }

    /// It is not known what runs on a CPU.
    pub(super) fn lose(&mut self, cpu: u16) {
        let cpu = self.cpu(cpu);
        (cpu.running, cpu.is_known) = (None, true);
    }

    /// Switches on a CPU are missing until then.
    pub(super) fn miss_switches(&mut self, cpu: u16, until: u64) {
        let cpu = self.cpu(cpu);
        cpu.switches_missing = cpu.switches_missing.max(until);
        self.next_end = self.next_end.min(until);
    }

    /// System calls on a CPU are missing until then.
    pub(super) fn miss_calls(&mut self, cpu: u16, until: u64) {
        let cpu = self.cpu(cpu);
        cpu.calls_missing = cpu.calls_missing.max(until);
        self.next_end = self.next_end.min(until);
    }

    /// Whether system calls are missing on a CPU.
    #[inline]
    pub(super) fn misses_calls(&self, cpu: u16, time: u64) -> bool {
        self.cpus.get(usize::from(cpu)).is_some_and(|cpu| time < cpu.calls_missing)
    }

    /// When the next gap ends; `u64::MAX`: there is none.
    #[inline]
    pub(super) fn next_end(&self) -> u64 {
        self.next_end
    }

    /// A gap that ended at `now` or before. Each is returned once.
    pub(super) fn end(&mut self, now: u64) -> Option<End> {
        let over = |end: u64| end != 0 && end <= now;
        for (at, cpu) in self.cpus.iter_mut().enumerate() {
            let ends =
                [(Lane::Sched, &mut cpu.switches_missing), (Lane::Syscall, &mut cpu.calls_missing)];
            for (lane, end) in ends {
                if over(*end) {
                    return Some(End { lane, cpu: at as u16, time: std::mem::take(end) });
                }
            }
        }
        let ends = self.cpus.iter().flat_map(|cpu| [cpu.switches_missing, cpu.calls_missing]);
        self.next_end = ends.filter(|end| *end != 0).min().unwrap_or(u64::MAX);
        None
    }

    #[inline]
    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, Cpu::default());
        }
        &mut self.cpus[at]
    }
}
