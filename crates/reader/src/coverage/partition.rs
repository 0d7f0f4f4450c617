//! What is missing, told window by window, is what is missing in the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, PAGE_SIZE, RING_LANES, Refusal};
use flightrec_format::abi::record::{Act, StringStatus};
use flightrec_format::decode::{Body, Event, Page, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Lanes, Meta};
use flightrec_format::part::PROVISIONAL_NS;
use flightrec_format::ring::{Gap, Reason};
use flightrec_format::totals::{CpuTotals, Totals};
use flightrec_store::{Limits, Now, Opening, Options, StoreWriter};

use super::{Coverage, coverages};
use crate::pipeline::testing::{Random, enter};
use crate::source::detached;
use crate::source::files::catalog;
use crate::source::files::session::SessionSource;
use crate::window::Window;
use crate::window::with_leads;

const SESSION: u64 = 9;
const STARTED: u64 = 100_000_000_000;
const CPUS: u16 = 2;
/// What happens on a CPU, it does for so long, ns.
const STEP: u64 = 100_000_000;
const STEPS: u64 = 120;
/// Pages of a ring.
const RING: usize = 8;

struct Beginning(Meta);

impl Opening for Beginning {
    fn meta(&mut self) -> Meta {
        self.0.clone()
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        (STARTED, Vec::new())
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        None
    }
}

/// A ring that goes round.
struct Ring {
    lane: Lane,
    cpu: u16,
    writer: PageWriter,
    /// The pages that are full and not yet written over.
    full: Vec<Page>,
}

impl Ring {
    fn pages(&mut self) -> Vec<Page> {
        self.full.extend(self.writer.take().into_iter().map(|page| Page::new(page).unwrap()));
        let open = self.writer.current().map(|page| Page::new(page).unwrap());
        let old = (self.full.len() + usize::from(open.is_some())).saturating_sub(RING);
        self.full.drain(..old.min(self.full.len()));
        self.full.iter().cloned().chain(open).collect()
    }
}

/// What a machine does, and a recorder that writes it down as well as it can.
struct Machine {
    rings: Vec<Ring>,
    writer: StoreWriter,
    opening: Beginning,
    detached: u64,
    /// Every so manieth drain ends with a moment at which the counters are known.
    marks: u64,
    drains: u64,
}

impl Machine {
    fn new(dir: &Path, marks: u64) -> Self {
        let meta = Meta {
            session: SESSION,
            boot_id: "01234567-89ab-cdef-0123-456789abcdef".into(),
            started: STARTED,
            cpus: (0..CPUS).collect(),
            lanes: Lanes::new([(RING * PAGE_SIZE) as u64; RING_LANES], [false; RING_LANES]),
            ..Meta::default()
        };
        let limits = Limits {
            keep_at_least: 0,
            max_total: 1 << 30,
            keep_free: 0,
            max_age: None,
            file_size: 1 << 30,
            // Each begins and ends with a moment at which the counters are known.
            file_age: Some(std::time::Duration::from_secs(if marks == 1 { 4 } else { 3600 })),
        };
        let boot_id = flightrec_store::dir::parse_boot(&meta.boot_id).unwrap();
        let options = Options {
            state_dir: dir.into(),
            limits,
            level: 1,
            group: None,
            boot_id,
            session: SESSION,
        };
        let ring = |(lane, cpu)| Ring {
            lane,
            cpu,
            writer: PageWriter::new(SESSION, lane, cpu, 5),
            full: Vec::new(),
        };
        let rings = Lane::RINGS
            .into_iter()
            .flat_map(|lane| (0..CPUS).map(move |cpu| (lane, cpu)))
            .map(ring);
        Self {
            rings: rings.collect(),
            writer: StoreWriter::open(options),
            opening: Beginning(meta),
            detached: 0,
            marks,
            drains: 0,
        }
    }

    fn ring(&mut self, lane: Lane, cpu: u16) -> &mut Ring {
        self.rings.iter_mut().find(|ring| (ring.lane, ring.cpu) == (lane, cpu)).unwrap()
    }

