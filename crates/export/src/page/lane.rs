//! A lane of a timeline: stretches of time, in bounded memory.
//!
//! A lane holds so many stretches at most. When there are more, those shorter than its resolution
//! are joined with their neighbours, and the resolution doubles until there is room again. So a
//! short window is drawn as it was, and a long one as finely as the room allows; what is longer
//! than the resolution stays as it was. What is near the cause has room, and a resolution, of its
//! own.

/// Kinds of stretches whose times are added up apart where they are joined.
pub const CLASSES: usize = 4;
/// The first resolution at which anything is joined, ns.
const FIRST: u64 = 1000;

/// A stretch of time, or several that were joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it begins, ns.
    pub from: u64,
    /// When it ends.
    pub until: u64,
    /// What it is, by the number that who added it has for that; of several: of the longest one.
    pub what: u32,
    /// How many they are.
    pub n: u32,
    /// Their length by class, ns.
    pub sums: [u64; CLASSES],
    /// It is near the cause.
    pub is_near: bool,
    longest: u64,
}

impl Span {
    /// A single one.
    pub fn new(from: u64, until: u64, what: u32, class: usize, is_near: bool) -> Self {
        let longest = until.saturating_sub(from);
        let mut sums = [0; CLASSES];
        if let Some(sum) = sums.get_mut(class) {
            *sum = longest;
        }
        Self { from, until: until.max(from), what, n: 1, sums, is_near, longest }
    }

    /// Its length, ns.
    pub fn ns(&self) -> u64 {
        self.until - self.from
    }

    fn join(&mut self, other: &Self) {
        self.from = self.from.min(other.from);
        self.until = self.until.max(other.until);
        self.n = self.n.saturating_add(other.n);
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum = sum.saturating_add(more);
        }
        if other.longest > self.longest {
            (self.what, self.longest) = (other.what, other.longest);
        }
    }
}

/// The room for one sort of stretches.
#[derive(Debug, Clone, Copy)]
struct Room {
    most: usize,
    held: usize,
    /// Shorter ones are joined; 0: none are.
    resolution: u64,
}

impl Room {
    fn double(&mut self) {
        self.resolution = self.resolution.saturating_mul(2).max(FIRST);
    }
}

/// Stretches of time of a lane, which follow one another, mostly.
#[derive(Debug)]
pub struct Lane {
    spans: Vec<Span>,
    far: Room,
    near: Room,
}

impl Lane {
    /// With room for so many stretches, and for so many near the cause.
    pub fn new(far: usize, near: usize) -> Self {
        let room = |most: usize| Room { most: most.max(2), held: 0, resolution: 0 };
        Self { spans: Vec::new(), far: room(far), near: room(near) }
    }

    /// Those shorter are joined, ns; 0: none are.
    pub fn resolution(&self, is_near: bool) -> u64 {
        if is_near { self.near.resolution } else { self.far.resolution }
    }

    /// All of them, by their beginning.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Adds one. They may come a little out of order.
    pub fn add(&mut self, span: Span) {
        let resolution = self.resolution(span.is_near);
        let after = self.spans.iter().rev().take_while(|of| of.from > span.from).count();
        if after == 0
            && let Some(last) = self.spans.last_mut()
            && joins(last, &span, resolution)
        {
            last.join(&span);
            return;
        }
        self.spans.insert(self.spans.len() - after, span);
        let room = if span.is_near { &mut self.near } else { &mut self.far };
        room.held += 1;
        if room.held > room.most {
            self.make_room(span.is_near);
        }
    }

