//! Triggers: what makes the recorder take a snapshot by itself.
//!
//! One thread looks at what is there anyway, every `interval`: the pages that were recorded since
//! ([`feed`]), the table of threads ([`threads`]), counters in /proc, and the lines that the kernel
//! logs ([`kernel_log`]). Nothing is added to the path of an event, and nothing wakes it. Each
//! trigger is a module that is given what was seen and says what it makes of it; whether that
//! becomes a snapshot is [`Snapshots::fire`]'s matter.

pub mod blocked;
mod calls;
pub mod crash;
pub mod errors;
pub mod feed;
pub mod kernel_log;
pub mod pressure;
mod quoted;
pub mod run_queue;
pub mod slow_call;
pub mod threads;
mod watch;

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;
use tracing::error;

use crate::config;
use crate::recording::Recording;
use crate::snapshots::Snapshots;
use watch::Watch;

/// The thread's name, as `ps -L` and the recording itself show it.
const NAME: &str = "flightd-watch";

/// Begins to watch. The receiver tells when the thread has died, which it never does by itself.
pub fn start(
    config: &config::Triggers,
    recording: Arc<Recording>,
    snapshots: Arc<Snapshots>,
) -> io::Result<oneshot::Receiver<()>> {
    let (alive, died) = oneshot::channel::<()>();
    if !config.enabled || !snapshots.is_on() {
        // Nobody watches, so nobody dies: what would be dropped lives as long as the process.
        std::mem::forget(alive);
        return Ok(died);
    }
    let mut watch = Watch::new(config, recording, snapshots);
    thread::Builder::new().name(NAME.into()).spawn(move || {
        watch.run();
        error!("the thread that watches for triggers has ended");
        drop(alive);
    })?;
    Ok(died)
}
