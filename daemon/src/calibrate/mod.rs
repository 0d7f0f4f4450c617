//! What an event costs on this machine: short loops on one CPU before the probes are attached and
//! after that. The difference is all that the work loses, what it costs to be asked at all
//! included.
//!
//! A machine that does something else at that moment can only make them slower. So no figure is
//! believed that is out of proportion to reading the clock in the same run (`loops`), nor a
//! difference of two runs in which that took another time; and where it takes less at a later time,
//! the machine was crowded when it was measured first.

mod loops;

use std::fmt;

use flightrec_format::abi::state::{GIVEN_ARGUMENTS, GIVEN_EXIT_TIMES};
use flightrec_format::control;
use tracing::{info, warn};

pub use loops::{
    Own, Pinned, Times, time, time_call, time_call_briefly, time_call_usually, time_clock,
};

use loops::ALIKE;

/// What events cost, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A system call with three arguments: entry and exit.
    pub call: u32,
    /// A string of it, in addition.
    pub string: u32,
    /// A switch, wakeup or migration: the mean of a switch and a wakeup.
    pub sched: u32,
    /// An event of a request to a disk. Not measured: in proportion to `sched`.
    pub disk: u32,
    /// A system call that is not recorded.
    pub call_floor: u32,
    /// A switch, wakeup or migration that is not recorded.
    pub sched_floor: u32,
    /// An event of a request to a disk that is not recorded.
    pub disk_floor: u32,
    /// What a call costs less without its exit's time.
    pub exit_time: u32,
    /// What a call costs less with its first argument alone.
    pub arguments: u32,
    /// Whether they were measured here.
    pub measured: bool,
}

impl Costs {
    /// Where measuring gave nothing to believe: what was measured on a virtual machine (AMD EPYC,
    /// Linux 6.18); rather too much.
    pub const ASSUMED: Self = Self {
        call: 252,
        string: 115,
        sched: 174,
        disk: 190,
        call_floor: 135,
        sched_floor: 97,
        disk_floor: 97,
        exit_time: 35,
        arguments: 5,
        measured: false,
    };
    /// What can be, ns. A noisy moment can give anything, and must not shut the recorder up, or let
    /// it run free.
    const SANE: std::ops::RangeInclusive<f64> = 20.0..=10_000.0;
    /// The same as a multiple of what reading the clock takes, or of the least that it can be, ns:
    /// of an event's cost, the two readings of a call included. Here it is 6.
    const MOST_CLOCKS: f64 = 40.0;
    const LEAST_CLOCK: f64 = 15.0;

    /// What a call costs with `given` up (`GIVEN_…` bits), its strings left out.
    pub fn call_with(&self, given: u32) -> u32 {
        let less = |bit: u32, saving: u32| if given & bit == 0 { 0 } else { saving };
        let saved = less(GIVEN_EXIT_TIMES, self.exit_time) + less(GIVEN_ARGUMENTS, self.arguments);
        self.call.saturating_sub(saved).max(self.call_floor)
    }

    /// What an interrupt costs, or a wait for a lock, that is too short to be recorded: two
    /// programs that are asked, and read the clock. Not measured here: in proportion to an event of
    /// a request that is not recorded (of 178 to 213 ns where that was 97;
    /// docs/design/probes-events.md).
    pub const fn look(&self) -> u32 {
        self.disk_floor.saturating_mul(2)
    }

