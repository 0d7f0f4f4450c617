//! Crafted files that ask a reader for far more memory than they are long. Each is a file as the
//! recorder's own writer makes them, with right checksums: what is wrong is how much it claims, or
//! what it claims together.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{
    COPY_MAGIC, HEADER_LEN, Lane, MAGIC, PAGE_SIZE, PageHeader, UNIT, VERSION,
};
use flightrec_format::abi::record::{Abi, Rename, StringStatus};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::descriptors::{Descriptor, Object, Snapshot, Table};
use flightrec_format::encode::{PageWriter, write_header, write_slot};
use flightrec_format::meta::{Argument, CPUS_MAX, Lanes, Meta, Syscall};
use flightrec_store::block::PAGES_MAX;
use flightrec_store::snapshot::{About, Summary};
use flightrec_store::{Checkpoint, FileHeader, FileWriter, RingMark};
use flightrec_vmcore::synthetic::{self, Codec, Image};

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A recording.
    File,
    /// A kernel dump.
    Dump,
}

/// A kind of crafted file.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// What it is.
    pub form: Form,
    /// Makes one, of so many blocks: 1 MiB each in memory, as a rule.
    pub make: fn(usize) -> Result<Vec<u8>>,
    /// Whether making and reading one takes long.
    pub heavy: bool,
}

/// All there are.
pub const KINDS: &[Kind] = &[
    Kind { name: "hollow pages", form: Form::File, make: hollow, heavy: false },
    Kind {
        name: "pages that are not announced",
        form: Form::File,
        make: unannounced,
        heavy: false,
    },
    Kind { name: "long paths", form: Form::File, make: long_paths, heavy: true },
    Kind { name: "pages of one moment", form: Form::File, make: one_moment, heavy: false },
    Kind { name: "renamed threads", form: Form::File, make: threads, heavy: true },
    Kind { name: "calls without an end", form: Form::File, make: open_calls, heavy: true },
    Kind { name: "descriptors", form: Form::File, make: descriptors, heavy: true },
    Kind { name: "metadata", form: Form::File, make: metadata, heavy: false },
    Kind { name: "thread tables", form: Form::File, make: slots, heavy: true },
    Kind { name: "checkpoints", form: Form::File, make: checkpoints, heavy: true },
    Kind { name: "snapshot's answer", form: Form::File, make: answer, heavy: false },
    Kind { name: "pages in a dump", form: Form::Dump, make: dump, heavy: false },
];

/// The recording's secret, and what copies of its pages say.
const SECRET: u64 = 7;
const S: u64 = 1_000_000_000;
/// When the recording began.
const STARTED: u64 = 100 * S;

fn session() -> u64 {
    flightrec_format::identity::public_id(SECRET)
}

fn meta() -> Meta {
    let args = || Some(vec![Argument { name: "filename".into(), ctype: "const char *".into() }]);
    let call = |nr, name: &str| Syscall { nr, name: name.into(), args: args() };
    Meta {
        session: session(),
        boot_id: "01234567-89ab-cdef-0123-456789abcdef".into(),
        started: STARTED,
        cpus: vec![0, 1],
        lanes: Lanes::new([1 << 20; 4], [false; 4]),
        native: vec![call(2, "open"), call(59, "execve")],
        ..Meta::default()
    }
}

/// A file that is being written.
pub type File = FileWriter<Vec<u8>>;

/// Begins a file as the recorder does, with these metadata.
pub fn begin(meta: &Meta) -> Result<File> {
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: [1; 16],
        session: meta.session,
        number: 1,
        created_wall: 1 << 60,
        created_mono: STARTED,
        begins: 0,
    };
    let mut file = FileWriter::new(Vec::new(), &header, 1)?;
    file.meta(meta, STARTED)?;
    file.checkpoint(&Checkpoint { time: STARTED, rings: marks(2) })?;
    Ok(file)
}

fn marks(cpus: u16) -> Vec<RingMark> {
    let of_cpu = |cpu| Lane::RINGS.map(|lane| RingMark::new(lane, cpu));
    (0..cpus).flat_map(of_cpu).collect()
}

fn header(lane: Lane, cpu: u16, seq: u64, time: u64) -> PageHeader {
    PageHeader {
        magic: COPY_MAGIC,
        session: session(),
        version: VERSION,
        lane: lane as u8,
        flags: 0,
        cpu,
        header_len: HEADER_LEN as u16,
        seq,
        base_mono: time,
        base_tai: time,
        used: (HEADER_LEN / UNIT) as u32,
        detached: 0,
        events: Counts::ZERO,
        refused: [0; 3],
    }
}

fn page(header: &PageHeader) -> Result<Page> {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    if let Some(head) = bytes.first_chunk_mut() {
        *head = write_header(header);
    }
    Ok(Page::new(bytes)?)
}

