//! The thread that asks processes which files they have mapped.
//!
//! The kernel takes a process's `mmap_lock` for that (`task_vma_seq_get_next`,
//! kernel/bpf/task_iter.c, Linux 6.1), and waits for as long as a thread that hangs holds it. So
//! nobody waits for this thread: what it is to ask, it is handed if it is idle, and what it has
//! found is taken when it is there. As long as a process does not answer, no other is asked; the
//! end of the daemon ends the wait (`mmap_read_lock_killable`).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use flightrec_format::abi::probe::{Binary as Entry, Mapping};
use tracing::{info, warn};

use crate::clock;

/// Most processes that are asked at a time.
const PROCESSES_MAX: usize = 16;
/// From when on a process is told not to answer, ns.
const SILENT: u64 = 10_000_000_000;

/// What a process has mapped where.
pub(crate) type Files = Vec<(Mapping, String)>;

/// The thread, as its user sees it. It ends with this, once no process keeps it.
#[derive(Debug)]
pub(super) struct Walker {
    ask: SyncSender<Vec<(usize, Entry)>>,
    found: Mutex<Receiver<(usize, String)>>,
    asking: Arc<Asking>,
    /// Whether it was told that a process does not answer.
    told: AtomicBool,
}

/// Whom it asks.
#[derive(Debug, Default)]
struct Asking {
    pid: AtomicU32,
    /// From when on, ns of `CLOCK_MONOTONIC`; 0: nobody.
    since: AtomicU64,
}

impl Walker {
    /// `files`: asks a process; none where it is gone, or the kernel does not tell.
    pub(super) fn start(files: impl Fn(u32) -> Files + Send + 'static) -> io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let (tell, found) = channel();
        let asking = Arc::new(Asking::default());
        let files = {
            let asking = asking.clone();
            move |pid| {
                asking.pid.store(pid, Ordering::Relaxed);
                asking.since.store(clock::mono().max(1), Ordering::Release);
                let files = files(pid);
                asking.since.store(0, Ordering::Release);
                files
            }
        };
        std::thread::Builder::new().name("binaries".into()).spawn(move || {
            // By place: the entry's version when its process was asked last.
            let mut last = HashMap::new();
            for entries in asked {
                for found in walk(&mut last, entries, &files) {
                    if tell.send(found).is_err() {
                        return;
                    }
                }
            }
        })?;
        Ok(Self { ask, found: Mutex::new(found), asking, told: AtomicBool::new(false) })
    }

    /// Has the processes of these entries asked, each by its place; not if it is busy.
    pub(super) fn ask(&self, entries: Vec<(usize, Entry)>) {
        if !entries.is_empty() {
            // Full: they are asked for again.
            let _ = self.ask.try_send(entries);
        }
    }

    /// Paths that were found, by place.
    pub(super) fn found(&self) -> HashMap<usize, String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).try_iter().collect()
    }

    /// Tells the log, once, of a process that does not answer, and when it has.
    pub(super) fn look(&self) {
        let silent = self.silent(clock::mono(), SILENT);
        if silent.is_some() == self.told.swap(silent.is_some(), Ordering::Relaxed) {
            return;
        }
        if let Some(pid) = silent {
            warn!(
                "process {pid} has not told for {} s which files it has mapped: a thread of it may \
                 hang. Until it does, binaries in samples get no names",
                SILENT / 1_000_000_000
            );
        } else {
            info!("binaries in samples get names again");
        }
    }

    /// The process that has not answered for longer than `limit`.
    fn silent(&self, now: u64, limit: u64) -> Option<u32> {
        let since = self.asking.since.load(Ordering::Acquire);
        let is_silent = since != 0 && now.saturating_sub(since) > limit;
        is_silent.then(|| self.asking.pid.load(Ordering::Relaxed))
    }
}

