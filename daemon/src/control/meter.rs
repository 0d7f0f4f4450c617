//! What answering clients costs: apart from what recording costs, so that no reader can have events
//! left out for it, and bounded for those that may not change the budget.

use std::cell::Cell;
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

/// What each piece of a client's work counts as at least, ns. Beside flightd's CPU time it costs a
/// wakeup, two switches and calls of both sides, whose events the recorder records and drains.
const PIECE_LEAST: u64 = 100_000;

/// CPU time before a client's work that the client pays for, at most, ns: the thread wakes up, asks
/// the kernel which sockets are ready, and accepts. More is the daemon's own work.
const BETWEEN_MAX: u64 = 250_000;

thread_local! {
    /// This thread's CPU time at the end of its last work, ns.
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A client's work on one thread, and the CPU time before it ([`BETWEEN_MAX`]).
#[derive(Debug)]
pub(super) struct Work {
    /// The thread's CPU time at which the client's begins, ns.
    from: u64,
}

impl Work {
    pub(super) fn begin() -> Self {
        let now = clock::thread_cpu();
        let counted = COUNTED.get().unwrap_or(now);
        Self { from: counted.max(now.saturating_sub(BETWEEN_MAX)) }
    }

    /// CPU time that it took, ns.
    fn end(self) -> u64 {
        let now = clock::thread_cpu();
        COUNTED.set(Some(now));
        now.saturating_sub(self.from)
    }
}

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

    /// Enters what a piece of work took, in each account that it counts in; none: it was for
    /// somebody who is not bounded.
    fn charge(&self, accounts: impl IntoIterator<Item = (u32, Allowance)>, ns: u64, now: u64) {
        self.spent.fetch_add(ns, Ordering::Relaxed);
        let counted = ns.max(PIECE_LEAST);
        for (uid, allowance) in accounts {
            self.with(uid, allowance, now, |left| {
                left.ns = left.ns.saturating_sub_unsigned(counted);
            });
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
        let begun = Work::begin();
        let done = work();
        self.enter(user, begun);
        done
    }

    /// Counts the CPU time of work that is done, in each of these accounts.
    pub(super) fn enter(&self, accounts: impl IntoIterator<Item = (u32, Allowance)>, work: Work) {
        self.charge(accounts, work.end(), clock::mono());
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

    /// What a thread does between two works counts as the second one's, up to a limit.
    #[test]
    fn what_leads_to_work_is_part_of_it() {
        let spin = |ns: u64| {
            let end = clock::thread_cpu() + ns;
            while clock::thread_cpu() < end {}
        };
        let spent = || {
            let meter = Meter::default();
            meter.measure(None, || ());
            meter.spent()
        };
        std::thread::spawn(move || {
            spin(10 * MS);
            assert!(spent() < BETWEEN_MAX, "before the first one");
            spin(BETWEEN_MAX / 2);
            assert!(spent() >= BETWEEN_MAX / 2);
            spin(10 * MS);
            let of_much = spent();
            assert!((BETWEEN_MAX..5 * MS).contains(&of_much), "{of_much}");
        })
        .join()
        .unwrap();
    }

    /// A thousand pieces of work that take nothing are a thousand wakeups.
    #[test]
    fn a_piece_of_work_counts_as_a_wakeup_at_least() {
        let meter = Meter::default();
        for _ in 0..1001 {
            meter.charge([(7, ALLOWANCE), (8, ALLOWANCE)], 1, 1000 * MS);
        }
        let wait = |uid| meter.wait(uid, ALLOWANCE, 1000 * MS).as_micros();
        assert_eq!((wait(7), wait(8), meter.spent()), (500, 500, 1001));
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
