//! Wakeups as two witnesses saw them, held against each other: the recorder, and the kernel's own
//! tracer, whose every event tells in which context it happened.

use std::collections::{BTreeMap, HashMap};

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

/// Wakeups by the CPU and the thread, each in their order.
fn by_wakee<'a>(wakeups: impl IntoIterator<Item = &'a Wakeup>) -> HashMap<(u16, u32), Vec<Wakeup>> {
    let mut of: HashMap<(u16, u32), Vec<Wakeup>> = HashMap::new();
    for wakeup in wakeups {
        of.entry((wakeup.cpu, wakeup.wakee)).or_default().push(*wakeup);
    }
    of
}

/// For each of the tracer's wakeups of a thread on a CPU the recorder's of it, if it has one. Both
/// are in order, and either may lack some: of all ways to pair them in order, the one in which
/// times differ least, where one that is alone counts as half of [`APART_NS`]. By time alone, one
/// that the machine's host held up between the two would be taken for the next.
fn paired(traced: &[Wakeup], recorded: &[Wakeup]) -> Vec<Option<Wakeup>> {
    // Most often few are alone, so that few ways are to be compared.
    let mut astray = 16;
    loop {
        if let Some(pairs) = paired_near(traced, recorded, astray) {
            return pairs;
        }
        astray *= 2;
    }
}

/// The same, of the ways in which at no wakeup one side has had `astray` more alone than at the
/// end. `None`: another way may be better.
fn paired_near(
    traced: &[Wakeup],
    recorded: &[Wakeup],
    astray: usize,
) -> Option<Vec<Option<Wakeup>>> {
    /// What the best way to pair the wakeups up to these two ends with.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum End {
        Pair,
        Traced,
        Recorded,
    }
    /// More than any way costs.
    const FAR: u64 = u64::MAX / 2;
    let alone = APART_NS / 2;
    let more = recorded.len().saturating_sub(traced.len());
    let less = traced.len().saturating_sub(recorded.len());
    let width = less + more + 2 * astray + 1;
    // In each row, the first wakeups of the tracer, so many of the recorder's stand at this place.
    let column = |row: usize, at: usize| {
        (row + at).checked_sub(less + astray).filter(|column| *column <= recorded.len())
    };
    let (mut costs, mut ends) = (vec![FAR; width], Vec::new());
    for row in 0..=traced.len() {
        let mut next = vec![FAR; width];
        for at in 0..width {
            let Some(column) = column(row, at) else {
                ends.push(End::Pair);
                continue;
            };
            let pair = match (row.checked_sub(1), column.checked_sub(1)) {
                (None, None) => 0,
                (Some(row), Some(column)) => {
                    let apart = recorded[column].time.abs_diff(traced[row].time);
                    costs[at] + apart.min(APART_NS)
                }
                _ => FAR,
            };
            let traced = costs.get(at + 1).map_or(FAR, |cost| cost + alone);
            let recorded = at.checked_sub(1).map_or(FAR, |left| next[left] + alone);
            next[at] = pair.min(traced).min(recorded);
            ends.push(match next[at] {
                least if least == pair => End::Pair,
                least if least == traced => End::Traced,
                _ => End::Recorded,
            });
        }
        costs = next;
    }
    let (mut row, mut at) = (traced.len(), more + astray);
    // Any other way has as many alone as lead out of the compared ones, and back.
    if costs[at] > (2 * (astray + 1) + less + more) as u64 * alone {
        return None;
    }
    let mut pairs = vec![None; traced.len()];
    while let Some(column) = column(row, at).filter(|column| row + column > 0) {
        match ends[row * width + at] {
            End::Pair => {
                row -= 1;
                let seen = recorded[column - 1];
                let is_near = seen.time.abs_diff(traced[row].time) <= APART_NS;
                pairs[row] = is_near.then_some(seen);
            }
            End::Traced => (row, at) = (row - 1, at + 1),
            End::Recorded => at -= 1,
        }
    }
    Some(pairs)
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
        let traced = traced.iter().filter(|of| (first..last).contains(&of.time));
        let (traced, mut recorded) = (by_wakee(traced), by_wakee(recorded));
        let mut agreement = Self::default();
        for (wakee, traced) in traced {
            let recorded = recorded.remove(&wakee).unwrap_or_default();
            for (wakeup, seen) in traced.iter().zip(paired(&traced, &recorded)) {
                match seen {
                    Some(seen) => {
                        *agreement.both.entry((wakeup.context, seen.context)).or_default() += 1;
                    }
                    None => agreement.unseen += 1,
                }
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
    fn one_that_is_held_up_or_missing_leaves_the_others_as_they_are() {
        use WakeContext::{Hardirq, Thread};
        let wakeup =
            |time: u64, context| Wakeup { time: time * 1_000_000, cpu: 0, wakee: 7, context };
        let recorded = [
            wakeup(1, Thread),
            wakeup(30, Hardirq),
            wakeup(36, Thread),
            wakeup(60, Hardirq),
            wakeup(90, Thread),
        ];
        // The tracer saw the second late, nearer to the third; one more; and not the last.
        let traced = [
            wakeup(1, Thread),
            wakeup(34, Hardirq),
            wakeup(37, Thread),
            wakeup(45, Thread),
            wakeup(60, Hardirq),
        ];
        let agreement = Agreement::of(&traced, &recorded);
        assert_eq!(agreement.unseen, 1);
        let both = [((Thread, Thread), 2), ((Hardirq, Hardirq), 2)];
        assert_eq!(agreement.both, BTreeMap::from(both));
    }

    /// More of them are alone than the first comparison allows for.
    #[test]
    fn many_that_are_missing_leave_the_others_as_they_are() {
        use WakeContext::{Hardirq, Thread};
        let all: Vec<Wakeup> = (0..300)
            .map(|n| {
                let context = if n % 3 == 0 { Hardirq } else { Thread };
                Wakeup { time: n * 30_000_000, cpu: 0, wakee: 7, context }
            })
            .collect();
        // The tracer lacks the first hundred, the recorder the last.
        let (traced, recorded) = (&all[100..], &all[..200]);
        let pairs = paired(traced, recorded);
        assert_eq!(pairs.iter().flatten().copied().collect::<Vec<_>>(), all[100..200]);
        assert!(pairs[100..].iter().all(Option::is_none), "{pairs:?}");
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
