use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::{Abi, TaskExit};
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::kept::YOUNG;
use flightrec_format::ring::{LaneStream, Reason, Rings};

use super::processes::Processes;
use super::ring::{Area, Places, Ring};

const S: u64 = 1_000_000_000;
/// Pages of the ring that is written over.
const PAGES: usize = 64;

/// The quiet ring's places.
#[derive(Default)]
struct Memory(RefCell<BTreeMap<usize, [u8; PAGE_SIZE]>>);

impl Places for Memory {
    fn keep(&self, place: usize, page: &[u8; PAGE_SIZE]) {
        self.0.borrow_mut().insert(place, *page);
    }

    fn keep_more(&self, place: usize, page: &[u8; PAGE_SIZE]) {
        let before = self.0.borrow_mut().insert(place, *page).unwrap();
        let header = *Page::copy_from(&before).unwrap().header();
        let begin = usize::from(header.header_len)..header.used_bytes();
        assert_eq!(before[begin.clone()], page[begin], "what was there stays");
    }
}

/// A ring that goes round, and its part of the quiet ring.
struct Machine {
    writer: PageWriter,
    pages: Vec<Page>,
    ring: Ring,
    memory: Memory,
    processes: Processes,
    events: Vec<Event>,
}

impl Machine {
    fn new(lane: Lane, places: usize, processes: Processes) -> Self {
        let area = Area { first: 3, places };
        Self {
            writer: PageWriter::new(7, lane, 0, 0),
            pages: Vec::new(),
            ring: Ring::fresh(lane, 0, PAGES as u64, area),
            memory: Memory::default(),
            processes,
            events: Vec::new(),
        }
    }

    fn push(&mut self, event: Event) {
        self.writer.push(&event).unwrap();
        self.events.push(event);
        let closed = self.writer.take();
        self.pages.extend(closed.into_iter().map(|bytes| Page::new(bytes).unwrap()));
        // As the thread does: when half of the ring waits, all but a quarter is dealt with.
        let done = self.ring.done() as usize;
        if self.pages.len() + 1 - done >= PAGES / 2 {
            let last = self.pages.len() + 1 - PAGES / 4;
            self.ring.take(&self.pages[done..last], &self.processes, &self.memory);
        }
    }

    fn call(&mut self, time: u64, tid: u32) {
        let call = Call { nr: 39, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() };
        self.push(Event { time, cpu: 0, tid, body: Body::Enter(call.clone()) });
        let body = Body::Exit { call, ret: i64::from(tid), entered: Some(time) };
        self.push(Event { time: time + 160, cpu: 0, tid, body });
    }

    /// What a dump of the machine's memory holds now.
    fn stream(&self) -> LaneStream {
        let mut rings = Rings::new(7);
        for bytes in self.memory.0.borrow().values() {
            rings.add(Page::copy_from(bytes).unwrap());
        }
        let open = self.writer.current().unwrap();
        let oldest = (self.pages.len() + 1).saturating_sub(PAGES);
        for page in self.pages[oldest..].iter().cloned().chain([Page::new(open).unwrap()]) {
            rings.add(page);
        }
        rings.finish().remove(0)
    }
}

/// Every event after the first page is shown, or in a gap.
fn assert_told(machine: &Machine, stream: &LaneStream) {
    let first = stream.pages()[0].header().base_mono;
    let shown: HashSet<(u64, u32)> = stream.events().map(|event| (event.time, event.tid)).collect();
    let gaps = stream.gaps();
    let mut missing = 0;
    for event in machine.events.iter().filter(|event| event.time >= first) {
        if shown.contains(&(event.time, event.tid)) {
            continue;
        }
        missing += 1;
        let is_told = gaps.iter().any(|gap| gap.from <= event.time && event.time < gap.until);
        assert!(is_told, "nothing tells that {event:?} is missing: {gaps:?}");
    }
    assert_eq!(gaps.iter().map(|gap| gap.missing().unwrap()).sum::<u64>(), missing);
}

/// Events of a thread from a moment on.
fn of(events: impl IntoIterator<Item = Event>, tid: u32, from: u64) -> Vec<Event> {
    let mut of_thread: Vec<Event> =
        events.into_iter().filter(|event| event.tid == tid && event.time >= from).collect();
    of_thread.sort_by_key(|event| event.time);
    of_thread
}

#[test]
fn a_flood_leaves_the_last_minute_of_quiet_processes() {
    let processes = Processes::living([
        (10, 10, 1),
        (20, 20, 1),
        (21, 20, 1),
        (30, 30, 1),
        (99, 99, 1),
        (98, 99, 1),
    ]);
    // A ring of 256 KiB that holds some seconds of the flood, and a quiet ring of 256 KiB.
    let mut machine = Machine::new(Lane::Syscall, 64, processes);
    let step = 400_000;
    for i in 0..120 * S / step {
        let time = 1000 * S + i * step;
        machine.call(time, if i % 2 == 0 { 99 } else { 98 });
        for (tid, every) in [(10, 1_250), (20, 125), (21, 175), (30, 100)] {
            if i % every == 0 {
                machine.call(time + 500 + u64::from(tid) * 200, tid);
            }
        }
    }
    let stream = machine.stream();
    let end = 1120 * S;
    let ring = stream.first_of_ring().unwrap().header().base_mono;
    assert!(end - ring < 10 * S, "the ring itself holds {} s", (end - ring) / S);
    for tid in [10, 20, 21, 30] {
        let from = end - 60 * S;
        let shown = of(stream.events(), tid, from);
        let done = of(machine.events.clone(), tid, from);
        assert!(shown == done, "{tid}: {} of {} events", shown.len(), done.len());
    }

    // What is left out is told exactly, and of whom.
    let gaps = stream.gaps();
    assert!(gaps.iter().all(|gap| gap.reason == Reason::LeftOut), "{gaps:?}");
    assert_told(&machine, &stream);
    let first = stream.pages()[0].header().base_mono;
    assert!(
        stream.left_out().all(|left_out| left_out.process == 99),
        "{:?}",
        stream.left_out().next()
    );
    assert!(first <= end - 66 * S, "it reaches back {} s", (end - first) / S);
}

