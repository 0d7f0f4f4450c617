//! Requests to disks: when each was queued, issued and done, by whom, and which of them a call, or
//! a wait, waited for.
//!
//! A request is known by its device and a name ([`BlockIssue::request`]) that another one gets when
//! it is done. Where events of a request may be missing, nothing is said of it.

use rustc_hash::FxHashMap;

use flightrec_format::abi::kinds::{BlockComplete, BlockInsert, BlockIssue, Kind};
use flightrec_format::abi::record::WakeContext;
use flightrec_format::decode::{Body, Event, Plain};

use flightrec_format::abi::page::Lane;
use flightrec_format::merge::Merge;
use flightrec_format::ring::Scope;

use super::delay::Findings;
use crate::holes::Holes;
use crate::source::PageSet;

/// Most requests under way that are remembered: more than disks take at once.
const FLIGHTS_MAX: usize = 65_536;
/// Most threads whose requests are remembered, and most requests of one.
const WAITING_MAX: usize = 1024;
const OF_THREAD_MAX: usize = 1024;
/// Bytes of a sector (`SECTOR_SHIFT`, include/linux/blk_types.h).
const SECTOR: u64 = 512;

/// What is known of a request when it is issued or done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// The thread that queued it, or issued it where it was not queued.
    pub issued_by: Option<u32>,
    /// From when it was queued in the I/O scheduler until the driver got it; none where it was not
    /// queued.
    pub queue_ns: Option<u64>,
    /// Of one that is done: from when the driver got it.
    pub service_ns: Option<u64>,
}

/// What the requests of a call or a wait come to. Of a call: those that its thread made in it, and
/// that were done before it ended. Of a wait: those that its thread had made, and that were done in
/// the wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// How many.
    pub requests: u32,
    /// For how long one of them at least was under way, in the call or the wait.
    pub busy_ns: u64,
    /// The sum of their times in the queue.
    pub queue_ns: u64,
    /// The sum of their times with the driver and the disk.
    pub service_ns: u64,
}

/// What is known of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Of a request's.
    Request(Request),
    /// Of the end of a call.
    Call(DiskUse),
    /// Of a switch: of the wait for I/O that ends with it, of the thread that runs from then on.
    Wait(DiskUse),
}

/// A request that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flight {
    /// Its device, as `Unit::Device` of the table of kinds.
    pub device: u32,
    /// Its first sector that is not done.
    pub sector: u64,
    /// Its bytes that are not done.
    pub bytes: u32,
    /// What is done ([`flightrec_format::abi::value_names::BLOCK_OPS`]).
    pub op: u32,
    /// The thread that queued it, or issued it where it was not queued.
    pub by: Option<u32>,
    /// When it was queued, ns of `CLOCK_MONOTONIC`.
    pub queued: Option<u64>,
    /// When the driver got it.
    pub issued: Option<u64>,
}

/// A request that is done.
#[derive(Debug, Clone, Copy)]
struct Done {
    began: u64,
    issued: u64,
    ended: u64,
}

/// Requests under way, and what threads made of them.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    flights: FxHashMap<(u32, u32), Flight>,
    /// By thread: those done since its last call ended.
    done: FxHashMap<u32, Vec<Done>>,
    /// Threads that wait for I/O (`task_struct.in_iowait`), and since when.
    waiting: FxHashMap<u32, u64>,
    /// Of calls that began before, not all are remembered.
    since: u64,
    /// When events of requests may be missing.
    holes: Holes,
}

impl Requests {
    /// With events missing at these times.
    pub fn new(holes: Holes) -> Self {
        Self { holes, ..Self::default() }
    }

    /// Goes on with what is read from `from` on.
    pub fn go_on(&mut self, holes: Holes, from: u64) {
        self.holes.go_on(holes, from);
    }

    /// Events were left unread: which threads wait is not known.
    pub fn skip(&mut self) {
        self.waiting.clear();
        self.done.clear();
    }

    /// Goes past an event, and tells what is known of it.
    #[inline]
    pub fn take(&mut self, event: &Event, found: &Findings) -> Option<Known> {
        match &event.body {
            // Where no thread waits for a disk this costs nothing.
            Body::Exit { .. } if !self.done.is_empty() => {
                let requests = self.done.remove(&event.tid)?;
                self.of_call(&requests, found.entered?, event.time).map(Known::Call)
            }
            Body::Plain(plain) => self.take_request(event, plain).map(Known::Request),
            Body::Switch { io_wait, next, .. } => {
                let known = self.waited(*next, event.time).map(Known::Wait);
                if *io_wait {
                    if self.waiting.len() >= WAITING_MAX {
                        // Mostly of threads whose switch back is missing.
                        self.waiting.clear();
                    }
                    self.waiting.insert(event.tid, event.time);
                }
                known
            }
            _ => None,
        }
    }

