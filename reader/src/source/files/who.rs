//! All names that threads may have in a window, from the task lane and the tables of threads alone:
//! a question about a name that is not among them needs no other events.

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Body;
use flightrec_store::{Content, FileReader, Kind};
use rustc_hash::FxHashSet;

use super::load;
use crate::threads::{IDLE, idle_name, trim};

/// Most names that are held; where there are more, none are told.
const NAMES_MAX: usize = 1 << 16;
/// Most events of the task lane that are looked at: with more of them than that, looking costs as
/// much as it saves.
const EVENTS_MAX: u64 = 2_000_000;

/// CPUs that Linux has at most (`NR_CPUS_RANGE_END`, arch/x86/Kconfig).
const CPUS: usize = 8192;

/// The names that any thread may have in a window, that of a thread of which nothing is known
/// included.
#[derive(Debug)]
pub struct Names(FxHashSet<Box<[u8]>>);

impl Names {
    /// Of all that is in some files. `None`: something can't be read, or there is too much.
    pub(super) fn of(opened: &[&FileReader]) -> Option<Self> {
        let jobs: Vec<_> = load::jobs(opened)
            .filter(|job| job.block.header.kind == Kind::Pages)
            .filter(|job| job.block.header.lane == Some(Lane::Task))
            .collect();
        let events = jobs.iter().map(|job| job.block.header.events);
        if events.fold(0, u64::saturating_add) > EVENTS_MAX {
            return None;
        }
        let mut names = Self(FxHashSet::default());
        names.add(b"");
        names.add(trim(IDLE));
        (0..CPUS).for_each(|cpu| names.add(trim(&idle_name(cpu))));
        for job in &jobs {
            for (page, _) in job.reader.pages(job.block).ok()? {
                for event in page.events() {
                    match &event.body {
                        Body::Fork(fork) => names.add(trim(&fork.comm)),
                        Body::Exec { exec, .. } => names.add(trim(&exec.comm)),
                        Body::Rename(rename) => {
                            names.add(trim(&rename.old));
                            names.add(trim(&rename.new));
                        }
                        Body::TaskExit(exit) => names.add(trim(&exit.comm)),
                        _ => {}
                    }
                }
            }
            if names.0.len() > NAMES_MAX {
                return None;
            }
        }
        for reader in opened {
            for block in reader.of(Kind::Slots) {
                let Content::Slots(threads) = reader.read(block).ok()? else { return None };
                for thread in &threads {
                    names.add(trim(&thread.comm));
                }
                if names.0.len() > NAMES_MAX {
                    return None;
                }
            }
        }
        Some(names)
    }

    fn add(&mut self, name: &[u8]) {
        if !self.0.contains(name) {
            self.0.insert(name.into());
        }
    }

    /// Each once, in no order; any bytes, without NUL.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(AsRef::as_ref)
    }
}
