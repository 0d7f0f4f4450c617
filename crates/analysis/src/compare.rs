//! What is different between two windows: new, gone, slower, more often.
//!
//! Windows of different lengths are compared by what happened in a second. A change is reported
//! if it is more than chance: a rate must differ by three standard deviations of a count, and by a
//! quarter; so must a mean. Changes are ranked by their part of what the topic comes to in the
//! window in which that is more.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A change is reported from this part of its topic on.
const SHARE_MIN: f64 = 0.005;
/// A ratio below is none.
const RATIO_MIN: f64 = 1.25;
/// So many values make a mean; of fewer, it must be twice the other.
const VALUES_MIN: u64 = 5;

/// What is counted is new, or gone, only if so many are expected where there is none.
const NEW_MIN: f64 = 9.0;

/// What a group came to in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// How often.
    pub count: u64,
    /// How many of these have a value.
    pub valued: u64,
    /// The sum of the values.
    pub total: u64,
}

/// The groups of a window.
#[derive(Debug, Clone)]
pub struct Side<K> {
    /// What each came to.
    pub groups: BTreeMap<K, Figures>,
    /// What all came to, with those that are not told apart.
    pub all: Figures,
    /// How long the window is, ns.
    pub length: u64,
}

/// How something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is only in the second window.
    New,
    /// It is only in the first one.
    Gone,
    /// Its values are greater on average.
    Greater,
    /// They are smaller.
    Smaller,
    /// It happens more often.
    MoreOften,
    /// It happens less often.
    LessOften,
}

/// A change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<K> {
    /// Of what.
    pub key: K,
    /// How.
    pub kind: ChangeKind,
    /// In the first window.
    pub a: Figures,
    /// In the second one.
    pub b: Figures,
    /// How much of its topic it is: the difference of what happened in a second, as a part of what
    /// all of the topic came to in a second, in the window in which that is more. At most 1.
    pub share: f64,
}

/// By what a topic is weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// By the sum of values.
    Total,
    /// By how often.
    Count,
}

impl Weight {
    fn of(self, figures: &Figures) -> u64 {
        match self {
            Self::Total => figures.total,
            Self::Count => figures.count,
        }
    }
}

impl Figures {
    /// The mean of the values.
    pub fn mean(&self) -> Option<u64> {
        self.total.checked_div(self.valued)
    }
}

/// `n` in `length` ns, for each second.
pub fn per_second(n: u64, length: u64) -> f64 {
    n as f64 * 1e9 / length.max(1) as f64
}

/// What changed from `a` to `b`, the largest part of the topic first.
pub fn changes<K: Ord + Clone>(a: &Side<K>, b: &Side<K>, weight: Weight) -> Vec<Change<K>> {
    let rate = |side: &Side<K>, figures: &Figures| per_second(weight.of(figures), side.length);
    let most = rate(a, &a.all).max(rate(b, &b.all));
    let none = Figures::default();
    let only_in_b = b.groups.keys().filter(|key| !a.groups.contains_key(key));
    let mut changes: Vec<Change<K>> = a
        .groups
        .keys()
        .chain(only_in_b)
        .filter_map(|key| {
            let of = |side: &Side<K>| side.groups.get(key).copied().unwrap_or(none);
            let (in_a, in_b) = (of(a), of(b));
            let kind = kind((&in_a, a.length), (&in_b, b.length))?;
            let is_chance = match kind {
                ChangeKind::New => is_few(in_b.count, b.length, a.length),
                ChangeKind::Gone => is_few(in_a.count, a.length, b.length),
                _ => false,
            };
            if is_chance && weight == Weight::Count {
                return None;
            }
            let share = (rate(b, &in_b) - rate(a, &in_a)).abs() / most.max(f64::MIN_POSITIVE);
            (share >= SHARE_MIN).then(|| Change {
                key: key.clone(),
                kind,
                a: in_a,
                b: in_b,
                share: share.min(1.0),
            })
        })
        .collect();
    changes.sort_by(|a, b| {
        b.share.partial_cmp(&a.share).unwrap_or(Ordering::Equal).then_with(|| a.key.cmp(&b.key))
    });
    changes
}

/// Whether so few in a window may be none in another one by chance: what is expected there is less
/// than three standard deviations away from none.
fn is_few(count: u64, of: u64, of_other: u64) -> bool {
    let expected = count as f64 * of_other as f64 / of.max(1) as f64;
    expected < NEW_MIN
}