    /// The requests for which a thread waited that runs from `now` on.
    #[inline]
    fn waited(&mut self, tid: u32, now: u64) -> Option<DiskUse> {
        // Where no thread waits for a disk this costs nothing.
        if self.waiting.is_empty() {
            return None;
        }
        let since = self.waiting.remove(&tid)?;
        let requests = self.done.get(&tid)?;
        if self.is_cut(requests, since) || self.holes.within(since, now) {
            return None;
        }
        let own = requests.iter().filter(|of| of.issued != u64::MAX && of.ended > since);
        sum(own, since)
    }

    /// Whether requests that were done after a moment may not be remembered.
    fn is_cut(&self, requests: &[Done], since: u64) -> bool {
        let dropped = |of: &Done| of.issued == u64::MAX && of.ended > since;
        requests.first().is_some_and(dropped) || since < self.since
    }

    /// Those that are not done at a moment, as far as no events are missing; oldest first.
    fn in_flight(&self, now: u64) -> Vec<Flight> {
        let since = self.holes.since(now);
        let whole = |flight: &&Flight| flight.began() >= since;
        let mut flights: Vec<Flight> = self.flights.values().filter(whole).copied().collect();
        flights.sort_by_key(|flight| (flight.began(), flight.device, flight.sector));
        flights
    }

    fn take_request(&mut self, event: &Event, plain: &Plain) -> Option<Request> {
        let bytes = plain.bytes();
        match plain.kind() {
            Kind::BlockInsert => {
                let of = BlockInsert::read(bytes)?;
                let by = thread(event, of.context);
                let flight = Flight {
                    device: of.device,
                    sector: of.sector,
                    bytes: of.bytes,
                    op: of.op,
                    by,
                    queued: Some(event.time),
                    issued: None,
                };
                self.begin((of.device, of.request), flight);
                None
            }
            Kind::BlockIssue => {
                let of = BlockIssue::read(bytes)?;
                let key = (of.device, of.request);
                let whole_since = self.holes.since(event.time);
                // What was queued may have been merged with others since.
                let before = self.flights.get(&key).filter(|flight| {
                    flight.issued.is_none() && flight.began() >= whole_since && flight.op == of.op
                });
                let queued = before.and_then(|flight| flight.queued);
                let by = match before {
                    Some(flight) => flight.by,
                    None => thread(event, of.context),
                };
                let flight = Flight {
                    device: of.device,
                    sector: of.sector,
                    bytes: of.bytes,
                    op: of.op,
                    by,
                    queued,
                    issued: Some(event.time),
                };
                self.begin(key, flight);
                let queue_ns = queued.map(|at| event.time.saturating_sub(at));
                Some(Request { issued_by: by, queue_ns, service_ns: None })
            }
            Kind::BlockComplete => {
                let of = BlockComplete::read(bytes)?;
                let key = (of.device, of.request);
                let flight = *self.flights.get(&key)?;
                let issued = flight.issued.filter(|_| {
                    flight.began() >= self.holes.since(event.time)
                        && (flight.sector, flight.op) == (of.sector, of.op)
                });
                let Some(issued) = issued else {
                    self.flights.remove(&key);
                    return None;
                };
                if of.left == 0 {
                    self.flights.remove(&key);
                    self.note_done(&flight, issued, event.time);
                } else if let Some(rest) = self.flights.get_mut(&key) {
                    rest.sector = rest.sector.saturating_add(u64::from(of.bytes) / SECTOR);
                    rest.bytes = of.left;
                }
                Some(Request {
                    issued_by: flight.by,
                    queue_ns: flight.queued.map(|at| issued.saturating_sub(at)),
                    service_ns: Some(event.time.saturating_sub(issued)),
                })
            }
            _ => None,
        }
    }

    fn begin(&mut self, key: (u32, u32), flight: Flight) {
        if self.flights.len() < FLIGHTS_MAX || self.flights.contains_key(&key) {
            self.flights.insert(key, flight);
        }
    }

