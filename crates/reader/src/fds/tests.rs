use super::*;
use crate::pipeline::testing::{call, comm, event, fork, text};
use flightrec_format::abi::file::SocketRecord;
use flightrec_format::abi::kinds::{IoComplete, IoSubmit, Kind};
use flightrec_format::abi::pointee;
use flightrec_format::abi::record::{Abi, Exec, Fork, SHARES_FILES, TaskExit};
use flightrec_format::decode::Plain;
use flightrec_format::meta::Syscall;

const CALLS: [(&str, u16); 17] = [
    ("close", 3),
    ("ioctl", 16),
    ("dup", 32),
    ("dup2", 33),
    ("socket", 41),
    ("accept4", 288),
    ("bind", 49),
    ("connect", 42),
    ("chroot", 161),
    ("unshare", 272),
    ("fcntl", 72),
    ("openat", 257),
    ("eventfd2", 290),
    ("pidfd_open", 434),
    ("close_range", 436),
    ("openat2", 437),
    ("pidfd_getfd", 438),
];

const CLOEXEC: u64 = libc::O_CLOEXEC as u64;
const HERE: u64 = libc::AT_FDCWD as u32 as u64;

/// A process's life, step by step.
struct Life {
    fds: Fds,
    threads: Threads,
}

impl Life {
    fn new() -> Self {
        let native = CALLS
            .iter()
            .map(|(name, nr)| Syscall { nr: *nr, name: (*name).into(), args: None })
            .collect();
        Self { fds: Fds::new(&Meta { native, ..Meta::default() }), threads: Threads::default() }
    }

    fn happen(&mut self, tid: u32, body: Body) {
        let event = event(1, 0, tid, body);
        self.fds.apply(&event, &self.threads);
        self.threads.apply(&event);
    }

    fn enter(&mut self, tid: u32, name: &str, args: &[u64], path: Option<(u8, &str)>) {
        let nr = CALLS.iter().find(|(known, _)| *known == name).unwrap().1;
        let mut made = call(nr);
        made.nargs = args.len() as u8;
        made.args[..args.len()].copy_from_slice(args);
        made.strings.extend(path.map(|(index, path)| text(index, StringStatus::Whole, path)));
        self.happen(tid, Body::Enter(made));
    }

    fn exit(&mut self, tid: u32, name: &str, ret: i64) {
        let nr = CALLS.iter().find(|(known, _)| *known == name).unwrap().1;
        self.happen(tid, Body::Exit { call: call(nr), ret, entered: None });
    }

    /// A call that tells what a socket is.
    fn address(&mut self, tid: u32, name: &str, args: &[u64], ret: i64, of: &SocketRecord) {
        self.enter(tid, name, args, None);
        let nr = CALLS.iter().find(|(known, _)| *known == name).unwrap().1;
        let numbers = [of.family, of.kind, of.protocol, of.local_port, of.remote_port, of.name];
        let head = pointee::head(Shape::Socket as u32, true).to_le_bytes();
        let bytes = [&head[..], &of.inode.to_le_bytes(), &of.peer.to_le_bytes()]
            .concat()
            .into_iter()
            .chain(numbers.iter().flat_map(|number| number.to_le_bytes()))
            .chain(of.local.into_iter().chain(of.remote))
            .collect();
        let told = Text { index: pointee::INDEX, status: StringStatus::Whole, bytes };
        let ended = Call { strings: vec![told], ..call(nr) };
        self.happen(tid, Body::Exit { call: ended, ret, entered: None });
    }

    fn call(&mut self, tid: u32, name: &str, args: &[u64], ret: i64) {
        self.enter(tid, name, args, None);
        self.exit(tid, name, ret);
    }

    fn open(&mut self, tid: u32, dir: u64, path: &str, flags: u64, ret: i64) {
        self.enter(tid, "openat", &[dir, 0, flags, 0], Some((1, path)));
        self.exit(tid, "openat", ret);
    }

    fn exec(&mut self, tid: u32) {
        let exec = Exec { tid, old_tid: tid, tgid: tid, args_len: 0, cgroup: 0, comm: comm("new") };
        self.happen(tid, Body::Exec { exec, file: None, args: None });
    }

