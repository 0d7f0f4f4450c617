use std::collections::BTreeMap;
use std::time::Duration;

use flightrec_reader::pipeline::Took;
use flightrec_reader::pipeline::testing::{
    call, comm, enter, event, exit, fork, switch, text, waking,
};

use super::*;
use flightrec_format::abi::kinds::{Kind, Throttle};
use flightrec_format::abi::pointee;
use flightrec_format::abi::record::{Abi, Exec, NR_INVALID, Rename, StringStatus};
use flightrec_format::decode::Plain;
use flightrec_format::meta::{Argument, ContainerNames, Meta, Syscall};

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn meta() -> Meta {
    let arg = |name: &str| match name {
        "filename" => Argument { name: name.into(), ctype: "const char *".into() },
        _ => Argument { name: name.into(), ctype: "int".into() },
    };
    let table = |calls: &[(&str, u16, &[&str])]| {
        let call = |(name, nr, args): &(&str, u16, &[&str])| Syscall {
            nr: *nr,
            name: (*name).into(),
            args: Some(args.iter().map(|name| arg(name)).collect()),
        };
        calls.iter().map(call).collect()
    };
    Meta {
        native: table(&[
            ("read", 0, &["fd"]),
            ("rt_sigreturn", 15, &[]),
            ("getpid", 39, &[]),
            ("kill", 62, &[]),
            ("openat", 257, &["dfd", "filename"]),
            ("openat2", 437, &["dfd", "filename", "how"]),
        ]),
        compat: table(&[("read", 3, &["fd"]), ("waitpid", 7, &[]), ("mkdir", 39, &["filename"])]),
        cgroups: BTreeMap::from([
            (1, "/".into()),
            (5, "/system.slice".into()),
            (7, "/system.slice/web.service".into()),
            (8, "/system.slice/web.service/worker".into()),
            (9, "/system.slice2".into()),
            (70, format!("/docker/{WEB}")),
            (71, format!("/docker/{WEB}/init")),
            (72, format!("/kubepods/pod{POD}")),
            (73, format!("/kubepods/pod{POD}/{SHOP}")),
        ]),
        containers: BTreeMap::from([
            (70, names("web-1", "", "", "nginx")),
            (73, names("app", "shop-0", "prod", "shop:7")),
        ]),
        ..Meta::default()
    }
}

const WEB: &str = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const SHOP: &str = "9d41770a04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const POD: &str = "1a2b3c4d-1111-2222-3333-0123456789ab";

fn names(name: &str, pod: &str, namespace: &str, image: &str) -> ContainerNames {
    let [name, pod, namespace, image] = [name, pod, namespace, image].map(str::to_owned);
    ContainerNames { name, pod, namespace, image }
}

fn filter(args: FilterSpec) -> Filter {
    FilterPlan::new(args).unwrap().resolve(&meta()).unwrap()
}

fn error(args: FilterSpec) -> String {
    let resolved = FilterPlan::new(args).and_then(|plan| plan.resolve(&meta()));
    resolved.err().map_or_else(|| panic!("no error"), |e| e.to_string())
}

/// Whether an event is wanted of which no more is known.
fn wants(filter: &Filter, event: &Event) -> bool {
    filter.wants(event, CallFacts::default(), &Threads::default())
}

fn returned(nr: u16, ret: i64) -> Event {
    event(1, 0, 5, Body::Exit { call: call(nr), ret, entered: None })
}

#[test]
fn names_of_threads_are_patterns_too() {
    let renamed = |old: &str, new: &str| {
        event(1, 0, 5, Body::Rename(Rename { tid: 5, tgid: 5, old: comm(old), new: comm(new) }))
    };
    let wanted = |patterns: &[&str], name: &str| {
        let filter = filter(FilterSpec { comm: strings(patterns), ..FilterSpec::default() });
        wants(&filter, &renamed(name, name))
    };
    for pattern in ["kworker/0:1", "kworker/*", "kw*", "*0:?", "k[a-z]orker/0:1", "*"] {
        assert!(wanted(&["nobody", pattern], "kworker/0:1"), "{pattern}");
    }
    for pattern in ["kworker", "kworker/?", "KW*", "worker*"] {
        assert!(!wanted(&[pattern], "kworker/0:1"), "{pattern}");
    }
    // A name that looks like a pattern is itself as well.
    assert!(wanted(&["a[b]*"], "a[b]*") && wanted(&["a[b]*"], "abc") && wanted(&["[x"], "[x"));
    // Names are any bytes.
    let filter = filter(FilterSpec { comm: strings(&["x*"]), ..FilterSpec::default() });
    let any = Rename { tid: 5, tgid: 5, old: *b"x\xff/\n\0\0\0\0\0\0\0\0\0\0\0\0", new: comm("y") };
    assert!(wants(&filter, &event(1, 0, 5, Body::Rename(any))));
    assert!(
        error(FilterSpec { comm: strings(&["[z-a]*"]), ..FilterSpec::default() })
            .starts_with("--comm: `[z-a]*`: ")
    );
}

