//! The store against a plain model of it: whatever comes, what should be in the files is, once, and
//! the rest is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flightrec_format::abi::page::Lane;
use flightrec_format::part::PROVISIONAL_NS;
use flightrec_format::ring::{RingCoverage, Scope};
use flightrec_store::dir::parse_name;
use flightrec_store::{FileReader, Kind, Limits, State, Store, StoreError, StoreWriter, verify};
use proptest::prelude::*;

use crate::faulty::{FaultyDisk, bytes_below};
use crate::machine::{Begin, Machine, RINGS, limits, options, streams};

/// A limit that no test reaches.
const ROOMY: u64 = 1 << 30;

#[derive(Debug, Clone)]
enum Step {
    Work {
        ring: usize,
        events: u64,
    },
    Drain {
        late: bool,
    },
    Sync {
        fails: bool,
    },
    /// Killed; so many bytes of the file being written are gone as well.
    Crash {
        torn: u64,
    },
    Close,
    /// After so many bytes, writing fails.
    Full {
        after: u64,
    },
    /// What failed works again, and the time for the next attempt comes.
    Heal,
    DeleteFile,
    DeleteAll,
    Wait {
        seconds: u64,
    },
    SetClock {
        hours: i64,
    },
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..RINGS.len(), 1..200u64).prop_map(|(ring, events)| Step::Work { ring, events }),
        20 => any::<bool>().prop_map(|late| Step::Drain { late }),
        4 => prop::bool::weighted(0.3).prop_map(|fails| Step::Sync { fails }),
        3 => prop_oneof![Just(0), 0..3000u64].prop_map(|torn| Step::Crash { torn }),
        2 => Just(Step::Close),
        2 => (0..5000u64).prop_map(|after| Step::Full { after }),
        2 => Just(Step::Heal),
        1 => Just(Step::DeleteFile),
        1 => Just(Step::DeleteAll),
        2 => (1..20u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => (-48..48i64).prop_map(|hours| Step::SetClock { hours }),
    ]
}

/// What is expected.
struct Model {
    machine: Machine,
    disk: FaultyDisk,
    dir: PathBuf,
    limits: Limits,
    store: Option<StoreWriter>,
    /// For each ring, each event: the step in which it was drained, if it should still be in a
    /// file.
    drained: BTreeMap<(Lane, u16), Vec<Option<usize>>>,
    /// The step in which each file was made, by number.
    made: BTreeMap<u32, usize>,
    step: usize,
}

impl Model {
    fn new(dir: &Path, limits: Limits) -> Self {
        let drained = RINGS.iter().map(|key| (*key, Vec::new())).collect();
        let (machine, disk) = (Machine::new(), FaultyDisk::default());
        Self {
            machine,
            disk,
            dir: dir.into(),
            limits,
            store: None,
            drained,
            made: BTreeMap::new(),
            step: 0,
        }
    }

    fn store(&mut self) -> &mut StoreWriter {
        let options = options(&self.dir, self.limits.clone());
        let disk = self.disk.clone();
        self.store.get_or_insert_with(|| StoreWriter::with_disk(options, Box::new(disk)))
    }

