//! The thread that makes the files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flightrec_format::abi::page::Lane;
use flightrec_format::chunks::Chunks;
use flightrec_format::control::{LastSnapshot, StoreState};
use flightrec_format::descriptors::Snapshot;
use flightrec_format::meta::Meta;
use flightrec_store::disk::{Disk, Handle, SystemDisk};
use flightrec_store::snapshot::{About, Origin, Summary, Why};
use flightrec_store::snapshots::{self, Entry, Repeats};
use flightrec_store::{FileHeader, FileWriter};
use tracing::{debug, info, warn};

use super::gate::Gate;
use super::refusals::Refused;
use super::tally::Tally;
use super::{
    Alarm, REQUEST, SnapshotPlace, clean, from_files, from_rings, hook, lock, page, room, summary,
    why,
};
use crate::clock;
use crate::config;
use crate::drain::Monitor;
use crate::recording::Recording;

/// By then an exit has folded into its entry, or never will.
const SETTLED: u64 = 20_000_000;
/// How often it is looked whether the files have got there, and longest for which that is done.
const LOOK: Duration = Duration::from_millis(50);
const FILES_MOST: u64 = 12_000_000_000;
/// How often counts are written, and the old deleted.
const HOUSEKEEPING: Duration = Duration::from_secs(2);
/// zstd's level where blocks are made anew.
const LEVEL: i32 = 3;
/// What explains a file, beside its pages: about.
const EXPLANATION: u64 = 256 << 10;
/// Nice value of the thread: behind whoever works.
const NICE: i32 = 5;
/// Message id of the journal entry about a snapshot: `journalctl MESSAGE_ID=…`.
pub(super) const MESSAGE_ID: &str = "6a1d2c7f0b3e4d5c9f8a7b6c5d4e3f21";

/// A snapshot to be taken.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) alarm: Alarm,
    /// Start of the window, ns of `CLOCK_MONOTONIC`.
    pub(super) from: u64,
    /// End.
    pub(super) until: u64,
    /// The end that was wanted; later than `until` where flightd was ended before.
    pub(super) wanted: u64,
    /// Who waits for its id.
    pub(super) answer: Option<SyncSender<Result<String, String>>>,
}

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Task {
    /// To take a snapshot.
    Take(Order),
    /// To take those that wait as far as their windows have got, and to end.
    End,
}

/// All that the thread has.
#[derive(Debug)]
pub(super) struct Saver {
    config: config::Snapshots,
    state_dir: PathBuf,
    dir: PathBuf,
    disk: SystemDisk,
    keep_free: u64,
    recording: Arc<Recording>,
    files: Arc<Monitor>,
    gate: Arc<Mutex<Gate>>,
    tally: Arc<Tally>,
    pending: Vec<Order>,
    /// flightd ends: there is no time left to look for causes.
    ends: bool,
}