#[test]
fn calls_that_were_fast_enough() {
    let limits = |slower: Option<u64>, faster: Option<u64>, took: Option<u64>| {
        let time = |ns: Option<u64>| ns.map(Duration::from_nanos);
        let args = FilterSpec {
            slower_than: time(slower),
            faster_than: time(faster),
            ..FilterSpec::default()
        };
        let facts =
            CallFacts { took: took.map_or(Took::Nothing, Took::Ns), ..CallFacts::default() };
        filter(args).wants(&returned(0, 1), facts, &Threads::default())
    };
    assert!(limits(None, Some(1000), Some(999)) && !limits(None, Some(1000), Some(1000)));
    assert!(!limits(None, Some(1000), None), "how long it took is not known");
    assert!(limits(Some(10), Some(1000), Some(10)) && !limits(Some(10), Some(1000), Some(9)));
    let faster =
        filter(FilterSpec { faster_than: Some(Duration::from_secs(1)), ..FilterSpec::default() });
    assert!(
        !wants(&faster, &enter(1, 0, 5, 0))
            && !wants(&faster, &switch(1, 0, 5, 1, 6))
            && !faster.wants_all()
    );
    let empty = FilterSpec {
        slower_than: Some(Duration::from_secs(1)),
        faster_than: Some(Duration::from_secs(1)),
        ..FilterSpec::default()
    };
    assert!(error(empty).contains("--faster-than"));
}

#[test]
fn everything_by_default() {
    let all = FilterPlan::all().resolve(&meta()).unwrap();
    assert!(wants(&all, &enter(1, 0, 5, 0)) && wants(&all, &switch(1, 0, 5, 1, 6)));
    assert_eq!(FilterPlan::new(FilterSpec::default()).unwrap(), FilterPlan::all());
}

#[test]
fn a_system_call_means_its_number_in_each_table() {
    let filter = filter(FilterSpec { syscall: strings(&["read"]), ..FilterSpec::default() });
    assert!(wants(&filter, &enter(1, 0, 5, 0)) && !wants(&filter, &enter(1, 0, 5, 3)));
    let compat = |nr| event(1, 0, 5, Body::Enter(Call { abi: Abi::Compat, ..call(nr) }));
    assert!(wants(&filter, &compat(3)) && !wants(&filter, &compat(0)));
    assert!(!wants(&filter, &switch(1, 0, 5, 1, 6)));
}

#[test]
fn numbers_are_native() {
    let filter = filter(FilterSpec { syscall: strings(&["39"]), ..FilterSpec::default() });
    assert!(wants(&filter, &enter(1, 0, 5, 39)));
    assert!(!wants(&filter, &event(1, 0, 5, Body::Enter(Call { abi: Abi::Compat, ..call(39) }))));
}