/// The witness has ended, and a thread of the flood got its id, and ended as well.
#[test]
fn an_id_that_is_used_again_was_another_process_before() {
    let end = 1120 * S;
    let mut processes = Processes::living([(99, 99, 1)]);
    let mut task = PageWriter::new(7, Lane::Task, 0, 0);
    for (time, tgid, start_time) in [(end, 7, 1), (end + 2 * S, 99, end + S)] {
        let exit = TaskExit { tid: 7, tgid, code: 0, left: 0, start_time, comm: [0; 16] };
        task.push(&Event { time, cpu: 0, tid: 7, body: Body::TaskExit(exit) }).unwrap();
    }
    processes.learn(&Page::new(task.finish().remove(0)).unwrap());
    let mut machine = Machine::new(Lane::Syscall, 64, processes);
    let step = 400_000;
    for i in 0..120 * S / step {
        let time = 1000 * S + i * step;
        machine.call(time, 99);
        if i % 100 == 0 {
            machine.call(time + 500, 7);
        }
    }
    let stream = machine.stream();
    let from = end - 60 * S;
    let (shown, done) = (of(stream.events(), 7, from), of(machine.events.clone(), 7, from));
    assert!(shown == done, "{} of {} events", shown.len(), done.len());
    assert!(stream.left_out().any(|left_out| left_out.process == 99));
}

#[test]
fn what_was_too_fast_is_told() {
    let mut machine = Machine::new(Lane::Syscall, 64, Processes::living([(1, 1, 1), (2, 2, 1)]));
    for i in 0..60_000u64 {
        machine.call(S + i * 1_000_000, if i % 100 == 0 { 1 } else { 2 });
        if i == 30_000 {
            // Meanwhile the ring went round.
            machine.ring.skip(machine.pages.len() as u64 - 5);
        }
    }
    let stream = machine.stream();
    let reasons: HashSet<Reason> = stream.gaps().iter().map(|gap| gap.reason).collect();
    assert_eq!(reasons, HashSet::from([Reason::LeftOut, Reason::Missing]));
    assert_told(&machine, &stream);
}

#[test]
fn what_all_fits_is_kept_as_it_is() {
    let mut machine = Machine::new(Lane::Syscall, 4096, Processes::living([(1, 1, 1), (2, 2, 1)]));
    for i in 0..40_000 {
        machine.call(S + i * 1_000_000, 1 + (i % 2) as u32);
    }
    let stream = machine.stream();
    assert_eq!(stream.gaps(), []);
    assert_eq!(stream.events().count(), machine.events.len());
    assert!(stream.events().eq(machine.events.iter().cloned()));
}

#[test]
fn a_storm_of_new_processes_is_one_among_the_others() {
    // 500 processes a second with 12 calls each, beside one of 500 calls a second.
    let storm = (0..60_000).map(|i| (10_000 + i, 10_000 + i, 1000 * S + u64::from(i) * (S / 500)));
    let mut machine = Machine::new(Lane::Syscall, 192, Processes::living(storm.chain([(7, 7, 1)])));
    for i in 0..120 * 500u64 {
        let time = 1000 * S + i * (S / 500);
        machine.call(time, 7);
        for n in 1..12 {
            machine.call(time + n * 10_000, 10_000 + i as u32);
        }
    }
    let stream = machine.stream();
    let from = 1060 * S;
    let shown = of(stream.events(), 7, from).len();
    assert_eq!(shown, of(machine.events.clone(), 7, from).len());
    assert!(stream.left_out().all(|left_out| left_out.process == YOUNG));
}

#[test]
fn switches_of_a_quiet_thread_are_kept_from_both_sides() {
    let processes = Processes::living([(1, 1, 1), (2, 2, 1), (3, 3, 1)]);
    let mut machine = Machine::new(Lane::Sched, 128, processes);
    let switch = |time, tid, next| {
        let body = Body::Switch {
            prev_prio: 120,
            prev_state: 1,
            preempted: false,
            io_wait: false,
            next,
            next_prio: 120,
        };
        Event { time, cpu: 0, tid, body }
    };
    for i in 0..300_000u64 {
        let time = S + i * 200_000;
        // 1 and 2 play ping-pong; 3 runs between them now and then.
        if i % 100 == 0 {
            machine.push(switch(time, 1, 3));
            machine.push(switch(time + 50_000, 3, 2));
        } else {
            machine.push(switch(time, 1, 2));
        }
        machine.push(switch(time + 100_000, 2, 1));
    }
    let stream = machine.stream();
    let of_three = |events: &mut dyn Iterator<Item = Event>| {
        let is =
            |event: &Event| event.tid == 3 || matches!(event.body, Body::Switch { next: 3, .. });
        events.filter(|event| event.time >= 31 * S && is(event)).collect::<Vec<_>>()
    };
    assert!(of_three(&mut stream.events()) == of_three(&mut machine.events.iter().cloned()));
    assert!(stream.gaps().iter().all(|gap| gap.reason == Reason::LeftOut));
    assert!(!stream.gaps().is_empty());
}
