use flightrec_format::abi::record::NR_INVALID;

use super::*;

fn enter(nr: u16, args: &[u64], strings: Vec<Text>) -> String {
    line(Body::Enter(call(nr, args, strings)), &context())
}

fn exit(nr: u16, ret: i64, took: Option<u64>) -> String {
    let cx = EventContext { duration_ns: took, ..context() };
    line(Body::Exit { call: call(nr, &[], Vec::new()), ret, entered: None }, &cx)
}

fn whole(index: u8, bytes: &[u8]) -> Text {
    string(index, StringStatus::Whole, bytes)
}

const CWD: u64 = libc::AT_FDCWD as u64;
const RDONLY: u64 = libc::O_CLOEXEC as u64;
const NEW: u64 = (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) as u64;

#[test]
fn open() {
    let args = [CWD, 0x7ffc_0000, RDONLY, 0o777];
    assert_eq!(
        enter(257, &args, vec![whole(1, b"/etc/hosts")]),
        r#"openat(AT_FDCWD, "/etc/hosts", O_RDONLY|O_CLOEXEC) -->"#
    );
    assert_eq!(
        enter(257, &[0xdead_beef_ffff_ff9c, 1, NEW, 0o644], vec![whole(1, b"a\"\n\x1b[2J\xff")]),
        r#"openat(AT_FDCWD, "a\"\n\33[2J\377", O_WRONLY|O_CREAT|O_TRUNC, 0644) -->"#
    );
    assert_eq!(
        enter(
            2,
            &[1, libc::O_TMPFILE as u64 | 2, 0o600],
            vec![string(0, StringStatus::Cut, b"/tmp")]
        ),
        r#"open("/tmp"..., O_RDWR|O_TMPFILE, 0600) -->"#
    );
    let padded = "/.".repeat(63) + "/" + "./secret";
    assert_eq!(
        enter(2, &[1, 0, 0], vec![string(0, StringStatus::Ends, padded.as_bytes())]),
        format!(r#"open("{}/"..."./secret", O_RDONLY) -->"#, "/.".repeat(63))
    );
    assert_eq!(
        enter(
            257,
            &[5, 0x7f00_1000, 0x4000_0000, 0],
            vec![string(1, StringStatus::Unreadable, b"")]
        ),
        "openat(5, 0x7f001000 /* unreadable */, O_RDONLY|0x40000000) -->"
    );
    assert_eq!(enter(257, &[CWD, 0, 0, 0], Vec::new()), "openat(AT_FDCWD, NULL, O_RDONLY) -->");
    assert_eq!(enter(257, &[CWD], Vec::new()), "openat(AT_FDCWD, ...) -->");
    assert_eq!(enter(257, &[], vec![whole(1, b"/x")]), r#"openat(..., "/x", ...) -->"#);
    assert_eq!(enter(83, &[1, 0o755], vec![whole(0, b"/x")]), r#"mkdir("/x", 0755) -->"#);
    assert_eq!(
        enter(133, &[1, u64::from(libc::S_IFIFO) | 0o644, 0], vec![whole(0, b"p")]),
        r#"mknod("p", S_IFIFO|0644, 0) -->"#
    );
}

#[test]
fn plain_numbers() {
    assert_eq!(
        enter(0, &[3, 0x7ffc_dead_b000, 512], Vec::new()),
        "read(3, 0x7ffcdeadb000, 512) -->"
    );
    assert_eq!(enter(3, &[0xffff_ffff], Vec::new()), "close(-1) -->");
    assert_eq!(enter(39, &[], Vec::new()), "getpid() -->");
    assert_eq!(enter(8, &[3, -10i64 as u64, 2], Vec::new()), "lseek(3, -10, SEEK_END) -->");
    assert_eq!(
        enter(92, &[1, 1000, 0xffff_ffff], vec![whole(0, b"f")]),
        r#"chown("f", 1000, -1) -->"#
    );
    assert_eq!(enter(95, &[0o22], Vec::new()), "umask(022) -->");
}

#[test]
fn memory() {
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    assert_eq!(
        enter(9, &[0, 4096, 3, private, 0xffff_ffff, 0], Vec::new()),
        "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) -->"
    );
    assert_eq!(enter(10, &[0x1000, 4096, 0], Vec::new()), "mprotect(0x1000, 4096, PROT_NONE) -->");
    assert_eq!(
        enter(28, &[0x1000, 4096, 4], Vec::new()),
        "madvise(0x1000, 4096, MADV_DONTNEED) -->"
    );
    assert_eq!(exit(9, 0x7f12_3456_7000, None), "mmap <-- 0x7f1234567000");
    assert_eq!(exit(9, -12, None), "mmap <-- -12 ENOMEM");
    assert_eq!(exit(12, 0x5555_0000, None), "brk <-- 0x55550000");
}

#[test]
fn personalities_and_requests() {
    assert_eq!(enter(135, &[0x4_0000], Vec::new()), "personality(PER_LINUX|ADDR_NO_RANDOMIZE) -->");
    assert_eq!(enter(135, &[u64::from(u32::MAX)], Vec::new()), "personality(0xffffffff) -->");
    assert_eq!(
        exit(135, 0x4_0008, None),
        "personality <-- 0x40008 (PER_LINUX32|ADDR_NO_RANDOMIZE)"
    );
    assert_eq!(exit(135, 0, None), "personality <-- 0 (PER_LINUX)");
    assert_eq!(enter(16, &[1, libc::TCGETS, 0], Vec::new()), "ioctl(1, TCGETS, 0) -->");
    assert_eq!(enter(16, &[1, 0x4c00, 0], Vec::new()), "ioctl(1, LOOP_SET_FD, 0) -->");
    assert_eq!(
        enter(16, &[1, 0x1234_5678, 0], Vec::new()),
        "ioctl(1, _IOC(_IOC_NONE, 0x56, 0x78, 0x1234), 0) -->"
    );
}

#[test]
fn processes() {
    let thread = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
    assert_eq!(
        enter(56, &[thread, 16, 0, 0, 0], Vec::new()),
        "clone(CLONE_VM|CLONE_THREAD, 0x10, NULL, NULL, NULL) -->"
    );
    assert_eq!(
        enter(56, &[17, 0, 0, 0, 0], Vec::new()),
        "clone(SIGCHLD, NULL, NULL, NULL, NULL) -->"
    );
    assert_eq!(enter(62, &[-1i64 as u64, 9], Vec::new()), "kill(-1, SIGKILL) -->");
    assert_eq!(enter(62, &[5, 0], Vec::new()), "kill(5, 0) -->");
    assert_eq!(enter(62, &[5, 35], Vec::new()), "kill(5, SIGRT_3) -->");
    assert_eq!(
        enter(61, &[-1i64 as u64, 0, 1, 0], Vec::new()),
        "wait4(-1, NULL, WNOHANG, NULL) -->"
    );
    assert_eq!(
        enter(14, &[2, 0, 0, 8], Vec::new()),
        "rt_sigprocmask(SIG_SETMASK, NULL, NULL, 8) -->"
    );
    assert_eq!(
        enter(202, &[0x1000, 128, 2, 0, 0, 0], Vec::new()),
        "futex(0x1000, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0) -->"
    );
    assert_eq!(
        enter(302, &[0, 7, 0, 0x10], Vec::new()),
        "prlimit64(0, RLIMIT_NOFILE, NULL, 0x10) -->"
    );
    assert_eq!(
        enter(230, &[1, 1, 0x10, 0], Vec::new()),
        "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, 0x10, NULL) -->"
    );
    assert_eq!(
        enter(157, &[15, 0x7ffc_0000_0000, 0, 0, 0], Vec::new()),
        "prctl(PR_SET_NAME, 0x7ffc00000000, 0, 0, 0) -->"
    );
    assert_eq!(enter(29, &[0, 4096, 0o1600], Vec::new()), "shmget(0, 4096, IPC_CREAT|0600) -->");
}

#[test]
fn descriptors_and_sockets() {
    assert_eq!(enter(72, &[3, 3], Vec::new()), "fcntl(3, F_GETFL, ...) -->");
    assert_eq!(enter(72, &[3, 3, 0], Vec::new()), "fcntl(3, F_GETFL) -->");
    assert_eq!(enter(72, &[3, 2, 1], Vec::new()), "fcntl(3, F_SETFD, FD_CLOEXEC) -->");
    assert_eq!(enter(72, &[3, 4, 0o4002], Vec::new()), "fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) -->");
    assert_eq!(enter(73, &[3, 6], Vec::new()), "flock(3, LOCK_EX|LOCK_NB) -->");
    assert_eq!(enter(16, &[1, 0x5413, 0x10], Vec::new()), "ioctl(1, TIOCGWINSZ, 0x10) -->");
    assert_eq!(enter(16, &[1, 0xc020_660b, 0x10], Vec::new()), "ioctl(1, FS_IOC_FIEMAP, 0x10) -->");
    assert_eq!(enter(293, &[0x10, 0o2_000_000], Vec::new()), "pipe2(0x10, O_CLOEXEC) -->");
    assert_eq!(
        enter(41, &[2, 0o2_004_001, 6], Vec::new()),
        "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, IPPROTO_TCP) -->"
    );
    assert_eq!(
        enter(41, &[16, 3, 15], Vec::new()),
        "socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT) -->"
    );
    assert_eq!(enter(41, &[1, 1, 0], Vec::new()), "socket(AF_UNIX, SOCK_STREAM, 0) -->");
    assert_eq!(
        enter(54, &[3, 1, 2, 0x10, 4], Vec::new()),
        "setsockopt(3, SOL_SOCKET, SO_REUSEADDR, 0x10, 4) -->"
    );
    assert_eq!(
        enter(44, &[3, 0x10, 5, 0x4040, 0, 0], Vec::new()),
        "sendto(3, 0x10, 5, MSG_DONTWAIT|MSG_NOSIGNAL, NULL, 0) -->"
    );
    assert_eq!(
        enter(233, &[4, 1, 5, 0x10], Vec::new()),
        "epoll_ctl(4, EPOLL_CTL_ADD, 5, 0x10) -->"
    );
    assert_eq!(
        enter(263, &[CWD, 1, 0x200], vec![whole(1, b"d")]),
        r#"unlinkat(AT_FDCWD, "d", AT_REMOVEDIR) -->"#
    );
    assert_eq!(
        enter(439, &[CWD, 1, 4, 0x200], vec![whole(1, b"f")]),
        r#"faccessat2(AT_FDCWD, "f", R_OK, AT_EACCESS) -->"#
    );
    assert_eq!(
        enter(262, &[3, 1, 2, 0x1000], vec![whole(1, b"")]),
        r#"newfstatat(3, "", 0x2, AT_EMPTY_PATH) -->"#
    );
    assert_eq!(
        enter(165, &[1, 2, 3, 0x1001, 0], vec![whole(0, b"/a"), whole(1, b"/b")]),
        r#"mount("/a", "/b", 0x3, MS_RDONLY|MS_BIND, NULL) -->"#
    );
    assert_eq!(enter(318, &[0x10, 16, 1], Vec::new()), "getrandom(0x10, 16, GRND_NONBLOCK) -->");
}

#[test]
fn returns() {
    assert_eq!(exit(257, -2, Some(12_345)), "openat <-- -2 ENOENT (12 us)");
    assert_eq!(exit(0, 512, Some(3_000)), "read <-- 512 (3.0 us)");
    assert_eq!(exit(0, -512, None), "read <-- -512 ERESTARTSYS");
    assert_eq!(exit(0, -4095, None), "read <-- -4095");
    assert_eq!(exit(0, -4096, None), "read <-- -4096");
    assert_eq!(exit(95, 0o22, None), "umask <-- 022");
    assert_eq!(exit(15, -4, None), "rt_sigreturn <-- -4");
}

#[test]
fn a_folded_exit_tells_its_duration_itself() {
    let body = Body::Exit { call: call(39, &[], Vec::new()), ret: 7, entered: Some(999_500) };
    assert_eq!(line(body, &context()), "getpid <-- 7 (0.5 us)");
}

#[test]
fn exits_show_arguments_when_no_entry_was_seen() {
    let body =
        |strings| Body::Exit { call: call(83, &[1, 0o755], strings), ret: -1, entered: None };
    let unseen = EventContext { entry_seen: false, ..context() };
    assert_eq!(line(body(vec![whole(0, b"/x")]), &unseen), r#"mkdir("/x", 0755) <-- -1 EPERM"#);
    assert_eq!(line(body(Vec::new()), &context()), "mkdir <-- -1 EPERM");
    assert_eq!(
        line(body(vec![whole(0, b"/late")]), &context()),
        r#"mkdir("/late", 0755) <-- -1 EPERM"#
    );
    let mut out = Vec::new();
    let options = Options {
        exit_arguments: true,
        merge: false,
        colour: false,
        fds: Naming::Near,
        stacks: true,
        graph: false,
        traces: false,
        time_zone: TimeZone::UTC,
    };
    let event = Event { time: 0, cpu: 1, tid: 8883, body: body(Vec::new()) };
    Renderer::new(&meta(), options).line(&event, &context(), &mut out);
    assert!(String::from_utf8(out).unwrap().ends_with("mkdir(0x1, 0755) <-- -1 EPERM\n"));
}

#[test]
fn other_tables() {
    let compat = |call: Call| line(Body::Enter(Call { abi: Abi::Compat, ..call }), &context());
    assert_eq!(compat(call(20, &[], Vec::new())), "[32-bit] getpid() -->");
    assert_eq!(
        compat(call(5, &[1, 0, 0, 7, 8, 9], vec![whole(0, b"/f")])),
        r#"[32-bit] open("/f", O_RDONLY) -->"#
    );
    assert_eq!(
        compat(call(192, &[0, 4096, 1, 0x22, u64::MAX, 0], Vec::new())),
        "[32-bit] mmap2(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) -->"
    );
    assert_eq!(
        compat(call(90, &[0xffff_e000, 1, 2, 3, 4, 5], Vec::new())),
        "[32-bit] mmap(0xffffe000, 1, 2, 3, 4, 5) -->"
    );
    let x32 = Call { abi: Abi::X32, ..call(39, &[], Vec::new()) };
    assert_eq!(line(Body::Enter(x32), &context()), "[x32] getpid() -->");
}

#[test]
fn unknown_calls() {
    assert_eq!(enter(NR_INVALID, &[0x1234], Vec::new()), "syscall_4660(...) -->");
    assert_eq!(enter(NR_INVALID, &[-1i64 as u64], Vec::new()), "syscall_-1(...) -->");
    assert_eq!(exit(NR_INVALID, -38, None), "syscall_? <-- -38 ENOSYS");
    assert_eq!(
        enter(4000, &[1, 0x7fff_0000_0000], Vec::new()),
        "syscall_4000(1, 0x7fff00000000) -->"
    );
    // Not in the recording's table, but in every x86_64's.
    assert_eq!(enter(1, &[1], Vec::new()), "write(1, ...) -->");
    assert_eq!(enter(24, &[], Vec::new()), "sched_yield() -->");
}

#[test]
fn hostile_names_of_calls_are_escaped_and_bounded() {
    let name = format!("\x1b{}", "n".repeat(5000));
    let meta =
        Meta { native: vec![Syscall { nr: 1, name, args: Some(Vec::new()) }], ..Meta::default() };
    let options = Options {
        colour: false,
        exit_arguments: false,
        merge: false,
        fds: Naming::Near,
        stacks: true,
        graph: false,
        traces: false,
        time_zone: TimeZone::UTC,
    };
    let mut out = Vec::new();
    let event = Event { time: 0, cpu: 1, tid: 1, body: Body::Enter(call(1, &[], Vec::new())) };
    Renderer::new(&meta, options).line(&event, &context(), &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(r"\33nnn") && text.len() < 200, "{text}");
}

/// As a recording of aarch64 has them, whatever machine reads it: by the names that it has itself,
/// and, where it lost these, by the machine's.
#[test]
fn calls_of_aarch64() {
    let argument =
        |(ctype, name): (&str, &str)| Argument { name: name.into(), ctype: ctype.into() };
    let list =
        [("int", "dfd"), ("const char *", "filename"), ("int", "flags"), ("umode_t", "mode")];
    let openat = Syscall {
        nr: 56,
        name: "openat".into(),
        args: Some(list.into_iter().map(argument).collect()),
    };
    let meta = Meta { machine: "aarch64".into(), native: vec![openat], ..Meta::default() };
    let shown = |nr, args: &[u64]| {
        let event = Event {
            time: 1_000_000,
            cpu: 1,
            tid: 8883,
            body: Body::Enter(call(nr, args, Vec::new())),
        };
        let mut out = Vec::new();
        renderer_of(&meta).line(&event, &context(), &mut out);
        let line = String::from_utf8(out).unwrap();
        line.trim_end().strip_prefix(COLUMNS).unwrap().to_owned()
    };
    assert_eq!(
        shown(56, &[CWD, 0, 0x8_c000, 0]),
        "openat(AT_FDCWD, NULL, O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_DIRECTORY) -->"
    );
    assert_eq!(
        shown(56, &[CWD, 0, 0x40_4001, 0o600]),
        "openat(AT_FDCWD, NULL, O_WRONLY|O_TMPFILE, 0600) -->"
    );
    assert!(shown(63, &[3, 0, 9]).starts_with("read("));
    assert!(shown(79, &[3, 0, 9]).starts_with("newfstatat("));
    assert!(shown(221, &[1, 0, 0]).starts_with("execve("));
}