/// Calls that the recorded kernel has no name for: by the number that the recorder kept, in its
/// tables and beyond them.
#[test]
fn numbers_without_a_name() {
    let beyond =
        |number: u64, nargs: u8| Call { nargs, args: [number, 0, 0, 0, 0, 0], ..call(NR_INVALID) };
    let entered = |call: Call| event(1, 0, 5, Body::Enter(call));
    let exited = |call: Call| event(1, 0, 5, Body::Exit { call, ret: -38, entered: None });
    let minus_one = -1i64 as u64;
    for (typed, number) in [("syscall_600", 600), ("600", 600), ("syscall_-1", minus_one)] {
        let filter = filter(FilterSpec { syscall: strings(&[typed]), ..FilterSpec::default() });
        assert!(wants(&filter, &entered(beyond(number, 1))), "{typed}");
        assert!(!wants(&filter, &entered(beyond(601, 1))) && !wants(&filter, &enter(1, 0, 5, 39)));
        // An end whose beginning is lost has no number.
        let lost = exited(beyond(0, 0));
        let doubt = filter.doubt(&lost, CallFacts::default(), &Threads::default());
        assert!(!wants(&filter, &lost) && doubt == Some(Part::Entries) && !filter.is_of_ends());
        let of_others = exited(call(39));
        assert_eq!(filter.doubt(&of_others, CallFacts::default(), &Threads::default()), None);
    }
    let but = filter(FilterSpec { syscall: strings(&["!syscall_600"]), ..FilterSpec::default() });
    assert!(!wants(&but, &entered(beyond(600, 1))) && wants(&but, &entered(beyond(601, 1))));
    let lost = but.doubt(&exited(beyond(0, 0)), CallFacts::default(), &Threads::default());
    assert_eq!(lost, Some(Part::Entries));
    // In the machine's own table, any number; in none, that of a 32-bit call.
    let own = filter(FilterSpec { syscall: strings(&["70000"]), ..FilterSpec::default() });
    assert!(wants(&own, &entered(beyond(70_000, 1))));
    let compat = entered(Call { abi: Abi::Compat, ..beyond(600, 1) });
    let by_number = filter(FilterSpec { syscall: strings(&["600"]), ..FilterSpec::default() });
    let unnamed =
        filter(FilterSpec { syscall: strings(&["syscall_600"]), ..FilterSpec::default() });
    assert!(!wants(&by_number, &compat) && wants(&unnamed, &compat));
    // What reports call it; and a call whose end has no number.
    let all = filter(FilterSpec { syscall: strings(&["syscall_?"]), ..FilterSpec::default() });
    assert!(wants(&all, &compat) && wants(&all, &exited(beyond(0, 0))) && all.is_of_ends());
    for typed in ["rt_sigreturn", "!rt_sigreturn", "%signal"] {
        let sigreturn = filter(FilterSpec { syscall: strings(&[typed]), ..FilterSpec::default() });
        let lost = exited(beyond(0, 0));
        let doubt = sigreturn.doubt(&lost, CallFacts::default(), &Threads::default());
        assert!(!wants(&sigreturn, &lost) && doubt == Some(Part::Entries), "{typed}: {doubt:?}");
    }
    // In the tables, and without a name there.
    let in_table =
        filter(FilterSpec { syscall: strings(&["syscall_500"]), ..FilterSpec::default() });
    assert!(wants(&in_table, &enter(1, 0, 5, 500)) && in_table.is_of_ends());
    let named = filter(FilterSpec { syscall: strings(&["syscall_39"]), ..FilterSpec::default() });
    assert!(!wants(&named, &enter(1, 0, 5, 39)), "that has a name");
    assert!(
        error(FilterSpec { syscall: strings(&["syscall_x"]), ..FilterSpec::default() })
            .contains("no system call `syscall_x`")
    );
}

#[test]
fn classes_and_their_opposites() {
    let numbers = |names: &[&str]| {
        let filter = filter(FilterSpec { syscall: strings(names), ..FilterSpec::default() });
        [0, 39, 62, 257, 400]
            .into_iter()
            .filter(|nr| wants(&filter, &enter(1, 0, 5, *nr)))
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&["%file"]), [257]);
    assert_eq!(numbers(&["desc"]), [0, 257]);
    assert_eq!(numbers(&["file", "signal"]), [62, 257]);
    assert_eq!(numbers(&["!file", "read"]), [39, 62, 400], "also those without a name");
    assert_eq!(numbers(&["!read", "!%file"]), [39, 62, 400]);
}

#[test]
fn a_filter_of_calls_leaves_named_kinds_in() {
    let both = FilterSpec {
        syscall: strings(&["read"]),
        event: strings(&["switch", "sys_exit"]),
        ..FilterSpec::default()
    };
    let both = filter(both);
    assert!(wants(&both, &switch(1, 0, 5, 1, 6)) && !wants(&both, &enter(1, 0, 5, 0)));
}

