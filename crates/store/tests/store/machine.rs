//! A machine that is recorded: rings that run over, and the daemon's side of a round.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::Meta;
use flightrec_format::ring::{LaneStream, Rings};
use flightrec_format::totals::{CpuTotals, Totals};
use flightrec_store::{
    Content, FileReader, Kind, Limits, Now, Opening, Options, Store, StoreWriter,
};

use crate::support::{BOOT, SESSION, event, meta, slots};

/// Pages of a ring.
const RING: usize = 3;
/// The rings of the machine.
pub(crate) const RINGS: [(Lane, u16); 3] =
    [(Lane::Syscall, 0), (Lane::Syscall, 1), (Lane::Sched, 0)];

pub(crate) struct Ring {
    pub(crate) writer: PageWriter,
    closed: VecDeque<Page>,
    /// All that ever happened.
    pub(crate) events: Vec<Event>,
}

pub(crate) struct Machine {
    pub(crate) now: Now,
    pub(crate) rings: BTreeMap<(Lane, u16), Ring>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let ring = |lane, cpu| PageWriter::new(SESSION, lane, cpu, 37_000_000_000);
        let new = |(lane, cpu)| Ring {
            writer: ring(lane, cpu),
            closed: VecDeque::new(),
            events: Vec::new(),
        };
        Self {
            now: Now { mono: 1_000_000_000, wall: 1_795_262_703_000_000_000 },
            rings: RINGS.iter().map(|key| (*key, new(*key))).collect(),
        }
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        self.now.mono += ns;
        self.now.wall += ns as i64;
    }

    /// Some events, 1 us apart; every third entry has an exit, which folds if nothing came between.
    pub(crate) fn work(&mut self, key: (Lane, u16), count: u64) {
        for _ in 0..count {
            self.pass(1000);
            let time = self.now.mono;
            let Some(ring) = self.rings.get_mut(&key) else { return };
            let n = ring.events.len() as u64;
            let mut happened = match ring.events.last() {
                Some(Event { time: entered, body: Body::Enter(call), tid, .. })
                    if !n.is_multiple_of(3) =>
                {
                    let call = Call { nargs: 0, args: [0; 6], abi: Abi::Native, ..call.clone() };
                    let time = entered + (time - entered) / 16 * 16;
                    Event {
                        time,
                        cpu: key.1,
                        tid: *tid,
                        body: Body::Exit { call, ret: 0, entered: Some(*entered) },
                    }
                }
                _ => Event { cpu: key.1, ..event(key.0, time, 100 + (n % 4) as u32, n) },
            };
            if let Body::Enter(call) = &mut happened.body {
                // Nothing that compresses well: limits are then reached by few events.
                let any = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (call.nargs, call.args) = (4, [3, n, any, any.rotate_left(23), 0, 0]);
            }
            ring.writer.push(&happened).unwrap();
            // One that came too late to fold is recorded by itself.
            let folded = match &happened.body {
                Body::Exit { call, ret, entered: Some(_) } => {
                    let page = Page::new(ring.writer.current().unwrap()).unwrap();
                    let last = page.events().last().unwrap();
                    let alone = Body::Exit { call: call.clone(), ret: *ret, entered: None };
                    if last == happened { happened } else { Event { body: alone, ..happened } }
                }
                _ => happened,
            };
            ring.events.push(folded);
            for page in ring.writer.take() {
                ring.closed.push_back(Page::new(page).unwrap());
                if ring.closed.len() >= RING {
                    ring.closed.pop_front();
                }
            }
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut cpus: BTreeMap<u16, CpuTotals> = BTreeMap::new();
        for ((lane, cpu), ring) in &self.rings {
            let totals = cpus.entry(*cpu).or_insert(CpuTotals {
                cpu: *cpu,
                recorded: true,
                ..CpuTotals::default()
            });
            (totals.events[*lane as usize], totals.refused[*lane as usize]) = ring.writer.totals();
        }
        Totals { now: self.now.mono, cpus: cpus.into_values().collect(), ..Totals::default() }
    }

    /// The index of the first event that a ring still holds.
    pub(crate) fn held(&self, key: (Lane, u16)) -> usize {
        let ring = &self.rings[&key];
        let first = ring.closed.front().map_or(ring.writer.header(), |page| *page.header());
        first.events.iter().sum::<u64>() as usize
    }

    /// A round of the daemon; whether all went well.
    pub(crate) fn drain(&mut self, store: &mut StoreWriter) -> bool {
        let now = self.now;
        if !store.ready(now) {
            return false;
        }
        let totals = self.totals();
        let mut pages = Vec::new();
        for ((lane, cpu), ring) in &self.rings {
            let at = store.position(*lane, *cpu);
            let open = ring.writer.current().map(|page| Page::new(page).unwrap());
            let new = ring.closed.iter().cloned().chain(open).filter(|page| {
                let header = page.header();
                (header.seq, header.used) > (at.seq, at.used)
            });
            pages.extend(new);
        }
        store.append(pages, now.mono, &mut Begin(now.mono), now);
        store.vouch(&totals);
        *store.state() == flightrec_store::State::Ready
    }
}

/// What files begin with.
pub(crate) struct Begin(pub(crate) u64);

impl Opening for Begin {
    fn meta(&mut self) -> Meta {
        meta()
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        (self.0, vec![slots(&[100, 101])])
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        Some((self.0, b"descriptors".to_vec()))
    }
}

/// Room for anything.
pub(crate) fn limits() -> Limits {
    Limits {
        max_total: 1 << 30,
        keep_free: 0,
        keep_at_least: 0,
        max_age: None,
        file_size: 1 << 20,
        file_age: None,
    }
}

pub(crate) fn options(dir: &Path, limits: Limits) -> Options {
    Options {
        state_dir: dir.into(),
        limits,
        level: 1,
        group: None,
        boot_id: BOOT,
        session: SESSION,
    }
}

/// All that the files of a store hold, ring by ring.
pub(crate) fn streams(dir: &Path) -> BTreeMap<(Lane, u16), LaneStream> {
    let mut rings = Rings::new(SESSION);
    for (lane, cpu) in RINGS {
        rings.expect(lane, cpu);
    }
    // A directory that was deleted, and not written to since, holds nothing.
    let files = if dir.exists() { Store::open(dir).unwrap().all().to_vec() } else { Vec::new() };
    for file in files {
        let Ok(reader) = FileReader::open(&file.path) else { continue };
        for block in reader.of(Kind::Pages) {
            if let Ok(Content::Pages(pages)) = reader.read(block) {
                assert!(pages.into_iter().all(|page| rings.add(page)));
            }
        }
    }
    rings.finish().into_iter().map(|stream| ((stream.lane(), stream.cpu()), stream)).collect()
}
