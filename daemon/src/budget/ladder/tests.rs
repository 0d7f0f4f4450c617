//! The model, against machines that do as they are told.

use super::*;

const COSTS: Costs = Costs {
    call: 250,
    string: 110,
    sched: 170,
    disk: 250,
    call_floor: 140,
    sched_floor: 100,
    disk_floor: 100,
    exit_time: 30,
    arguments: 5,
    measured: true,
};

fn limits(per_cpu: f64, total: Option<f64>) -> Limits {
    let order = Step::ALL.to_vec();
    Limits { per_cpu: Some(per_cpu / 100.0 * 1e9), total, burst: 30.0, order, detach: true }
}

/// A machine whose CPUs make so many calls a second, each with so many strings.
struct Machine {
    load: Vec<(f64, f64)>,
    ladder: Ladder,
    limits: Limits,
    tokens: Vec<f64>,
    rungs: Vec<Rung>,
    /// What all cost, ns; of it the probes of each CPU.
    spent: f64,
    /// Seconds for which calls were attached.
    attached: f64,
}

impl Machine {
    fn new(load: &[(f64, f64)], limits: Limits) -> Self {
        let share = limits.per_cpu.unwrap_or(0.0);
        Self {
            load: load.to_vec(),
            ladder: Ladder::new(&vec![(0, false); load.len()], &limits, true),
            tokens: vec![for_calls(share) * limits.burst; load.len()],
            rungs: vec![
                Rung {
                    level: 0,
                    thin: false,
                    limit: limits.per_cpu,
                    refused: 0.0,
                    least: 0.0
                };
                load.len()
            ],
            limits,
            spent: 0.0,
            attached: 0.0,
        }
    }

    /// Lets a look's time pass.
    fn look(&mut self) {
        let dt = if self.ladder.in_slice() { 0.02 } else { 0.25 };
        let (mut sights, mut spent) = (Vec::new(), 0.0);
        let is_attached = self.ladder.is_attached();
        for ((load, tokens), rung) in self.load.iter().zip(&mut self.tokens).zip(&self.rungs) {
            let calls = if is_attached { load.0 * dt } else { 0.0 };
            let given = of_calls(&self.limits.order)
                .take(rung.level)
                .fold(0, |bits, step| bits | step.bit());
            let strings = if given & Step::NoStrings.bit() == 0 { load.1 } else { 0.0 };
            let each = f64::from(COSTS.call_with(given)) + strings * f64::from(COSTS.string);
            let share = rung.limit.map_or(f64::INFINITY, for_calls);
            let rate = (share - rung.refused).max(share / 20.0);
            *tokens = (*tokens + rate * dt).min(share * self.limits.burst);
            let can = if given & Step::QuietOnly.bit() == 0 { *tokens / each } else { 0.0 };
            let recorded = calls.min(can);
            *tokens -= recorded * each;
            spent += recorded * each + (calls - recorded) * f64::from(COSTS.call_floor);
            let with_strings = if given & Step::NoStrings.bit() == 0 {
                (recorded, recorded * load.1)
            } else {
                (0.0, 0.0)
            };
            let full = if share.is_finite() { *tokens / (share * self.limits.burst) } else { 1.0 };
            sights.push(Sight {
                calls,
                refused: calls - recorded,
                with_strings,
                sched: 0.0,
                disk: 0.0,
                stacks: (!rung.thin).then_some(0.0),
                looked: 0.0,
                sched_full: 1.0,
                full,
            });
        }
        self.attached += if is_attached { dt } else { 0.0 };
        self.spent += spent;
        self.rungs = self.ladder.step(&self.limits, &COSTS, dt, &sights, (spent, 0.0));
    }

    /// Lets so many seconds pass; the highest level of the first CPU meanwhile.
    fn pass(&mut self, seconds: f64) -> usize {
        (self.spent, self.attached) = (0.0, 0.0);
        let (mut passed, mut highest) = (0.0, 0);
        while passed < seconds {
            passed += if self.ladder.in_slice() { 0.02 } else { 0.25 };
            self.look();
            highest = highest.max(self.rungs[0].level);
        }
        highest
    }

    fn levels(&self) -> Vec<usize> {
        self.rungs.iter().map(|rung| rung.level).collect()
    }
}

#[test]
fn what_fits_is_recorded_in_full() {
    let mut machine = Machine::new(&[(100_000.0, 0.0)], limits(5.0, None));
    assert_eq!(machine.pass(120.0), 0);
}

#[test]
fn each_step_where_it_suffices() {
    // Of 3 % of a CPU for calls: 120,000 calls a second at 250 ns, or 83,000 with a string each.
    for (load, level) in [
        ((90_000.0, 1.0), 1),
        ((130_000.0, 0.0), 2),
        ((138_000.0, 0.0), 3),
        ((180_000.0, 0.0), 4),
        ((230_000.0, 0.0), 5),
    ] {
        let mut machine = Machine::new(&[load, (1000.0, 1.0)], limits(5.0, None));
        machine.pass(300.0);
        assert_eq!(machine.levels(), [level, 0], "{load:?}");
        // Hysteresis: it stays there.
        assert_eq!(machine.pass(60.0), level, "{load:?}");
        assert_eq!(machine.levels(), [level, 0], "{load:?}");
    }
}

