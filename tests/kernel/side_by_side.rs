//! Several recorders at the same time.

use flightrec_tests::{bpf_objects_left, monotonic_ns, numbered_call};
use nix::unistd::gettid;

use crate::support::{snapshot, start};

#[test]
fn recorders_do_not_disturb_each_other() {
    let me = gettid().as_raw() as u32;
    let first = start("");
    numbered_call(0);
    let mut second = start("[rings]\nsyscall = \"8MiB\"");
    let began = monotonic_ns();
    numbered_call(1);
    let second_has = snapshot(&second);
    let both = [snapshot(&first), second_has];
    assert_ne!(both[0].meta.session, both[1].meta.session);
    assert_eq!(both[0].numbered_calls(me), [0, 1]);
    assert_eq!(both[1].numbered_calls(me), [1]);
    // Each leaves out its own calls only.
    assert!(!both[0].calls(second.pid()).is_empty() || !both[1].calls(first.pid()).is_empty());

    let objects = second.bpf_objects();
    second.stop();
    assert_eq!(bpf_objects_left(&objects), []);
    numbered_call(2);
    let ended = monotonic_ns();
    let first = snapshot(&first);
    assert_eq!(first.numbered_calls(me), [0, 1, 2]);
    first.assert_complete(began, ended);
}
