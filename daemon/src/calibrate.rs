//! What an event costs on this machine: short loops on one CPU before the probes are attached and behind that. The
//! difference is all that the work loses, what it costs to be asked at all included.
//!
//! Loops run in short repetitions, of which the fastest counts: what else the machine does can only make one slower.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

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
    /// Whether they were measured here.
    pub measured: bool,
}

impl Costs {
    /// Where measuring gave nothing to believe: what README.md's table says of the machine that it was made on.
    pub const ASSUMED: Self = Self { call: 252, string: 115, sched: 174, measured: false };
    /// What can be, ns. A noisy moment can give anything, and must not shut the recorder up, or let it run free.
    const SANE: std::ops::RangeInclusive<f64> = 20.0..=10_000.0;
}

/// Least times of the loops, ns an operation.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    call: f64,
    string: f64,
    round_trip: f64,
}

/// How long one kind of loop may go on: a CPU that others keep busy must not hold up the start.
const LONGEST: Duration = Duration::from_millis(20);
/// System calls, switches and wakeups of a round trip between two threads.
const TRIP_CALLS: f64 = 4.0;
const TRIP_SCHED: f64 = 4.0;

/// Runs the loops: about 10 ms, at most 60 and a little. `None` where the system does not let this process.
pub fn time() -> Option<Times> {
    let run = || -> io::Result<Times> {
        let _pinned = Pinned::here()?;
        let mut byte = [0u8; 64];
        let call = least(50, 100, || {
            // SAFETY: there is no such descriptor, so nothing is written; the buffer has that length.
            black_box(unsafe { libc::read(-1, byte.as_mut_ptr().cast(), byte.len()) });
        });
        let string = least(20, 50, || {
            // SAFETY: a string with its NUL. The path is relative, and the folder's descriptor is none.
            black_box(unsafe { libc::faccessat(-1, c"flightrec/measures/what/an/event/costs".as_ptr(), 0, 0) });
        });
        Ok(Times { call, string, round_trip: round_trip()? })
    };
    run().inspect_err(|e| warn!(error = %e, "what events cost can't be measured")).ok()
}

/// What the probes added from one run of the loops to the other; assumed costs where that can't be.
pub fn costs(without: Option<Times>, with: Option<Times>) -> Costs {
    let costs = without.zip(with).and_then(|(without, with)| difference(&without, &with));
    if let Some(costs) = costs {
        info!(call = costs.call, string = costs.string, sched = costs.sched, "measured what events cost, ns");
    } else {
        warn!("what was measured of events' costs can't be: the machine is too busy; assuming usual ones");
    }
    costs.unwrap_or(Costs::ASSUMED)
}

fn difference(without: &Times, with: &Times) -> Option<Costs> {
    let call = with.call - without.call;
    let string = (with.string - without.string - call).max(0.0);
    let sched = (with.round_trip - without.round_trip - TRIP_CALLS * call) / TRIP_SCHED;
    let sane = |cost: &f64| Costs::SANE.contains(cost);
    // A string may cost nothing: where none are recorded.
    (sane(&call) && sane(&sched) && string <= *Costs::SANE.end()).then_some(Costs {
        call: call.round() as u32,
        string: string.round() as u32,
        sched: sched.round() as u32,
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
struct Pinned(CpuSet);

impl Pinned {
    fn here() -> io::Result<Self> {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this)?;
        let mut one = CpuSet::new();
        one.set(sched_getcpu()?)?;
        sched_setaffinity(this, &one)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(e) = sched_setaffinity(Pid::from_raw(0), &self.0) {
            warn!(error = %e, "this thread stays on one CPU");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHOUT: Times = Times { call: 200.0, string: 900.0, round_trip: 5000.0 };

    #[test]
    fn costs_are_what_was_added() {
        let with = Times { call: 460.0, string: 1280.0, round_trip: 6840.0 };
        let costs = costs(Some(WITHOUT), Some(with));
        assert_eq!(costs, Costs { call: 260, string: 120, sched: 200, measured: true });
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let with = |call, string, round_trip| Some(Times { call, string, round_trip });
        for noisy in [
            with(200.0, 900.0, 5000.0),     // nothing was added
            with(190.0, 1280.0, 6840.0),    // a negative cost
            with(460.0, 1280.0, 5000.0),    // the trip cost less than its calls
            with(460.0, 1280.0, 500_000.0), // something else ran all the time
            with(460.0, 900_000.0, 6840.0),
            with(f64::NAN, 1280.0, 6840.0),
            None,
        ] {
            assert_eq!(costs(Some(WITHOUT), noisy), Costs::ASSUMED, "{noisy:?}");
        }
        assert_eq!(costs(None, Some(WITHOUT)), Costs::ASSUMED);
    }

    #[test]
    fn strings_that_are_not_recorded_cost_nothing() {
        let with = Times { call: 460.0, string: 1150.0, round_trip: 6840.0 };
        assert_eq!(costs(Some(WITHOUT), Some(with)).string, 0);
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
