//! Distributions of durations and sizes, in few bytes.
//!
//! A value falls into one of 16 buckets of equal width between two powers of two; values below 16
//! have a bucket each. Count, sum and maximum are exact. A percentile is the middle of its bucket,
//! so it is off by 1/32 (3.2 %) of the value at most.

/// Buckets between two powers of two, as a power of two.
const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Largest part of a value by which a percentile is off.
pub const ERROR: f64 = 1.0 / 32.0;

/// A distribution of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Buckets that hold any, in order, and how many each holds.
    buckets: Vec<(u16, u64)>,
    count: u64,
    sum: u64,
    max: u64,
}

/// The bucket of a value.
fn bucket(value: u64) -> u16 {
    if value < SUB {
        return value as u16;
    }
    let power = value.ilog2();
    let place = (value >> (power - SUB_BITS)) & (SUB - 1);
    ((u64::from(power - SUB_BITS + 1) << SUB_BITS) + place) as u16
}

/// The first value of a bucket, and how many values fall into it.
fn range(bucket: u16) -> (u64, u64) {
    let (group, place) = (u64::from(bucket) >> SUB_BITS, u64::from(bucket) & (SUB - 1));
    if group == 0 {
        return (place, 1);
    }
    let shift = group - 1;
    ((SUB + place) << shift, 1 << shift)
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
        self.add_to(bucket(value), 1);
    }

    fn add_to(&mut self, bucket: u16, n: u64) {
        // Where no bucket between is empty, as is soon so of many values.
        let first = self.buckets.first().map_or(0, |(at, _)| *at);
        let place = usize::from(bucket.saturating_sub(first));
        if let Some((at, count)) = self.buckets.get_mut(place)
            && *at == bucket
        {
            *count = count.saturating_add(n);
            return;
        }
        match self.buckets.binary_search_by_key(&bucket, |(at, _)| *at) {
            Ok(at) => {
                if let Some((_, count)) = self.buckets.get_mut(at) {
                    *count = count.saturating_add(n);
                }
            }
            Err(at) => self.buckets.insert(at, (bucket, n)),
        }
    }

    /// Adds all values of another one.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        for (bucket, n) in &other.buckets {
            self.add_to(*bucket, *n);
        }
    }

    /// Of values of which only the powers of two are known: by 0 for the value 0, else by one more
    /// than the power, how many. A percentile is then in the middle between two powers of two.
    pub fn of_powers(sum: u64, max: u64, powers: &[(u8, u64)]) -> Self {
        let mut histogram = Self { sum, max, ..Self::default() };
        for (at, n) in powers {
            let first =
                at.checked_sub(1).map_or(0, |power| 1u64.checked_shl(power.into()).unwrap_or(0));
            histogram.count = histogram.count.saturating_add(*n);
            histogram.add_to(bucket(first + first / 2), *n);
        }
        histogram
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The greatest; 0 where there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Their mean, rounded down; `None` where there is none.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }

    /// The value that `percent` of all do not exceed, within [`ERROR`]; `None` where there is none.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let rank = u128::from(self.count) * u128::from(percent.min(100));
        let rank = u64::try_from(rank.div_ceil(100)).unwrap_or(u64::MAX).max(1);
        let mut seen = 0u64;
        let (last, _) = *self.buckets.last()?;
        for (bucket, n) in &self.buckets {
            seen = seen.saturating_add(*n);
            if seen >= rank {
                let (first, width) = range(*bucket);
                // The greatest is known exactly.
                let is_max = *bucket == last && seen == rank && *n == 1;
                return Some(if is_max { self.max } else { (first + width / 2).min(self.max) });
            }
        }
        Some(self.max)
    }

    /// How many values are between two powers of two, from the least such that holds any to the
    /// greatest: the first value (a power of two, or 0), the one after the last, the count.
    pub fn powers(&self) -> Vec<(u64, u64, u64)> {
        let mut out: Vec<(u64, u64, u64)> = Vec::new();
        let (Some((first, _)), Some((last, _))) = (self.buckets.first(), self.buckets.last())
        else {
            return out;
        };
        let power = |bucket: u16| {
            let (value, _) = range(bucket);
            value.checked_ilog2().map_or(0, |power| power + 1)
        };
        for at in power(*first)..=power(*last) {
            let from = if at == 0 { 0 } else { 1u64 << (at - 1) };
            let until = 1u64.checked_shl(at).unwrap_or(u64::MAX);
            out.push((from, until, 0));
        }
        for (bucket, n) in &self.buckets {
            let at = power(*bucket).saturating_sub(power(*first)) as usize;
            if let Some((_, _, count)) = out.get_mut(at) {
                *count = count.saturating_add(*n);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.add(*value);
        }
        histogram
    }

    #[test]
    fn small_values_are_exact() {
        let histogram = of(&[1, 2, 2, 3, 15]);
        assert_eq!((histogram.count(), histogram.sum(), histogram.max()), (5, 23, 15));
        let percentiles = [0, 50, 80, 81, 100].map(|percent| histogram.percentile(percent));
        assert_eq!(percentiles, [1, 2, 3, 15, 15].map(Some));
        assert_eq!(histogram.powers(), [(1, 2, 1), (2, 4, 3), (4, 8, 0), (8, 16, 1)]);
        assert_eq!((of(&[]).percentile(50), of(&[]).mean()), (None, None));
        assert_eq!(of(&[0, u64::MAX]).powers().last(), Some(&(1 << 63, u64::MAX, 1)));
    }

    proptest! {
        #[test]
        fn buckets_hold_their_values(value: u64) {
            let (first, width) = range(bucket(value));
            prop_assert!(first <= value && value - first < width);
            prop_assert!(value < SUB || width as f64 / 2.0 / value as f64 <= ERROR);
        }

        #[test]
        fn percentiles_are_within_the_error(
            mut values in prop::collection::vec(0u64..1 << 40, 1..200), percent in 1u8..=100
        ) {
            let histogram = of(&values);
            values.sort_unstable();
            let exact = values[(values.len() * usize::from(percent)).div_ceil(100) - 1] as f64;
            let told = histogram.percentile(percent).unwrap() as f64;
            prop_assert!((told - exact).abs() <= exact * ERROR + 0.5, "{told} for {exact}");
        }

        #[test]
        fn two_make_one(
            a in prop::collection::vec(0u64.., 0..50), b in prop::collection::vec(0u64.., 0..50)
        ) {
            let mut both = of(&a);
            both.merge(&of(&b));
            prop_assert_eq!(&both, &of(&[a, b].concat()));
            let counted: u64 = both.powers().iter().map(|(_, _, n)| n).sum();
            prop_assert_eq!(counted, both.count());
        }
    }
}
