//! First answers of whole files: windows larger than what may be in memory, with the cause anywhere
//! in them.

use std::fs::File;
use std::path::PathBuf;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::{Abi, Comm, Fork, Rename, StringStatus, TaskExit, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Meta, Syscall};
use flightrec_store::block::PAGES_MAX;
use flightrec_store::snapshot::{About, Summary, WaitKind};
use flightrec_store::{FileHeader, FileWriter};
use tempfile::TempDir;

use super::slices::Bounds;
use super::{Living, make, make_within};

const MS: u64 = 1_000_000;
const SESSION: u64 = 7;
/// The window, ms.
const FROM: u64 = 1000;
const UNTIL: u64 = 36_000;
/// Moments of a cause, ms: at the window's beginning, middle and end.
const CAUSES: [u64; 3] = [FROM + 1000, 18_000, UNTIL - 10];
/// Who each cause is about.
const SUBJECTS: [u32; 3] = [4711, 4712, 4713];
const FLOODER: u32 = 900;
const OPENAT: u16 = 257;
const FSYNC: u16 = 74;

fn meta() -> Meta {
    let native = [(OPENAT, "openat"), (FSYNC, "fsync")];
    let native = native.map(|(nr, name)| Syscall { nr, name: name.into(), args: None });
    Meta { session: SESSION, native: native.to_vec(), ..Meta::default() }
}

fn comm(name: &str) -> Comm {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

fn call(nr: u16, strings: Vec<Text>) -> Call {
    Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings }
}

/// A file in the making: rings whose full pages go into it every two seconds.
struct Recorded {
    dir: TempDir,
    file: FileWriter<File>,
    rings: Vec<(PageWriter, Lane, u16)>,
    pages: usize,
}

impl Recorded {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: [7; 16],
            session: SESSION,
            number: 0,
            created_wall: 0,
            created_mono: 1,
            begins: 0,
        };
        let file = FileWriter::new(File::create(dir.path().join("a.flight")).unwrap(), &header, 1)
            .unwrap();
        let rings = Lane::RINGS.into_iter().flat_map(|lane| [(lane, 0), (lane, 1)]);
        let rings =
            rings.map(|(lane, cpu)| (PageWriter::new(SESSION, lane, cpu, 0), lane, cpu)).collect();
        Self { dir, file, rings, pages: 0 }
    }

    fn push(&mut self, lane: Lane, cpu: u16, tid: u32, us: u64, body: Body) {
        let ring = self.rings.iter_mut().find(|ring| (ring.1, ring.2) == (lane, cpu));
        ring.unwrap().0.push(&Event { time: us * 1000, cpu, tid, body }).unwrap();
    }

    fn write(&mut self, pages: Vec<Box<[u8; PAGE_SIZE]>>) {
        let pages: Vec<Page> = pages.into_iter().map(|page| Page::new(page).unwrap()).collect();
        self.pages += pages.len();
        pages.chunks(PAGES_MAX).for_each(|pages| self.file.pages(pages).unwrap());
    }

    /// What a drain does from time to time.
    fn drain(&mut self) {
        for i in 0..self.rings.len() {
            let pages = self.rings[i].0.take();
            self.write(pages);
        }
    }

    fn finish(mut self) -> (TempDir, PathBuf, usize) {
        for (ring, ..) in std::mem::take(&mut self.rings) {
            let pages = ring.finish();
            self.write(pages);
        }
        self.file.finish().unwrap();
        let path = self.dir.path().join("a.flight");
        (self.dir, path, self.pages)
    }

    /// One step of what a subject goes through until its cause: a wait for a disk, and its end.
    fn story(&mut self, subject: usize, ms: u64) {
        let (tid, at) = (SUBJECTS[subject], CAUSES[subject]);
        let name = format!("db{subject}");
        let switch = |prev_state, next| Body::Switch {
            prev_prio: 120,
            prev_state,
            preempted: false,
            io_wait: false,
            next,
            next_prio: 120,
        };
        let us = ms * 1000 + 1;
        match at.checked_sub(ms) {
            Some(900) => {
                let fork = Fork {
                    parent_tid: 1,
                    parent_tgid: 1,
                    tid,
                    tgid: tid,
                    start_time: ms * MS,
                    cgroup: 4,
                    comm: comm("sh"),
                    shares: 0,
                };
                self.push(Lane::Task, 1, 1, us, Body::Fork(fork));
                let new = comm(&name);
                let rename = Rename { tid, tgid: tid, old: comm("sh"), new };
                self.push(Lane::Task, 1, tid, us + 1, Body::Rename(rename));
            }
            Some(800) => self.push(Lane::Syscall, 1, tid, us, Body::Enter(call(FSYNC, Vec::new()))),
            Some(790) => self.push(Lane::Sched, 1, tid, us, switch(2, 0)),
            Some(200) => {
                let waking = Body::Waking {
                    wakee: tid,
                    prio: 120,
                    state: 2,
                    cpu: 1,
                    new: false,
                    context: WakeContext::Thread,
                };
                self.push(Lane::Sched, 1, 0, us - 1, switch(0, 77));
                self.push(Lane::Sched, 1, 77, us, waking);
                self.push(Lane::Sched, 1, 77, us + 1, switch(1, 0));
            }
            Some(100) => self.push(Lane::Sched, 1, 0, us, switch(0, tid)),
            Some(90) => {
                let exit = Body::Exit { call: call(FSYNC, Vec::new()), ret: -5, entered: None };
                self.push(Lane::Syscall, 1, tid, us, exit);
            }
            Some(0) => {
                let exit =
                    TaskExit { tid, tgid: tid, code: 9, left: 0, start_time: 0, comm: comm(&name) };
                self.push(Lane::Task, 1, tid, us, Body::TaskExit(exit));
            }
            _ => {}
        }
    }
}

