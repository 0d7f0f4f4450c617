//! What steps of the wall clock did to a window: said, since times of day alone do not tell.

use jiff::tz::TimeZone;
use serde::Serialize;

use super::json::json_line;
use super::lines::Times;
use crate::human::{counted, span};
use crate::json::Aside;
use crate::json::clock::Clock;
use crate::pipeline::wall::WallClock;
use crate::window::Window;
use crate::windows::Windows;

/// Most steps, and most times that were shown again, that are told one by one.
const EACH: usize = 4;
/// Most stretches of a window whose coverage is told one by one.
const STRETCHES: usize = 16;
/// Stretches that are nearer together are told as one, ns: a clock that is slewed by steps makes
/// such.
const NEAR_NS: u64 = 10_000_000;

/// The stretches of the window whose coverage is told, each by itself.
pub fn told(windows: &Windows) -> Windows {
    Windows::new(windows.iter(), NEAR_NS).unwrap_or_else(|| windows.clone()).at_most(STRETCHES)
}

/// Lines about the steps of the wall clock within the windows, and what they made of times of day.
pub fn clock_lines(windows: &Windows, wall: &mut WallClock, zone: &TimeZone) -> Vec<String> {
    let steps: Vec<(u64, i64)> = wall.steps(windows.hull()).collect();
    let repeated = wall.repeated(windows);
    let mut lines = Vec::new();
    let times = Times { wall, zone };
    for (at, by) in steps.iter().take(EACH) {
        let behind = times.wall.wall(*at);
        let (before, behind) =
            (times.wall_full(behind.saturating_sub(*by)), times.wall_full(behind));
        let (way, why) = if *by < 0 {
            ("was set back", "")
        } else {
            ("jumped ahead", ": it was set, or the machine slept")
        };
        let by = span(by.unsigned_abs());
        lines.push(format!("the wall clock {way} by {by} at {before}, to {behind}{why}"));
    }
    if let Some(more @ 1..) = steps.len().checked_sub(EACH) {
        lines.push(format!("the wall clock did so {} more", counted(more as u64, "time")));
    }
    if windows.count() > 1 {
        let n = windows.count();
        lines.push(format!("so the window has {n} parts, each with a coverage of its own"));
    }
    for (from, until) in repeated.iter().take(EACH) {
        let (from, until) = (times.wall_full(*from), times.wall_full(*until));
        lines.push(format!("{from} to {until} was shown more than once: all of it is here"));
    }
    if let Some(more @ 1..) = repeated.len().checked_sub(EACH) {
        lines.push(format!(
            "{} more of the window shown more than once",
            counted(more as u64, "part")
        ));
    }
    lines
}

/// A step of the wall clock, between events.
#[derive(Serialize)]
struct ClockSet {
    time: String,
    mono_ns: u64,
    event: &'static str,
    by_ns: i64,
}

/// A line for each step of the wall clock within a window.
pub fn clock_asides(window: Window, wall: &mut WallClock) -> Vec<Aside> {
    let steps: Vec<(u64, i64)> = wall.steps(window).collect();
    let mut clock = Clock::new();
    let line = |(at, by_ns): (u64, i64)| {
        let time = clock.string(wall.wall(at));
        let line = json_line(&ClockSet { time, mono_ns: at, event: "clock_set", by_ns });
        Aside { time: at, line }
    };
    steps.into_iter().map(line).collect()
}
