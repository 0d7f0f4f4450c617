//! What is kept of a stretch of time: sums by group.

use std::collections::BTreeMap;
use std::sync::Arc;

use flightrec_analysis::groups::{EXTRAS, Sum};
use flightrec_analysis::histogram::Histogram;

/// Most keys of a group.
pub const KEYS: usize = 3;
/// Most groups of one period; the others are added to groups whose keys are [`OTHERS`].
pub const ROWS_MAX: usize = 1 << 14;
/// The key of what there was no room to tell apart.
pub const OTHERS: &[u8] = b"(others)";
/// Buckets of a distribution: 0, and each power of two.
pub const BUCKETS: usize = 65;

/// The bucket of a value: 0 for 0, else one more than its power of two.
pub fn bucket(value: u64) -> u8 {
    value.checked_ilog2().map_or(0, |power| power as u8 + 1)
}

macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal $keys:literal,)+) => {
        /// What is added up, and by which keys.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Table {
            $($(#[doc = $doc])+ $variant = $number,)+
        }

        impl Table {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The keys of its groups, in order.
            pub const fn keys(self) -> &'static str {
                match self { $(Self::$variant => $keys,)+ }
            }

            /// By its number in files.
            pub fn of(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

tables! {
    /// Calls that ended, their durations in ns; extras: errors, calls without a time.
    Calls = 0 "unit, system call",
    /// Calls that failed.
    Errors = 1 "unit, system call, error",
    /// Waits for a CPU that ended, ns; extras: ns that threads ran, and ns that they were held.
    RunQueue = 2 "unit",
    /// The same by CPU.
    Cpus = 3 "CPU",
    /// Waits that ended, ns.
    Waits = 4 "unit, reason, \"idle\" where the thread merely had nothing to do",
    /// Requests to disks that are done, ns with the disk; extras: bytes, ns in the queue, requests
    /// that were queued, errors, requests without a time.
    Block = 5 "device, operation, unit",
    /// Transfers of bytes; extras: bytes read, bytes written.
    Bytes = 6 "unit, system call, \"read\" or \"write\"",
}

/// A group: its table and its keys; keys that are not known, or that the table does not have, are
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// What is added up.
    pub table: Table,
    /// By what.
    pub keys: [Arc<[u8]>; KEYS],
}

impl Group {
    /// Of these keys.
    pub fn new(table: Table, keys: [&[u8]; KEYS]) -> Self {
        Self { table, keys: keys.map(Into::into) }
    }
}

/// What a group comes to in a period.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// How often, where it ended.
    pub count: u64,
    /// The sum of the values that are within the period.
    pub sum: u64,
    /// The greatest whole value of those that ended.
    pub max: u64,
    /// Further sums, by table.
    pub extras: [u64; EXTRAS],
    /// How many values fall into each [`bucket`], in order; buckets without any are left out.
    pub buckets: Vec<(u8, u64)>,
}

impl Cell {
    /// Adds something that ended, with its whole value; the sum is not changed.
    pub fn end(&mut self, value: u64) {
        self.count = self.count.saturating_add(1);
        self.max = self.max.max(value);
        self.add_to(bucket(value), 1);
    }

    /// Adds something with its value.
    pub fn add(&mut self, value: u64) {
        self.end(value);
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds to a further sum.
    pub fn extra(&mut self, at: usize, value: u64) {
        if let Some(sum) = self.extras.get_mut(at) {
            *sum = sum.saturating_add(value);
        }
    }

    fn add_to(&mut self, bucket: u8, n: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(at, _)| *at) {
            Ok(at) => {
                if let Some((_, count)) = self.buckets.get_mut(at) {
                    *count = count.saturating_add(n);
                }
            }
            Err(at) => self.buckets.insert(at, (bucket, n)),
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        for (at, value) in other.extras.iter().enumerate() {
            self.extra(at, *value);
        }
        for (bucket, n) in &other.buckets {
            self.add_to(*bucket, *n);
        }
    }

    /// As reports have it: percentiles are within one bucket.
    pub fn to_sum(&self) -> Sum {
        Sum {
            count: self.count,
            values: Histogram::of_powers(self.sum, self.max, &self.buckets),
            extras: self.extras,
            ..Sum::default()
        }
    }
}

/// What is to be known of a period, as bits.
pub mod flags {
    /// It is a part of a minute: the recording, or the making of sums, began or ended in it.
    pub const PART: u32 = 1;
    /// Events are missing: the counts are beside ([`super::Period::lost`]).
    pub const LOST: u32 = 1 << 1;
    /// The events were deleted before they were added up: there are no sums.
    pub const NOT_SUMMED: u32 = 1 << 2;
    /// There were more groups than are told apart.
    pub const CROWDED: u32 = 1 << 3;
    /// Events are missing, and it is not known how many.
    pub const LOST_UNTOLD: u32 = 1 << 4;
}

/// A stretch of time, most often a minute, and what it comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Period {
    /// Start, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// End.
    pub until: u64,
    /// Start, ns since 1970, by the clock of then.
    pub wall: i64,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Events that are missing, overwritten or refused, by lane of the rings.
    pub lost: [u64; LANES],
    /// ns of threads of which it is not known what they did.
    pub unknown_ns: u64,
    /// The sums.
    pub rows: BTreeMap<Group, Cell>,
}

/// Lanes whose lost events are counted.
pub const LANES: usize = flightrec_format::abi::page::RING_LANES;

impl Period {
    /// End, ns since 1970.
    pub fn wall_until(&self) -> i64 {
        self.wall.saturating_add(i64::try_from(self.until.saturating_sub(self.from)).unwrap_or(0))
    }

    /// The cell of a group; where there are too many, that of the others.
    pub fn cell(&mut self, group: Group) -> &mut Cell {
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&group) {
            self.flags |= flags::CROWDED;
            return self.rows.entry(Group::new(group.table, [OTHERS; KEYS])).or_default();
        }
        self.rows.entry(group).or_default()
    }

    /// Adds the period that follows.
    pub fn join(&mut self, next: Self) {
        self.until = next.until;
        self.flags |= next.flags;
        for (sum, n) in self.lost.iter_mut().zip(next.lost) {
            *sum = sum.saturating_add(n);
        }
        self.unknown_ns = self.unknown_ns.saturating_add(next.unknown_ns);
        for (group, cell) in next.rows {
            self.cell(group).merge(&cell);
        }
    }

    /// Events that are missing in all lanes.
    pub fn missing(&self) -> u64 {
        self.lost.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}