/// A window of `events` long calls, and of so many renames, a millisecond.
fn flooded(events: u64, renames: u64) -> (TempDir, PathBuf, usize) {
    let mut recorded = Recorded::new();
    let path = |index| Text { index, status: StringStatus::Whole, bytes: vec![b'x'; 240].into() };
    let strings: Vec<Text> = (0..6).map(path).collect();
    for ms in FROM..UNTIL {
        (0..SUBJECTS.len()).for_each(|subject| recorded.story(subject, ms));
        for i in 0..events {
            let body = Body::Enter(call(OPENAT, strings.clone()));
            recorded.push(Lane::Syscall, 0, FLOODER, ms * 1000 + i * 1000 / events, body);
        }
        for i in 0..renames {
            let body = Body::Rename(Rename {
                tid: FLOODER,
                tgid: FLOODER,
                old: comm("a"),
                new: comm("b"),
            });
            recorded.push(Lane::Task, 0, FLOODER, ms * 1000 + i * 1000 / renames, body);
        }
        if ms % 2000 == 0 {
            recorded.drain();
        }
    }
    recorded.finish()
}

fn about(subject: usize) -> About {
    About {
        time: CAUSES[subject] * MS,
        from: FROM * MS,
        until: UNTIL * MS,
        held_from: FROM * MS,
        threads: vec![SUBJECTS[subject]],
        ..About::default()
    }
}

/// Holds that an answer tells all of a subject's story.
fn tells(summary: &Summary, subject: usize) {
    let name = format!("db{subject}");
    assert_eq!((summary.from, summary.until), (FROM * MS, UNTIL * MS), "{:?}", summary.notes);
    let involved = &summary.involved[0];
    assert_eq!(
        (involved.thread.tid, &involved.thread.name),
        (SUBJECTS[subject], &name),
        "{:?}",
        summary.notes
    );
    assert_eq!(
        (involved.calls, involved.blocked, involved.queued),
        (1, 590 * MS, 100 * MS),
        "{subject}"
    );
    let wait = &summary.waits[0];
    assert_eq!(
        (&wait.thread.name, wait.kind, wait.ns),
        (&name, WaitKind::Blocked, 590 * MS),
        "{subject}"
    );
    assert_eq!(
        (wait.call.as_deref(), wait.waker.as_ref().map(|waker| waker.tid)),
        (Some("fsync"), Some(77))
    );
    assert!(
        summary.failures.iter().any(|failure| failure.error == "EIO" && failure.call == "fsync")
    );
}