/// How something changed, if it did.
fn kind((a, of_a): (&Figures, u64), (b, of_b): (&Figures, u64)) -> Option<ChangeKind> {
    match (a.count, b.count) {
        (0, 0) => return None,
        (0, _) => return Some(ChangeKind::New),
        (_, 0) => return Some(ChangeKind::Gone),
        _ => {}
    }
    let more = per_second(b.count, of_b) / per_second(a.count, of_a);
    // What the count of the second window would be, had nothing changed.
    let expected = a.count as f64 * of_b as f64 / of_a.max(1) as f64;
    // Both counts scatter; the first one's scatter is scaled as it is.
    let scatter =
        (expected.max(b.count as f64) + expected * of_b as f64 / of_a.max(1) as f64).sqrt();
    let is_chance = (b.count as f64 - expected).abs() < 3.0 * scatter;
    let more = if is_chance { 1.0 } else { more };
    let greater = match (a.mean(), b.mean()) {
        (Some(before), Some(now)) => {
            let ratio = now.max(1) as f64 / before.max(1) as f64;
            let is_mean = a.valued.min(b.valued) >= VALUES_MIN;
            if is_mean || !(0.5..=2.0).contains(&ratio) { ratio } else { 1.0 }
        }
        _ => 1.0,
    };
    // Whichever changed more.
    let distance = |ratio: f64| ratio.max(1.0 / ratio);
    if distance(more).max(distance(greater)) < RATIO_MIN {
        return None;
    }
    Some(match distance(greater) >= distance(more) {
        true if greater > 1.0 => ChangeKind::Greater,
        true => ChangeKind::Smaller,
        false if more > 1.0 => ChangeKind::MoreOften,
        false => ChangeKind::LessOften,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn side(groups: &[(&'static str, u64, u64)], seconds: u64) -> Side<&'static str> {
        let figures = |count, total| Figures { count, valued: count, total };
        let groups: BTreeMap<_, _> =
            groups.iter().map(|(key, count, mean)| (*key, figures(*count, count * mean))).collect();
        let all = groups.values().fold(Figures::default(), |sum, of| Figures {
            count: sum.count + of.count,
            valued: sum.valued + of.valued,
            total: sum.total + of.total,
        });
        Side { groups, all, length: seconds * S }
    }

    fn told(a: &Side<&'static str>, b: &Side<&'static str>) -> Vec<(&'static str, ChangeKind)> {
        changes(a, b, Weight::Total).into_iter().map(|of| (of.key, of.kind)).collect()
    }

    #[test]
    fn what_changed_and_how() {
        let a =
            side(&[("read", 1000, 10), ("fsync", 50, 100), ("old", 40, 500), ("poll", 90, 50)], 10);
        // Half as long.
        let b =
            side(&[("read", 502, 10), ("fsync", 24, 9000), ("new", 9, 90), ("poll", 900, 50)], 5);
        assert_eq!(
            told(&a, &b),
            [
                ("fsync", ChangeKind::Greater),
                ("poll", ChangeKind::MoreOften),
                ("old", ChangeKind::Gone),
            ]
        );
        let back = told(&b, &a);
        assert_eq!(back.first(), Some(&("fsync", ChangeKind::Smaller)));
        assert!(back.contains(&("poll", ChangeKind::LessOften)), "{back:?}");
        assert!(back.contains(&("old", ChangeKind::New)), "{back:?}");
        assert_eq!(told(&a, &a), []);
        // By how often, the new one counts for what it is.
        let by_count = changes(&a, &b, Weight::Count);
        assert!(by_count.iter().any(|of| of.key == "new" && of.kind == ChangeKind::New));
    }

    #[test]
    fn chance_is_no_change() {
        // Twice as many, of few.
        assert_eq!(told(&side(&[("a", 4, 10)], 10), &side(&[("a", 8, 10)], 10)), []);
        assert_eq!(told(&side(&[("a", 400, 10)], 10), &side(&[("a", 800, 10)], 10)).len(), 1);
        // A mean of one value.
        assert_eq!(told(&side(&[("a", 1, 10)], 10), &side(&[("a", 1, 15)], 10)), []);
        assert_eq!(told(&side(&[("a", 9, 10)], 10), &side(&[("a", 9, 15)], 10)).len(), 1);
        assert_eq!(told(&side(&[], 0), &side(&[], 0)), []);
    }

    /// What is weighed by its time is told however few there are.
    #[test]
    fn few_are_neither_new_nor_gone() {
        let (none, few, many) =
            (side(&[], 10), side(&[("a", 8, 10)], 10), side(&[("a", 9, 10)], 10));
        let of = |a: &Side<_>, b: &Side<_>| {
            let kinds = changes(a, b, Weight::Count).into_iter().map(|of| of.kind);
            kinds.collect::<Vec<ChangeKind>>()
        };
        assert_eq!((of(&none, &few), of(&few, &none)), (vec![], vec![]));
        assert_eq!(of(&none, &many), [ChangeKind::New]);
        assert_eq!(of(&many, &none), [ChangeKind::Gone]);
        // In a window half as long none of nine may be chance.
        assert_eq!(of(&side(&[], 5), &many), []);
        assert_eq!(told(&none, &few), [("a", ChangeKind::New)]);
    }

    #[test]
    fn shares_are_parts_of_the_topic() {
        let a = side(&[("a", 100, 10), ("b", 100, 30)], 10);
        let b = side(&[("a", 100, 10), ("b", 100, 90)], 10);
        let changes = changes(&a, &b, Weight::Total);
        assert_eq!(changes.len(), 1);
        assert!((changes[0].share - 0.6).abs() < 1e-9, "{changes:?}");
    }
}
