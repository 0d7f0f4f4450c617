//! The bytes of every kind of record in a page of version 1, as FORMAT.md gives them: they are read
//! for ever.

use crate::support::{CPU, call, text};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Act, Comm, Exec, Fork, Rename, StringStatus, TaskExit};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::PageWriter;

const COMM: Comm = *b"abcdefgh\0\0\0\0\0\0\0\0";
/// "abcdefgh" as a little-endian word.
const LETTERS: u64 = 0x6867_6665_6463_6261;

fn event(time: u64, tid: u32, body: Body) -> Event {
    Event { time, cpu: CPU, tid, body }
}

/// Writes events, opened at time 0x1000, and compares the words behind the header; then reads them
/// back.
#[track_caller]
fn golden(lane: Lane, events: &[Event], words: &[u64]) {
    let mut writer = PageWriter::of_version(1, 0x1122_3344_5566_7788, lane, CPU, 37_000);
    for event in events {
        writer.push(event).unwrap();
    }
    let page = Page::new(writer.finish().remove(0)).unwrap();
    let (all, _) = page.bytes().as_chunks::<8>();
    let written: Vec<u64> =
        all[16..page.header().used as usize].iter().map(|w| u64::from_le_bytes(*w)).collect();
    assert_eq!(written, words, "\nwritten  {written:#018x?}\nexpected {words:#018x?}");
    assert_eq!(page.events().collect::<Vec<_>>(), events);
}

#[test]
fn page_header() {
    let mut writer = PageWriter::of_version(1, 0x1122_3344_5566_7788, Lane::Sched, 0x0102, 37_000);
    writer.push(&event(0x1000, 1, Body::Migrate { thread: 1, prio: 0, from: 0, to: 0 })).unwrap();
    let page = writer.finish().remove(0);
    let mut expected = Vec::new();
    expected.extend(b"FLTRECPG"); // magic
    expected.extend(0x1122_3344_5566_7788u64.to_le_bytes()); // session
    expected.extend([1, 0]); // version
    expected.extend([1, 0]); // lane, flags
    expected.extend([2, 1]); // CPU
    expected.extend([128, 0]); // header length
    expected.extend(1u64.to_le_bytes()); // seq
    expected.extend(0x1000u64.to_le_bytes()); // base, CLOCK_MONOTONIC
    expected.extend((0x1000u64 + 37_000).to_le_bytes()); // base, CLOCK_TAI
    expected.extend([19, 0, 0, 0]); // used: header, THREAD, MIGRATE
    expected.extend([0; 4]); // reserved
    expected.extend([0; 9 * 8]); // totals
    assert_eq!(page[..128], expected);
}

#[test]
fn enter_with_a_string() {
    let strings = vec![
        text(1, b"/etc/host"),
        Text { index: 3, status: StringStatus::Unreadable, bytes: Box::default() },
    ];
    let entry = Call { strings, ..call(257, &[-100i64 as u64, 0x7fff_1234_5678, 0x8_0000]) };
    // The argument group byte by byte: head 0x302c (n 3, classes 0, 3, 2), then the arguments.
    let group: [u8; 16] =
        [0x2c, 0x30, 0x9c, 0x78, 0x56, 0x34, 0x12, 0xff, 0x7f, 0, 0, 8, 0, 0, 0, 0];
    let (group, _) = group.as_chunks::<8>();
    let words = [
        0x0000_0022_0000_0101, // THREAD 34
        0x0000_0000_0101_0410, // ENTER, 4 words, number 257 native, time 0
        0,                     // not folded
        u64::from_le_bytes(group[0]),
        u64::from_le_bytes(group[1]),
        0x0000_0009_0001_0303, // STRING of argument 1, 9 bytes, whole
        u64::from_le_bytes(*b"/etc/hos"),
        u64::from(b't'),
        0x0000_0000_0023_0103, // STRING of argument 3, unreadable
    ];
    golden(Lane::Syscall, &[event(0x1000, 34, Body::Enter(entry))], &words);
}

#[test]
fn enter_with_its_exit() {
    let entry = Call { abi: Abi::Compat, ..call(20, &[]) };
    let exit = Body::Exit { call: entry.clone(), ret: -2, entered: Some(0x1000) };
    let words = [
        0x0000_0022_0000_0101,
        0x0000_0000_1014_0210, // ENTER, 2 words, number 20 of the 32-bit table
        0x0003_ffff_ffff_fffe, // folded: 2 * 16 ns, -2
    ];
    golden(
        Lane::Syscall,
        &[event(0x1000, 34, Body::Enter(entry)), event(0x1020, 34, exit)],
        &words,
    );
}