    /// All of it so much more.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let times = |cost: u32| (f64::from(cost) * factor).round() as u32;
        Self {
            call: times(self.call),
            string: times(self.string),
            sched: times(self.sched),
            disk: times(self.disk),
            call_floor: times(self.call_floor),
            sched_floor: times(self.sched_floor),
            disk_floor: times(self.disk_floor),
            exit_time: times(self.exit_time),
            arguments: times(self.arguments),
            measured: self.measured,
        }
    }

    /// As a recording that runs has them.
    pub fn of(budget: &control::Budget) -> Self {
        Self {
            call: budget.call,
            string: budget.string,
            sched: budget.sched,
            disk: budget.disk,
            call_floor: budget.call_floor,
            sched_floor: budget.sched_floor,
            disk_floor: budget.disk_floor,
            exit_time: budget.exit_time,
            arguments: budget.arguments,
            measured: budget.measured,
        }
    }

    /// Whether an event can cost this, ns, where reading the clock takes `clock`.
    fn is_sane(cost: f64, clock: f64) -> bool {
        Self::SANE.contains(&cost) && cost <= clock.max(Self::LEAST_CLOCK) * Self::MOST_CLOCKS
    }

    /// After an own call was timed again on a machine that runs. The probe overhead can't be
    /// told apart without detaching: where reading the clock takes less than when these were
    /// measured (`clock`, ns; 0: not known), all of them were too high by as much. `None` where
    /// it takes more, as the machine is crowded now, and where it can't be, or hardly. Costs that
    /// were assumed are taken in proportion to what was measured.
    pub fn again(&self, own: &Own, clock: f64) -> Option<Self> {
        let slower = if clock > 0.0 && self.measured { own.clock / clock } else { 1.0 };
        // Also where it is not a number.
        if slower.is_nan() || slower >= ALIKE {
            return None;
        }
        let before = if slower < 1.0 / ALIKE { self.times(slower) } else { *self };
        let recording = own.recorded - own.left_out;
        if !self.measured {
            let factor = recording / f64::from(self.call - self.call_floor);
            let sane = (1.0 / MOST_CHANGE..=MOST_CHANGE).contains(&factor);
            return (sane && Self::is_sane(f64::from(self.call) * factor, own.clock))
                .then(|| self.times(factor));
        }
        let call = f64::from(before.call_floor) + recording;
        let change = call / f64::from(before.call.max(1));
        let sane =
            Self::is_sane(call, own.clock) && (1.0 / MOST_CHANGE..=MOST_CHANGE).contains(&change);
        let scaled = |cost: u32| (f64::from(cost) * change).round() as u32;
        sane.then(|| Self {
            call: call.round() as u32,
            sched: scaled(before.sched).max(before.sched_floor),
            disk: scaled(before.disk).max(before.disk_floor),
            string: scaled(before.string),
            ..before
        })
    }
}

/// For the log.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, string, sched, .. } = self;
        write!(
            f,
            "{call} ns per system call, {string} ns per string, {sched} ns per switch or \
                   wakeup"
        )
    }
}

/// Least times with the probes attached: in full, and with something left out.
#[derive(Debug, Clone, Copy)]
pub struct With {
    /// Everything is recorded.
    pub full: Option<Times>,
    /// Nothing is.
    pub floor: Option<Times>,
    /// A call, exits untimed; ns.
    pub untimed: f64,
    /// A call, its first argument alone; ns.
    pub first_argument: f64,
}

/// System calls, switches and wakeups of a round trip between two threads.
const TRIP_CALLS: f64 = 4.0;
const TRIP_SCHED: f64 = 4.0;
/// By how much a cost may differ from what it was when it is measured again.
const MOST_CHANGE: f64 = 2.0;

/// What the probes added from one run of the loops to the others, and what reading the clock took
/// meanwhile, ns; assumed costs and 0 where that can't be.
pub fn costs(without: Option<Times>, with: &With) -> (Costs, f64) {
    let costs = without.and_then(|without| difference(&without, with));
    if let Some((costs, _)) = costs {
        info!(
            cost_call = costs.call,
            cost_string = costs.string,
            cost_sched = costs.sched,
            cost_call_overhead = costs.call_floor,
            cost_sched_overhead = costs.sched_floor,
            cost_exit_time = costs.exit_time,
            cost_arguments = costs.arguments,
            "measured event costs: {costs}"
        );
    } else {
        warn!(
            "the measured event costs are implausible because the machine is too busy; assuming \
             typical costs"
        );
    }
    costs.unwrap_or((Costs::ASSUMED, 0.0))
}

