//! Wakeups as two witnesses saw them, held against each other: the recorder, and the kernel's own
//! tracer, whose every event tells in which context it happened.

use std::collections::{BTreeMap, HashMap, VecDeque};

use flightrec_format::abi::record::WakeContext;

/// A wakeup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    /// ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU that woke the thread.
    pub cpu: u16,
    /// The thread.
    pub wakee: u32,
    /// What the CPU was doing.
    pub context: WakeContext,
}

/// How far apart the two may see one wakeup, ns: either may be interrupted by the machine's host
/// between the two.
const APART_NS: u64 = 20_000_000;

/// The wakeups in a trace's text (`sched_waking`, clock `mono`; `trace_print_lat_fmt`,
/// kernel/trace/trace_output.c, Linux 6.1). Its head says which flag stands where: the kernels of
/// Linux 6.1 with PREEMPT_RT have one more in front.
pub fn of_ftrace(trace: &str) -> Vec<Wakeup> {
    let mut flags = trace.lines().filter(|line| line.starts_with('#') && line.contains("=> "));
    let at = flags.position(|line| line.ends_with("hardirq/softirq")).unwrap_or(2);
    trace.lines().filter_map(|line| of_line(line, at)).collect()
}

/// `comm-7  [001] d.s4.  1234.567890: sched_waking: comm=x pid=9 prio=120 target_cpu=001`, whose
/// flag number `at` is the context.
fn of_line(line: &str, at: usize) -> Option<Wakeup> {
    let (head, body) = line.split_once(": sched_waking: ")?;
    let (_, head) = head.rsplit_once('[')?;
    let mut words = head.split_whitespace();
    let cpu = words.next()?.strip_suffix(']')?.parse().ok()?;
    let context = match words.next()?.chars().nth(at)? {
        'z' | 'Z' => WakeContext::Nmi,
        'h' | 'H' => WakeContext::Hardirq,
        's' => WakeContext::Softirq,
        '.' => WakeContext::Thread,
        _ => return None,
    };
    let (seconds, micros) = words.next()?.split_once('.')?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000;
    let (_, pid) = body.rsplit_once(" pid=")?;
    let wakee = pid.split_whitespace().next()?.parse().ok()?;
    Some(Wakeup { time, cpu, wakee, context })
}

/// How the two agree.
#[derive(Debug, Default)]
pub struct Agreement {
    /// Wakeups that both saw, by context: as the tracer has it, and as the recorder does.
    pub both: BTreeMap<(WakeContext, WakeContext), u64>,
    /// Wakeups that the tracer alone saw.
    pub unseen: u64,
}

impl Agreement {
    /// Of the tracer's wakeups between the recorder's first and last, how the recorder saw each.
    pub fn of(traced: &[Wakeup], recorded: &[Wakeup]) -> Self {
        let times = || recorded.iter().map(|wakeup| wakeup.time);
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return Self { unseen: traced.len() as u64, ..Self::default() };
        };
        let mut of_wakee: HashMap<(u16, u32), VecDeque<Wakeup>> = HashMap::new();
        for wakeup in recorded {
            of_wakee.entry((wakeup.cpu, wakeup.wakee)).or_default().push_back(*wakeup);
        }
        let mut agreement = Self::default();
        for wakeup in traced.iter().filter(|of| (first..last).contains(&of.time)) {
            let queue = of_wakee.entry((wakeup.cpu, wakeup.wakee)).or_default();
            // One wakeup of a thread on a CPU follows another: those that the tracer has not seen,
            // or that come before its trace, are passed by.
            let apart = |of: &Wakeup| of.time.abs_diff(wakeup.time);
            while queue.len() > 1 && apart(&queue[1]) <= apart(&queue[0]) {
                queue.pop_front();
            }
            match queue.front().copied().filter(|of| apart(of) <= APART_NS) {
                Some(seen) => {
                    queue.pop_front();
                    *agreement.both.entry((wakeup.context, seen.context)).or_default() += 1;
                }
                None => agreement.unseen += 1,
            }
        }
        agreement
    }

    /// How many the tracer saw.
    pub fn traced(&self) -> u64 {
        self.both.values().sum::<u64>() + self.unseen
    }

    /// How many of these were in a context, as the tracer has it.
    pub fn in_context(&self, context: WakeContext) -> u64 {
        self.both.iter().filter(|((of, _), _)| *of == context).map(|(_, count)| count).sum()
    }

    /// The share of them that the recorder has in the same context.
    pub fn share(&self) -> f64 {
        let same = self.both.iter().filter(|((theirs, ours), _)| theirs == ours);
        same.map(|(_, count)| *count).sum::<u64>() as f64 / self.traced().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_tells_time_cpu_wakee_and_context() {
        let trace = "# tracer: nop\n\
             a name with [2]-77      [001] d.s4.  1234.567890: sched_waking: comm=y pid=3 pid=9 \
             prio=120 target_cpu=001\n\
             <idle>-0       [000] dNh4.     3.000001: sched_waking: comm=x pid=8 prio=120 \
             target_cpu=000\n\
             x-8       [000] d..4.     3.000002: sched_switch: prev_comm=x\n";
        let expected = [
            Wakeup { time: 1_234_567_890_000, cpu: 1, wakee: 9, context: WakeContext::Softirq },
            Wakeup { time: 3_000_001_000, cpu: 0, wakee: 8, context: WakeContext::Hardirq },
        ];
        assert_eq!(of_ftrace(trace), expected);
        let head = "#   _------=> irqs-off/BH-disabled\n#  / _-----=> need-resched\n\
                    # | / _----=> need-resched-lazy\n# || / _---=> hardirq/softirq\n";
        let with_lazy = trace.replace("d.s4.", "d..s4.").replace("dNh4.", "dN.h4.");
        assert_eq!(of_ftrace(&(head.to_owned() + &with_lazy)), expected);
    }

    #[test]
    fn wakeups_are_told_apart_by_cpu_wakee_and_time() {
        use WakeContext::{Hardirq, Softirq, Thread};
        let wakeup =
            |time, cpu, wakee, context| Wakeup { time: time * APART_NS, cpu, wakee, context };
        let recorded = [
            wakeup(1, 0, 7, Thread),
            wakeup(10, 0, 7, Hardirq),
            wakeup(20, 1, 7, Thread),
            wakeup(30, 0, 9, Softirq),
            wakeup(90, 0, 1, Thread),
        ];
        let traced = [
            wakeup(0, 0, 7, Softirq), // before the recorder's first
            wakeup(10, 0, 7, Hardirq),
            wakeup(20, 1, 7, Softirq),
            wakeup(30, 0, 8, Softirq), // unseen
            wakeup(40, 0, 9, Softirq), // ten times too late
        ];
        let agreement = Agreement::of(&traced, &recorded);
        let both = [((Softirq, Thread), 1), ((Hardirq, Hardirq), 1)];
        assert_eq!((agreement.unseen, &agreement.both), (2, &BTreeMap::from(both)));
        assert_eq!((agreement.traced(), agreement.in_context(Softirq)), (4, 1));
        assert!((agreement.share() - 0.25).abs() < 1e-9);
    }
}