    /// Remembers it for the call in which its thread made it.
    fn note_done(&mut self, flight: &Flight, issued: u64, done: u64) {
        let Some(by) = flight.by.filter(|by| *by != 0) else { return };
        if !self.done.contains_key(&by) && self.done.len() >= WAITING_MAX {
            // Mostly of threads of the kernel, which make no calls.
            self.done.clear();
            self.since = done;
        }
        let of_thread = self.done.entry(by).or_default();
        if of_thread.len() >= OF_THREAD_MAX {
            of_thread.clear();
            // A call that has made more than that is not told of at all.
            of_thread.push(Done { began: 0, issued: u64::MAX, ended: done });
        }
        of_thread.push(Done { began: flight.began(), issued, ended: done });
    }

    /// What a call from `entered` to `ended` had of these.
    fn of_call(&self, requests: &[Done], entered: u64, ended: u64) -> Option<DiskUse> {
        if self.is_cut(requests, entered) || self.holes.within(entered, ended) {
            return None;
        }
        let own = requests
            .iter()
            .filter(|of| of.issued != u64::MAX && of.began >= entered && of.ended <= ended);
        sum(own, entered)
    }
}

/// What requests come to; only what is after `since` counts as busy.
fn sum<'a>(requests: impl Iterator<Item = &'a Done>, since: u64) -> Option<DiskUse> {
    let mut own: Vec<&Done> = requests.collect();
    own.sort_by_key(|of| of.began);
    let mut sum = DiskUse::default();
    let mut until = since;
    for of in own {
        sum.requests = sum.requests.saturating_add(1);
        sum.queue_ns = sum.queue_ns.saturating_add(of.issued.saturating_sub(of.began));
        sum.service_ns = sum.service_ns.saturating_add(of.ended.saturating_sub(of.issued));
        let fresh = of.ended.saturating_sub(of.began.max(until));
        sum.busy_ns = sum.busy_ns.saturating_add(fresh);
        until = until.max(of.ended);
    }
    (sum.requests != 0).then_some(sum)
}

impl Flight {
    /// When it began: it was queued, or issued where it was not; ns of `CLOCK_MONOTONIC`.
    pub fn began(&self) -> u64 {
        self.queued.or(self.issued).unwrap_or(0)
    }
}

/// When events of requests may be missing in a recording, as far as its pages tell.
pub fn holes(recording: &PageSet) -> Holes {
    let scope = Scope {
        from: 0,
        until: u64::MAX,
        started: recording.meta.started,
        copied: recording.copied,
        totals: Some(&recording.totals),
        ring_bytes: recording.meta.lanes.ring_bytes(),
    };
    let mut holes = Holes::new(recording.meta.started);
    if let Some(sure) = &recording.sure {
        holes.extend(sure.holes());
        return holes;
    }
    for stream in recording.streams.iter().filter(|stream| stream.lane() == Lane::Kernel) {
        let of_cpu = stream.coverage(&scope);
        let (from, until) = of_cpu.complete.unwrap_or((u64::MAX, u64::MAX));
        let gaps = of_cpu.gaps.iter().map(|gap| (gap.from, gap.until));
        holes.extend(gaps.chain([(0, from), (until, u64::MAX)]));
    }
    holes
}

/// The requests that are not done where a recording ends, as far as no events of them are missing;
/// oldest first.
pub fn in_flight(recording: &PageSet) -> Vec<Flight> {
    let mut requests = Requests::new(holes(recording));
    let streams = recording.streams.iter().filter(|stream| stream.lane() == Lane::Kernel);
    let mut events = Merge::new(streams.map(|stream| stream.events_from(0)));
    let (mut spare, mut last) = (Box::default(), 0);
    while let Some(event) = events.read(spare) {
        requests.take(&event, &Findings::default());
        last = event.time;
        spare = event;
    }
    requests.in_flight(last)
}