    fn name(&self, tid: u32, fd: i32) -> String {
        let name = self.fds.names(tid, self.threads.tgid(tid, 1)).get(fd);
        name.map_or("-".into(), |name| String::from_utf8(name.to_vec()).unwrap())
    }
}

#[test]
fn opened_copied_and_closed() {
    let mut life = Life::new();
    life.open(1, HERE, "/etc/hosts", 0, 3);
    life.call(1, "dup", &[3], 4);
    life.call(1, "dup2", &[4, 9], 9);
    life.call(1, "fcntl", &[9, libc::F_DUPFD_CLOEXEC as u64, 0], 5);
    assert_eq!(
        [3, 4, 9, 5, 6].map(|fd| life.name(1, fd)).join(" "),
        "/etc/hosts /etc/hosts /etc/hosts /etc/hosts -"
    );
    life.call(1, "dup2", &[7, 9], 9);
    assert_eq!(life.name(1, 9), "-", "a copy of what is not known");
    life.enter(1, "close", &[3], None);
    assert_eq!(life.name(1, 3), "-", "free from the entry on");
    life.exit(1, "close", 0);
    assert_eq!(life.name(1, 3), "/etc/hosts", "but the call's own line still knows");
    life.call(1, "ioctl", &[1, 2], 0);
    assert_eq!(life.name(1, 3), "-");
    life.call(1, "close_range", &[4, 8, 0], 0);
    assert_eq!(life.name(1, 4), "-");
}

#[test]
fn failures_change_nothing() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    life.open(1, HERE, "/b", 0, -2);
    life.call(1, "dup2", &[99, 3], -9);
    assert_eq!(life.name(1, 3), "/a");
}

#[test]
fn relative_to_a_directory() {
    let mut life = Life::new();
    life.open(1, HERE, "/etc", 0, 3);
    life.open(1, 3, "hosts", 0, 4);
    life.open(1, 3, "/root", 0, 5);
    life.open(1, HERE, "here", 0, 6);
    life.open(1, 77, "there", 0, 7);
    assert_eq!([4, 5, 6, 7].map(|fd| life.name(1, fd)).join(" "), "/etc/hosts /root here there");
}

/// A TCP socket of 127.0.0.1, to a port there or none.
fn tcp(local_port: u16, remote_port: u16) -> SocketRecord {
    let mut here = [0; 16];
    here[..4].copy_from_slice(&[127, 0, 0, 1]);
    SocketRecord {
        inode: 77,
        family: 2,
        kind: 1,
        protocol: 6,
        local_port,
        remote_port,
        local: here,
        remote: here,
        ..SocketRecord::default()
    }
}

#[test]
fn a_socket_has_its_addresses_from_the_call_on_that_gave_them() {
    const EINPROGRESS: i64 = -115;
    let mut life = Life::new();
    let stream = "socket:AF_INET,SOCK_STREAM";
    life.call(1, "socket", &[2, 1, 0], 3);
    life.address(1, "bind", &[3, 0, 16], 0, &tcp(80, 0));
    assert_eq!(life.name(1, 3), "TCP:[127.0.0.1:80]");
    life.address(1, "accept4", &[3, 0, 0, 0], 4, &tcp(80, 5000));
    assert_eq!(life.name(1, 4), "TCP:[127.0.0.1:80->127.0.0.1:5000]");
    life.call(1, "accept4", &[3, 0, 0, 0], 5);
    assert_eq!(life.name(1, 5), "-", "the listening one's address is not that of the new one");
    life.call(1, "socket", &[2, 1, 0], 6);
    life.call(1, "dup", &[6], 7);
    life.address(1, "connect", &[6, 0, 16], EINPROGRESS, &tcp(5000, 80));
    assert_eq!(life.name(1, 6), "TCP:[127.0.0.1:5000->127.0.0.1:80]");
    assert_eq!(life.name(1, 7), stream, "a name that is true of the copy, too");
    life.call(1, "connect", &[6, 0, 16], -111);
    assert_eq!(life.name(1, 6), "TCP:[127.0.0.1:5000->127.0.0.1:80]");
    // A copy of one that has an address is the same socket, also in another process.
    life.call(1, "dup", &[6], 8);
    life.happen(1, Body::Fork(fork(1, 1, 2, 2, "child")));
    life.address(2, "connect", &[6, 0, 16], 0, &tcp(5001, 81));
    for (tid, fd) in [(1, 6), (1, 8), (2, 6), (2, 8)] {
        assert_eq!(life.name(tid, fd), "TCP:[127.0.0.1:5001->127.0.0.1:81]", "{tid} {fd}");
    }
}

