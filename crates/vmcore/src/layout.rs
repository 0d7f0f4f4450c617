//! Where memory is in a dump: what each form tells, and scanning needs.

use flightrec_format::abi::page::PAGE_SIZE;

/// Most bytes of memory that one piece of work covers.
pub const UNIT_BYTES: usize = 1 << 20;

/// One page of memory.
pub(crate) type Memory = [u8; PAGE_SIZE];

/// A piece of work. What the numbers count is the form's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    /// First.
    pub(crate) start: u64,
    /// How many.
    pub(crate) count: u64,
}

/// What should be in a dump and is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// Pages of memory that the file's headers promise, but that are after its end: it is cut, or
    /// still being written.
    pub cut: u64,
    /// Pages of memory that are there and can't be read: bad compression, bad places, a bad disk.
    pub unreadable: u64,
    /// The program that wrote it ran out of space, and says so in the header.
    pub incomplete: bool,
}

impl Shortfall {
    /// Whether all of the dump is there.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.cut = self.cut.saturating_add(other.cut);
        self.unreadable = self.unreadable.saturating_add(other.unreadable);
        self.incomplete |= other.incomplete;
    }
}

/// Memory in a file, whatever its form.
pub(crate) trait Layout: Send + Sync {
    /// The work, in pieces.
    fn units(&self) -> Box<dyn Iterator<Item = Unit> + Send + '_>;

    /// Bytes of memory that the file holds.
    fn bytes(&self) -> u64;

    /// What the headers alone show to be missing.
    fn shortfall(&self) -> Shortfall;

    /// A reader for one thread.
    fn scanner(&self) -> Box<dyn Scanner + '_>;
}

/// Reads memory; holds the buffers for it.
pub(crate) trait Scanner {
    /// Hands over every page that begins with the magic, with its place.
    fn scan(&mut self, unit: Unit, found: &mut dyn FnMut(u64, &Memory)) -> Scanned;

    /// The page at a place that [`Self::scan`] gave.
    fn page(&mut self, place: u64) -> Option<&Memory>;
}

/// What became of a piece of work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scanned {
    /// Bytes of memory looked at.
    pub(crate) bytes: u64,
    /// What was missing.
    pub(crate) shortfall: Shortfall,
}
