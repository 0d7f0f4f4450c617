//! What answering clients costs: apart from what recording costs, so that no reader can have events
//! left out for it, and bounded for those that may not change the budget.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock;

/// CPU time that answering one user's clients may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// At once.
    pub burst: Duration,
    /// Of one CPU, in percent, when that is spent.
    pub percent: u32,
}

/// Most users that are told apart; more share what is left of one allowance.
const USERS_MAX: usize = 1024;
/// Nobody's user id (`INVALID_UID`): that of all users beyond.
const OTHERS: u32 = u32::MAX;
/// The account of new connections: a user who closes one and makes the next needs no answer. (No
/// user has this id: the kernel's ids end two before.)
pub(super) const DOOR: u32 = u32::MAX - 1;

/// What one user's clients have left.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// Nanoseconds of CPU time; below 0: spent in advance.
    ns: i64,
    /// When that was, ns of `CLOCK_MONOTONIC`.
    at: u64,
}

/// Counts the CPU time of answers.
#[derive(Debug, Default)]
pub struct Meter {
    spent: AtomicU64,
    users: Mutex<HashMap<u32, Left>>,
}

impl Meter {
    /// CPU time of all answers so far, ns.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Enters what an answer to a user took; `None`: somebody who is not bounded.
    pub(super) fn charge(&self, user: Option<(u32, Allowance)>, ns: u64, now: u64) {
        self.spent.fetch_add(ns, Ordering::Relaxed);
        if let Some((uid, allowance)) = user {
            self.with(uid, allowance, now, |left| left.ns = left.ns.saturating_sub_unsigned(ns));
        }
    }

    /// How long a user's clients have to wait for the next answer.
    fn wait(&self, uid: u32, allowance: Allowance, now: u64) -> Duration {
        let missing = self.with(uid, allowance, now, |left| left.ns.min(0).unsigned_abs());
        Duration::from_nanos(missing.saturating_mul(100) / u64::from(allowance.percent.max(1)))
    }

    /// A user's account, as of now.
    fn with<T>(
        &self,
        uid: u32,
        allowance: Allowance,
        now: u64,
        change: impl FnOnce(&mut Left) -> T,
    ) -> T {
        let most = i64::try_from(allowance.burst.as_nanos()).unwrap_or(i64::MAX);
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = if users.len() < USERS_MAX || users.contains_key(&uid) { uid } else { OTHERS };
        let left = users.entry(uid).or_insert(Left { ns: most, at: now });
        let earned = now.saturating_sub(left.at).saturating_mul(u64::from(allowance.percent)) / 100;
        *left = Left { ns: left.ns.saturating_add_unsigned(earned).min(most), at: now };
        change(left)
    }

    /// Does something on this thread, and counts its CPU time.
    pub(super) fn measure<T>(&self, user: Option<(u32, Allowance)>, work: impl FnOnce() -> T) -> T {
        let before = clock::thread_cpu();
        let done = work();
        self.charge(user, clock::thread_cpu().saturating_sub(before), clock::mono());
        done
    }

    /// The same of a future.
    pub(super) async fn measure_async<T>(
        &self,
        user: Option<(u32, Allowance)>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.measure(user, || work.as_mut().poll(context))).await
    }

    /// Waits until a user's clients may have another answer.
    pub(super) async fn admit(&self, user: Option<(u32, Allowance)>) {
        let Some((uid, allowance)) = user else { return };
        let wait = self.wait(uid, allowance, clock::mono());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const ALLOWANCE: Allowance = Allowance { burst: Duration::from_millis(100), percent: 20 };

    #[test]
    fn what_is_beyond_the_allowance_is_waited_for() {
        let meter = Meter::default();
        let user = |uid| Some((uid, ALLOWANCE));
        let wait = |uid, now| meter.wait(uid, ALLOWANCE, now).as_millis();
        meter.charge(user(7), 90 * MS, 1000 * MS);
        assert_eq!(wait(7, 1000 * MS), 0);
        meter.charge(user(7), 30 * MS, 1000 * MS);
        // 20 ms too much, at 20 % of a CPU.
        assert_eq!((wait(7, 1000 * MS), wait(7, 1050 * MS), wait(7, 1100 * MS)), (100, 50, 0));
        assert_eq!(wait(8, 1000 * MS), 0, "another user has an allowance of its own");
        // Idling saves up no more than the burst.
        meter.charge(user(7), 110 * MS, 100_000 * MS);
        assert_eq!(wait(7, 100_000 * MS), 50);
        meter.charge(None, 1000 * MS, 100_000 * MS);
        assert_eq!(meter.spent(), 1230 * MS);
    }

    #[test]
    fn any_number_of_users_takes_bounded_memory() {
        let meter = Meter::default();
        for uid in 0..100_000 {
            meter.charge(Some((uid, ALLOWANCE)), MS, 0);
        }
        assert_eq!(meter.users.lock().unwrap().len(), USERS_MAX + 1);
    }
}
