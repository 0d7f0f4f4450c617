//! What an event costs on this machine: short loops on one CPU before the probes are attached and behind that. The
//! difference is all that the work loses, what it costs to be asked at all included.
//!
//! Loops run in short repetitions, of which the fastest counts: what else the machine does can only make one slower.

use std::fmt;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use flightrec_format::abi::state::{GIVEN_ARGUMENTS, GIVEN_EXIT_TIMES};
use flightrec_format::control;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use tracing::{info, warn};

/// What events cost, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A system call with three arguments: entry and exit.
    pub call: u32,
    /// A string of it, in addition.
    pub string: u32,
    /// A switch, wakeup or migration: the mean of a switch and a wakeup.
    pub sched: u32,
    /// A system call that is not recorded.
    pub call_floor: u32,
    /// A switch, wakeup or migration that is not recorded.
    pub sched_floor: u32,
    /// What a call costs less without its exit's time.
    pub exit_time: u32,
    /// What a call costs less with its first argument alone.
    pub arguments: u32,
    /// Whether they were measured here.
    pub measured: bool,
}

impl Costs {
    /// Where measuring gave nothing to believe: what README.md's table says of the machine that it was made on.
    pub const ASSUMED: Self = Self {
        call: 252,
        string: 115,
        sched: 174,
        call_floor: 135,
        sched_floor: 97,
        exit_time: 35,
        arguments: 5,
        measured: false,
    };
    /// What can be, ns. A noisy moment can give anything, and must not shut the recorder up, or let it run free.
    const SANE: std::ops::RangeInclusive<f64> = 20.0..=10_000.0;

    /// What a call costs with `given` up (`GIVEN_…` bits), its strings left out.
    pub fn call_with(&self, given: u32) -> u32 {
        let less = |bit: u32, saving: u32| if given & bit == 0 { 0 } else { saving };
        let saved = less(GIVEN_EXIT_TIMES, self.exit_time) + less(GIVEN_ARGUMENTS, self.arguments);
        self.call.saturating_sub(saved).max(self.call_floor)
    }

    /// As a recording that runs has them.
    pub fn of(budget: &control::Budget) -> Self {
        Self {
            call: budget.call,
            string: budget.string,
            sched: budget.sched,
            call_floor: budget.call_floor,
            sched_floor: budget.sched_floor,
            exit_time: budget.exit_time,
            arguments: budget.arguments,
            measured: budget.measured,
        }
    }

    /// After a call was timed again on a machine that runs: `recorded` and left out, ns. The floor stays, as it can't be told
    /// apart without detaching. `None` where that can't be, or hardly.
    pub fn again(&self, recorded: f64, left_out: f64) -> Option<Self> {
        let call = f64::from(self.call_floor) + recorded - left_out;
        let change = call / f64::from(self.call.max(1));
        let sane = Self::SANE.contains(&call) && (1.0 / MOST_CHANGE..=MOST_CHANGE).contains(&change);
        let scaled = |cost: u32| (f64::from(cost) * change).round() as u32;
        sane.then(|| Self {
            call: call.round() as u32,
            sched: scaled(self.sched).max(self.sched_floor),
            string: scaled(self.string),
            ..*self
        })
    }
}

/// For the log.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, string, sched, .. } = self;
        write!(f, "{call} ns a system call, {string} ns a string, {sched} ns a switch or wakeup")
    }
}

/// Least times of the loops, ns an operation.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    call: f64,
    string: f64,
    round_trip: f64,
}

/// Least times with the probes attached: in full, and with something given up.
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

/// How long one kind of loop may go on: a CPU that others keep busy must not hold up the start.
const LONGEST: Duration = Duration::from_millis(20);
/// System calls, switches and wakeups of a round trip between two threads.
const TRIP_CALLS: f64 = 4.0;
const TRIP_SCHED: f64 = 4.0;
/// By how much a cost may differ from what it was when it is measured again.
const MOST_CHANGE: f64 = 2.0;