#[test]
fn what_is_no_file_has_the_kernels_name() {
    let mut life = Life::new();
    life.call(1, "eventfd2", &[0, 0], 3);
    life.call(1, "socket", &[2, 1 | CLOEXEC, 0], 4);
    life.call(1, "accept4", &[4, 0, 0, 0], 5);
    life.call(1, "accept4", &[40, 0, 0, 0], 6);
    let names = [3, 4, 5, 6].map(|fd| life.name(1, fd)).join(" ");
    assert_eq!(
        names,
        "anon_inode:[eventfd] socket:AF_INET,SOCK_STREAM socket:AF_INET,SOCK_STREAM -"
    );
}

#[test]
fn an_exec_closes_what_it_must_and_what_it_may() {
    let mut life = Life::new();
    life.open(1, HERE, "/stays", 0, 3);
    life.open(1, HERE, "/goes", CLOEXEC, 4);
    life.enter(1, "openat2", &[HERE, 0, 0, 24], Some((1, "/unknown")));
    life.exit(1, "openat2", 5);
    life.call(1, "pidfd_open", &[1, 0], 6);
    life.open(1, HERE, "/kept", CLOEXEC, 7);
    life.call(1, "fcntl", &[7, libc::F_SETFD as u64, 0], 0);
    life.exec(1);
    assert_eq!([3, 4, 5, 6, 7].map(|fd| life.name(1, fd)).join(" "), "/stays - - - /kept");
}

#[test]
fn children_inherit_and_threads_share() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    life.happen(1, Body::Fork(fork(1, 1, 2, 1, "thread")));
    life.happen(1, Body::Fork(fork(1, 1, 5, 5, "child")));
    life.open(2, HERE, "/b", 0, 4);
    assert_eq!(
        (life.name(1, 4), life.name(5, 3), life.name(5, 4)),
        ("/b".into(), "/a".into(), "-".into())
    );
    life.call(5, "close", &[3], 0);
    life.call(5, "close", &[3], -9);
    assert_eq!((life.name(5, 3), life.name(1, 3)), ("-".into(), "/a".into()));
    // Its own until it executes something.
    life.happen(1, Body::Fork(Fork { shares: SHARES_FILES, ..fork(1, 1, 6, 6, "sharer") }));
    life.open(6, HERE, "/c", 0, 8);
    assert_eq!(life.name(1, 8), "/c");
    life.exec(6);
    life.open(6, HERE, "/d", 0, 9);
    assert_eq!((life.name(6, 8), life.name(1, 9)), ("/c".into(), "-".into()));
}

fn ended(tid: u32, tgid: u32, left: u32) -> Body {
    Body::TaskExit(TaskExit { tid, tgid, code: 0, left, start_time: 0, comm: comm("x") })
}

