//! How many bytes of a ring an event takes, from the pages of the compile-like mix.

use anyhow::{Context, Result};
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::decode::Page;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::{Options, Recorder};
use nix::sys::signal::Signal;

use super::workload;

/// What a lane's pages hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Density {
    pub(super) lane: Lane,
    /// Whole pages, headers and what was left free at their ends included.
    pub(super) bytes: u64,
    pub(super) events: u64,
}

impl Density {
    /// Bytes an event; `None` without an event.
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.events != 0).then(|| self.bytes as f64 / self.events as f64)
    }
}

/// Records the mix without strings, into rings that hold it all. The headers count the events: of a
/// ring all pages but the newest, which is still being filled.
pub(super) fn measure(cpu: usize) -> Result<Vec<Density>> {
    let config = "[record]\nstrings = false\n[rings]\nsyscall = \"64MiB\"\nsched = \
                  \"64MiB\"\nmax_ram_percent = 50\n[budget]\ntotal = \"off\"\nper_cpu = \"off\"\n";
    let options =
        Options { config: config.into(), death_signal: Signal::SIGTERM, ..Options::default() };
    let mut recorder = Recorder::try_start(options)?;
    workload::mix(cpu, recorder.sandbox().root())?;
    let recording = LiveRings::open(&Generation::find(&recorder.sandbox().bpffs_dir())?, false)?;
    let mut lanes = Vec::new();
    for lane in Lane::RINGS {
        let mut density = Density { lane, bytes: 0, events: 0 };
        for cpu in recording.cpus() {
            let mut ends: Option<(Page, Page)> = None;
            for bytes in recording.pages(lane, cpu, 0, u64::MAX) {
                let page = Page::copy_from(&bytes).context("a page of the recording")?;
                let first = ends.map_or_else(|| page.clone(), |(first, _)| first);
                ends = Some((first, page));
            }
            let Some((first, last)) = ends else { continue };
            let counted = |page: &Page| page.header().events.iter().sum::<u64>();
            density.bytes += (last.header().seq - first.header().seq) * PAGE_SIZE as u64;
            density.events += counted(&last) - counted(&first);
        }
        lanes.push(density);
    }
    drop(recording);
    anyhow::ensure!(recorder.terminate()?.success(), "flightd failed:\n{}", recorder.log());
    Ok(lanes)
}
