//! What snapshots name, and from when on.

use flightrec_format::abi::kinds::{Compaction, Kind};
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::{Exec, Fork, SHARES_FILES, StringStatus};
use flightrec_format::decode::{Body, Call, Event, Plain};
use flightrec_format::descriptors::{Descriptor, Ends, Object, Snapshot, Socket, Table};
use flightrec_format::encode::PageWriter;
use flightrec_format::merge::Merge;
use flightrec_format::meta::Lanes;
use flightrec_format::meta::{Meta, Syscall};
use flightrec_format::totals::Totals;

use crate::fds::Fds;
use crate::pipeline::testing::{call, comm, event, fork, text};
use crate::source::{Collector, PageSet};

const CALLS: [(&str, u16); 10] = [
    ("read", 0),
    ("close", 3),
    ("dup2", 33),
    ("connect", 42),
    ("fcntl", 72),
    ("openat", 257),
    ("pipe2", 293),
    ("close_range", 436),
    ("io_uring_enter", 426),
    ("io_uring_setup", 425),
];
const P: u32 = 10;
const HERE: u64 = libc::AT_FDCWD as u32 as u64;

/// Processes that share their descriptors, and what they have.
type Open<'a> = (&'a [u32], &'a [(u32, Object)]);

/// What happens on one CPU, and the snapshots that are taken meanwhile.
struct Story {
    rings: Vec<(Lane, PageWriter)>,
    snapshots: Vec<Snapshot>,
    meta: Meta,
}

fn nr(name: &str) -> u16 {
    CALLS.iter().find(|(known, _)| *known == name).unwrap().1
}

impl Story {
    fn new() -> Self {
        let native = CALLS
            .iter()
            .map(|(name, nr)| Syscall { nr: *nr, name: (*name).into(), args: None })
            .collect();
        let meta = Meta { session: 1, started: 1, cpus: vec![0], native, ..Meta::default() };
        let lanes = [Lane::Syscall, Lane::Task, Lane::Kernel];
        let rings = lanes.map(|lane| (lane, PageWriter::new(1, lane, 0, 0)));
        Self { rings: rings.into(), snapshots: Vec::new(), meta }
    }

    fn push(&mut self, lane: Lane, event: &Event) -> &mut Self {
        self.rings.iter_mut().find(|ring| ring.0 == lane).unwrap().1.push(event).unwrap();
        self
    }

    fn made(name: &str, args: &[u64]) -> Call {
        let mut made = call(nr(name));
        made.nargs = args.len() as u8;
        made.args[..args.len()].copy_from_slice(args);
        made
    }

    /// A call from `at` to 20 ns later, by this thread.
    fn by(&mut self, tid: u32, at: u64, name: &str, args: &[u64], ret: i64) -> &mut Self {
        self.push(Lane::Syscall, &event(at, 0, tid, Body::Enter(Self::made(name, args))));
        let exit = Body::Exit { call: call(nr(name)), ret, entered: Some(at) };
        self.push(Lane::Syscall, &event(at + 16, 0, tid, exit))
    }

    fn call(&mut self, at: u64, name: &str, args: &[u64], ret: i64) -> &mut Self {
        self.by(P, at, name, args, ret)
    }

    fn open(&mut self, at: u64, path: &str, ret: i64) -> &mut Self {
        let mut made = Self::made("openat", &[HERE, 0, 0, 0]);
        made.strings = vec![text(1, StringStatus::Whole, path)];
        self.push(Lane::Syscall, &event(at, 0, P, Body::Enter(made)));
        let exit = Body::Exit { call: call(nr("openat")), ret, entered: Some(at) };
        self.push(Lane::Syscall, &event(at + 16, 0, P, exit))
    }

    fn exec(&mut self, at: u64) -> &mut Self {
        let exec = Exec { tid: P, old_tid: P, tgid: P, args_len: 0, cgroup: 0, comm: comm("new") };
        self.push(Lane::Task, &event(at, 0, P, Body::Exec { exec, file: None, args: None }))
    }