/// The thread that did it, and not one that was interrupted.
fn thread(event: &Event, context: u32) -> Option<u32> {
    (context == WakeContext::Thread as u32).then_some(event.tid)
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::record::Abi;
    use flightrec_format::decode::Call;

    use super::*;

    const VDA: u32 = 254 << 20;
    const MS: u64 = 1_000_000;

    fn event(time: u64, tid: u32, body: Body) -> Event {
        Event { time, cpu: 0, tid, body }
    }

    fn insert(time: u64, tid: u32, request: u32, sector: u64) -> Event {
        let of = BlockInsert {
            request,
            device: VDA,
            sector,
            bytes: 4096,
            op: 1,
            flags: 0x800,
            context: 1,
        };
        event(time, tid, Body::Plain(Plain::read(Kind::BlockInsert, &of.bytes()).unwrap()))
    }

    fn issue(time: u64, tid: u32, request: u32, sector: u64, context: u32) -> Event {
        let of =
            BlockIssue { request, device: VDA, sector, bytes: 4096, op: 1, flags: 0x800, context };
        event(time, tid, Body::Plain(Plain::read(Kind::BlockIssue, &of.bytes()).unwrap()))
    }

    fn complete(time: u64, request: u32, sector: u64, left: u32) -> Event {
        let of = BlockComplete {
            request,
            device: VDA,
            sector,
            bytes: 4096 - left,
            op: 1,
            flags: 0x800,
            context: 3,
            left,
            error: 0,
        };
        event(time, 99, Body::Plain(Plain::read(Kind::BlockComplete, &of.bytes()).unwrap()))
    }

    fn exit(time: u64, tid: u32) -> Event {
        let (abi, args, strings) = (Abi::Native, [0; 6], Vec::new());
        let call = Call { nr: 74, abi, nargs: 0, args, strings };
        event(time, tid, Body::Exit { call, ret: 0, entered: None })
    }

    /// What is known of the last of these; calls were entered at `entered`.
    fn last(holes: &[(u64, u64)], entered: u64, events: &[Event]) -> (Option<Known>, usize) {
        let mut all = Holes::new(0);
        all.extend(holes.iter().copied());
        let mut requests = Requests::new(all);
        let found = Findings { entered: Some(entered), ..Findings::default() };
        let mut known = None;
        for event in events {
            known = requests.take(event, &found);
        }
        (known, requests.in_flight(u64::MAX - 1).len())
    }

    #[test]
    fn a_request_is_followed_from_the_queue_to_its_end() {
        let events =
            [insert(MS, 7, 0xa, 64), issue(3 * MS, 50, 0xa, 64, 1), complete(8 * MS, 0xa, 64, 0)];
        let whole =
            Request { issued_by: Some(7), queue_ns: Some(2 * MS), service_ns: Some(5 * MS) };
        assert_eq!(last(&[], 0, &events), (Some(Known::Request(whole)), 0));
        let issued = Request { service_ns: None, ..whole };
        assert_eq!(last(&[], 0, &events[..2]), (Some(Known::Request(issued)), 1));
        // Without an I/O scheduler.
        let direct = Request { issued_by: Some(50), queue_ns: None, service_ns: Some(5 * MS) };
        assert_eq!(last(&[], 0, &events[1..]).0, Some(Known::Request(direct)));
    }

    #[test]
    fn who_was_interrupted_has_issued_nothing() {
        let events = [issue(3 * MS, 50, 0xa, 64, 2), complete(8 * MS, 0xa, 64, 0)];
        let Some(Known::Request(of)) = last(&[], 0, &events).0 else { panic!("nothing is known") };
        assert_eq!(of.issued_by, None);
    }

    #[test]
    fn a_request_may_be_done_in_parts() {
        let events = [
            issue(MS, 7, 0xa, 64, 1),
            complete(2 * MS, 0xa, 64, 1024),
            complete(4 * MS, 0xa, 64 + 6, 0),
        ];
        let Some(Known::Request(of)) = last(&[], 0, &events).0 else { panic!("nothing is known") };
        assert_eq!(of.service_ns, Some(3 * MS));
        assert_eq!(last(&[], 0, &events[..2]).1, 1);
    }

    #[test]
    fn the_end_of_another_request_is_not_taken_for_its_own() {
        // Its own end is missing, and its name was given to another one.
        let events = [issue(MS, 7, 0xa, 64, 1), complete(9 * MS, 0xa, 4096, 0)];
        assert_eq!(last(&[], 0, &events), (None, 0));
        // Events are missing in between: the same place may have been written twice.
        let events = [issue(MS, 7, 0xa, 64, 1), complete(9 * MS, 0xa, 64, 0)];
        assert_eq!(last(&[(2 * MS, 3 * MS)], 0, &events), (None, 0));
        assert!(last(&[(0, MS)], 0, &events).0.is_some());
        // One that is queued anew is another one.
        let events = [
            issue(MS, 7, 0xa, 64, 1),
            insert(5 * MS, 8, 0xa, 64),
            issue(6 * MS, 8, 0xa, 64, 1),
            complete(9 * MS, 0xa, 64, 0),
        ];
        let Some(Known::Request(of)) = last(&[], 0, &events).0 else { panic!("nothing is known") };
        assert_eq!((of.issued_by, of.service_ns), (Some(8), Some(3 * MS)));
    }

    #[test]
    fn a_call_has_the_requests_that_its_thread_made_in_it() {
        let events = [
            // Of a page fault before the call.
            issue(MS, 7, 0x1, 8, 1),
            complete(2 * MS, 0x1, 8, 0),
            insert(10 * MS, 7, 0xa, 64),
            insert(11 * MS, 7, 0xb, 128),
            issue(12 * MS, 50, 0xa, 64, 1),
            issue(12 * MS, 50, 0xb, 128, 1),
            // Another thread's.
            issue(12 * MS, 8, 0xc, 256, 1),
            complete(14 * MS, 0xa, 64, 0),
            complete(15 * MS, 0xc, 256, 0),
            complete(16 * MS, 0xb, 128, 0),
            exit(17 * MS, 7),
        ];
        let sum = DiskUse { requests: 2, busy_ns: 6 * MS, queue_ns: 3 * MS, service_ns: 6 * MS };
        assert_eq!(last(&[], 9 * MS, &events), (Some(Known::Call(sum)), 0));
        // Some may be missing.
        assert_eq!(last(&[(13 * MS, 13 * MS + 1)], 9 * MS, &events).0, None);
        // It is told once.
        let again = [&events[..], &[exit(18 * MS, 7)]].concat();
        assert_eq!(last(&[], 9 * MS, &again).0, None);
    }

    fn switch(time: u64, tid: u32, io_wait: bool, next: u32) -> Event {
        let body = Body::Switch {
            prev_prio: 120,
            prev_state: if io_wait { 2 } else { 1 },
            preempted: false,
            io_wait,
            next,
            next_prio: 120,
        };
        event(time, tid, body)
    }

    /// A page fault is in no call: its wait has the requests.
    #[test]
    fn a_wait_has_the_requests_that_were_done_in_it() {
        let events = [
            // Of an earlier fault.
            issue(MS, 7, 0x1, 8, 1),
            switch(MS + 1, 7, true, 0),
            complete(2 * MS, 0x1, 8, 0),
            switch(2 * MS + 1, 0, false, 7),
            insert(10 * MS, 7, 0xa, 64),
            issue(11 * MS, 7, 0xa, 64, 1),
            switch(12 * MS, 7, true, 0),
            complete(15 * MS, 0xa, 64, 0),
            switch(16 * MS, 0, false, 7),
        ];
        let sum = DiskUse { requests: 1, busy_ns: 3 * MS, queue_ns: MS, service_ns: 4 * MS };
        assert_eq!(last(&[], 0, &events), (Some(Known::Wait(sum)), 0));
        let first = DiskUse { requests: 1, busy_ns: MS - 1, queue_ns: 0, service_ns: MS };
        assert_eq!(last(&[], 0, &events[..4]).0, Some(Known::Wait(first)));
        // Some may be missing.
        assert_eq!(last(&[(13 * MS, 13 * MS + 1)], 0, &events).0, None);
        // A wait for something else, and another thread's requests.
        let other = events.clone().map(|event| match event.body {
            Body::Switch { next, .. } => switch(event.time, event.tid, false, next),
            _ => event,
        });
        assert_eq!(last(&[], 0, &other).0, None);
        let none = [switch(MS, 8, true, 0), switch(9 * MS, 0, false, 8)];
        assert_eq!(last(&[], 0, &[&events[..], &none[..]].concat()).0, None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut requests = Requests::new(Holes::new(0));
        let found = Findings { entered: Some(0), ..Findings::default() };
        for n in 0..100_000u32 {
            let time = u64::from(n) * 10 + 1;
            requests.take(&issue(time, n % 5000, n, 64, 1), &found);
            if n % 2 == 0 {
                requests.take(&complete(time + 1, n, 64, 0), &found);
            }
        }
        assert!(requests.flights.len() <= FLIGHTS_MAX && requests.done.len() <= WAITING_MAX);
        for n in 0..5000u32 {
            let time = 10_000_000 + u64::from(n) * 10;
            requests.take(&issue(time, 7, 1, 64, 1), &found);
            requests.take(&complete(time + 1, 1, 64, 0), &found);
        }
        assert!(requests.done[&7].len() <= OF_THREAD_MAX);
        // What can't be told whole is not told.
        let long = Findings { entered: Some(9_999_999), ..Findings::default() };
        assert_eq!(requests.take(&exit(11_000_000, 7), &long), None);
    }
}