    fn totals(&self, now: u64) -> Totals {
        let mut cpus: Vec<CpuTotals> = (0..CPUS)
            .map(|cpu| CpuTotals { cpu, recorded: true, ..CpuTotals::default() })
            .collect();
        for ring in &self.rings {
            let of_cpu = &mut cpus[usize::from(ring.cpu)];
            let lane = ring.lane as usize;
            (of_cpu.events[lane], of_cpu.refused[lane]) = ring.writer.totals();
        }
        Totals { now, cpus, ..Totals::default() }
    }

    fn drain(&mut self, mono: u64) {
        let now = Now { mono, wall: mono as i64 };
        assert!(self.writer.ready(now));
        let Self { rings, writer, .. } = self;
        let pages = rings.iter_mut().flat_map(Ring::pages);
        let new = pages.filter(|page| {
            page.header().seq >= writer.position(page.lane(), page.header().cpu).seq
        });
        let new: Vec<Page> = new.collect();
        let totals = self.totals(mono);
        self.writer.append(new, mono, &mut self.opening, now);
        self.writer.vouch(&totals);
        self.drains += 1;
        if !self.drains.is_multiple_of(self.marks) {
            return;
        }
        if let Some(job) = self.writer.sync(now) {
            self.writer.synced(job.run(), now);
        }
    }

    fn act(&mut self, time: u64, act: Act) {
        let text = Text { index: 0, status: StringStatus::Whole, bytes: b"x".to_vec().into() };
        let body = Body::Act(act as u16, text);
        let event = Event { time, cpu: 0, tid: 1, body };
        self.ring(Lane::Task, 0).writer.push(&event).unwrap();
    }

    /// Lives, and ends.
    fn run(mut self, random: &mut Random) -> (u64, u64) {
        let (mut modes, mut drains) = ([0; CPUS as usize], false);
        let mut since_detached = None;
        for step in 0..STEPS {
            let begin = STARTED + STEP * step;
            if random.below(10) == 0 {
                // For a while nobody drains; at first as well.
                drains = !drains;
            }
            match (random.below(25), since_detached) {
                (0, None) => {
                    self.act(begin, Act::Detached);
                    since_detached = Some(begin);
                }
                (0..8, Some(since)) => {
                    self.act(begin, Act::Attached);
                    self.detached += begin - since;
                    since_detached = None;
                }
                _ => {}
            }
            for cpu in 0..CPUS {
                let mode = &mut modes[usize::from(cpu)];
                if random.below(6) == 0 {
                    *mode = random.below(4);
                }
                let mode = if since_detached.is_some() { 3 } else { *mode };
                let ring = self.ring(Lane::Syscall, cpu);
                match mode {
                    0 | 1 => {
                        let calls = [20, 400][mode as usize];
                        for i in 0..calls {
                            let time = begin + i * (STEP / calls) + 1;
                            ring.writer.push(&enter(time, cpu, 7, 39)).unwrap();
                            if random.below(3000) == 0 {
                                ring.writer.refuse(Refusal::Busy);
                            }
                        }
                    }
                    2 => (0..1000).for_each(|_| ring.writer.refuse(Refusal::Throttled)),
                    _ => {}
                }
                ring.pages();
            }
            if drains && step % 5 == 4 {
                self.drain(begin + STEP);
            }
        }
        let end = STARTED + STEP * STEPS;
        if let Some(since) = since_detached {
            self.act(end, Act::Attached);
            self.detached += end - since;
        }
        let mono = end + PROVISIONAL_NS + 1;
        self.drain(mono);
        let now = Now { mono, wall: mono as i64 };
        if let Some(job) = self.writer.close(&mut self.opening, now) {
            self.writer.synced(job.run(), now);
        }
        let throttled = |ring: &Ring| ring.writer.totals().1[Refusal::Throttled as usize];
        (self.rings.iter().map(throttled).sum(), self.detached)
    }
}

/// A gap, to be told from others.
type Key = (Lane, u16, Reason, u64, u64, Option<Counts>, [u64; 3]);