#[test]
fn a_burst_changes_nothing() {
    let mut machine = Machine::new(&[(1000.0, 1.0)], limits(5.0, Some(2e7)));
    machine.pass(60.0);
    machine.load[0].0 = 100_000.0;
    assert_eq!(machine.pass(0.3), 0);
    machine.load[0].0 = 1000.0;
    assert_eq!(machine.pass(60.0), 0);
}

#[test]
fn steps_are_taken_back_one_after_the_other() {
    let mut machine = Machine::new(&[(180_000.0, 0.0)], limits(5.0, None));
    machine.pass(120.0);
    assert_eq!(machine.levels(), [4]);
    machine.load[0].0 = 1000.0;
    let mut seen = vec![4];
    for _ in 0..200 {
        machine.look();
        let level = machine.rungs[0].level;
        if seen.last() != Some(&level) {
            seen.push(level);
        }
    }
    assert_eq!(seen, [4, 3, 2, 1, 0]);
    // A little less than what degraded it is not enough.
    let mut machine = Machine::new(&[(130_000.0, 0.0)], limits(5.0, None));
    machine.pass(300.0);
    machine.load[0].0 = 110_000.0;
    machine.pass(60.0);
    assert_eq!(machine.levels(), [2]);
}

#[test]
fn the_total_is_kept_by_those_who_cost_most() {
    // 2 % of a CPU for all four: 20 ms a second. One CPU wants 18 ms, one 8, two nearly nothing.
    let load = [(72_000.0, 0.0), (30_000.0, 0.0), (100.0, 0.0), (100.0, 0.0)];
    let mut machine = Machine::new(&load, limits(50.0, Some(2e7)));
    machine.pass(120.0);
    let levels = machine.levels();
    assert!(levels[0] >= 3 && levels[2..] == [0, 0], "{levels:?}");
    machine.pass(60.0);
    assert!(machine.spent <= 60.0 * 2.05e7, "{}", machine.spent);
    assert!(machine.attached > 59.9, "detaching was not needed, {} s attached", machine.attached);
}

#[test]
fn hammers_everywhere_are_detached_most_of_the_time_and_the_total_holds() {
    // While they are attached, their probe overhead alone takes more than half of both CPUs.
    let mut machine = Machine::new(&[(4e6, 0.0), (4e6, 0.0)], limits(2.0, Some(4e7)));
    machine.pass(2.0);
    machine.pass(20.0);
    assert!(machine.spent <= 20.0 * 4.4e7, "{}", machine.spent);
    assert!(machine.attached > 0.2 && machine.attached < 4.0, "{}", machine.attached);
    // When they end, calls stay attached, and everything is taken up again.
    machine.load = vec![(1000.0, 0.0); 2];
    machine.pass(60.0);
    machine.pass(10.0);
    assert!(
        machine.attached >= 10.0 && machine.levels() == [0, 0],
        "{} {:?}",
        machine.attached,
        machine.levels()
    );
}

#[test]
fn where_detaching_is_forbidden_it_is_not_done() {
    let limits = Limits { detach: false, ..limits(2.0, Some(4e7)) };
    let mut machine = Machine::new(&[(4e6, 0.0), (4e6, 0.0)], limits);
    machine.pass(20.0);
    assert!(machine.attached >= 20.0);
    assert_eq!(machine.levels(), [5, 5]);
}

#[test]
fn a_hammer_on_one_cpu_leaves_the_others_alone_while_the_total_holds() {
    let load = [(4e6, 0.0), (1000.0, 1.0)];
    let mut machine = Machine::new(&load, limits(5.0, Some(1.5e9)));
    machine.pass(120.0);
    assert_eq!(machine.levels(), [5, 0]);
    assert_eq!(machine.ladder.duty, Duty::Whole);
}

#[test]
fn only_what_may_be_given_up_is() {
    let order = vec![Step::Sampling, Step::NoStrings];
    let mut machine = Machine::new(&[(4e6, 1.0)], Limits { order, ..limits(2.0, None) });
    machine.pass(30.0);
    assert_eq!(machine.levels(), [2], "nothing that may be left out suffices");
    let mut machine =
        Machine::new(&[(4e6, 1.0)], Limits { order: Vec::new(), ..limits(2.0, None) });
    machine.pass(30.0);
    assert_eq!(machine.levels(), [0]);
}

#[test]
fn without_limits_nothing_is_given_up() {
    let mut machine = Machine::new(&[(4e6, 1.0)], Limits { per_cpu: None, ..limits(2.0, None) });
    machine.ladder.cpus[0].level = 3;
    machine.look();
    assert_eq!(
        machine.rungs[0],
        Rung { level: 0, thin: false, limit: None, refused: 0.0, least: 0.0 }
    );
}