/// Blocks of pages with nothing in them.
fn hollow(blocks: usize) -> Result<Vec<u8>> {
    let mut file = begin(&meta())?;
    for block in 0..blocks as u64 {
        let number = |i: u64| block * PAGES_MAX as u64 + i;
        let one = |i| page(&header(Lane::Syscall, 0, number(i) + 1, STARTED + number(i) * 1000));
        file.pages(&(0..PAGES_MAX as u64).map(one).collect::<Result<Vec<_>>>()?)?;
    }
    end(file, STARTED + blocks as u64 * PAGES_MAX as u64 * 1000)
}

/// Ends a file at a moment, by a checkpoint and its index.
fn end(mut file: File, last: u64) -> Result<Vec<u8>> {
    file.checkpoint(&Checkpoint { time: last + 1, rings: marks(2) })?;
    Ok(file.finish()?)
}

/// The same; but what the blocks' headers and the index say of how many they are is 1.
fn unannounced(blocks: usize) -> Result<Vec<u8>> {
    let mut bytes = hollow(blocks)?;
    crate::seal::announce(&mut bytes, 1);
    crate::seal::file(&mut bytes);
    Ok(bytes)
}

/// All pages are of one moment, so that no window is smaller.
fn one_moment(blocks: usize) -> Result<Vec<u8>> {
    let mut file = begin(&meta())?;
    for block in 0..blocks as u64 {
        let one = |i| page(&header(Lane::Sched, 0, block * PAGES_MAX as u64 + i + 1, STARTED + S));
        file.pages(&(0..PAGES_MAX as u64).map(one).collect::<Result<Vec<_>>>()?)?;
    }
    end(file, STARTED + 2 * S)
}

/// A file of a ring's events, so many blocks of them; `each` makes the event of a number.
pub fn of_events(
    meta: &Meta,
    lane: Lane,
    blocks: usize,
    each: impl Fn(u64) -> Event,
) -> Result<Vec<u8>> {
    let mut file = begin(meta)?;
    let mut ring = PageWriter::new(meta.session, lane, 0, 0);
    let (mut number, mut written, mut pages, mut last) = (0, 0, Vec::new(), STARTED);
    while written < blocks {
        let event = each(number);
        last = event.time;
        ring.push(&event).ok().context("an event that does not fit")?;
        number += 1;
        for page in ring.take() {
            pages.push(Page::new(page)?);
        }
        if pages.len() >= PAGES_MAX {
            let rest = pages.split_off(PAGES_MAX);
            file.pages(&pages)?;
            pages = rest;
            written += 1;
        }
    }
    for page in pages.into_iter().map(Ok).chain(ring.finish().into_iter().map(Page::new)) {
        file.pages(&[page?])?;
    }
    end(file, last)
}

fn open(time: u64, tid: u32, path: &[u8]) -> Event {
    let text = Text { index: 0, status: StringStatus::Whole, bytes: path.into() };
    let call = Call { nr: 2, abi: Abi::Native, nargs: 1, args: [0; 6], strings: vec![text] };
    Event { time, cpu: 0, tid, body: Body::Enter(call) }
}

/// What an unprivileged process makes the kernel write: a few events a page, and all alike.
fn long_paths(blocks: usize) -> Result<Vec<u8>> {
    let path = b"/tmp/./".repeat(36);
    of_events(&meta(), Lane::Syscall, blocks, |number| {
        open(STARTED + S + number * 10_000, 7, &path)
    })
}

/// A thread more with every event.
fn threads(blocks: usize) -> Result<Vec<u8>> {
    of_events(&meta(), Lane::Task, blocks, |number| {
        let tid = (number % (1 << 22)) as u32 + 1;
        let rename = Rename { tid, tgid: tid, old: [b'a'; 16], new: [b'b'; 16] };
        Event { time: STARTED + S + number * 1000, cpu: 0, tid, body: Body::Rename(rename) }
    })
}

/// A call with a path by each of millions of threads, none of which ends.
fn open_calls(blocks: usize) -> Result<Vec<u8>> {
    let path = b"x".repeat(250);
    of_events(&meta(), Lane::Syscall, blocks, |number| {
        open(STARTED + S + number, (number % (1 << 22)) as u32 + 1, &path)
    })
}

/// Snapshots of descriptors, each with as many names as fit.
fn descriptors(blocks: usize) -> Result<Vec<u8>> {
    let mut file = begin(&meta())?;
    for number in 0..(blocks as u64).min(2000) {
        let at = STARTED + S + number * 1000;
        let objects = vec![Object::Named(b"x".repeat(100).into()); 40];
        let files = |of: u32| {
            (0..4000).map(move |fd| Descriptor { fd, cloexec: false, object: (fd + of) % 40 })
        };
        let tables = (0..60)
            .map(|of| Table { processes: vec![of + 1], files: files(of).collect() })
            .collect();
        let snapshot =
            Snapshot { begin: at, end: at + 10, left_out: 0, objects, tables, divided: vec![7] };
        file.descriptors(at + 10, &snapshot.encode())?;
    }
    file.pages(&[page(&header(Lane::Syscall, 0, 1, STARTED + 10 * S))?])?;
    end(file, STARTED + 11 * S)
}