    /// A snapshot that is taken in 100 ns, of processes and their descriptors.
    fn taken(&mut self, begin: u64, tables: &[Open<'_>]) -> &mut Self {
        let mut snapshot = Snapshot { begin, end: begin + 100, ..Snapshot::default() };
        for (processes, files) in tables {
            let mut table = Table { processes: processes.to_vec(), files: Vec::new() };
            for (fd, object) in *files {
                let number = snapshot.objects.len() as u32;
                table.files.push(Descriptor { fd: *fd, cloexec: false, object: number });
                snapshot.objects.push(object.clone());
            }
            snapshot.tables.push(table);
        }
        self.snapshots.push(snapshot);
        self
    }

    fn recording(self) -> PageSet {
        let mut collector = Collector::new(self.meta);
        for (_, ring) in self.rings {
            for page in ring.finish() {
                collector.add(page.as_slice()).unwrap();
            }
        }
        let mut recording = collector.finish(Totals::default());
        recording.descriptors = self.snapshots;
        recording
    }

    /// What a descriptor is called before each of these moments.
    fn names(&mut self, process: u32, fd: i32, at: &[u64]) -> String {
        let recording = std::mem::replace(self, Self::new()).recording();
        let mut fds = Fds::of(&recording, true);
        let mut threads = recording.threads();
        let mut events =
            Merge::new(recording.streams.iter().map(|stream| stream.events())).peekable();
        let mut names = Vec::new();
        for at in at {
            while let Some(event) = events.next_if(|event| event.time < *at) {
                fds.advance(event.time.saturating_sub(1));
                fds.apply(&event, &threads);
                threads.apply(&event);
            }
            fds.advance(at - 1);
            let name = fds.names(process, process).get(fd).map_or(b"-".to_vec(), <[u8]>::to_vec);
            names.push(String::from_utf8(name).unwrap());
        }
        names.join(" ")
    }
}

fn named(name: &str) -> Object {
    Object::Named(name.as_bytes().into())
}

/// Threads of which it is not known which has which table.
#[test]
fn a_process_whose_threads_differ_is_not_known_until_they_do_not() {
    let mut story = Story::new();
    story.open(1000, "/a", 3).taken(2000, &[]);
    story.snapshots[0].divided = vec![P];
    story.open(3000, "/b", 4).taken(5000, &[(&[P], &[(3, named("/c"))])]);
    assert_eq!(story.names(P, 4, &[3500]), "-");
    story.open(1000, "/a", 3).taken(2000, &[]);
    story.snapshots[0].divided = vec![P];
    story.taken(5000, &[(&[P], &[(3, named("/c"))])]).open(6000, "/d", 5);
    assert_eq!(story.names(P, 3, &[500, 1500, 2500, 5500]), "- - - /c");
}

/// A thread that has left its process's table in a recorded call.
#[test]
fn threads_that_are_known_to_differ_are_followed() {
    let mut story = Story::new();
    story.taken(500, &[(&[P], &[])]).open(1000, "/a", 3);
    story.call(1500, "close_range", &[99, 99, 2], 0).taken(2000, &[]);
    story.snapshots[1].divided = vec![P];
    assert_eq!(story.names(P, 3, &[1400, 1800, 2500]), "/a /a /a");
}

#[test]
fn what_was_open_before_is_named_from_the_beginning() {
    let mut story = Story::new();
    story.call(1000, "read", &[3], 1).taken(5000, &[(&[P], &[(3, named("/a"))])]).call(
        6000,
        "close",
        &[3],
        0,
    );
    assert_eq!(story.names(P, 3, &[2, 1000, 5500, 6000, 6010]), "/a /a /a /a -");
}

#[test]
fn a_change_in_the_window_is_not_misnamed_before_it() {
    let pipe = || named("pipe:[7]");
    let mut story = Story::new();
    story
        .call(1000, "close", &[3], 0)
        .call(1100, "pipe2", &[0x1000, 0], 0)
        .taken(5000, &[(&[P], &[(3, pipe())])]);
    assert_eq!(story.names(P, 3, &[1000, 1017, 1200]), "- pipe:[7] pipe:[7]");
    story.call(1000, "dup2", &[9, 3], 3).taken(5000, &[(&[P], &[(3, pipe())])]);
    assert_eq!(story.names(P, 3, &[1000, 1017]), "- pipe:[7]");
    story
        .call(1000, "close_range", &[3, 8, 0], 0)
        .taken(5000, &[(&[P], &[(3, pipe()), (9, pipe())])]);
    assert_eq!(story.names(P, 3, &[1000, 1017]), "- pipe:[7]");
    story.call(1000, "close_range", &[3, 8, 0], 0).taken(5000, &[(&[P], &[(9, pipe())])]);
    assert_eq!(story.names(P, 9, &[1000]), "pipe:[7]", "out of the range");
    // It was no descriptor at all.
    story.call(1000, "read", &[3], -9).taken(5000, &[(&[P], &[(3, pipe())])]);
    assert_eq!(story.names(P, 3, &[1000, 1017]), "- pipe:[7]");
    // Commands of fcntl that return no descriptor.
    story.call(1000, "fcntl", &[3, 3], 3).taken(5000, &[(&[P], &[(3, pipe())])]);
    assert_eq!(story.names(P, 3, &[1000]), "pipe:[7]");
}

#[test]
fn what_changes_while_the_snapshot_is_taken_is_left_out() {
    let mut story = Story::new();
    story.taken(5000, &[(&[P], &[(3, named("/a")), (4, named("/b"))])]).call(
        5050,
        "close",
        &[3],
        0,
    );
    assert_eq!(story.names(P, 3, &[1000, 6000]), "- -");
    story.taken(5000, &[(&[P], &[(3, named("/a")), (4, named("/b"))])]).call(
        5050,
        "close",
        &[3],
        0,
    );
    assert_eq!(story.names(P, 4, &[1000, 6000]), "/b /b");
    // A closing whose end is not at hand may not have been done when the snapshot was taken.
    let enter = event(4990, 0, P, Body::Enter(Story::made("close", &[3])));
    story.push(Lane::Syscall, &enter).taken(5000, &[(&[P], &[(3, named("/a"))])]);
    assert_eq!(story.names(P, 3, &[1000, 6000]), "- -");
}

#[test]
fn nothing_is_known_from_before_a_loss() {
    let mut story = Story::new();
    story.call(1000, "read", &[3], 1);
    story.rings[0].1.refuse(Refusal::Throttled);
    for n in 0..300 {
        story.call(2000 + 20 * n, "read", &[9], 1);
    }
    story.taken(20_000, &[(&[P], &[(3, named("/a"))])]);
    assert_eq!(story.names(P, 3, &[1000, 2000, 20_000]), "- - /a");
}

/// An event of the kernel lane.
fn compaction(at: u64) -> Event {
    let of = Compaction { duration: 5, order: 1, mode: 0, result: 0, reserved: 0 };
    event(at, 0, P, Body::Plain(Plain::read(Kind::Compaction, &of.bytes()).unwrap()))
}

#[test]
fn what_is_missing_of_the_kernel_lane_matters_to_rings_alone() {
    let told = || {
        let mut story = Story::new();
        story.call(1000, "read", &[3], 1).push(Lane::Kernel, &compaction(1500));
        story.rings[2].1.refuse(Refusal::Busy);
        for n in 0..300 {
            story.push(Lane::Kernel, &compaction(2000 + n));
        }
        story
    };
    let named_3: &[Open<'_>] = &[(&[P], &[(3, named("/a"))])];
    let mut story = told();
    story.taken(5000, named_3);
    assert_eq!(story.names(P, 3, &[1000, 2000, 6000]), "/a /a /a");
    // Somebody has a ring, or makes one; or it is not known who has one.
    let mut story = told();
    story.taken(5000, &[named_3[0], (&[20], &[(4, named("anon_inode:[io_uring]"))])]);
    assert_eq!(story.names(P, 3, &[1000, 2000, 6000]), "- - /a");
    let mut story = told();
    story.by(20, 3000, "io_uring_setup", &[8, 0], 4).taken(5000, named_3);
    assert_eq!(story.names(P, 3, &[1000, 2000, 6000]), "- - /a");
    let mut story = told();
    story.taken(5000, named_3).snapshots[0].left_out = 1;
    assert_eq!(story.names(P, 3, &[1000, 2000, 6000]), "- - /a");
}

#[test]
fn an_exec_or_a_birth_is_as_far_as_it_goes() {
    let mut story = Story::new();
    story.call(500, "read", &[3], 1).exec(1000).taken(5000, &[(&[P], &[(3, named("/a"))])]);
    assert_eq!(story.names(P, 3, &[900, 1001]), "- /a");
    // The id was another process's before.
    story.push(Lane::Task, &event(1000, 0, 5, Body::Fork(fork(5, 5, P, P, "child"))));
    story.taken(5000, &[(&[P], &[(3, named("/a"))])]);
    assert_eq!(story.names(P, 3, &[900, 1001]), "- /a");
}

#[test]
fn children_have_what_their_parents_had() {
    let mut story = Story::new();
    story.push(Lane::Task, &event(1000, 0, P, Body::Fork(fork(P, P, 20, 20, "child"))));
    story.by(20, 2000, "close", &[3], 0).taken(5000, &[(&[P], &[(3, named("/a"))])]);
    assert_eq!(story.names(20, 3, &[900, 1001, 2001]), "- /a -");
}

#[test]
fn those_who_share_change_it_for_all() {
    let mut story = Story::new();
    let shared: &[Open<'_>] = &[(&[P, 20], &[(3, named("/a")), (4, named("/b"))])];
    story.by(20, 1000, "close", &[3], 0).taken(5000, shared);
    assert_eq!(story.names(P, 3, &[900, 1017]), "- /a");
    story.taken(5000, shared).by(20, 6000, "close", &[4], 0);
    assert_eq!(story.names(P, 4, &[900, 6001]), "/b -");
    // A sharer of which only its birth is known.
    let sharer = Fork { shares: SHARES_FILES, ..fork(P, P, 30, 30, "sharer") };
    story.push(Lane::Task, &event(910, 0, P, Body::Fork(sharer)));
    story.by(30, 1000, "close", &[3], 0).taken(5000, &[(&[P], &[(3, named("/a"))])]);
    assert_eq!(story.names(P, 3, &[950, 1017]), "- /a");
}

#[test]
fn a_ring_changes_descriptors_without_a_call() {
    let mut story = Story::new();
    story.taken(5000, &[(&[P], &[(3, named("/a")), (4, named("anon_inode:[io_uring]"))])]);
    assert_eq!(story.names(P, 3, &[1000, 6000]), "- -");
    story.call(1000, "io_uring_enter", &[4, 1], 1).taken(5000, &[(&[P], &[(3, named("/a"))])]);
    assert_eq!(story.names(P, 3, &[1000, 1017]), "- /a");
}

#[test]
fn a_relative_path_becomes_whole() {
    let mut story = Story::new();
    story.open(1000, "dir/file", 3).taken(5000, &[(&[P], &[(3, named("/home/dir/file"))])]);
    assert_eq!(story.names(P, 3, &[1000, 1017]), "- /home/dir/file");
    // Not if it has another name by now, or was opened by a name of its own.
    story.open(1000, "dir/file", 3).taken(5000, &[(&[P], &[(3, named("/home/dir/other"))])]);
    assert_eq!(story.names(P, 3, &[1017]), "dir/file");
    story.open(1000, "/link", 3).taken(5000, &[(&[P], &[(3, named("/target"))])]);
    assert_eq!(story.names(P, 3, &[1017]), "/link");
}

#[test]
fn a_socket_is_bare_until_it_is_connected() {
    let ends = Ends::Inet {
        local: "127.0.0.1:80".parse().unwrap(),
        remote: "127.0.0.1:5".parse().unwrap(),
    };
    let socket = Object::Socket(Socket { inode: 77, family: 2, kind: 1, protocol: 6, ends });
    let mut story = Story::new();
    story.call(1000, "connect", &[3, 0, 16], 0).taken(5000, &[(&[P], &[(3, socket)])]);
    assert_eq!(
        story.names(P, 3, &[900, 1010, 1017]),
        "TCP:[77] TCP:[77] TCP:[127.0.0.1:80->127.0.0.1:5]"
    );
}

#[test]
fn of_several_snapshots_each_tells_of_its_stretch() {
    let first: &[Open<'_>] = &[(&[P], &[(3, named("/a")), (4, named("/same"))])];
    let second: &[Open<'_>] = &[(&[P], &[(3, named("pipe:[1]")), (4, named("/same"))])];
    let told = || {
        let mut story = Story::new();
        story
            .taken(3000, first)
            .call(4000, "close", &[3], 0)
            .call(4100, "pipe2", &[0x1000, 0], 0)
            .taken(5000, second);
        story
    };
    assert_eq!(told().names(P, 3, &[1000, 3500, 4000, 4017, 9000]), "/a /a /a pipe:[1] pipe:[1]");
    assert_eq!(told().names(P, 4, &[1000, 9000]), "/same /same");
}

#[test]
fn without_calls_or_births_nothing_is_named() {
    for lane in [0, 2] {
        let mut story = Story::new();
        story.meta.lanes = Lanes::new([0; 4], std::array::from_fn(|of| of == lane));
        story.taken(5000, &[(&[P], &[(3, named("/a"))])]);
        assert_eq!(story.names(P, 3, &[1000, 6000]), "- -");
    }
}