#[test]
fn wrong_names_bring_the_right_ones() {
    let args = FilterSpec::default;
    for (args, wrong, right) in [
        (FilterSpec { syscall: strings(&["opneat"]), ..args() }, "`opneat`", "openat"),
        (FilterSpec { syscall: strings(&["%fiel"]), ..args() }, "`%fiel`", "mean file"),
        (FilterSpec { event: strings(&["swich"]), ..args() }, "`swich`", "mean switch"),
        (FilterSpec { errno: strings(&["ENOET"]), ..args() }, "`ENOET`", "ENOENT"),
        (FilterSpec { unit: strings(&["wbe"]), ..args() }, "`wbe.service`", "web.service"),
        (
            FilterSpec { cgroup: strings(&["/sistem.slice"]), ..args() },
            "`/sistem.slice`",
            "/system.slice",
        ),
        (
            FilterSpec { syscall: strings(&["read", "!getpid"]), ..args() },
            "`!getpid`",
            "before the first",
        ),
        (FilterSpec { path: strings(&["/a["]), ..args() }, "`/a[`", "unclosed"),
    ] {
        let e = error(args);
        assert!(e.contains(wrong) && e.contains(right), "{e}");
    }
    assert!(FilterPlan::new(FilterSpec { syscall: strings(&["read", "read"]), ..args() }).is_ok());
}

#[test]
fn failures() {
    let errors = filter(FilterSpec { errors: true, ..FilterSpec::default() });
    assert!(
        wants(&errors, &returned(0, -2))
            && !wants(&errors, &returned(0, 2))
            && !wants(&errors, &returned(0, -5000))
    );
    assert!(!wants(&errors, &returned(0, -512)), "to be gone on with");
    assert!(!wants(&errors, &returned(15, -2)), "a register of what was interrupted");
    assert!(!wants(&errors, &enter(1, 0, 5, 0)) && !wants(&errors, &switch(1, 0, 5, 1, 6)));
    assert!(errors.wants_whole_ends());
    let noent = filter(FilterSpec {
        errno: strings(&["enoent", "ERESTARTSYS", "11"]),
        ..FilterSpec::default()
    });
    assert_eq!(
        [-2, -13, -512, -11].map(|ret| wants(&noent, &returned(0, ret))),
        [true, false, true, true]
    );
}

#[test]
fn slow_calls() {
    let slow =
        filter(FilterSpec { slower_than: Some(Duration::from_millis(1)), ..FilterSpec::default() });
    let took = |ns: Option<u64>| {
        let facts = CallFacts { took: ns.map_or(Took::Nothing, Took::Ns), ..CallFacts::default() };
        slow.wants(&exit(1, 0, 5, 0), facts, &Threads::default())
    };
    assert_eq!([Some(999_999), Some(1_000_000), None].map(took), [false, true, false]);
    assert!(!wants(&slow, &enter(1, 0, 5, 0)));
}

#[test]
fn paths() {
    let with = |pattern: &str, path: &str| {
        let filter = filter(FilterSpec { path: strings(&[pattern]), ..FilterSpec::default() });
        let made =
            Call { nargs: 2, strings: vec![text(1, StringStatus::Whole, path)], ..call(257) };
        filter.wants_path(&made, FdNames::default())
    };
    assert!(
        with("/etc/*", "/etc/hosts")
            && !with("/etc/*", "/etc/ssl/certs")
            && with("/etc/**", "/etc/ssl/certs")
    );
    assert!(with("*.so", "/lib/libc.so") && with("hosts", "/etc/hosts") && with("hosts", "hosts"));
    assert!(!with("hosts", "/etc/hosts.allow"));
    assert!(with("/etc/hosts", "/etc/././hosts") && with("/etc/hosts", "//tmp/..//etc/hosts"));
}

#[test]
fn paths_of_which_not_all_is_recorded() {
    let with = |status, pattern: &str, path: &str| {
        let filter = filter(FilterSpec { path: strings(&[pattern]), ..FilterSpec::default() });
        let made = Call { nargs: 2, strings: vec![text(1, status, path)], ..call(257) };
        let wanted = filter.wants_path(&made, FdNames::default());
        filter.note_shown(&event(1, 0, 5, Body::Enter(made)));
        (wanted, filter.undecided())
    };
    let padded = ["/.".repeat(64), "/./secret".to_owned()].concat();
    for pattern in ["/etc/secret", "secret", "*/secret", "/etc/**"] {
        assert_eq!(with(StringStatus::Ends, pattern, &padded), (true, 1), "{pattern}");
    }
    assert!(!with(StringStatus::Ends, "/etc/hosts", &padded).0);
    assert_eq!(with(StringStatus::Cut, "/etc/hosts", &padded), (true, 1));
    assert_eq!(with(StringStatus::Whole, "/secret", &padded), (true, 0));
    assert_eq!(with(StringStatus::Unreadable, "/secret", ""), (false, 0));
}

