//! Finding the pages of recordings, by all CPUs.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use flightrec_format::decode::PageError;
use flightrec_format::decode::page::read_header;
use flightrec_format::identity::PublicIds;

use crate::dump::Dump;
use crate::error::VmcoreError;
use crate::layout::{Memory, Shortfall, Unit};
use crate::page_ref::PageRef;
use crate::session::{self, Session};

/// Most pages of recordings that are taken: 8 GiB of them, for whose index 128 MiB of memory are
/// needed.
pub const PAGES_MAX: usize = 2 << 20;

/// What a scan found.
#[derive(Debug)]
pub struct Scan {
    /// Recordings, the newest first; those whose description is whole before the others.
    pub sessions: Vec<Session>,
    /// Pages with the magic that can't be read.
    pub rejected: Rejected,
    /// What of the dump was not there to be looked at.
    pub shortfall: Shortfall,
}

/// Pages with the magic that can't be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rejected {
    /// Of another version of the page format.
    pub version: u64,
    /// Of a lane that this release does not know.
    pub lane: u64,
    /// Damaged, or something else that happens to begin with the magic.
    pub damaged: u64,
}

impl Rejected {
    fn add(&mut self, other: Self) {
        self.version += other.version;
        self.lane += other.lane;
        self.damaged += other.damaged;
    }
}

/// What one thread found.
#[derive(Default)]
struct Part {
    pages: Vec<PageRef>,
    rejected: Rejected,
    shortfall: Shortfall,
    ids: PublicIds,
}

impl Dump {
    /// Looks at all memory in the dump, by `threads` threads (`None`: one for each CPU). `progress`
    /// is told the bytes of memory done, as they are done, out of [`Dump::bytes`].
    pub fn scan(
        &self,
        threads: Option<NonZero<usize>>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Scan, VmcoreError> {
        let threads =
            threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
        let units = Mutex::new(self.layout.units());
        let found = AtomicUsize::new(0);
        let next = || units.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || self.work(&next, &found, progress);
        let mut whole = thread::scope(|scope| {
            // Where no more threads can be had, those that there are do it.
            let others: Vec<_> = (1..threads)
                .map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let mut whole = work();
            for other in others {
                match other.join() {
                    Ok(part) => whole.add(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            whole
        });
        if found.into_inner() > PAGES_MAX {
            let remedy = "no machine records as much; the file is not a dump of one";
            return Err(VmcoreError::TooMany {
                what: "pages of recordings",
                limit: PAGES_MAX,
                remedy,
            });
        }
        whole.shortfall.add(self.shortfall());
        // A container that is cut has places without data, which read as zeros.
        whole.shortfall.cut += u64::from(self.is_cut() && whole.shortfall.cut == 0);
        let sessions = session::all(whole.pages, &mut self.reader());
        Ok(Scan { sessions, rejected: whole.rejected, shortfall: whole.shortfall })
    }

    /// One thread's share.
    fn work(
        &self,
        next: &dyn Fn() -> Option<Unit>,
        found: &AtomicUsize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Part {
        let mut part = Part::default();
        let mut scanner = self.layout.scanner();
        while let Some(unit) = next() {
            let before = part.pages.len();
            let scanned = scanner.scan(unit, &mut |place, bytes| part.take(place, bytes));
            part.shortfall.add(scanned.shortfall);
            progress(scanned.bytes);
            let more = part.pages.len() - before;
            // What is said of the limit is said by who counts them all.
            if found.fetch_add(more, Ordering::Relaxed) + more > PAGES_MAX {
                break;
            }
        }
        part
    }
}

impl Part {
    fn take(&mut self, place: u64, bytes: &Memory) {
        match read_header(bytes) {
            // Opened and not yet written: it holds nothing.
            Ok(header) if header.used == 0 => {}
            // What the page says is a secret, or a guess: who claims another's public id gets the
            // hash of that.
            Ok(header) => {
                self.pages.push(PageRef::new(&header, self.ids.of(header.session), place));
            }
            Err(PageError::Version(_)) => self.rejected.version += 1,
            Err(PageError::Lane(_)) => self.rejected.lane += 1,
            Err(_) => self.rejected.damaged += 1,
        }
    }

    fn add(&mut self, mut other: Self) {
        self.pages.append(&mut other.pages);
        self.rejected.add(other.rejected);
        self.shortfall.add(other.shortfall);
    }
}