/// A description that is much larger in memory than in the file.
fn metadata(_: usize) -> Result<Vec<u8>> {
    let call = |nr| Syscall {
        nr,
        name: "a".into(),
        args: Some(vec![Argument { name: "b".into(), ctype: "c".into() }; 6]),
    };
    let cgroups: BTreeMap<u64, String> = (0..60_000).map(|id| (id, "/a".to_owned())).collect();
    let many = Meta {
        cpus: (0..CPUS_MAX as u16).collect(),
        wall_offsets: (0..40_000).collect(),
        native: (0..6000).map(call).collect(),
        compat: (0..6000).map(call).collect(),
        cgroups,
        ..meta()
    };
    let mut file = begin(&meta())?;
    file.meta(&many, STARTED)?;
    file.pages(&[page(&header(Lane::Syscall, 0, 1, STARTED + S))?])?;
    file.meta(&many, STARTED + S)?;
    end(file, STARTED + S)
}

/// Tables of threads of one moment, any number of them.
fn slots(blocks: usize) -> Result<Vec<u8>> {
    let mut file = begin(&meta())?;
    let fit = (PAGE_SIZE - HEADER_LEN) / size_of::<TaskSlot>();
    let page_of = |number: usize| {
        let mut out = [0; PAGE_SIZE];
        let (head, body) = out.split_at_mut(HEADER_LEN);
        let used = (PAGE_SIZE / UNIT) as u32;
        head.copy_from_slice(&write_header(&PageHeader {
            used,
            ..header(Lane::Slots, 0, number as u64 + 1, 0)
        }));
        for (i, to) in body.chunks_exact_mut(size_of::<TaskSlot>()).enumerate() {
            let tid = (number * fit + i + 1) as u32;
            to.copy_from_slice(&write_slot(&TaskSlot {
                tid,
                tgid: tid,
                ..flightrec_format::slots::parse(&[0; size_of::<TaskSlot>()])
            }));
        }
        out
    };
    // 4 MiB a block.
    for block in 0..blocks.min(100) {
        let pages: Vec<[u8; PAGE_SIZE]> = (0..1000).map(|i| page_of(block * 1000 + i)).collect();
        file.slots(STARTED, &pages)?;
    }
    file.pages(&[page(&header(Lane::Syscall, 0, 1, STARTED + S))?])?;
    end(file, STARTED + S)
}

/// Checkpoints of far more rings than there are.
fn checkpoints(blocks: usize) -> Result<Vec<u8>> {
    let mut file = begin(&meta())?;
    file.pages(&[page(&header(Lane::Syscall, 0, 1, STARTED + S))?])?;
    for number in 0..(blocks as u64).min(100) {
        file.checkpoint(&Checkpoint { time: STARTED + S + number, rings: marks(30_000) })?;
    }
    Ok(file.finish()?)
}

/// A snapshot whose first answer is long.
fn answer(_: usize) -> Result<Vec<u8>> {
    let mut file = begin(&meta())?;
    file.pages(&[page(&header(Lane::Syscall, 0, 1, STARTED + S))?])?;
    let summary = Summary {
        notes: vec![String::new(); 200_000],
        waits: vec![flightrec_store::snapshot::Wait::default(); 12_000],
        ..Summary::default()
    };
    let (from, until) = (STARTED, STARTED + 2 * S);
    let about = About {
        cause: "request".into(),
        from,
        until,
        held_from: from,
        summary,
        ..About::default()
    };
    file.snapshot(&about)?;
    Ok(file.finish()?)
}

/// Pages of many recordings in a dump.
fn dump(blocks: usize) -> Result<Vec<u8>> {
    let mut image = Image::new();
    for number in 0..(blocks as u64 * 8).min(20_000) {
        let header = PageHeader {
            magic: MAGIC,
            session: SECRET + number % 700,
            used: (HEADER_LEN / UNIT) as u32,
            ..header(Lane::Syscall, (number % 64) as u16, number + 1, STARTED + number * 1000)
        };
        image.insert(
            3 + number,
            Box::new(*page(&PageHeader { magic: COPY_MAGIC, ..header })?.bytes()),
        );
        if let Some(head) = image.get_mut(&(3 + number)).and_then(|page| page.first_chunk_mut()) {
            *head = write_header(&header);
        }
    }
    Ok(synthetic::kdump(&image, Codec::Zstd))
}