/// Runs the loops: about 10 ms, at most 60 and a little. `None` where the system does not let this process.
pub fn time() -> Option<Times> {
    let run = || -> io::Result<Times> {
        let _pinned = Pinned::here()?;
        let string = least(20, 50, || {
            // SAFETY: a string with its NUL. The path is relative, and the folder's descriptor is none.
            black_box(unsafe { libc::faccessat(-1, c"flightrec/measures/what/an/event/costs".as_ptr(), 0, 0) });
        });
        Ok(Times { call: time_call(), string, round_trip: round_trip()? })
    };
    run().inspect_err(|e| warn!("what events cost can't be measured: {e}")).ok()
}

/// Times the call alone, on the CPU where this thread is; ns. About 1 ms, at most 20 and a little.
pub fn time_call() -> f64 {
    call(50, 100)
}

/// The same by 400 calls, which hardly show in a ring.
pub fn time_call_briefly() -> f64 {
    call(10, 40)
}

fn call(repetitions: u32, loops: u32) -> f64 {
    let mut byte = [0u8; 64];
    least(repetitions, loops, || {
        // SAFETY: there is no such descriptor, so nothing is written; the buffer has that length.
        black_box(unsafe { libc::read(-1, byte.as_mut_ptr().cast(), byte.len()) });
    })
}

/// What the probes added from one run of the loops to the others; assumed costs where that can't be.
pub fn costs(without: Option<Times>, with: &With) -> Costs {
    let costs = without.and_then(|without| difference(&without, with));
    if let Some(costs) = costs {
        info!(
            cost_call = costs.call,
            cost_string = costs.string,
            cost_sched = costs.sched,
            cost_call_floor = costs.call_floor,
            cost_sched_floor = costs.sched_floor,
            cost_exit_time = costs.exit_time,
            cost_arguments = costs.arguments,
            "measured what events cost: {costs}"
        );
    } else {
        warn!("what was measured of events' costs can't be: the machine is too busy; assuming usual ones");
    }
    costs.unwrap_or(Costs::ASSUMED)
}

fn difference(without: &Times, with: &With) -> Option<Costs> {
    let (full, floor) = (with.full?, with.floor?);
    let call = full.call - without.call;
    let string = (full.string - without.string - call).max(0.0);
    let of_trip = |trip: f64, call: f64| (trip - without.round_trip - TRIP_CALLS * call) / TRIP_SCHED;
    let sched = of_trip(full.round_trip, call);
    let call_floor = floor.call - without.call;
    let sched_floor = of_trip(floor.round_trip, call_floor);
    // Of two such small differences, noise can leave nothing.
    let usual = f64::from(Costs::ASSUMED.sched_floor) / f64::from(Costs::ASSUMED.sched);
    let sched_floor = if sched_floor > 0.0 { sched_floor.min(sched) } else { sched * usual };
    let sane = |cost: &f64| Costs::SANE.contains(cost);
    // A string may cost nothing: where none are recorded.
    if !(sane(&call) && sane(&sched) && string <= *Costs::SANE.end() && call_floor > 0.0) {
        return None;
    }
    // What is saved is the difference of two that differ little.
    let saved = |less: f64| (full.call - less).clamp(0.0, call / 2.0).round() as u32;
    Some(Costs {
        call: call.round() as u32,
        string: string.round() as u32,
        sched: sched.round() as u32,
        call_floor: call_floor.min(call).round() as u32,
        sched_floor: sched_floor.round() as u32,
        exit_time: saved(with.untimed),
        arguments: saved(with.first_argument),
        measured: true,
    })
}

/// The least time of one operation, in ns, of so many repetitions of a loop; of fewer where they take long.
fn least(repetitions: u32, loops: u32, mut once: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    let began = Instant::now();
    for _ in 0..repetitions {
        let start = Instant::now();
        if start - began > LONGEST {
            break;
        }
        for _ in 0..loops {
            once();
        }
        least = least.min(start.elapsed().as_nanos() as f64 / f64::from(loops));
    }
    least
}

/// A byte to another thread of this CPU and back.
fn round_trip() -> io::Result<f64> {
    let (mut pong_in, mut ping_out) = io::pipe()?;
    let (mut ping_in, mut pong_out) = io::pipe()?;
    std::thread::scope(|scope| {
        // It has this thread's CPU, and ends when the pipe to it is closed.
        scope.spawn(move || {
            let mut byte = [0];
            while matches!(pong_in.read(&mut byte), Ok(1)) && pong_out.write_all(&byte).is_ok() {}
        });
        let mut failed = None;
        let ns = least(100, 5, || {
            let mut byte = [0];
            if let Err(e) = ping_out.write_all(&byte).and_then(|()| ping_in.read_exact(&mut byte)) {
                failed = Some(e);
            }
        });
        drop(ping_out);
        failed.map_or(Ok(ns), Err)
    })
}

