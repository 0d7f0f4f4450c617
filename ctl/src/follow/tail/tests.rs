//! A ring that is written between the rounds.

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::control::CpuTotals;
use flightrec_format::decode::{Body, Event};
use flightrec_format::encode::PageWriter;
use flightrec_reader::pipeline::testing::{call, enter, event};
use proptest::prelude::*;

use super::*;

/// A ring in memory that holds the last `size` pages.
struct Live {
    writer: PageWriter,
    pages: Vec<Box<[u8; PAGE_SIZE]>>,
    size: usize,
}

impl Live {
    fn new(size: usize) -> Self {
        Self { writer: PageWriter::new(1, Lane::Syscall, 0, 0), pages: Vec::new(), size }
    }

    fn push(&mut self, event: &Event) {
        self.writer.push(event).unwrap();
        self.pages.extend(self.writer.take());
        let over = (self.pages.len() + 1).saturating_sub(self.size);
        self.pages.drain(..over);
    }

    /// An entry at `time`.
    fn enter(&mut self, time: u64) {
        self.push(&enter(time, 0, 7, 39));
    }

    /// The exit of the entry at `entered`, which folds.
    fn fold(&mut self, entered: u64) {
        let exit = Body::Exit { call: call(39), ret: 0, entered: Some(entered) };
        self.push(&event(entered + 160, 0, 7, exit));
    }

    /// What the daemon would send.
    fn since(&self, tail: &Tail, newest: usize) -> Vec<Page> {
        let at = tail.positions().into_iter().find(|at| (at.lane, at.cpu) == (0, 0)).unwrap();
        let all: Vec<Page> = self
            .pages
            .iter()
            .cloned()
            .chain(self.writer.current())
            .map(|page| Page::new(page).unwrap())
            .collect();
        let from = all.len().saturating_sub(newest);
        let is_new = |page: &Page| {
            let header = page.header();
            header.seq > at.seq || header.seq == at.seq && header.used > at.used
        };
        all.into_iter().skip(from).filter(is_new).collect()
    }
}

/// A round: times of the events, and the gaps.
fn round(tail: &mut Tail, live: &Live, until: u64) -> (Vec<u64>, Vec<Gap>) {
    let pages = live.since(tail, 1000);
    let round = tail.take(&pages, until);
    (round.events.into_iter().flatten().map(|event| event.time).collect(), round.gaps)
}

fn tail() -> Tail {
    let mut tail = Tail::new(&[0]);
    let cpu = CpuTotals { cpu: 0, recorded: true, ..CpuTotals::default() };
    tail.begin(&Totals { cpus: vec![cpu], ..Totals::default() });
    tail
}

#[test]
fn each_event_once_and_only_when_it_is_old_enough() {
    let (mut tail, mut live) = (tail(), Live::new(100));
    live.enter(1000);
    live.enter(2000);
    assert_eq!(round(&mut tail, &live, 1500).0, [1000]);
    assert_eq!(round(&mut tail, &live, 1500).0, [0; 0]);
    live.enter(3000);
    assert_eq!(round(&mut tail, &live, 9000).0, [2000, 3000]);
    assert!(live.since(&tail, 1000).is_empty(), "a page that is done with is not asked for again");
    live.enter(10_000);
    assert_eq!(round(&mut tail, &live, 20_000).0, [10_000]);
    assert_eq!(tail.recorded(), 4);
}

#[test]
fn an_exit_that_folds_into_an_entry_that_was_seen() {
    let (mut tail, mut live) = (tail(), Live::new(100));
    live.enter(1000);
    // Not yet taken: it may fold still.
    assert_eq!(round(&mut tail, &live, 900).0, [0; 0]);
    live.fold(1000);
    assert_eq!(round(&mut tail, &live, 1100).0, [1000]);
    assert_eq!(round(&mut tail, &live, 2000).0, [1160]);
    assert_eq!(tail.recorded(), 2);
}

#[test]
fn one_that_folds_later_than_it_may_comes_with_the_next_record() {
    let (mut tail, mut live) = (tail(), Live::new(100));
    live.enter(1000);
    assert_eq!(round(&mut tail, &live, 5000).0, [1000]);
    live.fold(1000);
    live.enter(6000);
    assert_eq!(round(&mut tail, &live, 9000), (vec![1160, 6000], vec![]));
    assert_eq!(tail.recorded(), 3);
}