/// Threads that were created without `CLONE_FILES`, or left their process's table.
#[test]
fn threads_may_have_tables_of_their_own() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    for (tid, shares) in [(2, SHARES_FILES), (3, 0), (4, SHARES_FILES)] {
        life.happen(1, Body::Fork(Fork { shares, ..fork(1, 1, tid, 1, "thread") }));
    }
    life.call(4, "unshare", &[libc::CLONE_FILES as u64], 0);
    // One that fails leaves nothing.
    let unshare = u64::from(libc::CLOSE_RANGE_UNSHARE);
    life.call(2, "close_range", &[9, 3, unshare], -22);
    // Thread 5 has thread 4's.
    life.happen(4, Body::Fork(fork(4, 1, 5, 1, "thread")));
    for (tid, path) in [(1, "/one"), (3, "/three"), (5, "/five")] {
        life.open(tid, HERE, path, 0, 7);
    }
    let of_all = |life: &Life, fd| [1, 2, 3, 4, 5].map(|tid| life.name(tid, fd)).join(" ");
    assert_eq!(of_all(&life, 3), "/a /a /a /a /a");
    assert_eq!(of_all(&life, 7), "/one /one /three /five /five");
    life.call(5, "close", &[3], 0);
    life.call(1, "ioctl", &[1, 2], 0);
    assert_eq!(of_all(&life, 3), "/a /a /a - -");
    life.call(2, "close_range", &[3, 3, unshare], 0);
    assert_eq!((life.name(1, 3), life.name(2, 3)), ("/a".into(), "-".into()));
    // A child has those of the thread that creates it.
    life.happen(3, Body::Fork(fork(3, 1, 9, 9, "child")));
    assert_eq!(life.name(9, 7), "/three");
    // So has the program that a thread executes.
    for (tid, left) in [(1, 4), (2, 3), (3, 2), (5, 1)] {
        life.happen(tid, ended(tid, 1, left));
    }
    let exec = Exec { tid: 1, old_tid: 4, tgid: 1, args_len: 0, cgroup: 0, comm: comm("new") };
    life.happen(1, Body::Exec { exec, file: None, args: None });
    assert_eq!((life.name(1, 7), life.fds.own.len()), ("/five".into(), 0));
    life.happen(1, ended(1, 1, 0));
    life.happen(9, ended(9, 9, 0));
    assert_eq!((life.fds.files, life.fds.tables.len(), life.fds.keys.len()), (0, 0, 0));
}

#[test]
fn a_process_outlives_its_first_thread() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    life.happen(1, Body::Fork(fork(1, 1, 2, 1, "thread")));
    life.happen(1, ended(1, 1, 1));
    assert_eq!(life.name(2, 3), "/a");
    life.happen(2, ended(2, 1, 0));
    assert_eq!((life.fds.files, life.fds.tables.len(), life.fds.keys.len()), (0, 0, 0));
}

/// What happens while events are missing is not known; who shares a table with whom is.
#[test]
fn who_shares_a_table_is_known_after_a_loss() {
    let mut life = Life::new();
    life.happen(1, Body::Fork(Fork { shares: 0, ..fork(1, 1, 2, 1, "thread") }));
    // Nothing is known to be open as yet.
    life.happen(1, Body::Fork(Fork { shares: SHARES_FILES, ..fork(1, 1, 5, 5, "sharer") }));
    life.happen(1, Body::Fork(fork(1, 1, 6, 6, "child")));
    for _ in 0..2 {
        life.open(1, HERE, "/one", 0, 3);
        life.open(2, HERE, "/two", 0, 3);
        let names = [1, 2, 5, 6].map(|tid| life.name(tid, 3)).join(" ");
        assert_eq!(names, "/one /two /one -");
        life.call(5, "close", &[3], 0);
        life.call(5, "ioctl", &[1, 2], 0);
        assert_eq!((life.name(1, 3), life.name(2, 3)), ("-".into(), "/two".into()));
        life.open(5, HERE, "/five", 0, 4);
        life.fds.forget_all();
        assert_eq!((life.name(1, 4), life.name(2, 3)), ("-".into(), "-".into()));
    }
    assert_eq!(life.fds.files, 0);
}

/// What comes from elsewhere may be any file.
#[test]
fn descriptors_of_others_are_not_known() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    let is_lost = |life: &Life, tid, fd| life.fds.names(tid, tid).is_lost(fd);
    assert!(!is_lost(&life, 1, 5));
    life.call(1, "pidfd_getfd", &[3, 4, 0], 5);
    assert!(is_lost(&life, 1, 5) && !is_lost(&life, 1, 3) && !is_lost(&life, 1, 6));
}

/// What a path begins with is not known in another root, of the process and its children.
#[test]
fn another_root_has_other_paths() {
    let mut life = Life::new();
    life.open(1, HERE, "/jail", 0, 3);
    life.call(1, "chroot", &[0], 0);
    life.open(1, HERE, "/etc/passwd", 0, 4);
    life.open(1, 3, "file", 0, 5);
    life.happen(1, Body::Fork(fork(1, 1, 9, 9, "child")));
    life.open(9, HERE, "/etc/group", 0, 6);
    life.open(7, HERE, "/etc/group", 0, 6);
    assert_eq!([3, 4, 5].map(|fd| life.name(1, fd)).join(" "), "/jail - /jail/file");
    assert!(life.fds.names(1, 1).is_lost(4) && life.fds.names(9, 9).is_lost(6));
    assert_eq!(life.name(7, 6), "/etc/group");
}

