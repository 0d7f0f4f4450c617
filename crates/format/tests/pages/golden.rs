//! The bytes of every kind of record, as FORMAT.md gives them. A change here is a change of the
//! format.

use crate::support::{CPU, call, text};
use flightrec_format::abi::kinds::IoSubmit;
use flightrec_format::abi::page::{Lane, UNIT, header_len};
use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::abi::record::{
    Abi, Act, Comm, Exec, Fork, Rename, StringStatus, TaskExit, WakeContext,
};
use flightrec_format::decode::{
    Body, Call, Event, KernelStack, Page, Sample, Stack, Text, Tracepoint,
};
use flightrec_format::encode::PageWriter;

const COMM: Comm = *b"abcdefgh\0\0\0\0\0\0\0\0";
/// "abcd" and "efgh" as little-endian units.
const ABCD: u32 = 0x6463_6261;
const EFGH: u32 = 0x6867_6665;

fn event(time: u64, tid: u32, body: Body) -> Event {
    Event { time, cpu: CPU, tid, body }
}

/// Writes events, opened at time 0x1000, and compares the units after the header, which has the
/// counters of all kinds of the lane; then reads them back.
#[track_caller]
fn golden(lane: Lane, events: &[Event], units: &[u32]) {
    let mut writer = PageWriter::new(0x1122_3344_5566_7788, lane, CPU, 37_000);
    for event in events {
        writer.push(event).unwrap();
    }
    let page = Page::new(writer.finish().remove(0)).unwrap();
    let (all, _) = page.bytes().as_chunks::<4>();
    let written: Vec<u32> = all[header_len(lane) / UNIT..page.header().used as usize]
        .iter()
        .map(|w| u32::from_le_bytes(*w))
        .collect();
    assert_eq!(written, units, "\nwritten  {written:#010x?}\nexpected {units:#010x?}");
    assert_eq!(page.events().collect::<Vec<_>>(), events);
}

fn unit(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes)
}

#[test]
fn page_header() {
    let mut writer = PageWriter::new(0x1122_3344_5566_7788, Lane::Sched, 0x0102, 37_000);
    writer.push(&event(0x1000, 1, Body::Migrate { thread: 1, prio: 0, from: 0, to: 0 })).unwrap();
    let page = writer.finish().remove(0);
    let length = header_len(Lane::Sched);
    let mut expected = Vec::new();
    expected.extend(b"FLTRECPG"); // magic
    expected.extend(0x1122_3344_5566_7788u64.to_le_bytes()); // session
    expected.extend([1, 0]); // version
    expected.extend([1, 0]); // lane, flags
    expected.extend([2, 1]); // CPU
    expected.extend((length as u16).to_le_bytes()); // header length
    expected.extend(1u64.to_le_bytes()); // seq
    expected.extend(0x1000u64.to_le_bytes()); // base, CLOCK_MONOTONIC
    expected.extend((0x1000u64 + 37_000).to_le_bytes()); // base, CLOCK_TAI
    expected.extend(((length / UNIT + 2 + 4) as u32).to_le_bytes()); // used: THREAD, MIGRATE
    expected.extend([0; 4]); // reserved
    expected.resize(length, 0); // totals
    assert_eq!(page[..length], expected);
}

#[test]
fn enter_with_a_string() {
    let strings = vec![
        text(1, b"/etc/host"),
        Text { index: 3, status: StringStatus::Unreadable, bytes: Box::default() },
    ];
    let entry = Call { strings, ..call(257, &[-100i64 as u64, 0x7fff_1234_5678, 0x8_0000]) };
    let units = [
        0x0201,
        34, // THREAD 34
        0x0101_0710,
        0, // ENTER, 7 units, number 257 native, time 0
        0, // not folded
        // The argument group: head 0x302c (n 3, classes 0, 3, 2), then the arguments, unaligned.
        0x789c_302c,
        0xff12_3456,
        0x0800_007f,
        0,
        0x0001_0503,
        9, // STRING of argument 1, 9 bytes, whole
        unit(*b"/etc"),
        unit(*b"/hos"),
        u32::from(b't'),
        0x0023_0203,
        0, // STRING of argument 3, unreadable
    ];
    golden(Lane::Syscall, &[event(0x1000, 34, Body::Enter(entry))], &units);
}

#[test]
fn enter_with_its_exit() {
    let entry = Call { abi: Abi::Compat, ..call(20, &[]) };
    let exit = |ret, entered| Body::Exit { call: entry.clone(), ret, entered: Some(entered) };
    let enter = |time| event(time, 34, Body::Enter(entry.clone()));
    let units = [
        0x0201,
        34, // THREAD 34
        0x1014_0310,
        0,           // ENTER, 3 units, number 20 of the 32-bit table
        0x0003_0ffe, // folded: 2 * 16 ns, -2
        0x1014_0310,
        0x30,
        0x0001_0000, // no time of its own, -4096
        0x1014_0310,
        0x40,
        0xfffe_ffff, // the greatest of both: 65533 * 16 ns, 61439
    ];
    let events = [
        enter(0x1000),
        event(0x1020, 34, exit(-2, 0x1000)),
        enter(0x1030),
        event(0x1030, 34, exit(-4096, 0x1030)),
        enter(0x1040),
        event(0x1040 + 65_533 * 16, 34, exit(61_439, 0x1040)),
    ];
    golden(Lane::Syscall, &events, &units);
}