    fn run(&mut self, step: &Step) {
        self.step += 1;
        match step {
            Step::Work { ring, events } => self.machine.work(RINGS[*ring], *events),
            Step::Drain { late } => self.drain(*late),
            Step::Sync { fails } => {
                self.disk.faults().sync = fails.then_some(5);
                let now = self.machine.now;
                if let Some(job) = self.store().sync(now) {
                    let synced = job.run();
                    self.store().synced(synced, now);
                }
            }
            Step::Crash { torn } => {
                let file = self.store().stats().file;
                self.store = None;
                if let Some(path) = file.filter(|path| *torn > 0 && path.exists()) {
                    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                    file.set_len(path.metadata().unwrap().len().saturating_sub(*torn)).unwrap();
                    self.lost_since(self.made[&number(&path)]);
                }
            }
            Step::Close => {
                let now = self.machine.now;
                let job = self.store().close(&mut Begin(now.mono), now);
                drop(job.map(flightrec_store::SyncJob::run));
                self.store = None;
            }
            Step::Full { after } => self.disk.faults().write = Some((*after, 28)),
            Step::Heal => {
                (self.disk.faults().write, self.disk.faults().sync) = (None, None);
                self.machine.pass(61_000_000_000);
            }
            Step::DeleteFile => {
                if let Some(path) = self.store().stats().file.filter(|path| path.exists()) {
                    std::fs::remove_file(&path).unwrap();
                    self.lost_since(self.made[&number(&path)]);
                }
            }
            Step::DeleteAll => {
                if self.dir.exists() {
                    std::fs::remove_dir_all(&self.dir).unwrap();
                }
                self.lost_since(0);
                // Numbers may begin anew.
                self.made.clear();
            }
            Step::Wait { seconds } => self.machine.pass(seconds * 1_000_000_000),
            Step::SetClock { hours } => self.machine.now.wall += hours * 3_600_000_000_000,
        }
        self.note_files();
        self.check();
    }

    fn drain(&mut self, late: bool) {
        if late {
            self.machine.pass(PROVISIONAL_NS);
        }
        self.store();
        let Some(store) = &mut self.store else { return };
        let idle = !store.ready(self.machine.now);
        let well = self.machine.drain(store);
        if idle || !well && !matches!(store.state(), State::Ready) {
            return;
        }
        for key in RINGS {
            let ring = &self.machine.rings[&key];
            let drained = self.drained.get_mut(&key).unwrap();
            drained.resize(ring.events.len(), None);
            let from = self.machine.held(key);
            // The last entry waits for its exit.
            let until = ring.events.len()
                - usize::from(!late && key.0 == Lane::Syscall && !ring.events.is_empty());
            for at in drained.get_mut(from..until).unwrap_or_default() {
                at.get_or_insert(self.step);
            }
        }
    }

    /// What was drained since a step is in no file any more.
    fn lost_since(&mut self, step: usize) {
        for at in self.drained.values_mut().flatten() {
            *at = at.filter(|at| *at < step);
        }
    }

    fn note_files(&mut self) {
        for path in self.disk.faults().made.drain(..) {
            self.made.insert(number(&path), self.step);
        }
    }

    /// What holds after every step.
    fn check(&self) {
        assert!(bytes_below(&self.dir) <= self.limits.max_total);
        if let Ok(store) = Store::open(&self.dir) {
            let made: Vec<usize> = store.all().iter().map(|file| self.made[&file.number]).collect();
            assert!(made.is_sorted(), "{made:?}");
        }
    }

    /// What must be in the files at the end, and how it was.
    fn verify(&mut self) {
        self.run(&Step::Heal);
        self.run(&Step::Drain { late: true });
        // Nothing is in its way any more.
        let now = self.machine.now;
        assert!(self.store().ready(now), "{:?}", self.store().state());
        self.run(&Step::Close);
        let streams = streams(&self.dir);
        if !self.dir.exists() {
            // It was deleted, and nothing has happened at all that it would have to be made for
            // again.
            assert!(self.machine.rings.values().all(|ring| ring.events.is_empty()));
            return;
        }
        let store = Store::open(&self.dir).unwrap();
        let oldest = store.all().first().map_or(usize::MAX, |file| self.made[&file.number]);
        for key in RINGS {
            let (stream, happened) = (&streams[&key], &self.machine.rings[&key].events);
            let found: Vec<_> = stream.events().collect();
            // In order, nothing twice, nothing that did not happen.
            let mut rest = happened.iter();
            for event in &found {
                assert!(rest.any(|e| e == event), "{key:?}: {event:?}");
            }
            // Whatever was drained into files that are still there: all of it where no limit was
            // reached.
            let sure = |at: usize| at > oldest || self.limits.max_total == ROOMY;
            let times: std::collections::HashSet<_> =
                found.iter().map(|e| format!("{e:?}")).collect();
            for (event, at) in happened.iter().zip(&self.drained[&key]) {
                if at.is_some_and(sure) {
                    assert!(
                        times.contains(&format!("{event:?}")),
                        "{key:?}: {event:?} was drained, and is not there"
                    );
                }
            }
            // The rest is told.
            let scope = Scope { until: u64::MAX, ..Scope::default() };
            let RingCoverage { gaps, .. } = stream.coverage(&scope);
            let lost: u64 = gaps.iter().map(|gap| gap.missing().unwrap()).sum();
            if !found.is_empty() {
                assert_eq!(found.len() as u64 + lost, happened.len() as u64, "{key:?}");
            }
        }
        for file in store.all() {
            // What is torn off is gone; a file of which nothing is left is said to be none.
            assert!(matches!(verify(&file.path), Ok(_) | Err(StoreError::NoRecording { .. })));
        }
    }
}