#[test]
fn what_was_there_before_is_not_counted() {
    let (mut tail, mut live) = (Tail::new(&[0]), Live::new(100));
    for i in 1..=900 {
        live.enter(i * 1000);
    }
    let pages = live.since(&tail, 2);
    let lead: usize = tail.take(&pages, 850_500).events.into_iter().map(Iterator::count).sum();
    assert!(lead > 50 && lead < 850);
    tail.begin(&Totals::default());
    assert_eq!(
        round(&mut tail, &live, u64::MAX),
        ((851..=900).map(|i| i * 1000).collect(), vec![])
    );
    assert_eq!(tail.recorded(), 50);
}

#[test]
fn a_ring_of_which_nothing_was_seen_begins_with_its_first_page() {
    let (mut tail, mut live) = (Tail::new(&[0]), Live::new(2));
    tail.begin(&Totals::default());
    for i in 1..=1000 {
        live.enter(i * 1000);
    }
    let (times, gaps) = round(&mut tail, &live, u64::MAX);
    assert_eq!((tail.recorded(), gaps), (times.len() as u64, vec![]));
}

#[test]
fn what_is_written_over_is_told_exactly() {
    let (mut tail, mut live) = (tail(), Live::new(3));
    live.enter(1000);
    round(&mut tail, &live, 2000);
    for i in 2..=5000 {
        live.enter(i * 1000);
    }
    let (times, gaps) = round(&mut tail, &live, u64::MAX);
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((gap.reason, gap.from, gap.until), (Reason::Overwritten, 1000, times[0]));
    assert_eq!(gap.lost, Some(Counts::first([4999 - times.len() as u64])));
    assert_eq!(tail.recorded(), 5000);
}

#[test]
fn refusals_are_told_but_for_the_recorders_own() {
    let (mut tail, mut live) = (tail(), Live::new(100));
    for (i, refusal) in [Refusal::Own, Refusal::Busy].into_iter().enumerate() {
        live.enter(i as u64 * 10_000_000 + 1000);
        live.writer.refuse(refusal);
        for j in 0..400 {
            live.enter(i as u64 * 10_000_000 + 2000 + j);
        }
    }
    let (_, gaps) = round(&mut tail, &live, u64::MAX);
    let refused: Vec<_> = gaps.iter().map(|gap| (gap.reason, gap.refused, gap.missing())).collect();
    assert_eq!(refused, [(Reason::Refused, [1, 0, 0], Some(0))]);
}

#[test]
fn pages_that_nobody_asked_for_change_nothing() {
    let (mut tail, mut live) = (tail(), Live::new(100));
    for i in 1..=500 {
        live.enter(i * 1000);
    }
    let mut pages = live.since(&tail, 1000);
    pages.extend(pages.clone());
    pages.reverse();
    let mut other = Live::new(100);
    other.writer = PageWriter::new(1, Lane::Sched, 9, 0);
    other.push(&flightrec_reader::pipeline::testing::switch(1, 9, 1, 1, 2));
    pages.extend(other.since(&tail, 9));
    let round = tail.take(&pages, u64::MAX);
    let events: usize = round.events.into_iter().map(Iterator::count).sum();
    let missed: u64 = round.gaps.iter().filter_map(Gap::missing).sum();
    assert_eq!(events as u64 + missed, tail.recorded());
}

proptest! {
    /// However it is written and read, all is either given out, once and in order, or told as
    /// missing.
    #[test]
    fn it_always_adds_up(
        steps in prop::collection::vec((0u64..300, 0u64..3000, any::<bool>(), 1usize..6), 1..30),
        size in 2usize..8,
    ) {
        let (mut tail, mut live) = (tail(), Live::new(size));
        let (mut now, mut written, mut given) = (1000u64, 0u64, 0u64);
        let (mut missed, mut last) = (0u64, 0u64);
        for (events, lag, fold, newest) in steps {
            for _ in 0..events {
                now += 200;
                live.enter(now);
                written += 1;
                if fold {
                    live.fold(now);
                    written += 1;
                }
            }
            let pages = live.since(&tail, newest);
            let round = tail.take(&pages, now.saturating_sub(lag));
            missed += round.gaps.iter().map(|gap| gap.missing().unwrap()).sum::<u64>();
            for event in round.events.into_iter().flatten() {
                prop_assert!(event.time > last);
                (last, given) = (event.time, given + 1);
            }
            prop_assert_eq!(tail.recorded(), given + missed);
        }
        let (rest, gaps) = round(&mut tail, &live, u64::MAX);
        missed += gaps.iter().map(|gap| gap.missing().unwrap()).sum::<u64>();
        prop_assert_eq!(written, given + rest.len() as u64 + missed);
        prop_assert_eq!(tail.recorded(), written);
    }
}