/// What is not known of a path is not that it does not match.
#[test]
fn paths_that_may_match() {
    let lacks = |pattern: &str, status, path: &str, fds: FdNames<'_>| {
        let filter = filter(FilterSpec { path: strings(&[pattern]), ..FilterSpec::default() });
        let args = [7, 4096, 0, 0, 0, 0];
        let made = Call { nargs: 2, args, strings: vec![text(1, status, path)], ..call(257) };
        assert!(!filter.wants_path(&made, fds), "{pattern} {path}");
        filter.lacks(&made, fds, false)
    };
    let whole = |pattern, path| lacks(pattern, StringStatus::Whole, path, FdNames::default());
    assert_eq!(whole("/srv/data.txt", "data.txt"), Some(Part::Directories));
    assert_eq!(whole("/srv/*.txt", "x/data.txt"), Some(Part::Directories));
    assert_eq!(whole("/srv/data.txt", "other.txt"), None);
    assert_eq!(whole("/srv/data.txt", "/tmp/data.txt"), None);
    let names = [(7, b"/tmp"[..].into())];
    let known = FdNames::kept(&names);
    assert_eq!(lacks("/srv/data.txt", StringStatus::Whole, "data.txt", known), None);
    // A directory of which no more is known, and what is none: the descriptor of inotify.
    for name in [&b"srv"[..], b"anon_inode:inotify"] {
        let names = [(7, name.into())];
        let lacks = lacks("/srv/data.txt", StringStatus::Whole, "data.txt", FdNames::kept(&names));
        assert_eq!(lacks, Some(Part::Directories));
    }
    let unread = lacks("/srv/x", StringStatus::Unreadable, "", FdNames::default());
    assert_eq!(unread, Some(Part::UnreadPaths));
}

/// What a descriptor stands for may be known by a relative path alone.
#[test]
fn relative_names_of_descriptors_may_match() {
    let filter = filter(FilterSpec { path: strings(&["/srv/data.txt"]), ..FilterSpec::default() });
    let lacks = |name: &[u8]| {
        let names = [(3, name.into())];
        let fds = FdNames::kept(&names);
        let read = Call { nargs: 1, args: [3, 0, 0, 0, 0, 0], ..call(0) };
        assert!(!filter.wants_path(&read, fds));
        filter.lacks(&read, fds, false)
    };
    assert_eq!(lacks(b"data.txt"), Some(Part::Directories));
    assert_eq!(lacks(b"x/data.txt"), Some(Part::Directories));
    for name in [&b"other.txt"[..], b"/tmp/data.txt", b"pipe:[7]", b"anon_inode:/data.txt"] {
        assert_eq!(lacks(name), None);
    }
}

