//! Recordings made by hand, written into files by the store's own writer.

use std::path::{Path, PathBuf};

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::meta::Meta;
use flightrec_format::part::PROVISIONAL_NS;
use flightrec_store::summary::BlockSummary;
use flightrec_store::{
    FileReader, FileWriter, Limits, Now, Opening, Options, State, Store, StoreWriter,
};
use tempfile::TempDir;

use crate::common::{BOOT_ID, NOW, Recording, SECOND, WALL, meta};

/// What each file begins with: the description, and a table of threads with its moment.
pub(crate) struct Beginning {
    meta: Meta,
    pub(crate) slots: (u64, Vec<[u8; PAGE_SIZE]>),
}

impl Opening for Beginning {
    fn meta(&mut self) -> Meta {
        self.meta.clone()
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        self.slots.clone()
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        None
    }
}

/// A state directory that is written.
pub(crate) struct Disk {
    writer: StoreWriter,
    pub(crate) opening: Beginning,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns.
    pub(crate) wall: u64,
}

impl Disk {
    /// A recorder's; its files are closed after `file_seconds`.
    pub(crate) fn new(dir: &Path, meta: Meta, wall: u64, file_seconds: u64) -> Self {
        let limits = Limits {
            max_total: 1 << 30,
            keep_free: 0,
            keep_at_least: 0,
            max_age: None,
            file_size: 1 << 30,
            file_age: Some(std::time::Duration::from_secs(file_seconds)),
        };
        let boot_id = flightrec_store::dir::parse_boot(&meta.boot_id).unwrap();
        let session = meta.session;
        let options =
            Options { state_dir: dir.into(), limits, level: 1, group: None, boot_id, session };
        let opening = Beginning { slots: (meta.started, Vec::new()), meta };
        Self { writer: StoreWriter::open(options), opening, wall }
    }

    /// Takes in what is new at a moment.
    pub(crate) fn drain(&mut self, recording: &mut Recording, mono: u64) {
        self.append(recording, mono);
        let now = Now { mono, wall: (self.wall + mono) as i64 };
        self.writer.vouch(&recording.totals(mono));
        if let Some(job) = self.writer.sync(now) {
            self.writer.synced(job.run(), now);
        }
    }

    /// Writes what is new at a moment, and nothing after it yet.
    pub(crate) fn append(&mut self, recording: &mut Recording, mono: u64) {
        let now = Now { mono, wall: (self.wall + mono) as i64 };
        assert!(self.writer.ready(now));
        let pages = recording.pages().into_iter().flatten().map(|page| Page::new(page).unwrap());
        let new = pages.filter(|page| {
            page.header().seq >= self.writer.position(page.lane(), page.header().cpu).seq
        });
        let new = new.collect();
        assert_eq!(*self.writer.append(new, mono, &mut self.opening, now), State::Ready);
    }

    /// Ends in order at a moment, with all that was recorded before.
    pub(crate) fn close(mut self, recording: &mut Recording, end: u64) {
        // Until then the last entry could yet become a whole call.
        let mono = end + PROVISIONAL_NS;
        self.drain(recording, mono);
        let now = Now { mono, wall: (self.wall + mono) as i64 };
        if let Some(job) = self.writer.close(&mut self.opening, now) {
            self.writer.synced(job.run(), now);
        }
    }
}

pub(crate) fn getpid(time: u64, cpu: u16, number: u64) -> Event {
    let call = Call {
        nr: 1,
        abi: Abi::Native,
        nargs: 3,
        args: [number, 0, 0, 0, 0, 0],
        strings: Vec::new(),
    };
    Event { time, cpu, tid: 7, body: Body::Enter(call) }
}

/// Numbered calls by thread 7 on CPU 0, one a millisecond from `from` on; on CPU 1 a migration
/// every second.
pub(crate) fn calls(recording: &mut Recording, from: u64, numbers: std::ops::Range<u64>) -> u64 {
    let mut time = from;
    for number in numbers {
        recording.push(Lane::Syscall, &getpid(time, 0, number));
        if number.is_multiple_of(1000) {
            let body = Body::Migrate { thread: 8, prio: 120, from: 0, to: 1 };
            recording.push(Lane::Sched, &Event { time, cpu: 1, tid: 0, body });
        }
        time += SECOND / 1000;
    }
    time
}

/// 15,000 numbered calls up to [`NOW`], drained every half a second into files of three seconds.
/// Calls and directory.
pub(crate) fn recorded() -> (Recording, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let mut disk = Disk::new(dir.path(), meta(), WALL, 3);
    let mut time = NOW - 15 * SECOND;
    for half in 0..30 {
        time = calls(&mut recording, time, half * 500..half * 500 + 500);
        disk.drain(&mut recording, time);
    }
    disk.close(&mut recording, time);
    (recording, dir)
}

/// The files of a state directory, oldest first.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    Store::open(dir).unwrap().all().iter().map(|file| file.path.clone()).collect()
}

/// Writes a file anew, with other summaries of its blocks of pages, or none.
pub(crate) fn rewrite(path: &Path, other: impl Fn(BlockSummary, u32) -> Option<BlockSummary>) {
    let reader = FileReader::open(path).unwrap();
    let mut file = FileWriter::new(Vec::new(), reader.header(), 1).unwrap();
    for block in reader.blocks() {
        let own = reader.block(block).unwrap();
        let number = block.header.number;
        let summary = reader.summary(block).and_then(|summary| other(summary, number));
        file.push(own.with_summary(summary.as_ref())).unwrap();
    }
    let bytes = if reader.complete() { file.finish().unwrap() } else { file.out().clone() };
    std::fs::write(path, bytes).unwrap();
}

pub(crate) fn boot_dir(dir: &Path) -> PathBuf {
    dir.join(BOOT_ID)
}