    #[cold]
    fn make_room(&mut self, is_near: bool) {
        loop {
            let room = if is_near { &mut self.near } else { &mut self.far };
            // Some room is left, so that this is not done for each that comes.
            if room.held <= room.most - room.most / 4 || room.resolution == u64::MAX {
                return;
            }
            room.double();
            let resolution = room.resolution;
            let mut kept: Vec<Span> = Vec::with_capacity(self.spans.len());
            for span in self.spans.drain(..) {
                match kept.last_mut() {
                    Some(last) if span.is_near == is_near && joins(last, &span, resolution) => {
                        last.join(&span);
                    }
                    _ => kept.push(span),
                }
            }
            self.spans = kept;
            let held = self.spans.iter().filter(|span| span.is_near == is_near).count();
            let room = if is_near { &mut self.near } else { &mut self.far };
            room.held = held;
        }
    }
}

/// Whether two neighbours are told as one.
fn joins(last: &Span, next: &Span, resolution: u64) -> bool {
    let hull = last.until.max(next.until) - last.from.min(next.from);
    last.is_near == next.is_near
        && last.ns() < resolution
        && next.ns() < resolution
        && hull <= resolution
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_has_room_stays_as_it_was() {
        let mut lane = Lane::new(100, 100);
        for at in 0..100u64 {
            lane.add(Span::new(at * 10, at * 10 + 5, at as u32, 0, false));
        }
        assert_eq!((lane.spans().len(), lane.resolution(false)), (100, 0));
        assert!(lane.spans().iter().all(|span| span.n == 1 && span.ns() == 5));
    }

    #[test]
    fn long_ones_stay_and_near_ones_too() {
        let mut lane = Lane::new(64, 64);
        let mut at = 0;
        for number in 0..20_000u32 {
            let is_near = (10_000..10_040).contains(&number);
            let ns = if number % 1000 == 7 { 50_000_000 } else { 300 };
            lane.add(Span::new(at, at + ns, number, usize::from(ns > 1000), is_near));
            at += ns + 100;
        }
        let spans = lane.spans();
        assert!(spans.len() <= 64 + 64, "{}", spans.len());
        assert_eq!(lane.resolution(true), 0);
        assert_eq!(spans.iter().filter(|of| of.is_near && of.n == 1).count(), 40);
        // Each long one by itself.
        let long = spans.iter().filter(|of| of.n == 1 && of.ns() == 50_000_000);
        assert_eq!(long.count(), 20);
        assert!(lane.resolution(false) < 50_000_000);
    }

    #[test]
    fn one_that_comes_late_is_put_in_its_place() {
        let mut lane = Lane::new(10, 10);
        lane.add(Span::new(0, 10, 1, 0, false));
        lane.add(Span::new(30, 40, 3, 0, false));
        lane.add(Span::new(10, 30, 2, 2, false));
        assert_eq!(lane.spans().iter().map(|of| of.what).collect::<Vec<_>>(), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(
            lengths in prop::collection::vec(
                (0u64..1 << 30, 0u64..1 << 20, 0usize..4, any::<bool>()), 0..600
            ),
            most in 2usize..40,
        ) {
            let mut lane = Lane::new(most, most);
            let (mut at, mut sums) = (0, [0u64; CLASSES]);
            for (ns, pause, class, is_near) in &lengths {
                let ns = ns >> (pause % 30);
                lane.add(Span::new(at, at + ns, 0, *class, *is_near));
                sums[*class] += ns;
                at += ns + pause;
            }
            let n: u64 = lane.spans().iter().map(|of| u64::from(of.n)).sum();
            prop_assert_eq!(n, lengths.len() as u64);
            for (class, sum) in sums.into_iter().enumerate() {
                let told: u64 = lane.spans().iter().map(|of| of.sums[class]).sum();
                prop_assert_eq!(told, sum);
            }
            prop_assert!(lane.spans().is_sorted_by_key(|of| of.from));
            // Runs of near ones, and of far ones, are never joined with one another: there may be
            // as many as there are runs.
            let runs = lane.spans().chunk_by(|a, b| a.is_near == b.is_near).count();
            prop_assert!(lane.spans().len() <= 2 * most + runs, "{}", lane.spans().len());
            for span in lane.spans() {
                prop_assert!(span.n == 1 || span.ns() <= lane.resolution(span.is_near));
            }
        }
    }
}
