//! `flightctl ps`

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::vmcore::WITHOUT_TABLE;
use crate::announce::announce;
use crate::exit::Exit;
use crate::fds::Fds;
use crate::human::counted;
use crate::in_flight;
use crate::output::{Output, note};
use crate::plan::PsPlan;
use crate::ps::{self, HEAD, without_place};
use crate::schema::Versioned;
use crate::source::{self, Recording, Source, VmcoreSource};
use crate::text::{Options, Renderer};
use crate::window::Window;
use crate::window::with_leads;

/// Shows the threads that are blocked now.
pub fn run(plan: &PsPlan) -> Result<Exit> {
    let Some(file) = &plan.vmcore else {
        let mut source = source::open(&plan.origin)?;
        let now = source.clock().now;
        // The table of threads comes with any window.
        let mut recording = source.read(Window { from: now, until: now })?;
        let mut missing = None;
        if recording.misplaced() != 0
            && let Some(before) = without_place::alive()
        {
            recording = source.read(Window { from: now, until: now })?;
            missing = without_place::alive()
                .map(|after| without_place::missing(&before, &recording.slots, &after));
        }
        return show(plan, &recording, now, missing.as_deref());
    };
    let mut source = VmcoreSource::open(file, plan.session, &plan.state_dir)?;
    announce(&source, &crate::zone::system());
    let now = source.clock().now;
    // What descriptors stand for is known from the events before.
    let recording =
        source.read(with_leads(Window { from: now.saturating_sub(NAMING_NS), until: now }))?;
    if recording.slots.is_empty() {
        note(WITHOUT_TABLE);
    }
    let missing = (recording.misplaced() != 0).then(|| in_flight::without_place(&recording));
    show(plan, &recording, now, missing.as_deref())
}

/// How far back opened descriptors are looked for in a dump, ns.
const NAMING_NS: u64 = 10_000_000_000;

/// The threads that are blocked at `now`; `missing`: those that are not in the table, where that is
/// known.
fn show(plan: &PsPlan, recording: &Recording, now: u64, missing: Option<&[u32]>) -> Result<Exit> {
    // The counters were read last; a thread may have blocked since `now`.
    let now = now.max(recording.totals.now);
    let mut threads = ps::blocked(recording, plan, now);
    let fds = Fds::at_end(recording);
    for thread in &mut threads {
        thread.name_descriptors(&fds);
    }
    let mut output = Output::standard();
    let colour = output.colours(plan.color, std::env::var_os("NO_COLOR").as_deref());
    let renderer = Renderer::new(&recording.meta, Options { colour, ..Options::default() });
    let mut text = Vec::new();
    if plan.json {
        let threads = threads.iter().map(|thread| thread.json(&renderer)).collect();
        serde_json::to_writer_pretty(
            &mut text,
            &Versioned::new(Document {
                mono_ns: now,
                threads,
                disputed_by: source::anchor::hex(&recording.disputed_by),
                without_place: missing.unwrap_or_default().to_vec(),
            }),
        )?;
        text.push(b'\n');
    } else if !threads.is_empty() {
        text.extend_from_slice(HEAD.as_bytes());
        for thread in &threads {
            thread.line(&renderer, &mut text);
        }
    }
    output.write_all(&text).and_then(|()| output.flush()).map_err(|e| output.explain(e))?;
    tell_missing(recording, missing);
    Ok(if threads.is_empty() { Exit::Nothing } else { Exit::Fine })
}

/// Says which threads the table has no place for, as far as that is known.
pub(super) fn tell_missing(recording: &Recording, missing: Option<&[u32]>) {
    let lost = recording.misplaced();
    if let Some(said) = without_place::said(missing.unwrap_or_default()) {
        note(&said);
    } else if lost != 0 && missing.is_none() {
        let times = counted(lost, "time");
        note(&format!(
            "the thread table had no room {times}: threads may be missing; raise threads.slots in \
             flightd.toml"
        ));
    }
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
    /// Threads that are alive and have no place in the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_place: Vec<u32>,
}