#[test]
fn a_daemon_that_takes_all_of_the_total_does_not_keep_system_calls_away() {
    let limits = limits(2.0, Some(1e7));
    let mut ladder = Ladder::new(&[(0, false)], &limits, false);
    ladder.left = -1e7;
    ladder.duty = Duty::Off { since: 0.0, need: 5e6 };
    let looks = (0..100).position(|_| {
        ladder.step(&limits, &COSTS, 0.25, &[Sight::default()], (1e7, 1e7));
        ladder.is_attached()
    });
    assert!(looks.is_some_and(|looks| (1..40).contains(&looks)), "{looks:?}");
}

#[test]
fn scheduling_keeps_to_the_total_while_calls_are_detached() {
    let limits = limits(5.0, Some(4e7));
    let mut ladder = Ladder::new(&[(0, false); 2], &limits, false);
    let flood = Sight { sched: 250_000.0, ..Sight::default() };
    let limit_of = |ladder: &mut Ladder| {
        let rungs = ladder.step(&limits, &COSTS, 0.25, &[flood, flood], (2e7, 1e6));
        rungs.iter().map(|rung| rung.limit.expect("a limit")).sum::<f64>()
    };
    let mut detached = 0;
    for _ in 0..200 {
        let limit = limit_of(&mut ladder);
        if ladder.is_attached() {
            continue;
        }
        detached += 1;
        assert!(limit <= 4e7 * 1.01, "{limit} ns a second, of 40,000,000 for all CPUs together");
    }
    assert!(detached > 50, "{detached}");
}

/// A CPU whose threads switch so often a second, with so many ns of stacks for each; whether they
/// are given up in the end, and for how long they were not, s.
fn with_stacks(limits: &Limits, sched: f64, stacks: f64, seconds: f64) -> (bool, f64) {
    let mut ladder = Ladder::new(&[(0, false)], limits, true);
    let share = limits.per_cpu.map_or(f64::INFINITY, for_sched);
    let (mut tokens, mut thin, mut whole) = (share * limits.burst, false, 0.0);
    let dt = 0.25;
    for _ in 0..(seconds / dt) as usize {
        let cost = sched * dt * (f64::from(COSTS.sched) + if thin { 0.0 } else { stacks });
        tokens = (tokens + share * dt - cost).clamp(0.0, share * limits.burst);
        let sight = Sight {
            sched: sched * dt,
            stacks: (!thin).then_some(sched * dt * stacks),
            sched_full: tokens / (share * limits.burst),
            full: 1.0,
            ..Sight::default()
        };
        whole += if thin { 0.0 } else { dt };
        let rungs = ladder.step(limits, &COSTS, dt, &[sight], (cost, 0.0));
        assert_eq!(rungs[0].level, 0, "calls have an allowance of their own");
        thin = rungs[0].thin;
    }
    (thin, whole)
}

#[test]
fn stacks_go_first_where_scheduling_costs_too_much() {
    let of_5 = limits(5.0, None);
    // Of 20 ms a second: 10 ms of switches, and 60 of stacks, for which the burst lasts a while.
    let switches = 1e7 / f64::from(COSTS.sched);
    let dear = 6.0 * f64::from(COSTS.sched);
    let (thin, whole) = with_stacks(&of_5, switches, dear, 120.0);
    assert!(thin && (5.0..30.0).contains(&whole), "{whole}");
    // They stay away as long as they would not fit.
    let later = with_stacks(&of_5, switches, dear, 600.0).1;
    assert!((later - whole).abs() < 0.1, "{later}, {whole}");
    // Where all fits, where it is not in the order, and where there is no limit, they are taken.
    let all = |(thin, whole): (bool, f64)| !thin && whole > 119.9;
    assert!(all(with_stacks(&of_5, switches, 0.5 * f64::from(COSTS.sched), 120.0)));
    let other = Limits { order: vec![Step::NoStrings], ..of_5.clone() };
    assert!(all(with_stacks(&other, switches, dear, 120.0)));
    let none = Limits { per_cpu: None, ..of_5 };
    assert!(all(with_stacks(&none, switches, dear, 120.0)));
}

#[test]
fn stacks_come_back_when_they_fit_again() {
    let limits = limits(5.0, None);
    let mut ladder = Ladder::new(&[(0, true)], &limits, false);
    let quiet = Sight { sched: 10.0, sched_full: 1.0, full: 1.0, ..Sight::default() };
    let thin =
        |ladder: &mut Ladder| ladder.step(&limits, &COSTS, 0.25, &[quiet], (0.0, 0.0))[0].thin;
    assert!(thin(&mut ladder), "not at once");
    let looks = (0..100).take_while(|_| thin(&mut ladder)).count();
    assert!((15..25).contains(&looks), "{looks} looks of a quarter of a second");
}