/// Asks the processes of entries that have changed since they were asked last.
fn walk(
    last: &mut HashMap<usize, u64>,
    entries: Vec<(usize, Entry)>,
    files: &impl Fn(u32) -> Files,
) -> Vec<(usize, String)> {
    let mut processes: HashMap<u32, Files> = HashMap::new();
    let mut found = Vec::new();
    for (place, entry) in entries {
        let is_asked = processes.contains_key(&entry.tgid);
        let is_full = !is_asked && processes.len() == PROCESSES_MAX;
        if is_full || last.get(&place) == Some(&entry.version) {
            continue;
        }
        last.insert(place, entry.version);
        let files = processes.entry(entry.tgid).or_insert_with(|| files(entry.tgid));
        found.extend(find(files, &entry).map(|path| (place, path.to_owned())));
    }
    found
}

/// The path of what a binary was seen in, if the process still runs the same program.
fn find<'a>(files: &'a [(Mapping, String)], entry: &Entry) -> Option<&'a str> {
    let is_there = |of: &Mapping| {
        of.mm == entry.mm && (of.start..of.end).contains(&entry.address) && of.path != 0
    };
    files.iter().find(|(of, _)| is_there(of)).map(|(_, path)| path.as_str())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn entry(tgid: u32, version: u64) -> Entry {
        Entry { version, tgid, address: 15, mm: 7, ..Entry::default() }
    }

    fn file(pid: u32) -> Files {
        vec![(Mapping { start: 10, end: 20, mm: 7, path: 3, inode: 1, user: 0 }, format!("/{pid}"))]
    }

    /// What is found, when there is something.
    fn wait(walker: &Walker) -> HashMap<usize, String> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            let found = walker.found();
            if !found.is_empty() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing was found");
    }

    #[test]
    fn a_process_that_does_not_answer_holds_nobody_up() {
        let (answer, answers) = channel::<()>();
        let answers = Mutex::new(answers);
        let walker = Walker::start(move |pid| {
            if pid == 1 {
                let _ = answers.lock().unwrap().recv();
            }
            file(pid)
        });
        let walker = walker.unwrap();
        walker.ask(vec![(0, entry(1, 2))]);
        while walker.silent(u64::MAX, SILENT).is_none() {
            std::thread::yield_now();
        }
        // It hangs: others are not asked, and nobody waits.
        for _ in 0..100 {
            walker.ask(vec![(1, entry(2, 2))]);
            assert!(walker.found().is_empty());
        }
        assert_eq!(walker.silent(clock::mono(), SILENT), None, "not yet");
        assert_eq!(walker.silent(u64::MAX, SILENT), Some(1));
        answer.send(()).unwrap();
        let mut found = wait(&walker);
        while found.len() < 2 {
            found.extend(wait(&walker));
        }
        assert_eq!(found, HashMap::from([(0, "/1".into()), (1, "/2".into())]));
        assert_eq!(walker.silent(u64::MAX, SILENT), None);
    }

    #[test]
    fn a_process_is_asked_once_for_what_it_was_seen_in() {
        let (mut last, asked) = (HashMap::new(), Mutex::new(Vec::new()));
        let files = |pid| {
            asked.lock().unwrap().push(pid);
            file(pid)
        };
        let mut walk = |entries| walk(&mut last, entries, &files);
        assert_eq!(walk(vec![(0, entry(5, 2)), (1, entry(5, 2))]).len(), 2);
        assert_eq!(walk(vec![(0, entry(5, 2))]), []);
        assert_eq!(walk(vec![(0, entry(6, 4))]), [(0, "/6".to_owned())]);
        let other = Entry { mm: 8, ..entry(7, 6) };
        assert_eq!(walk(vec![(0, other)]), [], "another program");
        assert_eq!(*asked.lock().unwrap(), [5, 6, 7]);
        // So many at a time; the others next time.
        let many = || (10..30).map(|pid| (pid as usize, entry(pid, 2))).collect::<Vec<_>>();
        assert_eq!((walk(many()).len(), walk(many()).len()), (PROCESSES_MAX, 4));
    }
}
