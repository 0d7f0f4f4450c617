use flightrec_reader::fds::{FdNames, Named};

use super::*;

/// The lines of a call whose process has these descriptors.
fn shown(body: Body, names: &[(i32, &str)], merged: bool) -> String {
    let names: Vec<Named> = names.iter().map(|(fd, name)| (*fd, name.as_bytes().into())).collect();
    let merged = merged.then_some(WALL);
    line(body, &EventContext { fds: FdNames::kept(&names), merged, ..context() })
}

#[test]
fn descriptors_by_what_they_stand_for() {
    let names = [(3, "/etc/hosts"), (4, "/etc")];
    let read = Body::Enter(call(0, &[3, 0x1000, 512], vec![]));
    assert_eq!(shown(read.clone(), &names, false), "read(3</etc/hosts>, 0x1000, 512) -->");
    assert_eq!(shown(read, &names[1..], false), "read(3, 0x1000, 512) -->");
    let relative =
        Body::Enter(call(257, &[4, 0x2000, 0, 0], vec![string(1, StringStatus::Whole, b"hosts")]));
    assert_eq!(shown(relative, &names, false), "openat(4</etc>, \"hosts\", O_RDONLY) -->");
    // A number that is no descriptor has no name.
    let sleep = Body::Enter(call(35, &[3, 4], vec![]));
    assert_eq!(shown(sleep, &names, false), "nanosleep(0x3, 0x4) -->");
}

#[test]
fn what_a_call_returns() {
    let opened = |ret| Body::Exit { call: call(257, &[], vec![]), ret, entered: Some(999_000) };
    assert_eq!(shown(opened(3), &[(3, "/a")], false), "openat <-- 3</a> (1.0 us)");
    assert_eq!(shown(opened(-2), &[(3, "/a")], false), "openat <-- -2 ENOENT (1.0 us)");
    let read = Body::Exit { call: call(0, &[3, 0, 9], vec![]), ret: 3, entered: Some(999_000) };
    assert_eq!(shown(read, &[(3, "/a")], true), "read(3</a>, NULL, 9) = 3 (1.0 us)");
}

#[test]
fn hostile_names_stay_within_their_brackets() {
    let close = Body::Enter(call(3, &[3], vec![]));
    assert_eq!(shown(close, &[(3, "/a>, <b\n\"")], false), r#"close(3</a\76, \74b\n\">) -->"#);
}

#[test]
fn sockets_as_in_strace() {
    let close = || Body::Enter(call(3, &[3], vec![]));
    let tcp = "TCP:[127.0.0.1:80->127.0.0.1:5]";
    assert_eq!(shown(close(), &[(3, tcp)], false), format!("close(3<{tcp}>) -->"));
    let unix = "UNIX-STREAM:[7->8,\"/run/\x1bx>\"]";
    assert_eq!(
        shown(close(), &[(3, unix)], false),
        r#"close(3<UNIX-STREAM:[7->8,"/run/\33x\76"]>) -->"#
    );
}
