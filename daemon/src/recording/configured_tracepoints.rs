//! The tracepoints of a recording that the configuration names.
//!
//! One pinned program is linked to each, with the tracepoint's number in the recording as its
//! cookie. The links are pinned beside the others as `tracepoint-NUMBER`. A number means one
//! tracepoint, with one condition, for as long as the recording lives: what changes gets another
//! one, so that every event finds its description.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use flightrec_format::abi::tracepoint::{
    TRACEPOINTS, TracepointCount, TracepointCounts, TracepointPlan,
};
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::sys;
use flightrec_format::meta::{Lacking, Tracepoint};
use tracing::{info, warn};

use super::Recording;
use crate::attachments::TRACEPOINT_PROGRAM;
use crate::configured_tracepoints::{self, ConfiguredTracepoint, Prepared};
use crate::load::{TRACEPOINT_COUNTS, TRACEPOINT_PLANS};
use crate::{clock, tracepoint_link};

/// What the metadata's names of lacking programs begin with.
const LACKING: &str = "tracepoint ";
/// For how long it is tried to attach the program where it still is attached: the kernel detaches a
/// little later than a link's pin is removed (`bpf_link_put`, kernel/bpf/syscall.c).
const DETACHES_WITHIN: Duration = Duration::from_secs(2);

impl Recording {
    /// Has these tracepoints recorded, and no others that the configuration named. What can't be
    /// is told in the log and in the metadata, and keeps nothing else from being recorded.
    pub(super) fn set_tracepoints(&self, wanted: &[ConfiguredTracepoint]) {
        let _setting = self.tracing.lock().unwrap_or_else(PoisonError::into_inner);
        let meta = self.meta();
        if meta.lacking.iter().any(|of| of.program == TRACEPOINT_PROGRAM) {
            return;
        }
        let is_wanted = |of: &Tracepoint| {
            wanted.iter().any(|table| is_same(table, of)) && self.tracepoint_pin(of.id).exists()
        };
        let present = || meta.tracepoints.iter().filter(|of| of.until == 0);
        let mut gone = Vec::new();
        for of in present().filter(|of| !is_wanted(of)) {
            match fs::remove_file(self.tracepoint_pin(of.id)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    warn!("the tracepoint {} could not be detached: {e}", of.name);
                }
                _ => info!("the tracepoint {} is no longer recorded", of.name),
            }
            gone.push(of.id);
        }
        let is_there =
            |table: &ConfiguredTracepoint| present().any(|of| is_same(table, of) && is_wanted(of));
        let mut lacking = Vec::new();
        let mut new = Vec::new();
        let mut id = meta.tracepoints.iter().map(|of| of.id + 1).max().unwrap_or(0);
        for table in wanted.iter().filter(|table| !is_there(table)) {
            match self.prepare_tracepoint(table, id) {
                Ok(prepared) => {
                    new.push((id, prepared));
                    id += 1;
                }
                Err(why) => lacking.push(lacks(&table.event, why)),
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
                Ok(()) => self.attach_tracepoint(id, &prepared),
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
            warn!("the recording's metadata do not tell what became of [[tracepoint]]: {e}");
        }
    }

    /// Looks a tracepoint up, and tells the program of it.
    fn prepare_tracepoint(
        &self,
        table: &ConfiguredTracepoint,
        id: u16,
    ) -> Result<Prepared, String> {
        if usize::from(id) >= TRACEPOINTS {
            return Err(format!(
                "a recording has {TRACEPOINTS} of them at most, in the course of time: restart \
                 flightd"
            ));
        }
        let published = match configured_tracepoints::look_up(&self.tracefs, &table.event) {
            Ok(published) => published,
            // Root has looked it up for this daemon, if it was configured then.
            Err(e) => self.published.get(&table.event).cloned().unwrap_or_else(|| {
                Err(format!(
                    "{e}; where flightd is a service, restart it, so that root looks it up"
                ))
            }),
        };
        let prepared = configured_tracepoints::prepare(table, &published?);
        let prepared = prepared.map_err(|wrong| format!("{}: {}", wrong.key, wrong.message))?;
        let path = self.map_path(TRACEPOINT_PLANS);
        let map = ArrayMap::open(&path, true).map_err(|e| format!("{}: {e}", path.display()))?;
        if map.write(id.into(), 0, bytes_of(&prepared.event)) {
            Ok(prepared)
        } else {
            Err(format!("{}: it is shorter than it should be", path.display()))
        }
    }

    /// Attaches the program to a tracepoint that it was told of.
    fn attach_tracepoint(&self, id: u16, prepared: &Prepared) -> Result<(), String> {
        let program = self.programs().join(TRACEPOINT_PROGRAM);
        let program = sys::obj_get(&program).map_err(|e| format!("{}: {e}", program.display()))?;
        let (name, pin) = (&prepared.described.name, self.tracepoint_pin(id));
        let began = Instant::now();
        loop {
            let (kernel, cookie) = (prepared.id, u64::from(id));
            let attached = tracepoint_link::attach(program.as_fd(), name, kernel, cookie, &pin);
            let Err(e) = attached else { return Ok(()) };
            let is_there = e.raw_os_error() == Some(libc::EEXIST);
            if !is_there || began.elapsed() > DETACHES_WITHIN {
                return Err(refusal(&e));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where the link of a tracepoint is pinned.
    fn tracepoint_pin(&self, id: u16) -> PathBuf {
        self.dir.join("links").join(configured_tracepoints::pin(id))
    }

    /// The tracepoints that are recorded, and what became of their events on all CPUs.
    pub fn tracepoint_counts(&self) -> Vec<(Tracepoint, TracepointCount)> {
        let meta = self.meta();
        let present = meta.tracepoints.iter().filter(|of| of.until == 0);
        let Ok(map) = ArrayMap::open(&self.map_path(TRACEPOINT_COUNTS), false) else {
            return Vec::new();
        };
        let map = map.in_values(size_of::<TracepointCounts>());
        let counted = |of: &Tracepoint| {
            let at = usize::from(of.id) * size_of::<TracepointCount>();
            let mut sum = TracepointCount::default();
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
fn is_same(table: &ConfiguredTracepoint, of: &Tracepoint) -> bool {
    let when = table.when.as_deref().unwrap_or_default();
    (&*table.event, when, table.stack) == (&*of.name, &*of.when, of.stack)
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

fn bytes_of(event: &TracepointPlan) -> &[u8] {
    // SAFETY: plain integers without padding (its size is pinned in format::abi::tracepoint).
    unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(event).cast::<u8>(),
            size_of::<TracepointPlan>(),
        )
    }
}
