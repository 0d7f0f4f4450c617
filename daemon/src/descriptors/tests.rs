//! The walk's records, in any pieces, and what there is room for.

use std::io::{self, Read};
use std::net::SocketAddr;

use flightrec_format::abi::file::{CLOEXEC, FileRecord, SOCKET, SocketRecord, UNNAMED};
use flightrec_format::descriptors::{Descriptor, Ends, Object, Snapshot, Socket, Table};

use super::{Kept, fit, walk, wanted};
use crate::recording::Names;

fn record(tgid: u32, files: u64, fd: u32) -> FileRecord {
    FileRecord { tgid, tid: tgid, files, fd, ..FileRecord::default() }
}

fn bytes(records: &[(FileRecord, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (record, text) in records {
        let record = FileRecord { text: text.len() as u32, ..*record };
        // SAFETY: plain integers without padding (their size is pinned in format::abi::file).
        let plain = unsafe {
            std::slice::from_raw_parts((&raw const record).cast::<u8>(), size_of::<FileRecord>())
        };
        out.extend_from_slice(plain);
        out.extend_from_slice(text);
    }
    out
}

/// Gives its bytes a few at a time, and says now and then that there is nothing yet.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = buf.len().min(7).min(self.0.len());
        let (now, later) = self.0.split_at(n);
        buf[..n].copy_from_slice(now);
        self.0 = later;
        Ok(n)
    }
}

fn named(name: &str) -> Object {
    Object::Named(name.as_bytes().into())
}

fn file(fd: u32, cloexec: bool, object: u32) -> Descriptor {
    Descriptor { fd, cloexec, object }
}

#[test]
fn a_short_window_gets_the_latest_snapshot_before_it() {
    let kept = [(10, 20), (30, 40), (50, 60)]
        .map(|(begin, end)| Kept { begin, end, pages: Vec::new() })
        .into();
    let of = |from, until| wanted(&kept, from, until).map(|kept| kept.begin).collect::<Vec<_>>();
    // As `ps` asks: what is now, a moment after the last one was taken.
    assert_eq!(of(65, 65), [50]);
    assert_eq!(of(65, u64::MAX), [50]);
    // The first after a window tells of it; without one, the latest.
    assert_eq!((of(41, 45), of(5, 15), of(25, 70)), (vec![50], vec![10], vec![30, 50]));
    // One that was taken while the window began.
    assert_eq!(of(55, 58), [50]);
    assert_eq!(wanted(&[].into(), 5, 10).count(), 0);
}

#[test]
fn names_stand_once_and_tables_are_shared() {
    let exec = FileRecord { flags: CLOEXEC, ..record(20, 0xa, 5) };
    let all = bytes(&[
        (record(10, 0xa, 0), b"/dev/null"),
        (FileRecord { tgid: 10, tid: 10, ..exec }, b"/x"),
        (record(20, 0xa, 0), b"/dev/null"),
        (exec, b"/x"),
        // The address has been given away meanwhile, so this is another table.
        (record(30, 0xa, 0), b"/x"),
        (FileRecord { flags: UNNAMED, ..record(40, 0xb, 1) }, b""),
    ]);
    let want = Snapshot {
        objects: vec![named("/dev/null"), named("/x"), named("")],
        tables: vec![
            Table { processes: vec![10, 20], files: vec![file(0, false, 0), file(5, true, 1)] },
            Table { processes: vec![30], files: vec![file(0, false, 1)] },
            Table { processes: vec![40], files: vec![file(1, false, 2)] },
        ],
        ..Snapshot::default()
    };
    assert_eq!(walk::read(all.as_slice(), Names::ALL).unwrap(), want);
    assert_eq!(walk::read(Slow(&all, 0), Names::ALL).unwrap(), want);
    // The rest of a record that never comes is no descriptor.
    assert_eq!(walk::read(&all[..all.len() - 1], Names::ALL).unwrap().tables.len(), 2);
}

