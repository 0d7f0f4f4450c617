//! What steps of the wall clock did to a window: said, since times of day alone do not tell.

use flightrec_reader::wall::WallClock;
use flightrec_reader::windows::Windows;
use jiff::tz::TimeZone;

use super::lines::Times;
use flightrec_format::human::{counted, span};

/// Most steps, and most times that were shown again, that are told one by one.
const EACH: usize = 4;

/// Lines about the steps of the wall clock within the windows, and what they made of times of day.
pub fn clock_lines(windows: &Windows, wall: &mut WallClock, zone: &TimeZone) -> Vec<String> {
    let steps: Vec<(u64, i64)> = wall.steps(windows.hull()).collect();
    let repeated = wall.repeated(windows);
    let mut lines = Vec::new();
    let times = Times { wall, zone };
    for (at, by) in steps.iter().take(EACH) {
        let after = times.wall.wall(*at);
        let (before, after) = (times.wall_full(after.saturating_sub(*by)), times.wall_full(after));
        let (way, why) = if *by < 0 {
            ("was set back", "")
        } else {
            ("jumped ahead", ": it was set, or the machine slept")
        };
        let by = span(by.unsigned_abs());
        lines.push(format!("the wall clock {way} by {by} at {before}, to {after}{why}"));
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
        lines.push(format!(
            "the clock showed {from} to {until} more than once; the dump has all of it"
        ));
    }
    if let Some(more @ 1..) = repeated.len().checked_sub(EACH) {
        lines.push(format!(
            "the clock showed {} of the window more than once",
            counted(more as u64, "more part")
        ));
    }
    lines
}
