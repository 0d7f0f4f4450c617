//! Who draws from a [`Bucket`] that runs short: what each process took lately ([`Share`]), on one
//! CPU. Arithmetic on the probes' state, without the kernel, so that it can be tried outside of it.
//!
//! A process is found in a set of [`SHARE_WAYS`] places by a hash of its id that is seeded at the
//! start, so that nobody can choose ids that meet a victim's. What is forgotten for want of places
//! is the largest, and whoever takes its place begins with what it had spent: so nobody gets rid of
//! what it spent by making others come.
//!
//! Nothing is known of a process that has just begun, and it may be one of a storm of them. So the
//! young have an account together ([`Bucket::newcomers`]), which weighs on each of them as its own
//! does, half as much with each half-life that it lives: a storm of processes gets what one loud
//! process gets, and what is left serves those that are there longer.

use super::state::{
    Bucket, Drawer, HALF_LIFE_SHIFT, LOUD, SHARE_SETS, SHARE_SHIFT, SHARE_WAYS, Share, YOUNG,
    YOUNG_SHIFT,
};

/// What of [`Share::spent`] is a number.
const SPENT: u64 = !(LOUD | YOUNG);
/// Half-lives for which a process is young.
const YOUTH: u64 = 4;
/// 2 to this power is for how many events a process is not looked at again.
const ALLOWED_SHIFT: u32 = 3;
/// Jiffies that count at most: 17 minutes and more, so that the product with any rate stays within
/// 64 bits.
const LONGEST: u64 = 1 << 20;

const _: () = assert!(YOUTH <= YOUNG >> YOUNG_SHIFT);

/// A table of shares.
pub trait Shares {
    /// One of its [`super::state::SHARES`] places; an index beyond is taken for one inside.
    fn at(&mut self, index: u32) -> &mut Share;

    /// [`age`], which has something to do once a half-life.
    #[inline(always)]
    fn age(share: &mut Share, bucket: &Bucket) {
        age(share, bucket);
    }
}

/// A process as its programs know it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Its id.
    pub tgid: u32,
    /// `task_struct.start_time` of a thread of it, ns of `CLOCK_MONOTONIC`.
    pub began: u64,
}

impl Bucket {
    /// Fills it by the kernel's tick: `now`, which costs, is read but once a `jiffy`.
    #[inline(always)]
    pub fn fill(&mut self, jiffy: u64, now: impl FnOnce() -> u64) {
        let mut passed = jiffy.wrapping_sub(self.filled);
        if passed == 0 {
            return;
        }
        if passed > LONGEST {
            passed = LONGEST;
        }
        let mut tokens = self.tokens + (passed * self.rate) as i64;
        if tokens > self.depth as i64 {
            tokens = self.depth as i64;
        }
        self.tokens = tokens;
        self.filled = jiffy;
        let before = self.half_lives();
        self.time = now();
        let passed = self.half_lives().wrapping_sub(before);
        if passed != 0 {
            self.newcomers = halved(self.newcomers & SPENT, passed) | self.newcomers & LOUD;
        }
    }

    /// Half-lives until it was filled last.
    #[inline(always)]
    fn half_lives(&self) -> u32 {
        (self.time >> HALF_LIFE_SHIFT) as u32
    }
}

#[inline(always)]
fn halved(spent: u64, times: u32) -> u64 {
    if times < 64 { spent >> times } else { 0 }
}

/// Half-lives for which whose share this is stays young; 0: it is not.
#[inline(always)]
fn youth(share: &Share) -> u64 {
    (share.spent & YOUNG) >> YOUNG_SHIFT
}

/// Whether a half-life has passed since what was spent was halved last.
#[inline(always)]
pub fn is_old(share: &Share, bucket: &Bucket) -> bool {
    bucket.half_lives() != share.halved
}

/// Halves what was spent for each half-life since it was halved last.
#[inline(always)]
pub fn age(share: &mut Share, bucket: &Bucket) {
    let half_lives = bucket.half_lives();
    let passed = half_lives.wrapping_sub(share.halved);
    if passed != 0 {
        let youth = youth(share);
        let youth = youth.saturating_sub(u64::from(passed));
        share.spent =
            halved(share.spent & SPENT, passed) | youth << YOUNG_SHIFT | share.spent & LOUD;
        share.halved = half_lives;
    }
}

/// The first of the places where the process's share may stand.
#[inline(always)]
fn first_place(seed: u32, tgid: u32) -> u32 {
    (tgid.wrapping_mul(seed) >> (32 - SHARE_SETS.trailing_zeros())) * SHARE_WAYS as u32
}

/// Finds or makes the process's share, and brings it up to date; its index. `shares` are those of
/// the bucket; `seed` is an odd random number.
#[inline(always)]
pub fn find<S: Shares>(shares: &mut S, seed: u32, bucket: &Bucket, process: Process) -> u32 {
    let first = first_place(seed, process.tgid);
    let (mut largest, mut most) = (first, 0);
    for way in 0..SHARE_WAYS as u32 {
        let share = shares.at(first + way);
        S::age(share, bucket);
        if share.tgid == process.tgid {
            return first + way;
        }
        let spent = share.spent & SPENT;
        // Whose last spending has been forgotten leaves its place first.
        let rank = if share.tgid == 0 || spent == 0 { u64::MAX } else { spent };
        if rank > most {
            (largest, most) = (first + way, rank);
        }
    }
    let share = shares.at(largest);
    let lived = if bucket.time > process.began {
        (bucket.time - process.began) >> HALF_LIFE_SHIFT
    } else {
        0
    };
    let youth = YOUTH.saturating_sub(lived);
    let inherited = if most == u64::MAX { 0 } else { most };
    share.tgid = process.tgid;
    share.halved = bucket.half_lives();
    share.spent = inherited | youth << YOUNG_SHIFT;
    largest
}

