//! Recordings told apart.

use flightrec_format::abi::page::VERSION;
use flightrec_format::decode::Page;
use flightrec_format::identity::public_id;
use flightrec_vmcore::{Dump, synthetic};

use crate::support::{Bytes, copied, description, file, recording, ring, scan, scattered};

fn dump(pages: &[Bytes]) -> (tempfile::NamedTempFile, Dump) {
    let file = file(&synthetic::raw(&scattered(pages)));
    let dump = Dump::open(file.path()).unwrap();
    (file, dump)
}

#[test]
fn the_newest_that_is_whole_comes_first() {
    let session = |id, boot: &str, started, at| {
        [description(id, boot, started), ring(id, 0, at, 300)].concat()
    };
    // Of the boot before, whose clock had gone further (and whose wall clock had not).
    let mut old_boot = session(1, "old", 50_000_000, 60_000_000);
    for page in old_boot.iter_mut().skip(3) {
        page[40..48].copy_from_slice(&5u64.to_le_bytes());
    }
    let before = session(2, "new", 100, 1000);
    let present = session(3, "new", 2_000_000, 3_000_000);
    // Newer than all, and its description is gone.
    let bare = ring(4, 0, 1 << 40, 300);
    let (_file, dump) = dump(&[before, bare, present, old_boot].concat());
    let scan = scan(&dump).unwrap();
    let ids: Vec<u64> = scan.sessions.iter().map(|session| session.id).collect();
    assert_eq!(ids, [3, 2, 1, 4].map(public_id));
    assert_eq!(scan.sessions[0].about.as_ref().map(|about| about.started), Some(2_000_000));
    assert_eq!(scan.sessions[3].about, None);
    assert!(scan.sessions[3].meta(&dump).is_err());
    assert_eq!(scan.sessions[3].cpus(), [0]);
}

#[test]
fn of_copies_the_fullest_is_given() {
    let mut pages = recording(7);
    let last = pages.last().unwrap().clone();
    let mut short = last.clone();
    // As the daemon may have copied it a moment before.
    short[48..52].copy_from_slice(&20u32.to_le_bytes());
    pages.extend([short.clone(), last.clone(), short]);
    let (_file, dump) = dump(&pages);
    let scan = scan(&dump).unwrap();
    let session = &scan.sessions[0];
    let sched = session.lanes.iter().find(|lane| lane.lane == 1).unwrap();
    assert_eq!((sched.pages, sched.copies), (pages.len() as u64 - 3 - 3, 3));
    assert!(session.is_whole(&[0, 1 << 20, 0]), "copies are no pages");
    let mut reader = dump.reader();
    let newest: Vec<_> = session.newest().filter(|page| page.cpu == 1).collect();
    assert_eq!(newest.len(), 2, "both full ones: either may have an exit folded");
    assert!(newest.iter().all(|page| reader.page(page).unwrap() == &*copied(&last, 7)));
}

#[test]
fn a_window_takes_the_pages_that_may_hold_it() {
    let pages = ring(7, 0, 1_000_000, 4000);
    let (_file, dump) = dump(&pages);
    let scan = scan(&dump).unwrap();
    let session = &scan.sessions[0];
    assert_eq!(session.pages(0, u64::MAX).count(), pages.len());
    let bases: Vec<u64> = session.pages(0, u64::MAX).map(|page| page.base_mono).collect();
    let of = |from, until| session.pages(from, until).map(|page| page.seq).collect::<Vec<_>>();
    // And the first page after it, whose counters tell what is missing at its end.
    assert_eq!(of(bases[2] + 5, bases[2] + 6), [3, 4]);
    assert_eq!(of(bases[2] - 1, bases[3]), [2, 3, 4]);
    assert_eq!(of(u64::MAX - 1, u64::MAX), [pages.len() as u64], "the last page has no end");
    assert!(of(0, bases[0]).is_empty());
}

#[test]
fn pages_of_other_releases_are_counted() {
    let mut pages = ring(7, 0, 1000, 1600);
    pages[0][16] = VERSION as u8 + 1;
    pages[1][18] = 77;
    pages[2][22] = 3;
    let total = pages.len() as u64;
    let (_file, dump) = dump(&pages);
    let scan = scan(&dump).unwrap();
    assert_eq!((scan.rejected.version, scan.rejected.lane, scan.rejected.damaged), (1, 1, 1));
    assert_eq!(scan.sessions[0].lanes[0].pages, total - 3);
}

#[test]
fn copies_in_memory_that_was_freed_are_not_taken() {
    let pages = recording(7);
    let rings = &pages[description(7, "boot", 5).len()..];
    // What a daemon had in its hands, of which other programs have since had some bytes: as long as
    // the ring's own.
    let stale = rings.iter().map(|page| {
        let mut copy = Box::new(*Page::new(page.clone()).unwrap().bytes());
        copy[1000..1004].copy_from_slice(&[0xee; 4]);
        copy
    });
    // In front of the ring's pages, or after them.
    let stale: Vec<Bytes> = stale.collect();
    for all in [[stale.clone(), pages.clone()].concat(), [pages.clone(), stale].concat()] {
        let (_file, dump) = dump(&all);
        let scan = scan(&dump).unwrap();
        let session = &scan.sessions[0];
        assert!(session.lanes.iter().all(|lane| lane.copies == 0), "{:?}", session.lanes);
        let mut reader = dump.reader();
        let read: Vec<Bytes> =
            session.pages(0, u64::MAX).map(|page| Box::new(*reader.page(page).unwrap())).collect();
        let rings: Vec<Bytes> = rings.iter().map(|page| copied(page, 7)).collect();
        assert!(read == rings, "other bytes than the rings'");
    }
}