#[test]
fn an_exit_that_does_not_fit_stands_alone() {
    for (ret, late) in [(-4097, 16), (61_440, 16), (0, 65_534 * 16)] {
        let exit = Body::Exit { call: call(20, &[]), ret, entered: Some(0x1000) };
        let mut writer = PageWriter::new(1, Lane::Syscall, CPU, 0);
        writer.push(&event(0x1000, 34, Body::Enter(call(20, &[])))).unwrap();
        writer.push(&event(0x1000 + late, 34, exit)).unwrap();
        let page = Page::new(writer.finish().remove(0)).unwrap();
        assert_eq!(page.header().used, 32 + 2 + 3 + 4);
        let alone = Body::Exit { call: call(20, &[]), ret, entered: None };
        assert_eq!(page.events().nth(1), Some(event(0x1000 + late, 34, alone)));
    }
}

#[test]
fn exit_and_time() {
    let bare = Body::Exit { call: call(0, &[]), ret: 5, entered: None };
    let full = Body::Exit {
        call: Call { abi: Abi::X32, ..call(1, &[u64::MAX, 1 << 63]) },
        ret: -1,
        entered: None,
    };
    let units = [
        0x0201,
        34, // THREAD 34
        0x0000_0411,
        0, // EXIT of 0
        5,
        0,
        0x0201,
        35, // another thread
        0x0402,
        0, // TIME: more than 2^32 ns later
        0x1000,
        2,
        0x2001_0911,
        0, // EXIT of x32's 1 with arguments
        u32::MAX,
        u32::MAX,
        0xffff_a000, // raw form: two words of 8 bytes, unaligned after the head
        0xffff_ffff,
        0x0000_ffff,
        0,
        0x0000_8000,
    ];
    golden(Lane::Syscall, &[event(0x1000, 34, bare), event(0x2_0000_1000, 35, full)], &units);
}

#[test]
fn switch() {
    let body = Body::Switch {
        prev_prio: 120,
        prev_state: 2,
        preempted: true,
        io_wait: true,
        next: 9,
        next_prio: 99,
    };
    let units = [
        0x0201,
        7, // the page begins with the thread that runs
        0x6378_0420,
        0, // priorities 120, 99
        0x0240_0007,
        0x3000_2000, // 7 -> 9, state 2, preempted, I/O wait
    ];
    golden(Lane::Sched, &[event(0x1000, 7, body)], &units);
}

#[test]
fn wakeups_and_migration() {
    let waking = |new, state| Body::Waking {
        wakee: 9,
        prio: 115,
        state,
        cpu: 2,
        new,
        context: WakeContext::Hardirq,
    };
    let migrate = Body::Migrate { thread: 9, prio: 115, from: 2, to: 3 };
    let events = [
        event(0x1000, 7, waking(false, 1)),
        event(0x1001, 7, waking(true, 0)),
        event(0x1002, 7, migrate),
    ];
    let units = [
        0x0201,
        7,
        0x0073_0421,
        0, // WAKING
        0x0040_0009,
        0x00c0_0080, // 9, state 1, CPU 2, hardirq
        0x0073_0422,
        1, // WAKEUP_NEW
        0x0000_0009,
        0x00c0_0080,
        0x0073_0423,
        2, // MIGRATE
        0x0080_0009,
        0xc0, // 9, CPU 2 to 3
    ];
    golden(Lane::Sched, &events, &units);
}

#[test]
fn stacks() {
    let stack = |slept, status, cut, frames: &[u32]| {
        Body::Stack(Stack { slept, status, cut, frames: frames.into() })
    };
    let events = [
        event(0x1000, 7, stack(Some(0x1234_5678_9abc), Status::Taken, true, &[0x100, 0x200, 3])),
        event(0x1001, 7, stack(None, Status::Refused, false, &[])),
    ];
    let units = [
        0x0201,
        7, // THREAD
        0x0004_0726,
        0, // STACK, cut
        0x5678_9abc,
        0x1234, // slept
        0x100,
        0x200,
        3, // frames
        0x0001_0426,
        1, // STACK, refused
        0,
        0,
    ];
    golden(Lane::Sched, &events, &units);
}

