//! What a recording tells of itself, and words by its numbers.

use flightrec_analysis::CallId;
use flightrec_analysis::syscalls::{Moves, moves};
use flightrec_format::abi::record::{Abi, WakeContext};
use flightrec_format::abi::value_names::BLOCK_OPS;
use flightrec_format::meta::Meta;
use flightrec_reader::{Session, unit};
use rustc_hash::FxHashMap;

use super::tally::{Tally, Word};

/// Most units, and kinds of wait, that are remembered by their numbers.
pub(super) const KNOWN_MAX: usize = 1 << 16;

/// What is known of a call by its number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Named {
    pub(super) word: Word,
    pub(super) moves: Moves,
}

/// A wait whose reason is known by these.
pub(super) type WaitKind =
    ((bool, u16), Option<CallId>, bool, Option<(WakeContext, bool, bool)>, bool);

/// What the recording tells of itself, and words by its numbers.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) session: Session,
    /// By control group.
    /// By control group.
    pub(super) units: FxHashMap<u64, Word>,
    native: Vec<Option<Named>>,
    compat: Vec<Option<Named>>,
    pub(super) reasons: FxHashMap<WaitKind, (Word, Word)>,
}

impl Names {
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            session: Session::new(meta),
            units: FxHashMap::default(),
            native: Vec::new(),
            compat: Vec::new(),
            reasons: FxHashMap::default(),
        }
    }

    #[inline]
    pub(super) fn unit(&mut self, cgroup: u64, tally: &mut Tally) -> Word {
        if let Some(word) = self.units.get(&cgroup) {
            return *word;
        }
        let name = self.session.cgroup(cgroup).and_then(unit).unwrap_or_default();
        let word = tally.word(name.as_bytes());
        if self.units.len() < KNOWN_MAX {
            self.units.insert(cgroup, word);
        }
        word
    }

    #[inline]
    pub(super) fn call(&mut self, abi: Abi, nr: u16, tally: &mut Tally) -> Named {
        let table = if abi == Abi::Compat { &mut self.compat } else { &mut self.native };
        if let Some(Some(named)) = table.get(usize::from(nr)) {
            return *named;
        }
        let name = self.session.call_name(abi, nr);
        let word = tally.word(self.session.call_label(abi, nr).as_bytes());
        let named = Named { word, moves: name.map(moves).unwrap_or_default() };
        if table.len() <= usize::from(nr) {
            table.resize(usize::from(nr) + 1, None);
        }
        if let Some(place) = table.get_mut(usize::from(nr)) {
            *place = Some(named);
        }
        named
    }

    pub(super) fn device(&self, device: u32) -> String {
        match self.session.meta().devices.get(&device).filter(|name| !name.is_empty()) {
            Some(name) => name.clone(),
            None if device == 0 => "none".to_owned(),
            None => format!("{}:{}", device >> 20, device & 0xf_ffff),
        }
    }
}

pub(super) fn op_name(op: u32) -> &'static str {
    let known = BLOCK_OPS.iter().find(|(number, _)| *number == u64::from(op));
    known.map_or("other", |(_, name)| name)
}