/// Whether the share is the process's; then brings it up to date.
#[inline(always)]
fn is_still(share: &mut Share, bucket: &Bucket, tgid: u32) -> bool {
    if share.tgid != tgid {
        return false;
    }
    age(share, bucket);
    true
}

/// By how many halves what weighs on all the young weighs less on who has this share, which is
/// young.
#[inline(always)]
fn grown(youth: u64) -> u64 {
    // A shift by less than 8, whatever it holds.
    YOUTH.wrapping_sub(youth) & 7
}

/// What weighs on who has this share: what it spent lately itself or, while it is young, all the
/// young.
#[inline(always)]
pub fn weight(share: &Share, bucket: &Bucket) -> u64 {
    let (own, youth) = (share.spent & SPENT, youth(share));
    let all = if youth == 0 { 0 } else { (bucket.newcomers & SPENT) >> grown(youth) };
    if all > own { all } else { own }
}

/// Whether the bucket gives `cost` to who has this share. Who then gets it has to [`charge`]
/// somebody, and to take it out of the bucket.
#[inline(always)]
pub fn gives(share: &mut Share, bucket: &mut Bucket, cost: u32) -> bool {
    let (own, youth) = (share.spent & SPENT, youth(share));
    let mut needed = weight(share, bucket) >> SHARE_SHIFT;
    if share.spent & LOUD != 0 {
        needed += bucket.resume;
    } else if youth != 0 && bucket.newcomers & LOUD != 0 {
        needed += bucket.resume >> grown(youth);
    }
    if bucket.tokens - i64::from(cost) >= needed as i64 {
        share.spent &= !LOUD;
        if youth == YOUTH {
            bucket.newcomers &= !LOUD;
        }
        return true;
    }
    if youth == 0 {
        share.spent |= LOUD;
    } else if own > (bucket.newcomers & SPENT) >> 1 {
        // It is loud by itself, and the other young need not answer for it.
        bucket.newcomers -= own.min(bucket.newcomers & SPENT);
        share.spent = own | LOUD;
    } else {
        bucket.newcomers |= LOUD;
    }
    false
}

/// Notes that who has this share has spent so much.
#[inline(always)]
pub fn charge(share: &mut Share, bucket: &mut Bucket, cost: u32) {
    share.spent += u64::from(cost);
    if youth(share) != 0 {
        bucket.newcomers += u64::from(cost);
    }
}

/// Takes back what was charged and not spent.
#[inline(always)]
fn give_back(share: &mut Share, bucket: &mut Bucket, cost: u64) {
    // Either may have been halved since.
    let own = share.spent & SPENT;
    share.spent -= if own < cost { own } else { cost };
    if youth(share) != 0 {
        let all = bucket.newcomers & SPENT;
        bucket.newcomers -= if all < cost { all } else { cost };
    }
}

/// Whether the bucket gives `cost` to who has this share; then both have it taken down.
#[inline(always)]
pub fn draw(share: &mut Share, bucket: &mut Bucket, cost: u32) -> bool {
    if !gives(share, bucket, cost) {
        return false;
    }
    charge(share, bucket, cost);
    bucket.tokens -= i64::from(cost);
    true
}

impl Drawer {
    /// Takes the cost of a call of `tgid` out of the bucket, as long as it may draw without being
    /// looked at.
    #[inline(always)]
    pub fn draw(&mut self, bucket: &mut Bucket, tgid: u32, cost: u32) -> bool {
        let left = self.left - i64::from(cost);
        if left < 0 || self.tgid != tgid {
            return false;
        }
        self.left = left;
        bucket.tokens -= i64::from(cost);
        true
    }

    /// Looks at it: `share`, at its place, is brought up to date, and gets back what it was charged
    /// with and did not draw. Whether the share still is its own.
    #[inline(always)]
    pub fn look(&mut self, share: &mut Share, bucket: &mut Bucket) -> bool {
        let left = self.left as u64;
        self.left = 0;
        if !is_still(share, bucket, self.tgid) {
            return false;
        }
        give_back(share, bucket, left);
        true
    }

    /// Lets it draw several events like the one of `cost` that it was given, before it is looked
    /// at again, where the bucket holds enough for all of them. It is charged with them now: it may
    /// end before it is looked at, and its share with it, and what a storm of such processes drew
    /// would weigh on nobody.
    #[inline(always)]
    pub fn allow(&mut self, share: &mut Share, bucket: &mut Bucket, cost: u32) {
        let several = cost << ALLOWED_SHIFT;
        let needed = weight(share, bucket) >> SHARE_SHIFT;
        self.left = 0;
        if bucket.tokens - i64::from(several) >= needed as i64 {
            charge(share, bucket, several);
            self.left = several.into();
        }
    }
}

/// Whether who has this share has spent so little that nothing of its events is left out.
#[inline(always)]
pub fn is_quiet(share: &Share, bucket: &Bucket) -> bool {
    // Half of what would have it refused.
    share.spent & LOUD == 0 && (weight(share, bucket) >> (SHARE_SHIFT - 1)) as i64 <= bucket.tokens
}

/// The process has ended.
#[inline(always)]
pub fn forget(shares: &mut impl Shares, seed: u32, tgid: u32) {
    let first = first_place(seed, tgid);
    for way in 0..SHARE_WAYS as u32 {
        let share = shares.at(first + way);
        if share.tgid == tgid {
            share.tgid = 0;
        }
    }
}
