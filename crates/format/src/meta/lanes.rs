//! The lanes of a recording and their kinds, by name: so a reader can name what it does not know.

use serde::{Deserialize, Serialize};

use crate::abi::kinds::Kind;
use crate::abi::page::{Lane, RING_LANES};

/// The lanes of a recording that are rings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lanes(Vec<LaneMeta>);

/// A lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneMeta {
    /// Its name.
    pub name: String,
    /// Its number in pages' headers.
    pub number: u8,
    /// Bytes of one CPU's ring.
    pub ring_bytes: u64,
    /// Whether the configuration leaves all of its events out. (Of the task lane, marks and the
    /// recorder's own events are recorded all the same.)
    pub off: bool,
    /// The kinds of event that the recorder counts in it.
    pub kinds: Vec<KindMeta>,
}

/// A kind of event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KindMeta {
    /// The number of its records.
    pub number: u8,
    /// Its name.
    pub name: String,
}

impl Lanes {
    /// The lanes and kinds of this release; bytes of one CPU's ring, and what is left out, in the
    /// order of [`Lane::RINGS`].
    pub fn new(ring_bytes: [u64; RING_LANES], off: [bool; RING_LANES]) -> Self {
        let kinds = |lane| {
            let of_lane = Kind::ALL.into_iter().filter(move |kind| kind.lane() == lane);
            of_lane.map(|kind| KindMeta { number: kind as u8, name: kind.name().to_owned() })
        };
        let lane = |((lane, ring_bytes), off): ((Lane, u64), bool)| LaneMeta {
            name: lane.name().to_owned(),
            number: lane as u8,
            ring_bytes,
            off,
            kinds: kinds(lane).collect(),
        };
        Self(Lane::RINGS.into_iter().zip(ring_bytes).zip(off).map(lane).collect())
    }

    /// Those of a recording made before lanes were listed: its three, by number; none where
    /// nothing is said of them.
    pub(super) fn earlier(Earlier { ring_bytes, off }: &Earlier) -> Self {
        if ring_bytes.is_empty() && off.is_empty() {
            return Self::default();
        }
        let mut lanes = Self::new([0; RING_LANES], [false; RING_LANES]);
        lanes.0.retain(|lane| lane.number < EARLIER_LANES);
        for lane in &mut lanes.0 {
            let at = usize::from(lane.number);
            lane.ring_bytes = ring_bytes.get(at).copied().unwrap_or_default();
            lane.off = off.get(at).copied().unwrap_or_default();
        }
        lanes
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &LaneMeta> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a lane, or puts it in the place of the one of its number.
    pub fn set(&mut self, lane: LaneMeta) {
        self.0.retain(|other| other.number != lane.number);
        self.0.push(lane);
    }

    /// A lane by its number.
    pub fn get(&self, number: u8) -> Option<&LaneMeta> {
        self.0.iter().find(|lane| lane.number == number)
    }

    /// Bytes of one CPU's ring of each lane that this release knows.
    pub fn ring_bytes(&self) -> [u64; RING_LANES] {
        Lane::RINGS.map(|lane| self.get(lane as u8).map_or(0, |lane| lane.ring_bytes))
    }

    /// Which of the lanes that this release knows are not recorded: the configuration leaves them
    /// out, or the recorder was of a release before them. Where no lanes are listed, none.
    pub fn off(&self) -> [bool; RING_LANES] {
        Lane::RINGS.map(|lane| self.get(lane as u8).map_or(!self.is_empty(), |lane| lane.off))
    }

    /// Whether a lane is [not recorded](Self::off).
    pub fn is_off(&self, lane: Lane) -> bool {
        self.off().get(lane as usize).is_none_or(|is_off| *is_off)
    }

    /// What the recorder calls a kind.
    pub fn kind(&self, number: u8) -> Option<&str> {
        let mut kinds = self.0.iter().flat_map(|lane| &lane.kinds);
        kinds.find(|kind| kind.number == number).map(|kind| kind.name.as_str())
    }

    /// Whether the recording may hold events that this release does not know: of another lane, or
    /// of another kind.
    pub fn has_unknown(&self) -> bool {
        let is_known = |lane: &LaneMeta| {
            Lane::RINGS.iter().any(|known| *known as u8 == lane.number)
                && lane.kinds.iter().all(|kind| Kind::from_number(kind.number).is_some())
        };
        !self.0.iter().all(is_known)
    }
}

/// How many lanes there were before these were listed.
const EARLIER_LANES: u8 = 3;

/// What metadata said of lanes before these were listed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Earlier {
    ring_bytes: Vec<u64>,
    off: Vec<bool>,
}