fn difference(without: &Times, with: &With) -> Option<(Costs, f64)> {
    let (full, floor) = (with.full?, with.floor?);
    let clocks = [without.clock, full.clock, floor.clock];
    let clock = clocks.into_iter().fold(f64::NAN, f64::min);
    if !clocks.iter().all(|each| *each < clock * ALIKE) {
        return None;
    }
    let call = full.call - without.call;
    let string = (full.string - without.string - call).max(0.0);
    let of_trip =
        |trip: f64, call: f64| (trip - without.round_trip - TRIP_CALLS * call) / TRIP_SCHED;
    let sched = of_trip(full.round_trip, call);
    let call_floor = floor.call - without.call;
    let sched_floor = of_trip(floor.round_trip, call_floor);
    // Of two such small differences, noise can leave nothing.
    let usual = f64::from(Costs::ASSUMED.sched_floor) / f64::from(Costs::ASSUMED.sched);
    let sched_floor = if sched_floor > 0.0 { sched_floor.min(sched) } else { sched * usual };
    // A string may cost nothing: where none are recorded.
    if !(Costs::is_sane(call, clock)
        && Costs::is_sane(sched, clock)
        && Costs::is_sane(string.max(*Costs::SANE.start()), clock)
        && call_floor > 0.0)
    {
        return None;
    }
    // On a CPU that others want as well, threads that wake one another are never undisturbed for as
    // long as a call is, and paths are longer: what is out of proportion is taken in proportion
    // to the call. So is what is too little, where that befell the run without the probes, but
    // for strings, which may cost nothing.
    let in_proportion = |cost: f64, assumed: u32, least: f64| {
        let usual = call * f64::from(assumed) / f64::from(Costs::ASSUMED.call);
        if (usual * least..=usual * MOST_CHANGE).contains(&cost) { cost } else { usual }
    };
    let string = in_proportion(string, Costs::ASSUMED.string, 0.0);
    let sched = in_proportion(sched, Costs::ASSUMED.sched, 1.0 / MOST_CHANGE);
    let sched_floor =
        in_proportion(sched_floor, Costs::ASSUMED.sched_floor, 1.0 / MOST_CHANGE).min(sched);
    // What is saved is the difference of two that differ little.
    let saved = |less: f64| (full.call - less).clamp(0.0, call / 2.0).round() as u32;
    // No disk is kept busy to measure what a request's events cost.
    let of_disk = |assumed: u32| sched * f64::from(assumed) / f64::from(Costs::ASSUMED.sched);
    let costs = Costs {
        call: call.round() as u32,
        string: string.round() as u32,
        sched: sched.round() as u32,
        disk: of_disk(Costs::ASSUMED.disk).round() as u32,
        call_floor: call_floor.min(call).round() as u32,
        sched_floor: sched_floor.round() as u32,
        disk_floor: of_disk(Costs::ASSUMED.disk_floor).round() as u32,
        exit_time: saved(with.untimed),
        arguments: saved(with.first_argument),
        measured: true,
    };
    Some((costs, clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHOUT: Times = Times { call: 200.0, string: 900.0, round_trip: 5000.0, clock: 30.0 };
    const FULL: Times = Times { call: 460.0, string: 1280.0, round_trip: 6840.0, clock: 30.0 };
    const FLOOR: Times = Times { call: 340.0, string: 1040.0, round_trip: 5960.0, clock: 30.0 };

    fn with(full: Times, floor: Times) -> With {
        With {
            full: Some(full),
            floor: Some(floor),
            untimed: full.call - 35.0,
            first_argument: full.call + 1.0,
        }
    }

    #[test]
    fn costs_are_what_was_added() {
        let (costs, clock) = costs(Some(WITHOUT), &with(FULL, FLOOR));
        let want = Costs {
            call: 260,
            string: 120,
            sched: 200,
            // As those that are assumed, of a switch of 174 ns.
            disk: (200.0 * f64::from(Costs::ASSUMED.disk) / 174.0_f64).round() as u32,
            call_floor: 140,
            sched_floor: 100,
            disk_floor: (200.0 * f64::from(Costs::ASSUMED.disk_floor) / 174.0_f64).round() as u32,
            exit_time: 35,
            arguments: 0,
            measured: true,
        };
        assert_eq!((costs, clock), (want, 30.0));
        assert_eq!(
            [0, GIVEN_EXIT_TIMES, GIVEN_EXIT_TIMES | GIVEN_ARGUMENTS].map(|g| costs.call_with(g)),
            [260, 225, 225]
        );
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let times = |call, string, round_trip| Times { call, string, round_trip, clock: 30.0 };
        for noisy in [
            with(times(200.0, 900.0, 5000.0), FLOOR), // nothing was added
            with(times(190.0, 1280.0, 6840.0), FLOOR), // a negative cost
            with(times(460.0, 1280.0, 5000.0), FLOOR), // the trip cost less than its calls
            with(times(460.0, 1280.0, 500_000.0), FLOOR), // something else ran all the time
            with(times(460.0, 900_000.0, 6840.0), FLOOR),
            with(times(f64::NAN, 1280.0, 6840.0), FLOOR),
            with(FULL, WITHOUT), // no probe overhead
            With { floor: None, ..with(FULL, FLOOR) },
            // The machine was crowded in one of the runs, as the clock tells; whatever else is in
            // proportion.
            with(Times { clock: 45.0, ..FULL }, FLOOR),
            with(FULL, Times { clock: 45.0, ..FLOOR }),
            with(Times { clock: 20.0, ..FULL }, Times { clock: 20.0, ..FLOOR }),
            with(Times { clock: f64::NAN, ..FULL }, FLOOR),
            // Out of proportion to the clock.
            with(times(2000.0, 2900.0, 40_000.0), times(700.0, 1500.0, 10_000.0)),
        ] {
            assert_eq!(costs(Some(WITHOUT), &noisy), (Costs::ASSUMED, 0.0), "{noisy:?}");
        }
        assert_eq!(costs(None, &with(FULL, FLOOR)), (Costs::ASSUMED, 0.0));
    }

    #[test]
    fn what_is_out_of_proportion_to_the_call_is_brought_into_it() {
        let (quiet, _) = costs(Some(WITHOUT), &with(FULL, FLOOR));
        let noisy = Times { string: 1900.0, round_trip: 9000.0, ..FULL };
        let (costs, _) = costs(Some(WITHOUT), &with(noisy, FLOOR));
        assert_eq!((costs.call, costs.call_floor), (quiet.call, quiet.call_floor));
        assert_eq!(
            (costs.string, costs.sched),
            (119, 180),
            "as those that are assumed, of a call of 252 ns"
        );
        // Something else ran beside the threads while nothing was attached: 31 ns more are left of
        // the trip.
        let noisy = Times { round_trip: 6164.0, ..FULL };
        let (costs, _) = super::costs(Some(WITHOUT), &with(noisy, FLOOR));
        assert_eq!((costs.string, costs.sched, costs.sched_floor), (quiet.string, 180, 100));
    }

    #[test]
    fn strings_that_are_not_recorded_cost_nothing() {
        let full = Times { string: 1150.0, ..FULL };
        assert_eq!(costs(Some(WITHOUT), &with(full, FLOOR)).0.string, 0);
    }

    fn own(recorded: f64, left_out: f64, clock: f64) -> Own {
        Own { recorded, left_out, clock }
    }

    #[test]
    fn measured_again_within_reason() {
        let (before, clock) = costs(Some(WITHOUT), &with(FULL, FLOOR));
        let again = before.again(&own(480.0, 340.0, 31.0), clock).expect("a little more");
        assert_eq!((again.call, again.sched, again.call_floor), (280, 215, 140));
        for (recorded, left_out) in
            [(340.0, 480.0), (5000.0, 340.0), (f64::NAN, 340.0), (f64::INFINITY, 1.0)]
        {
            assert_eq!(
                before.again(&own(recorded, left_out, 30.0), clock),
                None,
                "{recorded} {left_out}"
            );
        }
    }

    #[test]
    fn a_crowded_moment_is_not_believed_and_does_not_stay() {
        let (quiet, clock) = costs(Some(WITHOUT), &with(FULL, FLOOR));
        // Everything takes twice as long now.
        assert_eq!(quiet.again(&own(920.0, 680.0, 60.0), clock), None);
        assert_eq!(quiet.again(&own(920.0, 680.0, f64::NAN), clock), None);
        // It did when it was measured first.
        let twice = |times: Times| Times {
            call: times.call * 2.0,
            string: times.string * 2.0,
            round_trip: times.round_trip * 2.0,
            clock: times.clock * 2.0,
        };
        let (crowded, clock) = costs(Some(twice(WITHOUT)), &with(twice(FULL), twice(FLOOR)));
        assert_eq!((crowded.call, crowded.call_floor), (520, 280));
        let again = crowded.again(&own(460.0, 340.0, 30.0), clock).expect("it is quiet now");
        assert_eq!(
            (again.call, again.call_floor, again.sched, again.string),
            (quiet.call, quiet.call_floor, quiet.sched, quiet.string)
        );
    }

    #[test]
    fn assumed_costs_are_brought_into_proportion() {
        let assumed = Costs::ASSUMED;
        let half =
            assumed.again(&own(260.0, 260.0 - 117.0 * 0.6, 20.0), 0.0).expect("a faster machine");
        assert_eq!((half.call, half.call_floor, half.measured), (151, 81, false));
        assert_eq!(
            assumed.again(&own(1000.0, 200.0, 20.0), 0.0),
            None,
            "hardly seven times as much"
        );
    }

    #[test]
    fn the_loops_run_here() {
        let affinity = || nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let before = affinity();
        let times = time(None).expect("times");
        assert!(times.clock > 0.0 && times.call > 0.0 && times.string > times.call, "{times:?}");
        assert!(times.round_trip > times.call, "{times:?}");
        assert!(
            time(Some(&Times { clock: 0.0, ..times })).is_some(),
            "it ends where no run is alike"
        );
        assert_eq!(affinity(), before);
    }
}
