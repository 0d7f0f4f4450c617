//! The recording's clock, and the wall clock beside it.

/// A clock's time, ns. It must exist on every kernel.
fn read(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a live timespec.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// `CLOCK_MONOTONIC` now, in ns: the time of events.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` now, ns.
pub fn wall_offset() -> i64 {
    // One is read between two readings of the other: the nearer those are, the better.
    let read = || {
        let (before, wall, after) = (monotonic(), read(libc::CLOCK_REALTIME), monotonic());
        let apart = after.saturating_sub(before);
        (apart, (wall as i64).saturating_sub(before.saturating_add(apart / 2) as i64))
    };
    let readings = [read(), read(), read()];
    readings.into_iter().min_by_key(|(apart, _)| *apart).map_or(0, |(_, offset)| offset)
}
