use super::*;
use crate::pipeline::testing::{call, comm, event, fork, text};
use flightrec_format::abi::record::{Abi, Exec, TaskExit};
use flightrec_format::meta::Syscall;

const CALLS: [(&str, u16); 13] = [
    ("close", 3),
    ("ioctl", 16),
    ("dup", 32),
    ("dup2", 33),
    ("socket", 41),
    ("accept4", 288),
    ("clone", 56),
    ("fcntl", 72),
    ("openat", 257),
    ("eventfd2", 290),
    ("pidfd_open", 434),
    ("close_range", 436),
    ("openat2", 437),
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
    life.enter(1, "clone", &[libc::CLONE_FILES as u64, 0, 0, 0, 0], None);
    life.happen(1, Body::Fork(fork(1, 1, 6, 6, "sharer")));
    life.open(6, HERE, "/c", 0, 8);
    assert_eq!(life.name(1, 8), "/c");
    life.exec(6);
    life.open(6, HERE, "/d", 0, 9);
    assert_eq!((life.name(6, 8), life.name(1, 9)), ("/c".into(), "-".into()));
}

#[test]
fn nothing_is_left_of_the_dead() {
    let mut life = Life::new();
    life.open(1, HERE, "/a", 0, 3);
    life.happen(1, Body::Fork(fork(1, 1, 5, 5, "child")));
    for tid in [1, 5] {
        let exit =
            TaskExit { tid, tgid: tid, code: 0, reserved: 0, start_time: 0, comm: comm("x") };
        life.happen(tid, Body::TaskExit(exit));
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