#[test]
fn a_process_whose_threads_differ_has_no_table() {
    let thread = FileRecord { tid: 11, ..record(10, 0xb, 0) };
    let all = bytes(&[(record(10, 0xa, 0), b"/a"), (thread, b"/b"), (record(12, 0xc, 0), b"/a")]);
    let Snapshot { tables, divided, .. } = walk::read(all.as_slice(), Names::ALL).unwrap();
    assert_eq!(tables, [Table { processes: vec![12], files: vec![file(0, false, 0)] }]);
    assert_eq!(divided, [10]);
}

/// Its first thread has ended: the others stand for it.
#[test]
fn a_process_without_its_leader_has_the_table_of_its_threads() {
    let thread = |tid, files, fd| FileRecord { tid, ..record(10, files, fd) };
    let of = |last: FileRecord| {
        let all = bytes(&[
            (thread(11, 0xa, 0), b"/a"),
            (thread(11, 0xa, 4), b"/b"),
            (thread(12, 0xa, 0), b"/a"),
            (thread(12, 0xa, 4), b"/b"),
            (last, b"/a"),
        ]);
        walk::read(all.as_slice(), Names::ALL).unwrap().tables
    };
    let files = vec![file(0, false, 0), file(4, false, 1)];
    assert_eq!(of(thread(13, 0xa, 0)), [Table { processes: vec![10], files }]);
    assert_eq!(of(thread(13, 0xb, 0)), [], "one has left it");
}

#[test]
fn sockets() {
    let of = |fd, socket| FileRecord { flags: SOCKET, socket, ..record(1, 1, fd) };
    let inet = SocketRecord {
        inode: 7,
        family: 2,
        kind: 1,
        protocol: 6,
        local_port: 80,
        remote_port: 5000,
        local: *b"\x7f\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0",
        remote: *b"\x0a\x01\x02\x03\0\0\0\0\0\0\0\0\0\0\0\0",
        ..SocketRecord::default()
    };
    let inet = of(3, inet);
    let unix = of(4, SocketRecord { inode: 8, family: 1, kind: 2, peer: 9, ..Default::default() });
    let netlink = of(7, SocketRecord { inode: 10, family: 16, kind: 3, ..Default::default() });
    let all = bytes(&[
        (inet, b""),
        (unix, b"/run/x\0\0"),
        (FileRecord { fd: 5, ..unix }, b"\0abs\0tract"),
        (netlink, b""),
    ]);
    let ends = Ends::Inet {
        local: "127.0.0.1:80".parse::<SocketAddr>().unwrap(),
        remote: "10.1.2.3:5000".parse::<SocketAddr>().unwrap(),
    };
    let unix = |name: &[u8]| {
        let ends = Ends::Unix { peer: 9, name: name.into() };
        Object::Socket(Socket { inode: 8, family: 1, kind: 2, protocol: 0, ends })
    };
    let want = [
        Object::Socket(Socket { inode: 7, family: 2, kind: 1, protocol: 6, ends }),
        unix(b"/run/x"),
        unix(b"\0abs\0tract"),
        Object::Socket(Socket { inode: 10, family: 16, kind: 3, protocol: 0, ends: Ends::Unknown }),
    ];
    assert_eq!(walk::read(all.as_slice(), Names::ALL).unwrap().objects, want);
}