/// The calling thread on the CPU where it is, until this is dropped.
pub struct Pinned(CpuSet);

impl Pinned {
    /// Pins it to the CPU where it is.
    pub fn here() -> io::Result<Self> {
        Self::to(sched_getcpu()?)
    }

    /// Pins it to a CPU.
    pub fn to(cpu: usize) -> io::Result<Self> {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this)?;
        let mut one = CpuSet::new();
        one.set(cpu)?;
        sched_setaffinity(this, &one)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(e) = sched_setaffinity(Pid::from_raw(0), &self.0) {
            warn!("this thread stays on one CPU: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHOUT: Times = Times { call: 200.0, string: 900.0, round_trip: 5000.0 };
    const FULL: Times = Times { call: 460.0, string: 1280.0, round_trip: 6840.0 };
    const FLOOR: Times = Times { call: 340.0, string: 1040.0, round_trip: 5960.0 };

    fn with(full: Times, floor: Times) -> With {
        With { full: Some(full), floor: Some(floor), untimed: full.call - 35.0, first_argument: full.call + 1.0 }
    }

    #[test]
    fn costs_are_what_was_added() {
        let costs = costs(Some(WITHOUT), &with(FULL, FLOOR));
        let want = Costs {
            call: 260,
            string: 120,
            sched: 200,
            call_floor: 140,
            sched_floor: 100,
            exit_time: 35,
            arguments: 0,
            measured: true,
        };
        assert_eq!(costs, want);
        assert_eq!(
            [0, GIVEN_EXIT_TIMES, GIVEN_EXIT_TIMES | GIVEN_ARGUMENTS].map(|g| costs.call_with(g)),
            [260, 225, 225]
        );
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let times = |call, string, round_trip| Times { call, string, round_trip };
        for noisy in [
            with(times(200.0, 900.0, 5000.0), FLOOR),     // nothing was added
            with(times(190.0, 1280.0, 6840.0), FLOOR),    // a negative cost
            with(times(460.0, 1280.0, 5000.0), FLOOR),    // the trip cost less than its calls
            with(times(460.0, 1280.0, 500_000.0), FLOOR), // something else ran all the time
            with(times(460.0, 900_000.0, 6840.0), FLOOR),
            with(times(f64::NAN, 1280.0, 6840.0), FLOOR),
            with(FULL, WITHOUT), // being asked cost nothing
            With { floor: None, ..with(FULL, FLOOR) },
        ] {
            assert_eq!(costs(Some(WITHOUT), &noisy), Costs::ASSUMED, "{noisy:?}");
        }
        assert_eq!(costs(None, &with(FULL, FLOOR)), Costs::ASSUMED);
    }

    #[test]
    fn strings_that_are_not_recorded_cost_nothing() {
        let full = Times { string: 1150.0, ..FULL };
        assert_eq!(costs(Some(WITHOUT), &with(full, FLOOR)).string, 0);
    }

    #[test]
    fn measured_again_within_reason() {
        let before = costs(Some(WITHOUT), &with(FULL, FLOOR));
        let again = before.again(480.0, 340.0).expect("a little more");
        assert_eq!((again.call, again.sched, again.call_floor), (280, 215, 140));
        for (recorded, left_out) in [(340.0, 480.0), (5000.0, 340.0), (f64::NAN, 340.0), (f64::INFINITY, 1.0)] {
            assert_eq!(before.again(recorded, left_out), None, "{recorded} {left_out}");
        }
    }

    #[test]
    fn the_loops_run_here() {
        let times = time().expect("times");
        assert!(times.call > 0.0 && times.string > times.call && times.round_trip > times.call, "{times:?}");
        assert_eq!(
            sched_getaffinity(Pid::from_raw(0)).unwrap(),
            Pinned::here().unwrap().0,
            "the affinity is as before"
        );
    }
}