/// A path in a directory that is its root is none of the machine's as it was given.
#[test]
fn paths_in_a_root_of_their_own() {
    let head = pointee::head(pointee::Shape::OpenHow as u32, false).to_le_bytes();
    let bytes = [&head[..], &[0; 16], &libc::RESOLVE_IN_ROOT.to_le_bytes()].concat().into();
    let how = Text { index: pointee::INDEX + 2, status: StringStatus::Whole, bytes };
    let names = [(7, b"/srv/jail"[..].into())];
    let opened = |how: Option<Text>, pattern: &str, path: &str, fds: FdNames<'_>| {
        let filter = filter(FilterSpec { path: strings(&[pattern]), ..FilterSpec::default() });
        let strings =
            [Some(text(1, StringStatus::Whole, path)), how].into_iter().flatten().collect();
        let made = Call { nargs: 3, args: [7, 4096, 8192, 0, 0, 0], strings, ..call(437) };
        let wanted = filter.wants_path(&made, fds);
        (wanted, if wanted { None } else { filter.lacks(&made, fds, false) })
    };
    let of = |pattern, path, fds| opened(Some(how.clone()), pattern, path, fds);
    let (known, unknown) = (FdNames::kept(&names), FdNames::default());
    assert_eq!(of("/etc/passwd", "/etc/passwd", known), (false, None));
    assert_eq!(of("/srv/jail/etc/passwd", "/etc/passwd", known), (true, None));
    let not_known = (false, Some(Part::Directories));
    assert_eq!(of("/srv/jail/etc/passwd", "../etc/passwd", known), not_known);
    assert_eq!(of("/srv/jail/etc/passwd", "/etc/passwd", unknown), not_known);
    assert_eq!(of("/srv/jail/etc/passwd", "/etc/group", unknown), (false, None));
    // Whether it is its root is not recorded.
    assert_eq!(opened(None, "/etc/passwd", "/etc/passwd", known), not_known);
    assert_eq!(opened(None, "/etc/passwd", "/etc/group", known), (false, None));
    assert_eq!(opened(None, "/srv/jail/a", "a", known), (true, None));
}

#[test]
fn operations_of_io_uring_have_paths_as_well() {
    let filter = filter(FilterSpec { path: strings(&["/srv/data.txt"]), ..FilterSpec::default() });
    let names = [(3, b"/srv"[..].into()), (4, b"/srv/data.txt"[..].into()), (5, b""[..].into())];
    let of = |op, fd, flags, path: Option<(StringStatus, &str)>| {
        let submit = IoSubmit { ring: 1, operation: 9, user_data: 0, op, fd, flags, submitter: 0 };
        let paths: Vec<Text> =
            path.map(|(status, path)| text(0, status, path)).into_iter().collect();
        filter.wants_operation(&submit, &paths, FdNames::kept(&names))
    };
    let whole = |path| Some((StringStatus::Whole, path));
    let (open, read, recv, cwd) = (18, 22, 27, libc::AT_FDCWD);
    assert_eq!(of(open, cwd, 0, whole("/srv/data.txt")), (true, None));
    assert_eq!(of(open, 3, 0, whole("data.txt")), (true, None));
    assert_eq!(of(read, 4, 0, None), (true, None));
    assert_eq!(of(open, cwd, 0, whole("/srv/other")), (false, None));
    assert_eq!(of(open, cwd, 0, whole("data.txt")), (false, Some(Part::Directories)));
    let unread = of(open, cwd, 0, Some((StringStatus::Unreadable, "")));
    assert_eq!(unread, (false, Some(Part::UnreadPaths)));
    assert_eq!(of(open, cwd, 0, None), (false, Some(Part::Paths)), "strings are left out");
    assert_eq!(of(read, 4, 1, None), (false, Some(Part::Descriptors)), "the ring's own table");
    assert_eq!(of(read, 5, 0, None), (false, Some(Part::Descriptors)));
    assert_eq!(of(recv, 4, 1, None), (false, None), "a socket");
    assert_eq!(of(0, -1, 0, None), (false, None));
    // Both ends of one that matches are shown.
    assert!(!filter.kinds.has(Kind::Switch) && filter.kinds.has(Kind::IoComplete));
}

#[test]
fn paths_by_descriptors() {
    let filter = filter(FilterSpec { path: strings(&["/etc/h*"]), ..FilterSpec::default() });
    let names = [(3, b"/etc/hosts"[..].into()), (4, b"/etc"[..].into())];
    let fds = FdNames::kept(&names);
    let read =
        |fd| filter.wants_path(&Call { nargs: 1, args: [fd, 0, 0, 0, 0, 0], ..call(0) }, fds);
    assert_eq!([3, 4, 5].map(read), [true, false, false]);
    let relative = Call {
        nargs: 2,
        args: [4, 0, 0, 0, 0, 0],
        strings: vec![text(1, StringStatus::Whole, "host")],
        ..call(257)
    };
    assert!(filter.wants_path(&relative, fds));
    assert!(!filter.wants_path(&Call { args: [9, 0, 0, 0, 0, 0], ..relative.clone() }, fds));
    // An event's own facts decide.
    assert!(!wants(&filter, &enter(1, 0, 5, 257)));
    let facts = CallFacts { path: true, ..CallFacts::default() };
    assert!(filter.wants(&enter(1, 0, 5, 257), facts, &Threads::default()));
}

