//! The memory of a story, however many events there are: in a process of its own.

use std::fs;

use flightrec_analysis::why::{Known, Names, Story, Subject, Told};
use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::abi::record::{Abi, WakeContext};
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::Meta;

/// What a story may take, bytes.
const ROOM: usize = 64 << 20;
const TURNS: u64 = 400_000;
const THREADS: u64 = 20_000;
/// From one turn to the next, ns.
const STEP: u64 = 1_000_000;

/// Numbers as names.
struct Numbers;

impl Names for Numbers {
    fn text(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
    fn error(&self, number: i32) -> String {
        number.to_string()
    }
    fn kernel(&self, frame: u32) -> String {
        frame.to_string()
    }
    fn user(&self, frame: UserFrame, _: bool) -> String {
        frame.at.to_string()
    }
    fn device(&self, device: u32) -> String {
        device.to_string()
    }
    fn signal(&self, number: u32) -> String {
        number.to_string()
    }
    fn group(&self, _: u64) -> Option<String> {
        None
    }
    fn operation(&self, op: u32) -> String {
        op.to_string()
    }
}

/// The most memory that this process had so far, bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Threads take turns on a CPU. Each opens a file, and waits meanwhile. Of the end of the call,
/// `put` learns when it began.
fn turn(turn: u64, mut put: impl FnMut(Event, Option<u64>)) {
    let call = || Call { nr: 257, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() };
    let (at, tid) = (turn * STEP, 100 + (turn % THREADS) as u32);
    let next = 100 + ((turn + 1) % THREADS) as u32;
    let event = |after, tid, body| Event { time: at + after, cpu: 0, tid, body };
    let switch = |prev_state, next| Body::Switch {
        prev_prio: 120,
        prev_state,
        preempted: false,
        io_wait: false,
        next,
        next_prio: 120,
    };
    let waking = |wakee| Body::Waking {
        wakee,
        prio: 120,
        state: 2,
        cpu: 0,
        new: false,
        context: WakeContext::Hardirq,
    };
    put(event(100_000, tid, Body::Enter(call())), None);
    put(event(200_000, tid, switch(2, 0)), None);
    put(event(800_000, 0, waking(tid)), None);
    put(event(810_000, 0, switch(0, tid)), None);
    let exit = Body::Exit { call: call(), ret: 3, entered: None };
    put(event(900_000, tid, exit), Some(at + 100_000));
    put(event(910_000, tid, waking(next)), None);
    put(event(920_000, tid, switch(1, next)), None);
}

#[test]
fn a_story_of_any_length_has_bounds() {
    let before = peak();
    let mut story = Story::with_room(&Meta::default(), (0, 0, TURNS * STEP), ROOM);
    let (mut parts, mut events) = (1, 0);
    for at in 0..TURNS {
        turn(at, |event, entered| {
            if story.is_full() {
                let part = story.part(event.time, |_, _| None);
                let (tid, _) = part.worst_of(&Subject::default(), &Numbers).unwrap();
                let answer = part.answer(tid, &Numbers);
                // That it is a part is no doubt of its own.
                let has_all = answer.doubts.iter().all(|doubt| !doubt.contains("those after"));
                assert!(has_all, "{:#?}", answer.doubts);
                parts += 1;
            }
            let known = Known { pid: event.tid, entered, ..Known::default() };
            let path = || format!("/srv/{at:08}/{}", "x".repeat(120)).into();
            let mut told = || Told { text: path(), object: Some(path()), ..Told::default() };
            story.take(&event, &known, &mut told);
            events += 1;
        });
    }
    story.finish(|_, _| None);
    assert!(parts >= 4, "{parts} parts of {events} events");
    let taken = peak() - before;
    println!("{} MiB for {events} events in {parts} parts", taken >> 20);
    // The next part begins while the one before is asked.
    assert!(taken < ROOM / 2 * 3, "{} MiB for {events} events in {parts} parts", taken >> 20);
}