#[test]
fn exit_and_time() {
    let bare = Body::Exit { call: call(0, &[]), ret: 5, entered: None };
    let full = Body::Exit {
        call: Call { abi: Abi::X32, ..call(1, &[u64::MAX, 1 << 63]) },
        ret: -1,
        entered: None,
    };
    let words = [
        0x0000_0022_0000_0101,
        0x0000_0000_0000_0211, // EXIT of 0
        5,
        0x0000_0023_0000_0101, // another thread
        0x0000_0000_0000_0202, // TIME: more than 2^32 ns later
        0x2_0000_1000,
        0x0000_0000_2001_0511, // EXIT of x32's 1 with arguments
        u64::MAX,
        0xffff_ffff_ffff_a000, // raw form: two words of 8 bytes, unaligned behind the head
        0x0000_0000_0000_ffff,
        0x0000_0000_0000_8000,
    ];
    golden(Lane::Syscall, &[event(0x1000, 34, bare), event(0x2_0000_1000, 35, full)], &words);
}

#[test]
fn switch() {
    let body =
        Body::Switch { prev_prio: 120, prev_state: 2, preempted: true, next: 9, next_prio: 99 };
    let words = [
        0x0000_0007_0000_0101, // the page begins with the thread that runs
        0x0000_0000_6378_0220, // priorities 120, 99
        0x1000_2000_0240_0007, // 7 -> 9, state 2, preempted
    ];
    golden(Lane::Sched, &[event(0x1000, 7, body)], &words);
}

#[test]
fn wakeups_and_migration() {
    let waking = |new, state| Body::Waking { wakee: 9, prio: 115, state, cpu: 2, new };
    let migrate = Body::Migrate { thread: 9, prio: 115, from: 2, to: 3 };
    let events = [
        event(0x1000, 7, waking(false, 1)),
        event(0x1001, 7, waking(true, 0)),
        event(0x1002, 7, migrate),
    ];
    let words = [
        0x0000_0007_0000_0101,
        0x0000_0000_0073_0221, // WAKING
        0x0000_0080_0040_0009, // 9, state 1, CPU 2
        0x0000_0001_0073_0222, // WAKEUP_NEW
        0x0000_0080_0000_0009,
        0x0000_0002_0073_0223, // MIGRATE
        0x0000_00c0_0080_0009, // 9, CPU 2 to 3
    ];
    golden(Lane::Sched, &events, &words);
}

#[test]
fn task_life() {
    let fork = Fork {
        parent_tid: 1,
        parent_tgid: 2,
        tid: 3,
        tgid: 4,
        start_time: 5,
        cgroup: 6,
        comm: COMM,
    };
    let exec = Exec { tid: 3, old_tid: 4, tgid: 3, args_len: 5, cgroup: 6, comm: COMM };
    let exec =
        Body::Exec { exec, file: Some(text(0, b"/bin/ls")), args: Some(text(1, b"ls\0-l\0")) };
    let rename = Rename { tid: 3, tgid: 4, old: COMM, new: *b"x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" };
    let exit = TaskExit { tid: 3, tgid: 4, code: 0x100, reserved: 0, start_time: 5, comm: COMM };
    let events = [
        event(0x1000, 1, Body::Fork(fork)),
        event(0x1001, 3, exec),
        event(0x1002, 3, Body::Rename(rename)),
        event(0x1003, 3, Body::TaskExit(exit)),
    ];
    let words = [
        0x0000_0000_0000_0730, // FORK
        0x0000_0002_0000_0001, // parent's thread, process
        0x0000_0004_0000_0003, // child's
        5,
        6,
        LETTERS,
        0,
        0x0000_0001_0000_0631, // EXEC
        0x0000_0004_0000_0003, // thread, its id before
        0x0000_0005_0000_0003, // process, length of the arguments
        6,
        LETTERS,
        0,
        0x0000_0007_0000_0203, // STRING 0: the file
        u64::from_le_bytes(*b"/bin/ls\0"),
        0x0000_0006_0001_0203, // STRING 1: the arguments, each with its end
        u64::from_le_bytes(*b"ls\0-l\0\0\0"),
        0x0000_0002_0000_0632, // RENAME
        0x0000_0004_0000_0003,
        LETTERS,
        0,
        u64::from(b'x'),
        0,
        0x0000_0003_0000_0633, // TASK_EXIT
        0x0000_0004_0000_0003,
        0x0000_0000_0000_0100, // status 1
        5,
        LETTERS,
        0,
    ];
    golden(Lane::Task, &events, &words);
}

#[test]
fn marks_and_acts() {
    let events = [
        event(0x1000, 34, Body::Mark(text(0, b"hello"))),
        event(
            0x1001,
            0,
            Body::Act(Act::Adopt as u16, Text { status: StringStatus::Cut, ..text(0, b"x") }),
        ),
    ];
    let words = [
        0x0000_0022_0000_0101, // THREAD, for the next event alone in this lane
        0x0000_0000_0000_0134, // MARK
        0x0000_0005_0000_0203,
        u64::from_le_bytes(*b"hello\0\0\0"),
        0x0000_0001_0002_0135, // ACT 2
        0x0000_0001_0010_0203, // a string cut at the limit
        u64::from(b'x'),
    ];
    golden(Lane::Task, &events, &words);
}