fn number(path: &Path) -> u32 {
    parse_name(path.file_name().unwrap().to_str().unwrap()).unwrap().1
}

/// The store and the model, from nothing through these steps.
fn hold(steps: &[Step], max_total: u64) {
    let dir = tempfile::tempdir().unwrap();
    let file_age = Some(std::time::Duration::from_secs(30));
    let limits = Limits {
        max_total,
        keep_free: 0,
        keep_at_least: 0,
        max_age: None,
        file_size: 4000,
        file_age,
    };
    let mut model = Model::new(&dir.path().join("state"), limits);
    for step in steps {
        model.run(step);
    }
    model.verify();
}

/// A file is deleted, then, before the next one was closed, all: the events of the first were taken
/// to be in files still.
#[test]
fn all_is_deleted_after_a_file_was() {
    use Step::{Close, DeleteAll, DeleteFile, Drain, Full, Work};
    let two_files = [
        Work { ring: 0, events: 1 },
        Drain { late: true },
        Close,
        Work { ring: 2, events: 1 },
        Drain { late: true },
        DeleteFile,
    ];
    let another =
        [Drain { late: true }, Work { ring: 1, events: 40 }, DeleteAll, Drain { late: true }];
    hold(&[&two_files[..], &another].concat(), ROOMY);
    let no_other =
        [Full { after: 1000 }, Drain { late: true }, DeleteAll, Work { ring: 1, events: 1 }];
    hold(&[&two_files[..], &no_other].concat(), ROOMY);
}

/// Blocks of pages in all files of a store that is closed.
fn blocks(dir: &Path) -> usize {
    let Ok(store) = Store::open(dir) else { return 0 };
    let readers = store.all().iter().map(|file| FileReader::open(&file.path).unwrap());
    readers.map(|reader| reader.of(Kind::Pages).count()).sum()
}

/// A page whose one event may yet change has nothing to be stored.
#[test]
fn an_entry_into_which_an_exit_may_fold_waits() {
    for (waited, expected) in [(0, 0), (PROVISIONAL_NS, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let mut machine = Machine::new();
        let mut store = StoreWriter::open(options(dir.path(), limits()));
        machine.work(RINGS[0], 1);
        machine.pass(waited);
        assert!(machine.drain(&mut store));
        let now = machine.now;
        drop(store.close(&mut Begin(now.mono), now));
        assert_eq!(blocks(dir.path()), expected);
    }
}

/// 128 cases, or as many as `PROPTEST_CASES` says, which [`ProptestConfig::with_cases`] would not
/// look at.
fn config() -> ProptestConfig {
    let told = std::env::var_os("PROPTEST_CASES").is_some();
    if told { ProptestConfig::default() } else { ProptestConfig::with_cases(128) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_comes(steps in prop::collection::vec(steps(), 1..80), small: bool) {
        hold(&steps, if small { 100_000 } else { ROOMY });
    }
}