/// The gaps of a window, and for how long calls were detached in it. Of less is read what is just
/// before and after it, as where that does not fit into memory.
fn told(dir: &Path, window: Window, less: bool) -> (BTreeSet<Key>, u64) {
    let (boots, _) = catalog::store(dir).unwrap();
    let mut source = SessionSource::open(boots[0].sessions[0].clone()).unwrap();
    let now = source.clock().now;
    let read = if less { window } else { with_leads(window) };
    let recording = source.read(read).unwrap();
    let gaps =
        coverages(&recording, window, now, |_| true).into_iter().flat_map(|coverage| coverage.gaps);
    let key =
        |gap: Gap| (gap.lane, gap.cpu, gap.reason, gap.from, gap.until, gap.lost, gap.refused);
    let within =
        detached(&recording).into_iter().map(|(from, until)| Window { from, until }.within(window));
    let off = within.filter(|of| !of.is_empty()).map(|of| of.until - of.from).sum();
    let gaps =
        gaps.filter(|gap| gap.reason != Reason::Newer && gap.intersects(window.from, window.until));
    // What is told as one comes to as much.
    let report = Coverage::new(&recording, window, now);
    let refused = |gaps: &[Gap]| gaps.iter().map(|gap| gap.refused[1]).sum::<u64>();
    let all: Vec<Gap> = gaps.collect();
    let merged: Vec<Gap> = report.gaps().into_iter().copied().collect();
    assert_eq!(refused(&merged), refused(&all), "{merged:#?}");
    (all.into_iter().map(key).collect(), off)
}

/// Events missing, and refused, by reason.
fn sums(gaps: &BTreeSet<Key>) -> BTreeMap<(Lane, u16, Reason), (u64, [u64; 3])> {
    let mut sums = BTreeMap::<_, (u64, [u64; 3])>::new();
    for (lane, cpu, reason, _, _, lost, refused) in gaps {
        let sum = sums.entry((*lane, *cpu, *reason)).or_default();
        sum.0 += lost.map_or(0, |lost| lost.iter().sum());
        sum.1.iter_mut().zip(refused).for_each(|(sum, n)| *sum += n);
    }
    sums
}

#[test]
fn the_gaps_of_a_partition_are_those_of_the_whole() {
    partition(1);
}

/// The same where the moments at which the counters are known are so far apart that what is between
/// them is not read at once.
#[test]
fn gaps_are_the_same_where_marks_are_rare() {
    partition(1000);
}

fn partition(marks: u64) {
    let mut reasons = BTreeSet::new();
    for seed in 1..=16 {
        let mut random = Random(seed);
        let dir = tempfile::tempdir().unwrap();
        let (throttled, off) = Machine::new(dir.path(), marks).run(&mut random);
        let end = STARTED + STEP * STEPS;
        let (whole, whole_off) = told(dir.path(), Window { from: STARTED, until: end }, false);
        reasons.extend(whole.iter().map(|key| key.2));
        assert_eq!(
            whole.iter().map(|key| key.6[Refusal::Throttled as usize]).sum::<u64>(),
            throttled,
            "seed {seed}"
        );
        for round in 0..8 {
            let less = round % 2 == 1;
            let mut cuts: Vec<u64> =
                (0..=random.below(12)).map(|_| STARTED + random.below(STEP * STEPS)).collect();
            cuts.extend([STARTED, end]);
            cuts.sort_unstable();
            cuts.dedup();
            let (mut all, mut all_off) = (BTreeSet::new(), 0);
            for pair in cuts.windows(2) {
                let (gaps, off) = told(dir.path(), Window { from: pair[0], until: pair[1] }, less);
                all.extend(gaps);
                all_off += off;
            }
            // A stretch that a cut parts is told on either side as it is, so it counts once.
            let others: Vec<&Key> = all.symmetric_difference(&whole).collect();
            assert_eq!(
                sums(&all),
                sums(&whole),
                "seed {seed}, less {less}, parted at {cuts:?}: {others:?}"
            );
            assert_eq!((all_off, whole_off), (off, off), "seed {seed}: detached");
        }
    }
    let expected = [Reason::Overwritten, Reason::Undrained, Reason::Refused];
    assert!(expected.iter().all(|reason| reasons.contains(reason)), "{reasons:?}");
}
