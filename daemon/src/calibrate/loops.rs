//! The loops: short repetitions, of which the fastest counts, since what else the machine does can
//! only make one slower. Beside each run the clock is read in a loop of its own: two runs are alike
//! where that took as long, and a machine is crowded where it takes longer than it did.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use tracing::warn;

/// Least times of the loops, ns an operation.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// A system call.
    pub call: f64,
    /// One with a string.
    pub string: f64,
    /// A byte to another thread and back.
    pub round_trip: f64,
    /// Reading the clock, which no probe sees.
    pub clock: f64,
}

/// Times of an own system call beside a recording, ns.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    /// Recorded.
    pub recorded: f64,
    /// Left out, as own calls are.
    pub left_out: f64,
    /// Reading the clock.
    pub clock: f64,
}

/// How long one kind of loop may go on: a CPU that others keep busy must not hold up the start.
const LONGEST: Duration = Duration::from_millis(20);
/// Runs of the loops, at most.
const RUNS: usize = 3;
/// Two runs whose clocks differ by less than this are alike.
pub(super) const ALIKE: f64 = 1.3;

impl Times {
    /// The least of either.
    fn least(self, other: Self) -> Self {
        Self {
            call: self.call.min(other.call),
            string: self.string.min(other.string),
            round_trip: self.round_trip.min(other.round_trip),
            clock: self.clock.min(other.clock),
        }
    }
}

/// Runs the loops: twice, or up to three times where the clock takes longer than in the run `like`
/// which this one is to be compared with. About 10 ms a time, at most 80 and a little. `None` where
/// the system does not let this process.
pub fn time(like: Option<&Times>) -> Option<Times> {
    let run = || -> io::Result<Times> {
        let _pinned = Pinned::here()?;
        let clock = time_clock();
        let call = time_call();
        let string = least(200, 8, || {
            // SAFETY: a string with its NUL. The path is relative, and the folder's descriptor is
            // none.
            black_box(unsafe {
                libc::faccessat(-1, c"flightrec/measures/what/an/event/costs".as_ptr(), 0, 0)
            });
        });
        Ok(Times { call, string, round_trip: round_trip()?, clock })
    };
    let mut best: Option<Times> = None;
    for n in 1..=RUNS {
        let times = run().inspect_err(|e| warn!("event costs can't be measured: {e}")).ok()?;
        let least = best.map_or(times, |best| best.least(times));
        best = Some(least);
        if n > 1 && like.is_none_or(|like| least.clock < like.clock * ALIKE) {
            break;
        }
    }
    best
}

/// Times the reading of the clock; ns. About 0.1 ms, at most 20 and a little.
pub fn time_clock() -> f64 {
    least(100, 25, || {
        black_box(Instant::now());
    })
}

/// Times the call alone, on the CPU where this thread is; ns. About 1 ms, at most 20 and a little.
pub fn time_call() -> f64 {
    call(250, 20)
}

/// The same by 400 calls, which hardly show in a ring.
pub fn time_call_briefly() -> f64 {
    call(20, 20)
}

/// What a call usually takes beside what else goes on: the median of as short a time; ns.
pub fn time_call_usually() -> f64 {
    median(&mut repeated(20, 20, one_call))
}

fn call(repetitions: u32, loops: u32) -> f64 {
    least(repetitions, loops, one_call)
}

fn one_call() {
    let mut byte = [0u8; 64];
    // SAFETY: there is no such descriptor, so nothing is written; the buffer has that length.
    black_box(unsafe { libc::read(-1, byte.as_mut_ptr().cast(), byte.len()) });
}

/// The least time of one operation, in ns, of so many repetitions of a loop; of fewer where they
/// take long.
fn least(repetitions: u32, loops: u32, once: impl FnMut()) -> f64 {
    repeated(repetitions, loops, once).into_iter().fold(f64::INFINITY, f64::min)
}

/// The time of one operation, in ns, in each of so many repetitions of a loop; of fewer where they
/// take long.
fn repeated(repetitions: u32, loops: u32, mut once: impl FnMut()) -> Vec<f64> {
    let mut times = Vec::with_capacity(repetitions as usize);
    let began = Instant::now();
    for _ in 0..repetitions {
        let start = Instant::now();
        if start - began > LONGEST {
            break;
        }
        for _ in 0..loops {
            once();
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(loops));
    }
    times
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
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
        let ns = least(300, 2, || {
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