impl Saver {
    pub(super) fn new(
        config: config::Snapshots,
        place: &SnapshotPlace<'_>,
        recording: Arc<Recording>,
        files: Arc<Monitor>,
        gate: Arc<Mutex<Gate>>,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            config,
            state_dir: place.state_dir.to_owned(),
            dir: snapshots::directory(place.state_dir),
            disk: SystemDisk { group: place.group },
            keep_free: place.store.keep_free.bytes(),
            recording,
            files,
            gate,
            tally,
            pending: Vec::new(),
            ends: false,
        }
    }

    /// Works until it is told to end, or nobody can order any more.
    pub(super) fn run(mut self, orders: &Receiver<Task>) {
        step_back();
        self.tidy();
        self.tally.held(&self.held());
        loop {
            let now = clock::mono();
            let due = self.pending.iter().map(|order| order.until.saturating_add(SETTLED)).min();
            let wait = due.map_or(HOUSEKEEPING, |due| {
                Duration::from_nanos(due.saturating_sub(now)).min(HOUSEKEEPING)
            });
            match orders.recv_timeout(wait) {
                Ok(Task::Take(order)) => self.pending.push(order),
                Ok(Task::End) => return self.end(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = clock::mono();
            let is_due = |order: &mut Order| order.until.saturating_add(SETTLED) <= now;
            for order in self.pending.extract_if(.., is_due).collect::<Vec<_>>() {
                self.serve(&order);
            }
            self.keep_house();
        }
    }

    /// Takes what is wanted, as far as the windows have got.
    fn end(&mut self) {
        self.ends = true;
        let now = clock::mono();
        for mut order in std::mem::take(&mut self.pending) {
            order.until = order.until.min(now);
            self.serve(&order);
        }
        self.keep_house();
    }

    fn serve(&self, order: &Order) {
        let Order { alarm, answer, .. } = order;
        let (cause, subject, reason) = (alarm.cause, &alarm.subject, &alarm.reason);
        let result = self.save(order);
        match &result {
            Ok((id, path, about)) => {
                lock(&self.gate).taken(cause, subject, id);
                let last =
                    LastSnapshot { id: id.clone(), time: alarm.time, reason: reason.clone() };
                self.tally.update(|status| {
                    status.taken += 1;
                    status.last = Some(last);
                });
                self.tally.held(&self.held());
                let why = about.summary.why.as_ref();
                let (sentence, culprit) =
                    (why.map(|of| clean(&of.sentence)), why.and_then(culprit));
                let answer = sentence.as_ref().map(|of| format!("; why: {of}")).unwrap_or_default();
                info!(
                    MESSAGE_ID, SNAPSHOT = %path.display(), CAUSE = cause, SUBJECT = subject,
                    WHY = sentence, CULPRIT = culprit,
                    "snapshot {id}: {reason}{answer}"
                );
            }
            Err(e) => {
                lock(&self.gate).forget(cause, subject);
                self.tally.update(|status| status.failed += 1);
                warn!(
                    CAUSE = cause,
                    SUBJECT = subject,
                    "no snapshot of \"{reason}\" could be taken: {e}"
                );
            }
        }
        self.tally.update(|status| status.pending = status.pending.saturating_sub(1));
        if let Some(answer) = answer {
            let told = result.as_ref().map(|(id, ..)| id.clone());
            let told = told.map_err(|e| format!("the snapshot could not be taken: {e}"));
            // Nobody waits any more where it took too long.
            drop(answer.try_send(told));
        }
        if let Ok((id, path, about)) = result {
            let page = self.page(&id, &path);
            self.hook(&id, &path, page, &about);
        }
    }

    /// Makes the page of a snapshot, if the configuration wants one.
    fn page(&self, id: &str, path: &Path) -> Option<PathBuf> {
        if !self.config.page || self.ends {
            return None;
        }
        let made = page::make(path, |new| self.new_file(new));
        if let Err(e) = &made {
            warn!("snapshot {id} is complete, but has no page: {e}");
        }
        self.tally.held(&self.held());
        made.ok()
    }

    /// A file that is not there yet, for those who may read snapshots.
    fn new_file(&self, path: &Path) -> io::Result<std::fs::File> {
        self.disk.create(path)?;
        std::fs::OpenOptions::new().write(true).open(path)
    }

    /// Runs what the configuration wants to be run, beside whatever comes next.
    fn hook(&self, id: &str, path: &Path, page: Option<PathBuf>, about: &About) {
        if self.config.hook.is_empty() {
            return;
        }
        let (command, limit) = (self.config.hook.clone(), self.config.hook_timeout.duration());
        let (id, path, about) = (id.to_owned(), path.to_owned(), about.clone());
        let run = move || match hook::run(&command, limit, &path, page.as_deref(), &id, &about) {
            Ok(()) => debug!("the hook for snapshot {id} succeeded"),
            Err(e) => warn!("the hook for snapshot {id} failed: {e}"),
        };
        if let Err(e) = thread::Builder::new().name("flightd-hook".into()).spawn(run) {
            warn!("the hook could not be started: {e}");
        }
    }

    /// Makes the file.
    fn save(&self, order: &Order) -> io::Result<(String, PathBuf, About)> {
        let meta = self.recording.meta();
        let boot = flightrec_store::dir::parse_boot(&meta.boot_id).unwrap_or_default();
        let selection = self.in_files(order, &meta, &boot);
        let live = self.recording.live();
        let bytes = selection
            .as_ref()
            .map_or_else(|| from_rings::bytes(live), from_files::Selection::bytes);
        self.disk.make_dir(&self.state_dir)?;
        self.disk.make_dir(&self.dir)?;
        let page = if self.config.page { page::PAGE_MAX } else { 0 };
        self.make_room(
            bytes.min(self.config.max_size.bytes()) + EXPLANATION + page,
            order.alarm.cause == REQUEST,
        )?;

        let now = clock::mono();
        let wall = (order.alarm.time as i64).saturating_add(clock::wall_offset());
        let (id, path) = self.name(wall, order.alarm.cause)?;
        let making = Making(self.dir.join(format!(".{id}.{}", flightrec_store::dir::EXTENSION)));
        let handle = self.disk.create(&making.0)?;
        let header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: boot,
            session: meta.session,
            number: 0,
            created_wall: (now as i64).saturating_add(clock::wall_offset()),
            created_mono: now,
            begins: 0,
        };
        let out =
            Limited { handle, left: self.config.max_size.bytes().saturating_add(EXPLANATION) };
        let mut file = FileWriter::new(out, &header, LEVEL)?;
        file.meta(&meta, now)?;
        if selection.as_ref().is_none_or(|selection| !selection.has_names()) {
            let slots: Vec<_> = live.slots().collect();
            file.slots(now, &slots)?;
            self.descriptors(&mut file)?;
        }
        let source = if let Some(selection) = &selection {
            selection.copy(&mut file)?;
            Origin::Files
        } else {
            from_rings::copy(live, order.from, order.until, &mut file)?;
            Origin::Rings
        };
        let mut about = About {
            cause: order.alarm.cause.to_owned(),
            subject: order.alarm.subject.clone(),
            reason: order.alarm.reason.clone(),
            time: order.alarm.time,
            wall,
            from: order.from,
            until: selection
                .as_ref()
                .map_or(order.until, |selection| selection.until.min(order.until)),
            held_from: selection
                .as_ref()
                .map_or(order.from, |selection| selection.from.max(order.from)),
            stretches: Vec::new(),
            source,
            threads: order.alarm.threads.clone(),
            summary: Summary::default(),
        };
        let living = summary::Living::of(&self.recording);
        match summary::make(&making.0, &about, &self.recording.meta(), &living) {
            Ok(made) => about.summary = made,
            Err(e) => about.summary.notes.push(format!("no summary could be made: {e}")),
        }
        if about.until < order.until {
            let missing = order.until.saturating_sub(about.until) as f64 / 1e9;
            about.summary.notes.push(format!(
                "the window takes more than max_size: its last {missing:.1} s are left out"
            ));
        }
        if order.until < order.wanted {
            let missing =
                Duration::from_millis(order.wanted.saturating_sub(order.until) / 1_000_000);
            let missing = humantime::format_duration(missing);
            about.summary.notes.push(format!(
                "flightd was stopped {missing} before the end of the window: it ends there"
            ));
        }
        file.snapshot(&about)?;
        // It is complete and safe without its index, and before its cause is looked for.
        file.out().handle.syncer()?.sync()?;
        std::fs::rename(&making.0, &path)?;
        self.disk.dir_syncer(&self.dir)?.sync()?;
        if self.config.why && !self.ends {
            match why::ask(&path) {
                Ok(why) => about.summary.why = Some(why),
                Err(e) => about.summary.notes.push(format!("no cause was found: {e}")),
            }
        }
        if let Err(e) = finish(file, &about) {
            warn!("snapshot {id} is complete, but has no index, and no answer why: {e}");
        }
        Ok((id, path, about))
    }

    /// The window in the files, once it is there; `None`: it has to come from the rings.
    fn in_files(
        &self,
        order: &Order,
        meta: &Meta,
        boot: &[u8; 16],
    ) -> Option<from_files::Selection> {
        let until = order.until;
        let end = clock::mono().saturating_add(FILES_MOST);
        self.files.want(until.saturating_add(1));
        loop {
            let status = self.files.status();
            if status.state != StoreState::Writing {
                return None;
            }
            let late = clock::mono() >= end;
            // All of it is there, and the checkpoint after it, or the disk hangs.
            if status.synced >= until || late && status.drained >= until {
                let window = (order.from, until);
                let (cause, most) = (order.alarm.time, self.config.max_size.bytes());
                return from_files::select(
                    &self.state_dir,
                    boot,
                    meta.session,
                    window,
                    cause,
                    most,
                );
            }
            if late {
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    /// What descriptors stand for, as far as the recording knows it.
    fn descriptors<W: Write>(&self, file: &mut FileWriter<W>) -> io::Result<()> {
        let live = self.recording.live();
        let mut chunks = Chunks::new(Lane::Descriptors);
        live.descriptors().for_each(|page| chunks.add(&page));
        let Some(latest) = chunks.documents().find(|document| document.session == live.session())
        else {
            return Ok(());
        };
        match Snapshot::decode(&latest.bytes) {
            Ok(snapshot) => file.descriptors(snapshot.end, &latest.bytes),
            Err(_) => Ok(()),
        }
    }

    /// Deletes what has to go for a snapshot of so many bytes.
    fn make_room(&self, bytes: u64, asked: bool) -> io::Result<()> {
        let held = self.held();
        let Some(gone) = room::make(&self.config, &held, bytes, asked) else {
            let limits = "there is no room for it within max_count and max_total of [snapshots]";
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, limits));
        };
        delete(&held, &gone)?;
        let free = self.disk.free(&self.dir)?;
        if free < self.keep_free.saturating_add(bytes) {
            let what = format!(
                "the file system has {free} bytes free, and {} must stay free: free some space",
                self.keep_free
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        Ok(())
    }

    fn held(&self) -> Vec<Entry> {
        snapshots::list(&self.dir).unwrap_or_else(|e| {
            warn!("{e}");
            Vec::new()
        })
    }

    /// A name that is not taken.
    fn name(&self, wall: i64, cause: &str) -> io::Result<(String, PathBuf)> {
        let names = (1..=self.config.max_count.saturating_add(1))
            .map(|nth| snapshots::id(wall, cause, nth));
        let paths = names.filter_map(|id| snapshots::path(&self.dir, &id).map(|path| (id, path)));
        let mut free = paths.filter(|(_, path)| path.symlink_metadata().is_err());
        free.next().ok_or_else(|| {
            io::Error::new(io::ErrorKind::AlreadyExists, "every name for it is taken")
        })
    }

    /// Writes counts, and deletes what is too old.
    fn keep_house(&self) {
        let (counts, refused) = {
            let mut gate = lock(&self.gate);
            (gate.counts(), gate.refused(clock::mono()))
        };
        let offset = clock::wall_offset();
        for (id, count, last) in counts {
            let Some(path) = snapshots::path(&self.dir, &id).filter(|path| path.exists()) else {
                continue;
            };
            let repeats = Repeats { count, last: (last as i64).saturating_add(offset) };
            if let Err(e) = snapshots::set_repeats(&path, repeats, |new| self.new_file(new)) {
                warn!(
                    "how often the cause of snapshot {id} came again ({count}) could not be \
                     written: {e}"
                );
            }
        }
        if let Some((named, others)) = refused {
            for Refused { cause, subject, reason, quota, count } in named {
                let again = if count > 1 { format!(" ({count} times)") } else { String::new() };
                warn!(
                    CAUSE = cause,
                    SUBJECT = subject,
                    REFUSED = count,
                    "no snapshot of \"{reason}\"{again}: {quota} were taken ([snapshots] per_hour)"
                );
            }
            if others != 0 {
                warn!(
                    "no snapshots of {others} other causes: more than [snapshots] per_hour allows"
                );
            }
        }
        if self.config.max_age.limit().is_some() {
            let held = self.held();
            self.tally.held(&held);
            let wall = (clock::mono() as i64).saturating_add(offset);
            if let Err(e) = delete(&held, &room::expired(&self.config, &held, wall)) {
                warn!("an old snapshot could not be deleted: {e}");
            }
        }
    }

    /// Removes what a daemon that was killed left half made.
    fn tidy(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in
            entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."))
        {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

/// Writes the description again, of which the last one counts, and the index.
fn finish(mut file: FileWriter<Limited>, about: &About) -> io::Result<()> {
    if about.summary.why.is_some() || !about.summary.notes.is_empty() {
        file.snapshot(about)?;
    }
    file.finish()?.handle.syncer()?.sync()
}

fn delete(held: &[Entry], which: &[usize]) -> io::Result<()> {
    for entry in which.iter().filter_map(|i| held.get(*i)) {
        snapshots::remove(entry)?;
        info!("snapshot {} was deleted, for the limits of [snapshots]", entry.id);
    }
    Ok(())
}

/// The cause in a few words: `backup (4699)`, or `disk vda` where it is no thread.
fn culprit(why: &Why) -> Option<String> {
    let culprit = why.culprits.first()?;
    Some(match (&culprit.thread, &culprit.object) {
        (Some(of), _) => clean(&format!("{} ({})", of.name, of.tid)),
        (None, Some(object)) => clean(object),
        (None, None) => clean(&culprit.mechanism),
    })
}

/// A file in the making; removed unless it got its name.
struct Making(PathBuf);

impl Drop for Making {
    fn drop(&mut self) {
        // It is gone where it was renamed; nothing else can be done about a failure.
        drop(std::fs::remove_file(&self.0));
    }
}

/// A file that may take so many bytes more.
#[derive(Debug)]
struct Limited {
    handle: Box<dyn Handle>,
    left: u64,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (bytes.len() as u64) > self.left {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the window takes more than max_size of [snapshots]",
            ));
        }
        let written = self.handle.write(bytes)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.handle.flush()
    }
}

/// Lets others run first.
fn step_back() {
    // SAFETY: no memory is involved; 0 is the calling thread (setpriority(2), "C library/kernel
    // differences").
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        debug!("the snapshot thread keeps its priority: {}", io::Error::last_os_error());
    }
}