#[test]
fn the_cause_and_its_subject_are_told_wherever_they_are_in_a_large_window() {
    let (_dir, path, pages) = flooded(3, 0);
    assert!(pages * PAGE_SIZE > 200 << 20, "{pages} pages");
    for subject in 0..SUBJECTS.len() {
        let summary = make(&path, &about(subject), &meta(), &Living::default()).unwrap();
        tells(&summary, subject);
        assert_eq!(summary.notes, [""; 0]);
    }
}

#[test]
fn a_flood_of_renames_hides_neither_subject_nor_cause() {
    let (_dir, path, pages) = flooded(0, 24);
    assert!(pages * PAGE_SIZE > 33 << 20, "{pages} pages");
    for subject in 0..SUBJECTS.len() {
        let summary = make(&path, &about(subject), &meta(), &Living::default()).unwrap();
        tells(&summary, subject);
    }
}

#[test]
fn few_pages_in_memory_change_nothing_of_the_answer() {
    let (_dir, path, _) = flooded(1, 1);
    let about = about(1);
    let within = |pages| {
        make_within(&path, &about, &meta(), &Living::default(), Bounds { pages, events: u64::MAX })
            .unwrap()
    };
    let whole = within(usize::MAX / 2);
    // The three subjects, who woke them, and first whoever has CPU 0 all the time.
    assert_eq!((whole.hogs.len(), whole.hogs[0].thread.tid), (5, FLOODER), "{whole:#?}");
    for pages in [300, 3000] {
        assert_eq!(within(pages), whole, "{pages} pages");
    }
}

#[test]
fn what_is_missing_is_counted_once_whatever_is_in_memory() {
    let mut recorded = Recorded::new();
    for ms in FROM..UNTIL {
        for (cpu, tid) in [(0, 5), (1, 6)] {
            let body = Body::Rename(Rename { tid, tgid: tid, old: comm("a"), new: comm("b") });
            recorded.push(Lane::Task, cpu, tid, ms * 1000, body);
        }
    }
    let (mut lost, mut kept) = (0, Vec::new());
    for (ring, ..) in std::mem::take(&mut recorded.rings) {
        let pages = ring.finish();
        let last = pages.len().saturating_sub(1);
        for (i, page) in pages.into_iter().enumerate() {
            let copy = Page::new(page.clone()).unwrap();
            // The ends of the rings stay.
            if i % 5 == 3 && i != last {
                lost += copy.summary().counts.total();
            } else {
                kept.push(page);
            }
        }
    }
    let known = kept.len();
    recorded.write(kept);
    let (_dir, path, pages) = recorded.finish();
    assert!(lost > 5000 && pages == known, "{lost} {pages}");
    for pages in [10, 100, 1000] {
        let about = About { threads: Vec::new(), ..about(0) };
        let summary = make_within(
            &path,
            &about,
            &meta(),
            &Living::default(),
            Bounds { pages, events: u64::MAX },
        )
        .unwrap();
        assert_eq!(
            summary.notes,
            [format!("{lost} events of the window are missing")],
            "{pages} pages"
        );
    }
}

#[test]
fn of_more_events_than_it_is_made_of_those_around_the_cause_are_taken() {
    let (_dir, path, _) = flooded(1, 1);
    for (subject, cause) in CAUSES.into_iter().enumerate() {
        let bounds = Bounds { pages: 300, events: 20_000 };
        let summary =
            make_within(&path, &about(subject), &meta(), &Living::default(), bounds).unwrap();
        let (from, until) = (summary.from / MS, summary.until / MS);
        assert!(
            (FROM..=cause).contains(&from) && (cause..=UNTIL).contains(&until) && from < until,
            "{from} {until}"
        );
        assert!(until - from < (UNTIL - FROM) / 2 && until - from > 2000, "{from} {until}");
        let [note] = &summary.notes[..] else { panic!("{:?}", summary.notes) };
        assert!(note.contains("s before the cause and"), "{note}");
        assert_eq!(summary.involved[0].thread.name, format!("db{subject}"));
    }
}