#[test]
fn nothing_is_left_of_the_dead() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    life.happen(1, Body::Fork(fork(1, 1, 5, 5, "child")));
    for tid in [1, 5] {
        life.happen(tid, ended(tid, tid, 0));
    }
    assert_eq!((life.fds.files, life.fds.tables.len(), life.fds.keys.len()), (0, 0, 0));
}

#[test]
fn an_exit_alone_may_tell_enough() {
    let mut life = Life::new();
    let mut made = call(257);
    (made.abi, made.nargs, made.args[0]) = (Abi::Native, 4, HERE);
    made.strings = vec![text(1, StringStatus::Cut, "/long")];
    life.happen(1, Body::Exit { call: made, ret: 3, entered: None });
    assert_eq!(life.name(1, 3), "/long...");
    life.exit(1, "openat", 3);
    assert_eq!(life.name(1, 3), "-", "now it is something else, not known what");
}

#[test]
fn names_are_bounded() {
    let mut life = Life::new();
    life.fds.files = FILES_MAX - 1;
    life.open(1, HERE, "/a", 0, 3);
    life.open(1, HERE, "/b", 0, 4);
    assert_eq!((life.name(1, 3), life.name(1, 4)), ("/a".into(), "-".into()));
    life.open(1, HERE, "/c", 0, 3);
    assert_eq!(life.name(1, 3), "-", "no old name for a new file");
}

/// A ring of process 1 does it, from being handed over to its result.
fn operation(life: &mut Life, op: u32, fd: i32, path: Option<&str>, result: i32) {
    begin_operation(life, 9, (op, fd, 0), path);
    end_operation(life, 9, op, result);
}

fn begin_operation(life: &mut Life, name: u32, of: (u32, i32, u32), path: Option<&str>) {
    let (op, fd, flags) = of;
    let submit = IoSubmit { ring: 1, operation: name, user_data: 0, op, fd, flags, submitter: 0 };
    let paths = path.map(|path| text(0, StringStatus::Whole, path)).into_iter().collect();
    life.happen(1, Body::IoSubmit { submit, paths });
}

/// A worker of the kernel tells of it.
fn end_operation(life: &mut Life, name: u32, op: u32, result: i32) {
    let done =
        IoComplete { ring: 1, operation: name, user_data: 0, op, result, flags: 0, context: 1 };
    life.happen(77, Body::Plain(Plain::read(Kind::IoComplete, &done.bytes()).unwrap()));
}

const OPENAT: u32 = 18;
const CLOSE: u32 = 19;

#[test]
fn rings_open_and_close() {
    let mut life = Life::new();
    life.open(1, HERE, "/dir", 0, 3);
    operation(&mut life, OPENAT, 3, Some("file"), 4);
    assert_eq!(life.name(1, 4), "/dir/file");
    operation(&mut life, OPENAT, 3, Some("none"), -2);
    operation(&mut life, CLOSE, 3, None, -9);
    assert_eq!(life.name(1, 3), "/dir", "it failed");
    operation(&mut life, CLOSE, 4, None, 0);
    assert_eq!(life.name(1, 4), "-");
    // One whose path was left out is open, but nobody knows what it is.
    operation(&mut life, OPENAT, libc::AT_FDCWD, None, 4);
    assert!(life.fds.names(1, 1).is_lost(4));
    // What goes into the ring's own table is no descriptor.
    begin_operation(&mut life, 9, (OPENAT, libc::AT_FDCWD, 1 << 31), Some("/direct"));
    end_operation(&mut life, 9, OPENAT, 3);
    assert_eq!(life.name(1, 3), "/dir");
}

#[test]
fn a_number_that_somebody_got_meanwhile_stays() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    begin_operation(&mut life, 8, (CLOSE, 3, 0), None);
    begin_operation(&mut life, 9, (OPENAT, libc::AT_FDCWD, 0), Some("/b"));
    end_operation(&mut life, 9, OPENAT, 3);
    end_operation(&mut life, 8, CLOSE, 0);
    assert_eq!(life.name(1, 3), "/b");
}