#[test]
fn samples() {
    let sample = |user_mode, status, kernel: &[u32], user: &[UserFrame]| {
        let (kernel_cut, user_cut) = (false, !user.is_empty());
        let (kernel, user) = (kernel.into(), user.into());
        Body::Sample(Sample { user_mode, status, kernel_cut, user_cut, kernel, user })
    };
    let user =
        [UserFrame { binary: 3, at: 0x1_2345 }, UserFrame { binary: 0, at: 0x7fff_1234_5678 }];
    let events = [
        event(0x1000, 7, sample(false, Status::Taken, &[0x100], &user)),
        event(0x1001, 7, sample(true, Status::Refused, &[], &[])),
    ];
    let units = [
        0x0201,
        7, // THREAD
        0x0108_074a,
        0,     // SAMPLE, one frame of the kernel, those of the program cut
        0x100, // of the kernel
        0x12345,
        0x0003_0000, // of binary 3
        0x1234_5678,
        0x7fff, // an address
        0x0011_024a,
        1, // SAMPLE, the program ran, refused
    ];
    golden(Lane::Kernel, &events, &units);
}

#[test]
fn operations_of_rings() {
    let submit = IoSubmit {
        ring: 0x11,
        operation: 0x22,
        user_data: 0x33_0000_0044,
        op: 18,
        fd: -100,
        flags: 0x8000_0010,
        submitter: 1,
    };
    let paths = vec![text(0, b"/tmp")];
    let events = [event(0x1000, 7, Body::IoSubmit { submit, paths })];
    let units = [
        0x0201,
        7, // THREAD
        0x0a4c,
        0, // IO_SUBMIT
        0x11,
        0x22,
        0x44,
        0x33,
        18,
        0xffff_ff9c,
        0x8000_0010,
        1,
        0x0303,
        4, // STRING
        0x706d_742f,
    ];
    golden(Lane::Kernel, &events, &units);
}

#[test]
fn tracepoints() {
    let tracepoint = |bytes: &[u8], cut, stack| {
        let (bytes, context) = (bytes.into(), WakeContext::Softirq);
        Body::Tracepoint(Tracepoint { id: 5, context, bytes, cut, stack })
    };
    let frames = [0x100, 0x200].into();
    let stack = KernelStack { status: Status::Taken, cut: true, frames };
    let events = [
        event(0x1000, 7, tracepoint(b"\x01\x02\x03\x04\x05", false, Some(stack))),
        event(0x1001, 7, tracepoint(b"\x09\x00\x00\x00", true, None)),
    ];
    let units = [
        0x0201,
        7, // THREAD
        0x02a4_074f,
        0,           // TRACEPOINT, softirq, two frames of a stack, cut
        0x0005_0005, // number 5, 5 bytes
        0x0403_0201,
        0x5, // padded
        0x100,
        0x200,
        0x0028_044f,
        1, // TRACEPOINT, softirq, cut, without a stack
        0x0004_0005,
        9,
    ];
    golden(Lane::Kernel, &events, &units);
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
        shares: 3,
    };
    let exec = Exec { tid: 3, old_tid: 4, tgid: 3, args_len: 5, cgroup: 6, comm: COMM };
    let exec = Body::Exec { exec, file: Some(text(0, b"/bin/ls")), args: Some(text(1, b"ls\0")) };
    let rename = Rename { tid: 3, tgid: 4, old: COMM, new: *b"x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" };
    let exit = TaskExit { tid: 3, tgid: 4, code: 0x100, left: 0, start_time: 5, comm: COMM };
    let events = [
        event(0x1000, 1, Body::Fork(fork)),
        event(0x1001, 3, exec),
        event(0x1002, 3, Body::Rename(rename)),
        event(0x1003, 3, Body::TaskExit(exit)),
    ];
    let units = [
        0x1030,
        0, // FORK
        1,
        2,
        3,
        4, // parent's thread, process; child's
        5,
        0,
        6,
        0,
        ABCD,
        EFGH,
        0,
        0,
        3,
        0, // what it shares
        0x0c31,
        1, // EXEC
        3,
        4,
        3,
        5, // thread, its id before; process, length of the arguments
        6,
        0,
        ABCD,
        EFGH,
        0,
        0,
        0x0403,
        7, // STRING 0: the file
        unit(*b"/bin"),
        unit(*b"/ls\0"),
        0x0001_0303,
        3, // STRING 1: the arguments, each with its end
        unit(*b"ls\0\0"),
        0x0c32,
        2, // RENAME
        3,
        4,
        ABCD,
        EFGH,
        0,
        0,
        u32::from(b'x'),
        0,
        0,
        0,
        0x0c33,
        3, // TASK_EXIT
        3,
        4,
        0x100,
        0, // status 1
        5,
        0,
        ABCD,
        EFGH,
        0,
        0,
    ];
    golden(Lane::Task, &events, &units);
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
    let units = [
        0x0201,
        34, // THREAD, for the next event alone in this lane
        0x0234,
        0, // MARK
        0x0403,
        5,
        unit(*b"hell"),
        unit(*b"o\0\0\0"),
        0x0002_0235,
        1, // ACT 2
        0x0010_0303,
        1, // a string cut at the limit
        u32::from(b'x'),
    ];
    golden(Lane::Task, &events, &units);
}
