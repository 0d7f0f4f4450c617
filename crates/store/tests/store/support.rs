//! Small recordings to write and read.

use std::fs::File;
use std::path::{Path, PathBuf};

use flightrec_format::abi::kinds::{BlockIssue, Kind};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Rename};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Body, Call, Event, Page, Plain};
use flightrec_format::encode::{PageWriter, write_header, write_slot};
use flightrec_format::meta::Meta;
use flightrec_store::snapshot::About;
use flightrec_store::{Checkpoint, Content, FileHeader, FileReader, FileWriter, RingMark};

pub(crate) const SESSION: u64 = 0x5e55_1011;
pub(crate) const BOOT: [u8; 16] = *b"0123456789abcdef";

/// A ring on a CPU.
pub(crate) fn ring(lane: Lane, cpu: u16) -> PageWriter {
    PageWriter::new(SESSION, lane, cpu, 37_000_000_000)
}

/// An event of a lane; of system calls an entry, into which nothing folds.
pub(crate) fn event(lane: Lane, time: u64, tid: u32, n: u64) -> Event {
    let body = match lane {
        Lane::Syscall => {
            let (nr, args) = ((n % 3) as u16, [3, n, 0x7fff_0000_1000 + n, 0, 0, 0]);
            Body::Enter(Call { nr, abi: Abi::Native, nargs: 3, args, strings: Vec::new() })
        }
        Lane::Sched => {
            let (next, prev_state) = (tid + 1, (n % 2) as u16);
            Body::Switch {
                prev_prio: 120,
                prev_state,
                preempted: false,
                io_wait: tid.is_multiple_of(2),
                next,
                next_prio: 120,
            }
        }
        Lane::Kernel => {
            let (request, sector) = (tid, 8 * n);
            let issue = BlockIssue {
                request,
                device: 254 << 20,
                sector,
                bytes: 4096,
                op: (n % 2) as u32,
                flags: 0x800,
                context: 1,
            };
            Body::Plain(Plain::read(Kind::BlockIssue, &issue.bytes()).unwrap())
        }
        _ => Body::Rename(Rename { tid, tgid: tid, old: [b'a'; 16], new: [b'b'; 16] }),
    };
    Event { time, cpu: 0, tid, body }
}

/// The ring's pages that are full, and the open one.
pub(crate) fn pages(writer: &mut PageWriter) -> Vec<Page> {
    let closed = writer.take();
    closed.into_iter().chain(writer.current()).map(|page| Page::new(page).unwrap()).collect()
}

pub(crate) fn meta() -> Meta {
    Meta {
        session: SESSION,
        host: "testhost".into(),
        started: 50,
        cpus: vec![0, 1],
        ..Meta::default()
    }
}

/// A page of the thread table with these threads.
pub(crate) fn slots(tids: &[u32]) -> [u8; 4096] {
    let mut page = [0; 4096];
    page[..128]
        .copy_from_slice(&write_header(&PageWriter::new(SESSION, Lane::Slots, 0, 0).header()));
    page[24] = 1;
    for (i, tid) in tids.iter().enumerate() {
        page[128 * (i + 1)..][..128].copy_from_slice(&write_slot(&slot(*tid)));
    }
    page
}

pub(crate) fn slot(tid: u32) -> TaskSlot {
    TaskSlot {
        seq: 2,
        tid,
        tgid: tid,
        flags: 0,
        start_time: 7,
        cgroup: 1,
        comm: *b"sleeper\0\0\0\0\0\0\0\0\0",
        since: 0,
        state: 0,
        nr: 0,
        args: [0; 6],
        ppid: 1,
        prio: 120,
        abi: 0,
        known: 0,
    }
}

pub(crate) fn header() -> FileHeader {
    FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: BOOT,
        session: SESSION,
        number: 7,
        created_wall: 1_795_262_703_000_000_000,
        created_mono: 40,
        begins: 0,
    }
}

/// What a small file holds, block by block, and where: all kinds, all lanes, some pages in parts.
pub(crate) fn content(events: u64) -> Vec<Content> {
    let mut content = vec![
        Content::Meta(Box::new(meta())),
        Content::Slots(vec![slot(5), slot(9)]),
        Content::Descriptors(b"descriptors".to_vec()),
        Content::Checkpoint(Checkpoint { time: 60, rings: vec![RingMark::new(Lane::Sched, 1)] }),
    ];
    for lane in Lane::RINGS {
        let mut ring = ring(lane, 1);
        let mut cut = None;
        for i in 0..events {
            ring.push(&event(lane, 100 + i * 1000, 5, i)).unwrap();
            if i == events / 2 {
                let pages = pages(&mut ring);
                cut = pages.last().map(|page| (page.header().seq, page.header().used));
                content.push(Content::Pages(tidy(&pages)));
            }
        }
        let mut rest = pages(&mut ring);
        if let (Some((seq, used)), Some(first)) = (cut, rest.first_mut())
            && first.header().seq == seq
        {
            *first = flightrec_store::part::tail(first, used).unwrap();
        }
        content.push(Content::Pages(tidy(&rest)));
    }
    content.push(Content::Checkpoint(Checkpoint { time: 100 + events * 1000, rings: Vec::new() }));
    content.push(Content::Snapshot(Box::new(about())));
    content
}

/// Why a snapshot was taken.
pub(crate) fn about() -> About {
    About {
        cause: "request".into(),
        reason: "slow \u{7f}".into(),
        time: 5000,
        threads: vec![5],
        ..About::default()
    }
}

/// Without what stands after what is in use.
pub(crate) fn tidy(pages: &[Page]) -> Vec<Page> {
    pages.iter().map(|page| flightrec_store::part::head(page, page.header().used)).collect()
}

/// Writes a file of this content.
pub(crate) fn write(path: &Path, content: &[Content]) {
    let mut writer = FileWriter::new(File::create(path).unwrap(), &header(), 1).unwrap();
    for content in content {
        match content {
            Content::Meta(meta) => writer.meta(meta, 50),
            Content::Pages(pages) => writer.pages(pages),
            Content::Slots(threads) => {
                writer.slots(55, &[slots(&threads.iter().map(|s| s.tid).collect::<Vec<_>>())])
            }
            Content::Descriptors(bytes) => writer.descriptors(55, bytes),
            Content::Checkpoint(checkpoint) => writer.checkpoint(checkpoint),
            Content::Snapshot(about) => writer.snapshot(about),
        }
        .unwrap();
    }
    writer.finish().unwrap();
}

/// A small file in a directory.
pub(crate) fn small(dir: &Path) -> (PathBuf, Vec<Content>) {
    let (path, content) = (dir.join("small.flight"), content(12));
    write(&path, &content);
    (path, content)
}

/// All that a reader gets out of a file.
pub(crate) fn read(reader: &FileReader) -> Vec<Content> {
    reader.blocks().iter().filter_map(|block| reader.read(block).ok()).collect()
}
