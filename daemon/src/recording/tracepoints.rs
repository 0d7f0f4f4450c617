//! The tracepoints of a recording that the configuration names.
//!
//! One pinned program is linked to each, with the tracepoint's number in the recording as its
//! cookie. The links are pinned beside the others as `trace-NUMBER`. A number means one tracepoint,
//! with one condition, for as long as the recording lives: what changes gets another one, so that
//! every event finds its description.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use flightrec_format::abi::trace::{TRACEPOINTS, TraceCount, TraceCounts, TraceEvent};
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::sys;
use flightrec_format::meta::{Lacking, Tracepoint};
use tracing::{info, warn};

use super::Recording;
use crate::attachments::TRACE_EVENT;
use crate::load::{TRACE_COUNTS, TRACE_EVENTS};
use crate::traces::{self, Prepared, Trace};
use crate::{clock, tracepoint};

/// What the metadata's names of lacking programs begin with.
const LACKING: &str = "tracepoint ";
/// For how long it is tried to attach the program where it still is attached: the kernel detaches a
/// little later than a link's pin is removed (`bpf_link_put`, kernel/bpf/syscall.c).
const DETACHES_WITHIN: Duration = Duration::from_secs(2);

impl Recording {
    /// Has these tracepoints recorded, and no others that the configuration named. What can't be
    /// is told in the log and in the metadata, and keeps nothing else from being recorded.
    pub(super) fn set_traces(&self, wanted: &[Trace]) {
        let _setting = self.tracing.lock().unwrap_or_else(PoisonError::into_inner);
        let meta = self.meta();
        if meta.lacking.iter().any(|of| of.program == TRACE_EVENT) {
            return;
        }
        let is_wanted = |of: &Tracepoint| {
            wanted.iter().any(|trace| is_same(trace, of)) && self.trace_pin(of.id).exists()
        };
        let present = || meta.tracepoints.iter().filter(|of| of.until == 0);
        let mut gone = Vec::new();
        for of in present().filter(|of| !is_wanted(of)) {
            match fs::remove_file(self.trace_pin(of.id)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    warn!("the tracepoint {} could not be detached: {e}", of.name);
                }
                _ => info!("the tracepoint {} is no longer recorded", of.name),
            }
            gone.push(of.id);
        }
        let is_there = |trace: &Trace| present().any(|of| is_same(trace, of) && is_wanted(of));
        let mut lacking = Vec::new();
        let mut new = Vec::new();
        let mut id = meta.tracepoints.iter().map(|of| of.id + 1).max().unwrap_or(0);
        for trace in wanted.iter().filter(|trace| !is_there(trace)) {
            match self.prepare_trace(trace, id) {
                Ok(prepared) => {
                    new.push((id, prepared));
                    id += 1;
                }
                Err(why) => lacking.push(lacks(&trace.event, why)),
            }
        }
        // What describes them comes first, so that none of their events is without.
        let now = clock::mono();
        let told = self.update_meta(|meta| {
            for of in meta.tracepoints.iter_mut().filter(|of| gone.contains(&of.id)) {
                of.until = now;
            }
            let described = new.iter().map(|(id, prepared)| Tracepoint {
                id: *id,
                since: now,
                ..prepared.described.clone()
            });
            meta.tracepoints.extend(described);
        });
        let mut failed = Vec::new();
        for (id, prepared) in new {
            let name = &prepared.described.name;
            let attached = match &told {
                Ok(()) => self.attach_trace(id, &prepared),
                Err(e) => Err(e.to_string()),
            };
            match attached {
                Ok(()) => info!("recording the tracepoint {name}"),
                Err(why) => {
                    lacking.push(lacks(name, why));
                    failed.push(id);
                }
            }
        }
        for Lacking { what, why, .. } in &lacking {
            warn!(lacking = what, "not recorded: {what} ({why})");
        }
        let told = self.update_meta(|meta| {
            // A number is not used again.
            for of in meta.tracepoints.iter_mut().filter(|of| failed.contains(&of.id)) {
                of.until = now;
            }
            meta.lacking.retain(|of| !of.program.starts_with(LACKING));
            meta.lacking.extend(lacking);
        });
        if let Err(e) = told {
            warn!("the recording's metadata do not tell what became of [[trace]]: {e}");
        }
    }

    /// Looks a tracepoint up, and tells the program of it.
    fn prepare_trace(&self, trace: &Trace, id: u16) -> Result<Prepared, String> {
        if usize::from(id) >= TRACEPOINTS {
            return Err(format!(
                "a recording has {TRACEPOINTS} of them at most, in the course of time: restart \
                 flightd"
            ));
        }
        let published = match traces::look_up(&self.tracefs, &trace.event) {
            Ok(published) => published,
            // Root has looked it up for this daemon, if it was configured then.
            Err(e) => self.published.get(&trace.event).cloned().unwrap_or_else(|| {
                Err(format!(
                    "{e}; where flightd is a service, restart it, so that root looks it up"
                ))
            }),
        };
        let prepared = traces::prepare(trace, &published?);
        let prepared = prepared.map_err(|wrong| format!("{}: {}", wrong.key, wrong.message))?;
        let path = self.map_path(TRACE_EVENTS);
        let map = ArrayMap::open(&path, true).map_err(|e| format!("{}: {e}", path.display()))?;
        if map.write(id.into(), 0, bytes_of(&prepared.event)) {
            Ok(prepared)
        } else {
            Err(format!("{}: it is shorter than it should be", path.display()))
        }
    }

    /// Attaches the program to a tracepoint that it was told of.
    fn attach_trace(&self, id: u16, prepared: &Prepared) -> Result<(), String> {
        let program = self.programs().join(TRACE_EVENT);
        let program = sys::obj_get(&program).map_err(|e| format!("{}: {e}", program.display()))?;
        let (name, pin) = (&prepared.described.name, self.trace_pin(id));
        let began = Instant::now();
        loop {
            let (kernel, cookie) = (prepared.id, u64::from(id));
            let attached = tracepoint::attach(program.as_fd(), name, kernel, cookie, &pin);
            let Err(e) = attached else { return Ok(()) };
            let is_there = e.raw_os_error() == Some(libc::EEXIST);
            if !is_there || began.elapsed() > DETACHES_WITHIN {
                return Err(refusal(&e));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where the link of a tracepoint is pinned.
    fn trace_pin(&self, id: u16) -> PathBuf {
        self.dir.join("links").join(traces::pin(id))
    }

    /// The tracepoints that are recorded, and what became of their events on all CPUs.
    pub fn trace_counts(&self) -> Vec<(Tracepoint, TraceCount)> {
        let meta = self.meta();
        let present = meta.tracepoints.iter().filter(|of| of.until == 0);
        let Ok(map) = ArrayMap::open(&self.map_path(TRACE_COUNTS), false) else {
            return Vec::new();
        };
        let map = map.in_values(size_of::<TraceCounts>());
        let counted = |of: &Tracepoint| {
            let at = usize::from(of.id) * size_of::<TraceCount>();
            let mut sum = TraceCount::default();
            for cpu in 0..map.entries() {
                let word = |i: usize| map.load(cpu, at + 8 * i);
                sum.recorded = sum.recorded.saturating_add(word(0));
                sum.refused = sum.refused.saturating_add(word(1));
                sum.left_out = sum.left_out.saturating_add(word(2));
            }
            (of.clone(), sum)
        };
        present.map(counted).collect()
    }
}

/// Whether a tracepoint is recorded as a table says.
fn is_same(trace: &Trace, of: &Tracepoint) -> bool {
    let when = trace.when.as_deref().unwrap_or_default();
    (&*trace.event, when, trace.stack) == (&*of.name, &*of.when, of.stack)
}

fn lacks(event: &str, why: String) -> Lacking {
    Lacking {
        program: format!("{LACKING}{event}"),
        what: format!("the tracepoint {event}"),
        kinds: vec!["tracepoint".into()],
        why,
    }
}

/// Why the kernel does not attach the program.
fn refusal(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EINVAL) => format!("the kernel attaches no BPF program to it: {e}"),
        Some(libc::E2BIG) => format!("too many programs are attached to it: {e}"),
        // As the kernel refuses it, or keeps perf events for root, or flightd has given them up.
        Some(libc::EPERM | libc::EACCES) => format!(
            "the kernel attaches no BPF program to it: {e}; where flightd runs as a service, or \
             had no tracepoints when it started, restart it"
        ),
        _ => e.to_string(),
    }
}

fn bytes_of(event: &TraceEvent) -> &[u8] {
    // SAFETY: plain integers without padding (its size is pinned in format::abi::trace).
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(event).cast::<u8>(), size_of::<TraceEvent>())
    }
}