#[test]
fn both_sides_of_a_switch_and_of_a_wakeup() {
    let filter = filter(FilterSpec { tid: vec![6], ..FilterSpec::default() });
    assert!(wants(&filter, &switch(1, 0, 5, 1, 6)) && wants(&filter, &switch(1, 0, 6, 1, 5)));
    assert!(wants(&filter, &waking(1, 0, 5, 6, 0)) && !wants(&filter, &switch(1, 0, 5, 1, 7)));
}

#[test]
fn kinds_of_filter_combine_with_and() {
    let filter = filter(FilterSpec { pid: vec![100], cpu: vec![1], ..FilterSpec::default() });
    let mut threads = Threads::default();
    threads.apply(&event(0, 0, 100, Body::Fork(fork(100, 100, 101, 100, "web"))));
    let wants = |event: &Event| filter.wants(event, CallFacts::default(), &threads);
    assert!(wants(&enter(1, 1, 101, 0)));
    assert!(!wants(&enter(1, 0, 101, 0)), "wrong CPU");
    assert!(!wants(&enter(1, 1, 7, 0)), "wrong process");
}

#[test]
fn names_old_and_new() {
    let filter = filter(FilterSpec { comm: strings(&["web"]), ..FilterSpec::default() });
    let mut threads = Threads::default();
    let rename =
        event(1, 0, 5, Body::Rename(Rename { tid: 5, tgid: 5, old: comm("sh"), new: comm("web") }));
    assert!(filter.wants(&rename, CallFacts::default(), &threads));
    assert!(!filter.wants(&enter(2, 0, 5, 0), CallFacts::default(), &threads));
    threads.apply(&rename);
    assert!(filter.wants(&enter(2, 0, 5, 0), CallFacts::default(), &threads));
}

#[test]
fn a_tree_has_all_generations() {
    let filter = filter(FilterSpec { tree: vec![10], ..FilterSpec::default() });
    let mut threads = Threads::default();
    for (parent, tid, tgid) in [(10, 11, 10), (10, 20, 20), (20, 30, 30), (40, 50, 50)] {
        threads.apply(&event(0, 0, parent, Body::Fork(fork(parent, parent, tid, tgid, "x"))));
    }
    let wanted = [10, 11, 20, 30, 40, 50]
        .map(|tid| filter.wants(&enter(1, 0, tid, 0), CallFacts::default(), &threads));
    assert_eq!(wanted, [true, true, true, true, false, false]);
    // Its id is another process's now.
    threads.apply(&event(0, 0, 40, Body::Fork(fork(40, 40, 20, 20, "x"))));
    assert!(!filter.wants(&enter(1, 0, 20, 0), CallFacts::default(), &threads));
}

#[test]
fn groups_and_units() {
    let mut threads = Threads::default();
    for (tid, cgroup) in [(1, 1), (5, 5), (7, 7), (8, 8), (9, 9), (77, 77)] {
        let exec = Exec { tid, old_tid: tid, tgid: tid, args_len: 0, cgroup, comm: comm("x") };
        threads.apply(&event(0, 0, tid, Body::Exec { exec, file: None, args: None }));
    }
    let wanted = |args| {
        let filter = filter(args);
        let wants = |tid: &u32| filter.wants(&enter(1, 0, *tid, 0), CallFacts::default(), &threads);
        [1, 5, 7, 8, 9, 77].into_iter().filter(wants).collect::<Vec<_>>()
    };
    let args = FilterSpec::default;
    assert_eq!(wanted(FilterSpec { cgroup: strings(&["system.slice/"]), ..args() }), [5, 7, 8]);
    assert_eq!(wanted(FilterSpec { cgroup: strings(&["/"]), ..args() }), [1, 5, 7, 8, 9]);
    assert_eq!(
        wanted(FilterSpec { cgroup: strings(&["77", "/system.slice2"]), ..args() }),
        [9, 77]
    );
    assert_eq!(wanted(FilterSpec { unit: strings(&["web"]), ..args() }), [7, 8]);
    assert_eq!(
        wanted(FilterSpec { unit: strings(&["web.service"]), cgroup: strings(&["8"]), ..args() }),
        [8]
    );
}

