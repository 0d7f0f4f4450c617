//! `flightctl ps`

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::vmcore::{WITHOUT_TABLE, announce};
use crate::exit::Exit;
use crate::fds::Fds;
use crate::human::counted;
use crate::output::{Output, note};
use crate::pipeline::with_leads;
use crate::plan::PsPlan;
use crate::ps::{self, HEAD};
use crate::source::{self, Recording, Source, VmcoreSource};
use crate::text::{Options, Renderer};
use crate::window::Window;

/// Shows the threads that are blocked now.
pub fn run(plan: &PsPlan) -> Result<Exit> {
    let Some(file) = &plan.vmcore else {
        let mut source = source::open(&plan.origin)?;
        let now = source.clock().now;
        // The table of threads comes with any window.
        let recording = source.read(Window { from: now, until: now })?;
        return show(plan, &recording, now);
    };
    let mut source = VmcoreSource::open(file, plan.session, &plan.state_dir)?;
    announce(&source, &crate::zone::system());
    let now = source.clock().now;
    // What descriptors stand for is known from the events before.
    let recording = source.read(with_leads(Window { from: now.saturating_sub(NAMING_NS), until: now }))?;
    if recording.slots.is_empty() {
        note(WITHOUT_TABLE);
    }
    show(plan, &recording, now)
}

/// How far back opened descriptors are looked for in a dump, ns.
const NAMING_NS: u64 = 10_000_000_000;

/// The threads that are blocked at `now`.
fn show(plan: &PsPlan, recording: &Recording, now: u64) -> Result<Exit> {
    // The counters were read last; a thread may have blocked since `now`.
    let now = now.max(recording.totals.now);
    let mut threads = ps::blocked(recording, plan, now);
    let fds = Fds::at_end(recording);
    for thread in &mut threads {
        thread.name_descriptors(&fds);
    }
    let renderer = Renderer::new(&recording.meta, Options::default());
    let mut text = Vec::new();
    if plan.json {
        let threads = threads.iter().map(|thread| thread.json(&renderer)).collect();
        serde_json::to_writer_pretty(
            &mut text,
            &Document { mono_ns: now, threads, disputed_by: source::anchor::hex(&recording.disputed_by) },
        )?;
        text.push(b'\n');
    } else if !threads.is_empty() {
        text.extend_from_slice(HEAD.as_bytes());
        for thread in &threads {
            thread.line(&renderer, &mut text);
        }
    }
    let mut output = Output::open(None)?;
    output.write_all(&text).and_then(|()| output.flush()).map_err(|e| output.explain(e))?;
    let lost = recording.totals.slot_collisions;
    if lost != 0 {
        let times = counted(lost, "time");
        note(&format!(
            "the thread table had no room {times}: threads may be missing; raise threads.slots in flightd.toml"
        ));
    }
    Ok(if threads.is_empty() { Exit::Nothing } else { Exit::Fine })
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<T> {
    /// When, ns of `CLOCK_MONOTONIC`.
    mono_ns: u64,
    /// The worst first.
    threads: Vec<T>,
    /// Of a kernel dump: recordings that claim as much as this one, while nothing decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disputed_by: Vec<String>,
}
