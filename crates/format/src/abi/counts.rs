//! Counters of a lane's events, by kind.

use core::ops::Index;

use super::kinds::KINDS_MAX;

/// Events of one lane by the index of their kind: a place for every kind that a lane can have, so
/// that those of a later release are counted, kept and compared as exactly as the known ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counts([u64; Self::LEN]);

impl Counts {
    /// How many there are.
    pub const LEN: usize = KINDS_MAX;
    /// No events.
    pub const ZERO: Self = Self([0; Self::LEN]);

    /// Counts whose first ones are these.
    pub const fn first<const N: usize>(first: [u64; N]) -> Self {
        const { assert!(N <= Self::LEN) };
        let mut all = [0; Self::LEN];
        let mut i = 0;
        while i < N {
            all[i] = first[i];
            i += 1;
        }
        Self(all)
    }

    /// Counts an event of a kind, by its number.
    #[inline(always)]
    pub const fn count(&mut self, kind: u8) {
        self.0[(kind & 0xf) as usize] += 1;
    }

    /// Counts so many events of a kind, by its number.
    #[inline(always)]
    pub const fn add(&mut self, kind: u8, events: u64) {
        self.0[(kind & 0xf) as usize] += events;
    }

    /// Events of a kind, by its number.
    #[inline(always)]
    pub const fn of(&self, kind: u8) -> u64 {
        self.0[(kind & 0xf) as usize]
    }

    /// All events.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Whether there is none.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// What was counted since `earlier`; `None` where a counter went backwards.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut out = Self::ZERO;
        for ((out, later), earlier) in out.0.iter_mut().zip(self.0).zip(earlier.0) {
            *out = later.checked_sub(earlier)?;
        }
        Some(out)
    }

    /// What these have more than others, 0 where they have less.
    #[must_use]
    pub fn less(&self, others: &Self) -> Self {
        self.with(others, u64::saturating_sub)
    }

    /// Of each counter the greater one.
    #[must_use]
    pub fn most(&self, others: &Self) -> Self {
        self.with(others, u64::max)
    }

    /// The sum with others.
    #[must_use]
    pub fn plus(&self, others: &Self) -> Self {
        self.with(others, u64::saturating_add)
    }

    /// The sum with others, modulo 2^64.
    #[must_use]
    pub fn wrapping_plus(&self, others: &Self) -> Self {
        self.with(others, u64::wrapping_add)
    }

    fn with(&self, others: &Self, each: impl Fn(u64, u64) -> u64) -> Self {
        let mut out = *self;
        for (out, other) in out.0.iter_mut().zip(others.0) {
            *out = each(*out, other);
        }
        out
    }

    /// The counters in order.
    pub const fn all(self) -> [u64; Self::LEN] {
        self.0
    }

    /// The counters in order.
    pub fn iter(&self) -> core::slice::Iter<'_, u64> {
        self.0.iter()
    }

    /// The counters in order, to be changed.
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, u64> {
        self.0.iter_mut()
    }

    /// Indexes and counters of what there is any of.
    pub fn present(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.0.iter().copied().enumerate().filter(|(_, n)| *n != 0)
    }
}

impl Index<usize> for Counts {
    type Output = u64;

    fn index(&self, index: usize) -> &u64 {
        &self.0[index]
    }
}

impl IntoIterator for Counts {
    type Item = u64;
    type IntoIter = core::array::IntoIter<u64, { Self::LEN }>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<const N: usize> PartialEq<[u64; N]> for Counts {
    /// Whether the first ones are these, and the others 0.
    fn eq(&self, first: &[u64; N]) -> bool {
        *self == Self::first(*first)
    }
}

impl<'a> IntoIterator for &'a Counts {
    type Item = &'a u64;
    type IntoIter = core::slice::Iter<'a, u64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Counts {
    type Item = &'a mut u64;
    type IntoIter = core::slice::IterMut<'a, u64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
