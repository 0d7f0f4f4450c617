//! What is written down of an hour that is compacted, as JSON: what it was made of, so that a host
//! that ships late is noticed, and what was left out.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::storage::Found;
use crate::told::SHIPPER;

/// An hour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// As in `2026-11-25T07`.
    pub hour: String,
    /// Which release compacted it.
    pub shipper: String,
    /// Parts of each table.
    pub parts: u32,
    /// How many hosts shipped sums.
    pub hosts: u64,
    /// Objects that it was made of, and their bytes.
    pub inputs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What tells them, as they were, from others.
    pub fingerprint: String,
    /// A hash of each one's name.
    pub names: Vec<String>,
    /// What could not be read.
    pub refused: Vec<Refused>,
    /// Columns that a later release has shipped, and that were left out.
    pub columns: Vec<String>,
    /// What was made.
    pub made: Vec<Made>,
}

/// An object that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// An object that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// Groups of them.
    pub groups: u64,
}

/// What of an hour's objects is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// They are those that it was made of.
    Unchanged,
    /// So many are gone.
    Gone(usize),
    /// There are others.
    Changed,
}

impl Done {
    /// Of these objects; nothing is made yet.
    pub(super) fn of(hour: String, parts: u32, hosts: u64, inputs: &[Found]) -> Self {
        let mut names: Vec<String> = inputs.iter().map(|of| hash(of.name.as_ref())).collect();
        names.sort_unstable();
        Self {
            hour,
            shipper: SHIPPER.to_owned(),
            parts,
            hosts,
            inputs: inputs.len() as u64,
            bytes: inputs.iter().map(|of| of.bytes).sum(),
            fingerprint: fingerprint(inputs),
            names,
            ..Self::default()
        }
    }

    /// What the objects that are there now are to it.
    pub(super) fn standing(&self, inputs: &[Found]) -> Standing {
        let mut names: Vec<String> = inputs.iter().map(|of| hash(of.name.as_ref())).collect();
        names.sort_unstable();
        let gone = self.names.iter().filter(|name| names.binary_search(name).is_err()).count();
        match gone {
            0 if self.fingerprint == fingerprint(inputs) => Standing::Unchanged,
            0 => Standing::Changed,
            _ => Standing::Gone(gone),
        }
    }
}

/// Tells objects, as they are, from others.
pub(super) fn fingerprint(inputs: &[Found]) -> String {
    let mut hasher = Sha256::new();
    for of in inputs {
        hasher.update(format!("{} {} {}\n", of.name, of.bytes, of.mark));
    }
    hex(&hasher.finalize())
}

fn hash(name: &str) -> String {
    hex(&Sha256::digest(name))
}

/// Half of a digest is enough.
fn hex(digest: &[u8]) -> String {
    let half = digest.first_chunk().map_or(0, |half| u64::from_be_bytes(*half));
    format!("{half:016x}")
}
