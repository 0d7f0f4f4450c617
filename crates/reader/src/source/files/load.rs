//! Reading blocks on all CPUs.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use flightrec_format::decode::{Page, Summary};
use flightrec_store::columns::Contents;
use flightrec_store::{BlockRef, Damage, FileReader, PagesReader};

use super::decoded::{Decoded, Decoding};
use crate::observe;

/// Most threads: beyond, the disk and the order in which pages are put together set the pace.
const WORKERS_MAX: usize = 8;

/// Most readers at rest.
const SPARE_MAX: usize = 2;

/// Readers at rest: the next stretch need not fetch memory for their buffers and tables.
static SPARE: Mutex<Vec<PagesReader>> = Mutex::new(Vec::new());

/// A reader of blocks that goes back to rest.
struct Spare(PagesReader);

impl Spare {
    fn take() -> Self {
        Self(SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default())
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX && !thread::panicking() {
            spare.push(std::mem::take(&mut self.0));
        }
    }
}

/// Where a block stands: in which of the files that are opened, and from which byte on. In the
/// order of writing.
pub(super) type BlockPlace = (usize, u64);

/// A block of a file.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// Which of the files that are opened it is.
    pub(super) file: usize,
    pub(super) reader: &'a FileReader,
    pub(super) block: &'a BlockRef,
}

impl Job<'_> {
    /// Where the block stands.
    pub(super) fn place(&self) -> BlockPlace {
        (self.file, self.block.offset)
    }

    /// Its pages, with what each comes to.
    ///
    /// # Errors
    /// The block is damaged.
    pub(super) fn pages(
        &self,
        reader: &mut PagesReader,
        contents: Contents,
    ) -> Result<Vec<(Page, Summary)>, Damage> {
        observe::decodes(self.reader, self.block);
        reader.read(self.reader, self.block, contents)
    }
}

/// All blocks of files.
pub(super) fn jobs<'a>(opened: &[&'a FileReader]) -> impl Iterator<Item = Job<'a>> {
    let of_file = |(file, reader): (usize, &&'a FileReader)| {
        let reader: &'a FileReader = reader;
        reader.blocks().iter().map(move |block| Job { file, reader, block })
    };
    opened.iter().enumerate().flat_map(of_file)
}

/// Reads blocks of pages and looks at each, on all CPUs: what came of each, in the order of `jobs`.
/// No more than `most` pages are held at a time, but for those of one block, and for what `decoded`
/// holds. `None`: a block is damaged.
pub(super) fn each<T: Send>(
    jobs: &[Job<'_>],
    most: usize,
    decoded: &Decoded,
    look: impl Fn(usize, &[(Page, Summary)]) -> T + Sync,
) -> Option<Vec<T>> {
    let progress = observe::begins("searching the files");
    let largest = jobs.iter().map(|job| job.block.header.pages_max()).max().unwrap_or(1).max(1);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    let threads = threads.min(jobs.len()).min(most / largest).max(1);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Option<T>)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        let mut spare = Spare::take();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { break };
            let seen = decoded.look(job, &mut spare.0).ok().map(|pages| look(at, &pages));
            progress.add(u64::from(job.block.header.data_len));
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, seen));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, seen)| seen).collect()
}

/// Whether the data of all blocks are what was written, by their checksums.
pub(super) fn are_sound(jobs: &[Job<'_>]) -> bool {
    let threads =
        thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX).min(jobs.len());
    let (next, wrong) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut buffer = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            observe::checks(job.block);
            if wrong.load(Ordering::Relaxed) || !job.reader.is_sound(job.block, &mut buffer) {
                wrong.store(true, Ordering::Relaxed);
                break;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    !wrong.into_inner()
}

/// A job's number, and what came of it.
type Done = (usize, Result<Vec<(Page, Summary)>, Damage>);

/// Reads blocks of pages, and hands each one's pages over in the order of `jobs`; what is damaged
/// comes back. `None`: there are more pages than `most`, whatever the blocks' headers say.
pub(super) fn pages<'a>(
    jobs: &[Job<'a>],
    most: usize,
    decoding: Decoding<'_>,
    mut take: impl FnMut(Vec<(Page, Summary)>),
) -> Option<Vec<(&'a FileReader, Damage)>> {
    // No block gives more than its header says.
    let told = |job: &Job<'_>| job.block.header.pages_max();
    if jobs.iter().map(told).fold(0, usize::saturating_add) > most
        && jobs.iter().all(|job| job.block.header.pages != 0)
    {
        return None;
    }
    let progress = observe::begins("reading the files");
    let threads =
        thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX).min(jobs.len());
    let next = AtomicUsize::new(0);
    let count = AtomicUsize::new(0);
    let done: Mutex<Vec<Done>> = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        let mut spare = Spare::take();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { break };
            let content = decoding.pages(job, &mut spare.0);
            let pages = content.as_ref().map_or(0, Vec::len);
            if count.fetch_add(pages, Ordering::Relaxed).saturating_add(pages) > most {
                break;
            }
            progress.add(u64::from(job.block.header.data_len));
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, content));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    if count.into_inner() > most {
        return None;
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    let mut damage = Vec::new();
    for ((_, content), Job { reader, .. }) in done.into_iter().zip(jobs) {
        match content {
            Ok(pages) => take(pages),
            Err(wrong) => damage.push((*reader, wrong)),
        }
    }
    Some(damage)
}
