//! The quiet ring: what quiet processes did, kept in the kernel's memory when a flood writes over
//! the rings.
//!
//! A thread of its own looks at the rings as the drain does. Where pages are to be written over
//! soon (they are in the older half of a ring that goes round), it copies what is kept of them into
//! pages of the quiet ring ([`flightrec_format::kept`]), so that a panic still shows the last
//! minute of every process that is not a flooder. On a machine whose rings hold minutes it has
//! nothing to do.
//!
//! Who is kept is decided for a stretch of a ring at a time (`census`): those who did least, as
//! many as the quiet ring has room for at a rate that makes it hold `ring::HORIZON_NS`.

mod census;
mod processes;
mod ring;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use flightrec_format::abi::page::{Lane, RING_LANES};
use flightrec_format::live;
use tokio::sync::oneshot;
use tracing::debug;

use crate::clock;
use crate::drain::pacing::{Pace, Sight};
use crate::recording::Recording;
use processes::Processes;
use ring::{Area, Ring};

/// The thread's name, as `ps -L` and the recording itself show it.
const NAME: &str = "flightd-quiet";
/// Nice value of the thread. It does little, but in time, or the rings are written over: also where
/// many busy threads want the CPUs.
const NICE: i32 = -10;
/// Nothing is to be done by the clock alone.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// The thread, where the recording has a quiet ring.
#[derive(Debug)]
pub struct Quiet {
    running: Option<Running>,
    /// Where it has none: what the thread would drop when it dies.
    _nobody: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Running {
    /// Dropped, it ends.
    stop: Sender<()>,
    done: Receiver<()>,
}

impl Quiet {
    /// Begins to keep; nothing, where the recording has no quiet ring. The receiver tells when the
    /// thread has died, which it never does by itself.
    pub fn start(recording: Arc<Recording>) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (alive, died) = oneshot::channel();
        let rings = rings(recording.live(), recording.meta().quiet_bytes);
        if rings.is_empty() {
            return Ok((Self { running: None, _nobody: Some(alive) }, died));
        }
        let (stop, stopped) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        thread::Builder::new().name(NAME.into()).spawn(move || {
            run(recording.live(), rings, &stopped);
            drop((finished, alive));
        })?;
        Ok((Self { running: Some(Running { stop, done }), _nobody: None }, died))
    }

    /// Ends it.
    pub fn finish(self) {
        let Some(Running { stop, done }) = self.running else { return };
        drop(stop);
        // It says nothing, and only ends.
        let _ = done.recv_timeout(Duration::from_secs(5));
    }
}

/// Each ring with its part of the quiet ring.
fn rings(live: &live::LiveRings, quiet_bytes: u64) -> Vec<Ring> {
    let cpus = live.cpus();
    let places = if quiet_bytes == 0 { 0 } else { live.quiet_pages() };
    let of_cpu = places / cpus.len().max(1);
    let mut rings = Vec::new();
    for (i, cpu) in cpus.into_iter().enumerate() {
        let mut first = i * of_cpu;
        for (lane, places) in Lane::RINGS.into_iter().zip(shares(of_cpu)) {
            let area = Area { first, places };
            first += places;
            if places >= 2 && live.ring_pages(lane, cpu) >= ring::LEAST_PAGES {
                rings.push(Ring::new(live, lane, cpu, area));
            }
        }
    }
    rings
}

/// How the pages of a CPU's quiet ring are parted among its rings, by lane. What devices do is
/// mostly told in interrupts, by whichever process runs there: it can't be left out by process.
fn shares(pages: usize) -> [usize; RING_LANES] {
    let (syscall, task) = (pages / 2, pages / 8);
    [syscall, pages - syscall - task, task, 0]
}

/// Has the thread run before others, as far as its user may (`LimitNICE=` of the unit).
fn step_forward() {
    // SAFETY: no memory is involved; 0 is the calling thread (setpriority(2), "C library/kernel
    // differences").
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        debug!("the quiet ring thread keeps its priority: {}", io::Error::last_os_error());
    }
}

fn run(live: &live::LiveRings, mut rings: Vec<Ring>, stopped: &Receiver<()>) {
    step_forward();
    let mut pace = Pace::new(NEVER);
    let mut processes = Processes::default();
    loop {
        let sights: Vec<Sight> = rings.iter().map(|ring| ring.sight(live)).collect();
        let step = pace.step(clock::mono(), clock::mono(), &sights);
        if step.round {
            processes.update(live);
            rings
                .iter_mut()
                .filter(|ring| ring.is_due(live))
                .for_each(|ring| ring.pass(live, &processes));
        }
        match stopped.recv_timeout(step.sleep) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}
