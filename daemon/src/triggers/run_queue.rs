//! A thread that could run waited long for a CPU.
//!
//! A wait begins when a thread is woken, or taken off its CPU although it would go on, and ends
//! when it is switched in: both are recorded. It is told when it has ended, so that nothing has to
//! be guessed about a thread of which nothing more is heard. Which waits are known, and which are
//! not as a switch was not seen, is `flightrec_analysis`'s matter. A thread that gave way to idle
//! (its control group's quota is used up) does not wait for a CPU.

use flightrec_analysis::{Interval, Observer, State, Threads, gives_way};
use flightrec_format::decode::{Body, Event};

/// A long wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Whose.
    pub tid: u32,
    /// When it ended, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// How long it took, ns.
    pub ns: u64,
    /// Where it then ran.
    pub cpu: u16,
}

/// Follows who waits.
#[derive(Debug)]
pub struct RunQueue {
    threads: Threads<()>,
    long: LongWait,
    nice: bool,
}

/// The wait that an event ended, if it was long.
#[derive(Debug)]
struct LongWait {
    longer_than: u64,
    found: Option<Interval>,
}

impl Observer for LongWait {
    type Account = ();

    #[inline]
    fn ended(&mut self, (): &mut (), interval: &Interval) {
        if interval.state == State::Runnable && interval.ns() >= self.longer_than {
            self.found = Some(*interval);
        }
    }
}

impl RunQueue {
    /// `longer_than`: ns. `nice`: whether positive nice values count.
    pub fn new(longer_than: u64, nice: bool) -> Self {
        Self { threads: Threads::new(0, false), long: LongWait { longer_than, found: None }, nice }
    }

    /// Events are missing: whoever waited may have run.
    pub fn forget(&mut self) {
        self.threads.forget();
    }

    /// The next event of any CPU, in the order of time.
    pub fn event(&mut self, event: &Event) -> Option<Delay> {
        self.threads.take(event, &mut self.long);
        let wait = self.long.found.take()?;
        let Body::Switch { next_prio, .. } = event.body else { return None };
        let counts = self.nice || !gives_way(next_prio);
        counts.then_some(Delay { tid: wait.tid, time: event.time, ns: wait.ns(), cpu: event.cpu })
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::record::WakeContext;

    use super::*;

    fn switch(time: u64, tid: u32, prev_state: u16, next: u32, next_prio: u8) -> Event {
        let body = Body::Switch {
            prev_prio: 120,
            prev_state,
            preempted: false,
            io_wait: false,
            next,
            next_prio,
        };
        Event { time, cpu: 3, tid, body }
    }

    fn waking(time: u64, tid: u32, wakee: u32) -> Event {
        Event {
            time,
            cpu: 0,
            tid,
            body: Body::Waking {
                wakee,
                prio: 120,
                state: 1,
                cpu: 3,
                new: false,
                context: WakeContext::Thread,
            },
        }
    }

    fn run(events: &[Event]) -> Vec<Delay> {
        let mut queue = RunQueue::new(100, false);
        events.iter().filter_map(|event| queue.event(event)).collect()
    }

    #[test]
    fn woken_or_taken_off_it_waits_until_it_runs() {
        let delays = run(&[
            waking(10, 1, 5),
            waking(60, 1, 5),
            switch(110, 9, 0, 5, 120),
            switch(300, 5, 1, 9, 120),
        ]);
        let delay = |tid, time, ns| Delay { tid, time, ns, cpu: 3 };
        assert_eq!(delays, [delay(5, 110, 100), delay(9, 300, 190)]);
    }

    #[test]
    fn short_waits_sleep_and_the_nice_are_no_alarm() {
        assert_eq!(run(&[waking(10, 1, 5), switch(109, 9, 1, 5, 120)]), []);
        assert_eq!(run(&[switch(10, 5, 1, 9, 120), switch(500, 9, 2, 5, 120)]), [], "asleep");
        assert_eq!(run(&[waking(10, 1, 5), switch(500, 9, 1, 5, 121)]), [], "nice 1");
        assert_eq!(run(&[waking(10, 1, 5), switch(500, 9, 1, 5, 255)]).len(), 1, "a deadline");
        assert_eq!(run(&[waking(10, 1, 0), switch(500, 9, 1, 0, 120)]), [], "idle");
    }

    /// Its control group's quota was used up: nobody had its CPU.
    #[test]
    fn who_gave_way_to_idle_did_not_wait_for_a_cpu() {
        assert_eq!(run(&[switch(10, 5, 0, 0, 120), switch(500, 0, 0, 5, 120)]), []);
        assert_eq!(run(&[switch(10, 5, 0, 9, 120), switch(500, 9, 1, 5, 120)]).len(), 1);
    }

    #[test]
    fn who_was_seen_to_run_does_not_wait() {
        assert_eq!(run(&[waking(10, 5, 5), switch(500, 5, 0, 5, 120)]), [], "by itself");
        // Its switch was not seen, but what it did.
        assert_eq!(
            run(&[
                waking(10, 1, 5),
                waking(20, 5, 6),
                switch(30, 5, 1, 6, 120),
                waking(490, 1, 5),
                switch(500, 1, 1, 5, 120)
            ]),
            []
        );
        let mut queue = RunQueue::new(100, false);
        assert_eq!(queue.event(&waking(10, 1, 5)), None);
        queue.forget();
        assert_eq!(queue.event(&switch(500, 9, 1, 5, 120)), None);
    }

    #[test]
    fn where_switches_were_not_seen_only_who_is_seen_is_said_to_wait() {
        // 9 makes room for 7, which is not seen any more; then 9 is there again.
        let hidden = [waking(10, 1, 5), switch(20, 9, 0, 7, 120), switch(400, 9, 1, 5, 120)];
        assert_eq!(run(&hidden), []);
        // The hole is on another CPU than that which it waits for.
        let elsewhere = Event { cpu: 1, ..switch(300, 8, 1, 9, 120) };
        let other = [
            waking(10, 1, 5),
            Event { cpu: 1, ..switch(20, 9, 0, 7, 120) },
            elsewhere,
            switch(400, 0, 0, 5, 120),
        ];
        // 9's own switches are seen: had it run before, the one away from it would have been.
        let of_9 = Delay { tid: 9, time: 300, ns: 280, cpu: 1 };
        assert_eq!(run(&other), [of_9, Delay { tid: 5, time: 400, ns: 390, cpu: 3 }]);
        // It was moved there.
        let body = Body::Migrate { thread: 5, prio: 120, from: 3, to: 1 };
        let moved =
            [&[waking(10, 1, 5), Event { time: 11, cpu: 0, tid: 1, body }], &other[1..]].concat();
        assert_eq!(run(&moved), [of_9]);
    }
}
