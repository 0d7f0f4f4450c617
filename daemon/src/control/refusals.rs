//! Refusals in the log: a few a second, and how many more there were.

use std::sync::{Mutex, PoisonError};

use tracing::info;

use crate::clock;

/// Most lines a second.
const LINES_MOST: u32 = 5;
const SECOND: u64 = 1_000_000_000;

/// What was logged in this second.
#[derive(Debug, Default)]
struct Second {
    /// Since when, ns of `CLOCK_MONOTONIC`.
    since: u64,
    lines: u32,
    left_out: u64,
}

/// Logs refusals, within bounds: whoever is refused may ask again at once.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Second>);

impl Refusals {
    /// Logs a line, or counts it.
    pub(super) fn log(&self, line: &str) {
        let Some(left_out) = self.admit(clock::mono()) else { return };
        if left_out == 0 {
            info!("{line}");
        } else {
            info!("{line}; {left_out} more refusals before it are not in the log");
        }
    }

    /// Whether a line may be logged now, and how many were not since the last one.
    fn admit(&self, now: u64) -> Option<u64> {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(second.since) >= SECOND {
            (second.since, second.lines) = (now, 0);
        }
        if second.lines >= LINES_MOST {
            second.left_out += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_a_second_and_a_number() {
        let refusals = Refusals::default();
        let begin = 5 * SECOND;
        let told = |from: u64| {
            (0..1000).filter_map(|i| refusals.admit(from + i * 1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(told(begin), [0; 5]);
        assert_eq!(told(begin + SECOND), [995, 0, 0, 0, 0]);
    }
}