#[test]
fn names_that_are_not_to_be_recorded() {
    let of = |fd, socket| FileRecord { flags: SOCKET, socket, ..record(1, 1, fd) };
    let inet = SocketRecord {
        family: 2,
        local: *b"SECRETSECRETSECR",
        remote: *b"SECRETSECRETSECR",
        local_port: 77,
        ..SocketRecord::default()
    };
    let inet = of(5, inet);
    let unix = of(4, SocketRecord { family: 1, ..SocketRecord::default() });
    let all = bytes(&[
        (record(1, 1, 0), b"pipe:[5]"),
        (record(1, 1, 1), b"/home/SECRET"),
        (record(1, 1, 2), b"/memfd:SECRET (deleted)"),
        (record(1, 1, 3), b"anon_inode:[eventpoll]"),
        (unix, b"/run/SECRET\0"),
        (inet, b""),
    ]);
    let told = |paths, addresses| {
        let names = Names { paths, addresses };
        let objects = walk::read(all.as_slice(), names).unwrap().objects;
        format!("{objects:?}")
    };
    let secret = format!("{:?}", b"SECRET");
    let bytes_of = |text: &str| text.matches(secret.trim_matches(['[', ']'])).count();
    // Of two files and of a socket.
    assert_eq!(bytes_of(&told(true, true)), 3);
    assert_eq!(bytes_of(&told(false, true)), 0);
    assert_eq!(bytes_of(&told(true, false)), 2);
    let none = told(false, false);
    assert!(bytes_of(&none) == 0 && !none.contains(":77") && told(true, true).contains(":77"));
    // Names of pipes are the kernel's own.
    let kinds = walk::read(all.as_slice(), Names { paths: false, addresses: false }).unwrap();
    for name in ["pipe:[5]", "anon_inode:[eventpoll]"] {
        assert!(kinds.objects.contains(&named(name)), "{:?}", kinds.objects);
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    let names: Vec<String> = (0..600).map(|n| format!("/a/longer/name/{n}")).collect();
    let many =
        names.iter().enumerate().map(|(fd, name)| (record(10, 0xa, fd as u32), name.as_bytes()));
    let few = (20..40).map(|tgid| (record(tgid, u64::from(tgid), 0), &b"/few"[..]));
    let all = bytes(&many.chain(few).collect::<Vec<_>>());
    let whole = walk::read(all.as_slice(), Names::ALL).unwrap();
    let room = 4000;
    let mut cut = whole.clone();
    let document = fit::encode(&mut cut, room);
    assert!(document.len() <= room && whole.encode().len() > room);
    assert_eq!(Snapshot::decode(&document).unwrap(), cut);
    let left = cut.tables.iter().map(|table| table.files.len() as u64).sum::<u64>();
    assert_eq!(left + cut.left_out, 620);
    assert!(left > 20 && cut.tables.len() == 21, "the many do not crowd the few out: {left}");
    for table in &cut.tables {
        for file in &table.files {
            let whole = whole.tables.iter().find(|t| t.processes == table.processes).unwrap();
            let number = whole.files.iter().find(|f| f.fd == file.fd).unwrap().object;
            assert_eq!(cut.objects[file.object as usize], named_in(&names, number));
        }
    }
    // Not even one of each.
    let mut least = whole;
    assert!(fit::encode(&mut least, 60).len() <= 60);
    assert_eq!(
        least.tables.iter().map(|t| t.files.len() as u64).sum::<u64>() + least.left_out,
        620
    );
}

fn named_in(names: &[String], number: u32) -> Object {
    names.get(number as usize).map_or(named("/few"), |name| named(name))
}

#[test]
fn one_process_can_not_take_all_memory() {
    struct Endless(u32, Vec<u8>);
    impl Read for Endless {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.1.is_empty() && self.0 < 400_000 {
                let name = format!("/{:0>200}", self.0);
                self.1 = bytes(&[(record(1 + self.0 / 100_000, 7, self.0), name.as_bytes())]);
                self.0 += 1;
            }
            let n = buf.len().min(self.1.len());
            buf[..n].copy_from_slice(&self.1[..n]);
            self.1.drain(..n);
            Ok(n)
        }
    }
    let snapshot = walk::read(Endless(0, Vec::new()), Names::ALL).unwrap();
    let kept: usize = snapshot.tables.iter().map(|table| table.files.len()).sum();
    assert_eq!(kept as u64 + snapshot.left_out, 400_000);
    assert!(snapshot.objects.len() * 200 <= 2 << 20);
}