#[test]
fn containers_and_pods() {
    let mut threads = Threads::default();
    for tid in [7, 70, 71, 72, 73] {
        let cgroup = u64::from(tid);
        let exec = Exec { tid, old_tid: tid, tgid: tid, args_len: 0, cgroup, comm: comm("x") };
        threads.apply(&event(0, 0, tid, Body::Exec { exec, file: None, args: None }));
    }
    let wanted = |container: &[&str], pod: &[&str]| {
        let (container, pod) = (strings(container), strings(pod));
        let filter = filter(FilterSpec { container, pod, ..FilterSpec::default() });
        assert!(!filter.wants_all() && !filter.is_of_ends());
        let wants = |tid: &u32| filter.wants(&enter(1, 0, *tid, 0), CallFacts::default(), &threads);
        [7, 70, 71, 72, 73].into_iter().filter(wants).collect::<Vec<_>>()
    };
    assert_eq!(wanted(&["web-1"], &[]), [70, 71]);
    assert_eq!((wanted(&["3f2a"], &[]), wanted(&[WEB], &[])), (vec![70, 71], vec![70, 71]));
    assert_eq!(wanted(&["app", "web-1"], &[]), [70, 71, 73]);
    assert_eq!((wanted(&[], &["shop-0"]), wanted(&[], &[POD])), (vec![72, 73], vec![72, 73]));
    assert_eq!(
        (wanted(&["app"], &["prod/shop-0"]), wanted(&["web-1"], &[POD])),
        (vec![73], vec![])
    );
    let error = |container: &[&str], pod: &[&str]| {
        let (container, pod) = (strings(container), strings(pod));
        error(FilterSpec { container, pod, ..FilterSpec::default() })
    };
    assert!(error(&["web-2"], &[]).ends_with("no container `web-2`; did you mean web-1?"));
    assert!(error(&["3f2"], &[]).ends_with("`3f2`; of an id, give at least 4 digits"));
    assert!(error(&[], &["shop-1"]).ends_with("no pod `shop-1`; did you mean shop-0?"));
    let none = FilterPlan::new(FilterSpec { pod: strings(&["x"]), ..FilterSpec::default() });
    let bare = Meta { cgroups: BTreeMap::from([(1, "/".into())]), ..Meta::default() };
    let error = none.unwrap().resolve(&bare).unwrap_err().to_string();
    assert!(error.ends_with("is a container's or a pod's by its path"), "{error}");
}

#[test]
fn a_control_groups_own_event_is_of_its_unit() {
    let throttled = |cgroup: u64| {
        let body = Throttle { duration: 1, cgroup, v1_cgroup: 8, throttled_cpu: 0, reserved: 0 };
        let plain = Plain::read(Kind::Throttle, &body.bytes()).unwrap();
        event(1, 0, 5, Body::Plain(plain))
    };
    let unit = filter(FilterSpec { unit: strings(&["web"]), ..FilterSpec::default() });
    assert!(wants(&unit, &throttled(7)) && wants(&unit, &throttled(8)));
    // Those of other units, and of cgroup v1, whose ids are others.
    assert!(!wants(&unit, &throttled(5)) && !wants(&unit, &throttled(0)));
}

#[test]
fn what_needs_the_task_lane_alone() {
    let plan = |event: &[&str], comm: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let spec = FilterSpec { event: owned(event), comm: owned(comm), ..FilterSpec::default() };
        FilterPlan::new(spec).unwrap()
    };
    assert!(plan(&["exec"], &[]).is_of_tasks());
    assert!(plan(&["fork", "rename", "exit", "mark", "recorder"], &["x"]).is_of_tasks());
    for more in [&["exec", "switch"][..], &["sys_enter"], &["block_issue"], &[]] {
        assert!(!plan(more, &[]).is_of_tasks(), "{more:?}");
    }
    let names = || [&b""[..], b"swapper/0", b"cron"].into_iter();
    assert!(plan(&[], &[]).may_want_one(names()) && !plan(&[], &[]).wants_names());
    for (comm, may) in [("cron", true), ("c*", true), ("*", true), ("swap*", true), ("cr", false)] {
        assert!(plan(&[], &[comm]).wants_names());
        assert_eq!(plan(&[], &[comm]).may_want_one(names()), may, "{comm}");
    }
}
