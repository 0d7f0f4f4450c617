//! What the files of a state directory hold, counted past the product's own putting-together: which
//! events of each ring are there, and how often.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Page;
use flightrec_store::{Content, FileReader, Kind, Store};

/// A page or a part of one, as far as counting goes.
#[derive(Debug, Clone, Copy)]
struct Piece {
    seq: u64,
    /// The ring's counters before its first event, and after its last.
    before: Counts,
    after: Counts,
}

/// The pieces of one ring of one session.
#[derive(Debug, Default)]
pub struct RingPieces(Vec<Piece>);

/// What a ring's pieces come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Events that are there, each once.
    pub present: Counts,
    /// Events that are not, up to the last one that is.
    pub missing: Counts,
    /// Where the ring's counters are after the last event that is there.
    pub end: Counts,
}

impl RingPieces {
    /// Lays the pieces one after the other. Each says where its events stand among all of the
    /// ring, so that it does not matter how often they were written, nor what became of the
    /// pages that they came from.
    ///
    /// # Panics
    /// If two pieces contradict each other.
    pub fn tally(&self) -> Tally {
        let sum = |counts: &Counts| counts.iter().sum::<u64>();
        let mut pieces = self.0.clone();
        pieces.sort_by_key(|piece| (sum(&piece.before), sum(&piece.after)));
        let mut tally = Tally { present: Counts::ZERO, missing: Counts::ZERO, end: Counts::ZERO };
        for piece in pieces {
            if sum(&piece.after) <= sum(&tally.end) {
                continue; // all of it is there already
            }
            let from = if sum(&piece.before) >= sum(&tally.end) { piece.before } else { tally.end };
            let new = piece.after.since(&from);
            let new = new.unwrap_or_else(|| panic!("{piece:?} after {tally:?}"));
            let gap = from.since(&tally.end);
            let gap = gap.unwrap_or_else(|| panic!("{piece:?} after {tally:?}"));
            tally.present = tally.present.plus(&new);
            tally.missing = tally.missing.plus(&gap);
            tally.end = piece.after;
        }
        tally
    }

    /// The events of the ring that some piece has, by their number in it, in order and joined where
    /// they touch.
    pub fn runs(&self) -> Vec<Range<u64>> {
        let sum = |counts: &Counts| counts.iter().sum::<u64>();
        let mut pieces: Vec<_> =
            self.0.iter().map(|piece| sum(&piece.before)..sum(&piece.after)).collect();
        pieces.sort_by_key(|run| (run.start, run.end));
        let mut runs: Vec<Range<u64>> = Vec::new();
        for piece in pieces {
            match runs.last_mut() {
                Some(last) if piece.start <= last.end => last.end = last.end.max(piece.end),
                _ => runs.push(piece),
            }
        }
        runs
    }

    /// Pages of which it has anything.
    pub fn pages(&self) -> usize {
        let mut seqs: Vec<u64> = self.0.iter().map(|piece| piece.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs.len()
    }
}

/// All files of a state directory.
#[derive(Debug, Default)]
pub struct Files {
    /// Their paths, in the order in which they were written.
    pub paths: Vec<PathBuf>,
    /// Those that were closed in order.
    pub complete: usize,
    /// By session, lane and CPU.
    pub rings: BTreeMap<(u64, Lane, u16), RingPieces>,
    /// Sessions in the order in which they appear.
    pub sessions: Vec<u64>,
    /// What is damaged; a file that was cut off by a kill ends within a block.
    pub damage: Vec<String>,
}

impl Files {
    /// Reads every block of every file, and hands out the pages as they come.
    ///
    /// # Panics
    /// If a file can't be opened, or does not explain itself: it must have metadata of its session.
    pub fn read(state_dir: &Path, mut page: impl FnMut(&Page)) -> Self {
        let store = Store::open(state_dir).unwrap_or_else(|e| panic!("{e}"));
        let mut files = Self::default();
        for info in store.all() {
            let file = FileReader::open(&info.path).unwrap_or_else(|e| panic!("{e}"));
            let session = file.header().session;
            let mut explained = false;
            for block in file.blocks() {
                assert_eq!(block.header.session, session, "one session a file");
                match file.read(block) {
                    Ok(Content::Pages(pages)) => {
                        for piece in &pages {
                            files.add(piece);
                            page(piece);
                        }
                    }
                    Ok(Content::Meta(meta)) => {
                        assert_eq!(meta.session, session, "{}", info.path.display());
                        explained = true;
                    }
                    Ok(_) => {}
                    Err(damage) => files.damage.push(format!("{}: {damage}", info.path.display())),
                }
            }
            let hurt =
                file.damage().iter().map(|damage| format!("{}: {damage}", info.path.display()));
            files.damage.extend(hurt);
            let empty = file.of(Kind::Pages).next().is_none();
            assert!(explained || empty, "{} has no metadata", info.path.display());
            if !files.sessions.contains(&session) {
                files.sessions.push(session);
            }
            files.complete += usize::from(file.complete());
            files.paths.push(info.path.clone());
        }
        files
    }

    fn add(&mut self, page: &Page) {
        let (header, summary) = (page.header(), page.summary());
        assert_eq!(summary.damage, None, "page {} of lane {}", header.seq, page.lane().name());
        let after = header.events.plus(&summary.counts);
        let piece = Piece { seq: header.seq, before: header.events, after };
        self.rings.entry((header.session, page.lane(), header.cpu)).or_default().0.push(piece);
    }

    /// What the files have of a ring.
    pub fn tally(&self, session: u64, lane: Lane, cpu: u16) -> Tally {
        let none = RingPieces::default();
        self.rings.get(&(session, lane, cpu)).unwrap_or(&none).tally()
    }
}
