//! What a report looks like.

use flightrec_analysis::groups::Order;

use super::Key;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A duration, ns.
    Ns,
    /// A size.
    Bytes,
    /// There is none: things are counted.
    None,
}

impl Unit {
    /// What JSON and CSV put after the names of such values.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Ns => "_ns",
            Self::Bytes => "_bytes",
            Self::None => "",
        }
    }
}

/// A further sum.
#[derive(Debug, Clone, Copy)]
pub struct Extra {
    /// Its name in JSON and CSV, with its unit.
    pub name: &'static str,
    /// The head of its column.
    pub head: &'static str,
    /// What it is.
    pub unit: Unit,
}

/// A column of the table for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// How often.
    Count,
    /// A further sum, by its place.
    Extra(usize),
    /// The sum of the values.
    Total,
    /// Their mean.
    Average,
    /// The greatest.
    Max,
    /// Their median.
    P50,
    /// What one of a hundred exceeds.
    P99,
    /// The group's part of the sum of all, or of the count where there are no values.
    Share,
    /// To whom most of it is due.
    Partner,
}

/// What a report needs to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Stretches of threads' states.
    pub stretches: bool,
    /// Who ran where a thread waited for a CPU.
    pub runs: bool,
    /// The ends of calls, with their arguments.
    pub arguments: bool,
}

impl Needs {
    /// Nothing but events.
    pub const EVENTS: Self = Self { stretches: false, runs: false, arguments: false };
}

/// What a report looks like.
#[derive(Debug)]
pub struct Shape {
    /// Its name: that of the command.
    pub name: &'static str,
    /// What `--by` may name beside [`Key::OF_THREADS`].
    pub keys: &'static [Key],
    /// By what it groups unless told otherwise.
    pub default: &'static [Key],
    /// What its values are.
    pub unit: Unit,
    /// What they are called in JSON and CSV.
    pub value: &'static str,
    /// What is counted, as the head of a column.
    pub counted: &'static str,
    /// Further sums.
    pub extras: &'static [Extra],
    /// The columns for people, in order.
    pub columns: &'static [Column],
    /// What partners are called in JSON.
    pub partners: Option<&'static str>,
    /// By what rows are ordered.
    pub order: Order,
    /// What it needs.
    pub needs: Needs,
    /// What is to be known of its figures; lines for people.
    pub remarks: &'static [&'static str],
}

impl Shape {
    /// What `--by` may name.
    pub fn all_keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.keys.iter().copied().chain(Key::OF_THREADS)
    }

    /// Whether `--by` may name a key.
    pub fn has_key(&self, key: Key) -> bool {
        self.all_keys().any(|of| of == key)
    }
}
