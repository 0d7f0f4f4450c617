//! The thread that waits for the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use flightrec_store::{SyncJob, Synced};

use crate::clock;

/// Does one job after the other. The thread ends when this value goes, and the job that it is at is
/// done.
#[derive(Debug)]
pub(super) struct Syncer {
    jobs: Sender<SyncJob>,
    done: Receiver<Synced>,
    cpu: Arc<AtomicU64>,
}

impl Syncer {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel::<SyncJob>();
        let (finished, done) = mpsc::channel();
        let cpu = Arc::new(AtomicU64::new(0));
        let used = cpu.clone();
        thread::Builder::new().name("flightd-sync".into()).spawn(move || {
            for job in todo {
                let synced = job.run();
                used.store(clock::thread_cpu(), Ordering::Relaxed);
                if finished.send(synced).is_err() {
                    return; // nobody drains any more
                }
            }
        })?;
        Ok(Self { jobs, done, cpu })
    }

    /// Takes a job; `false` where the thread has died.
    pub(super) fn start_job(&self, job: SyncJob) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// What came of a job, if one is done.
    pub(super) fn finished(&self) -> Option<Synced> {
        self.done.try_recv().ok()
    }

    /// CPU time that the thread has used, ns.
    pub(super) fn cpu(&self) -> u64 {
        self.cpu.load(Ordering::Relaxed)
    }
}
