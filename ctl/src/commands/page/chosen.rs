//! The threads that matter: those that the answer names, the busiest, and those that waited
//! longest.

use flightrec_analysis::why::Answer;

use super::survey::{Survey, Total};

/// Most threads of each sort.
const NAMED_MAX: usize = 16;
const BUSIEST_MAX: usize = 6;
const WAITED_MAX: usize = 4;
const DELAYED_MAX: usize = 3;
/// Most CPUs.
pub(super) const CPUS_MAX: usize = 64;

/// A thread that is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) tid: u32,
    pub(super) pid: u32,
    /// Its name, fit to print; empty: not known.
    pub(super) comm: String,
    /// `subject`, `named`, `busiest`, `waited` or `delayed`.
    pub(super) why: &'static str,
}

impl Chosen {
    /// The answer names it.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.why, "subject" | "named")
    }

    /// `orders (4711)`
    pub(super) fn who(&self) -> String {
        who(&self.comm, self.tid)
    }
}

/// `orders (4711)`
pub(super) fn who(comm: &str, tid: u32) -> String {
    if comm.is_empty() { format!("thread {tid}") } else { format!("{comm} ({tid})") }
}

/// The threads to draw, from top to bottom.
pub(super) fn threads(answer: Option<&Answer>, survey: &Survey) -> Vec<Chosen> {
    let mut chosen: Vec<Chosen> = Vec::new();
    if let Some(answer) = answer {
        let links = answer.chain.iter().map(|link| &link.who);
        let culprits = answer.culprits.iter().filter_map(|of| of.who.as_ref());
        for who in answer.subject.iter().chain(links).chain(culprits) {
            let is_known = who.tid == 0 || chosen.iter().any(|of| of.tid == who.tid);
            if !is_known && chosen.len() < NAMED_MAX {
                let why = if chosen.is_empty() { "subject" } else { "named" };
                chosen.push(Chosen { tid: who.tid, pid: who.pid, comm: who.comm.clone(), why });
            }
        }
    }
    let mut take = |why, most, by: &dyn Fn(&Total) -> u64| {
        let mut ranked: Vec<(u64, u32, &Total)> =
            survey.threads.iter().map(|(tid, of)| (by(of), *tid, of)).collect();
        ranked.retain(|(weight, ..)| *weight != 0);
        ranked.sort_unstable_by_key(|(weight, tid, _)| (std::cmp::Reverse(*weight), *tid));
        for (_, tid, of) in ranked.into_iter().take(most) {
            if !chosen.iter().any(|known| known.tid == tid) {
                chosen.push(Chosen { tid, pid: of.pid, comm: of.comm.clone(), why });
            }
        }
    };
    take("waited", WAITED_MAX, &|of| of.waited);
    take("busiest", BUSIEST_MAX, &|of| of.running);
    take("delayed", DELAYED_MAX, &|of| of.delayed);
    chosen
}

/// The CPUs to draw: the busiest, by number.
pub(super) fn cpus(survey: &Survey) -> Vec<u16> {
    let mut cpus: Vec<(u64, u16)> = survey.cpus.iter().map(|(cpu, ns)| (*ns, *cpu)).collect();
    cpus.sort_unstable_by_key(|(ns, cpu)| (std::cmp::Reverse(*ns), *cpu));
    cpus.truncate(CPUS_MAX);
    let mut cpus: Vec<u16> = cpus.into_iter().map(|(_, cpu)| cpu).collect();
    cpus.sort_unstable();
    cpus
}

#[cfg(test)]
mod tests {
    use flightrec_analysis::why::{Link, Who};

    use super::*;

    #[test]
    fn who_is_named_comes_first_and_each_once() {
        let total = |running, waited| Total { running, waited, ..Total::default() };
        let threads = [(5, total(9, 0)), (6, total(3, 8)), (7, total(1, 0)), (8, total(0, 0))];
        let survey = Survey { threads: threads.into_iter().collect(), ..Survey::default() };
        let named = |tid| Who { tid, comm: "db".into(), ..Who::default() };
        let link = |tid| Link { who: named(tid), ..Link::default() };
        let answer = Answer {
            subject: Some(named(7)),
            chain: vec![link(7), link(0), link(9)],
            ..Answer::default()
        };
        let of = |answer| {
            let chosen = super::threads(answer, &survey);
            chosen.into_iter().map(|of| (of.tid, of.why)).collect::<Vec<_>>()
        };
        let others = [(6, "waited"), (5, "busiest")];
        assert_eq!(of(Some(&answer)), [&[(7, "subject"), (9, "named")][..], &others].concat());
        assert_eq!(of(None), [&others[..], &[(7, "busiest")]].concat());
        assert_eq!((who("", 5), who("db", 5)), ("thread 5".into(), "db (5)".into()));
    }
}
