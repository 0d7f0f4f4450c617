//! The probes' tables of who draws from a bucket, as the daemon sets it, under storms of every
//! kind: a model of one CPU.

use flightrec_format::abi::share::{self, Process, Shares};
use flightrec_format::abi::state::{Drawer, HALF_LIFE_SHIFT, SHARES, Share};

use super::*;

const JIFFY: u64 = 4_000_000;
/// What a call costs, ns.
const COST: u32 = 130;
const SEED: u32 = 0x9e37_79b1;

struct Table(Vec<Share>);

impl Shares for Table {
    fn at(&mut self, index: u32) -> &mut Share {
        &mut self.0[index as usize % SHARES]
    }
}

/// Who makes calls, evenly, from when on and how often; and for how many calls each of his
/// processes lives.
#[derive(Clone, Copy)]
struct Caller {
    from: u64,
    every: u64,
    lives: u64,
}

/// One that is there for good.
const fn steady(every: u64) -> Caller {
    Caller { from: 0, every, lives: u64::MAX }
}

/// ns between the calls of a loop of nothing else, as it gets half of a CPU.
const HAMMER: u64 = 3_000;

/// Processes of 60 calls, one after the other.
const STORM: Caller = Caller { from: 0, every: 8_000, lives: 60 };

/// Processes of a few calls, as in a loop of forks: each ends before it is looked at again.
const FORKS: Caller = Caller { from: 0, every: 8_000, lives: 6 };

/// Whether a call of this process is recorded, which is looked at.
fn looked_at(
    drawer: &mut Drawer,
    table: &mut Table,
    bucket: &mut Bucket,
    process: Process,
) -> bool {
    let is_still = drawer.look(table.at(drawer.at), bucket);
    if !is_still || drawer.tgid != process.tgid {
        drawer.at = share::find(table, SEED, bucket, process);
        drawer.tgid = process.tgid;
    }
    let share = table.at(drawer.at);
    if !share::draw(share, bucket, COST) {
        return false;
    }
    drawer.allow(share, bucket, COST);
    true
}

/// Calls made and recorded of each, from 3 s on, until 7 s of a CPU that has this limit. The bucket
/// is nearly empty at first.
fn run(limit: &Limit, callers: &[Caller]) -> Vec<(u64, u64)> {
    let Allowance { limit: _, rate, depth, resume, fair } = allowance(limit, 0, 10, JIFFY);
    // Since the machine began.
    let start = 1_000_u64 << HALF_LIFE_SHIFT;
    let (filled, time) = (start / JIFFY, start);
    let mut bucket =
        Bucket { filled, time, rate, depth, resume, fair, cost: COST, ..Bucket::default() };
    let mut table = Table(vec![Share::default(); SHARES]);
    let mut next: Vec<u64> =
        callers.iter().map(|caller| start + caller.from + caller.every).collect();
    let mut calls = vec![0_u64; callers.len()];
    let mut lives: Vec<Process> = Vec::new();
    let mut ids = 1000;
    for caller in callers {
        ids += 1;
        lives.push(Process { tgid: ids, began: start + caller.from });
    }
    let mut seen = vec![(0, 0); callers.len()];
    let mut drawer = Drawer::default();
    while let Some((i, now)) = next.iter().copied().enumerate().min_by_key(|(_, at)| *at) {
        if now >= start + 7_000_000_000 {
            break;
        }
        next[i] += callers[i].every;
        if calls[i] == callers[i].lives {
            share::forget(&mut table, SEED, lives[i].tgid);
            ids += 1;
            (calls[i], lives[i]) = (0, Process { tgid: ids, began: now });
        }
        calls[i] += 1;
        bucket.fill(now / JIFFY, || now);
        let recorded = drawer.draw(&mut bucket, lives[i].tgid, COST)
            || looked_at(&mut drawer, &mut table, &mut bucket, lives[i]);
        if now >= start + 3_000_000_000 {
            seen[i].0 += 1;
            seen[i].1 += u64::from(recorded);
        }
    }
    seen
}

/// The default limit of a CPU, and a total of 2 % of which hammers and the daemon leave as little
/// as they can.
fn limits() -> [Limit; 2] {
    let given = GIVEN_SAMPLING;
    [
        Limit { share: Some(5e7), refused: 1e9, least: least(Some(5e7), None, 2), given },
        Limit { share: Some(5e6), refused: 1e9, least: least(Some(5e7), Some(4e7), 2), given },
    ]
}

/// Twice 1,000 calls a second: what a witness of 1,000 makes with its own sleeping.
const QUIET: Caller = steady(500_000);

fn part((made, recorded): (u64, u64)) -> f64 {
    recorded as f64 / made as f64
}

#[test]
fn a_quiet_process_is_whole_beside_every_storm() {
    let busy = steady(25_000);
    let storms: [&[Caller]; 5] =
        [&[steady(HAMMER)], &[STORM], &[FORKS], &[STORM, busy], &[steady(HAMMER), STORM, busy]];
    for limit in limits() {
        for storm in storms {
            let callers: Vec<Caller> = [QUIET].iter().chain(storm).copied().collect();
            let seen = run(&limit, &callers);
            assert!(part(seen[0]) >= 0.999, "{limit:?} beside {}: {seen:?}", storm.len());
        }
    }
}

/// What it takes is what it may.
#[test]
fn storms_get_what_is_left_and_no_more() {
    for limit in limits() {
        let rate = allowance(&limit, 0, 10, JIFFY).rate as f64;
        for storm in [steady(HAMMER), STORM] {
            let seen = run(&limit, &[QUIET, storm]);
            let spent = (seen[0].1 + seen[1].1) as f64 * f64::from(COST);
            let allowed = 4e9 / JIFFY as f64 * rate;
            assert!((0.9..1.1).contains(&(spent / allowed)), "{limit:?}: {spent} of {allowed}");
        }
    }
}

/// A storm of processes is as one loud process: it takes nothing from one that is there longer.
#[test]
fn a_storm_of_processes_leaves_a_loud_one_its_part() {
    for limit in limits() {
        let seen = run(&limit, &[steady(HAMMER), STORM]);
        let (loud, storm) = (seen[0].1 as f64, seen[1].1 as f64);
        assert!((0.4..2.5).contains(&(loud / storm)), "{limit:?}: {seen:?}");
    }
}

/// Beside hammers that are there longer, a new process is whole from its first call on.
#[test]
fn a_new_process_beside_hammers_is_whole() {
    let new = Caller { from: 4_000_000_000, ..QUIET };
    for limit in limits() {
        let seen = run(&limit, &[new, steady(HAMMER), steady(HAMMER)]);
        assert!(part(seen[0]) >= 0.999, "{limit:?}: {seen:?}");
    }
}
