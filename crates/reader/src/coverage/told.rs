//! The stretches of a window whose coverage is told, each by itself.

use crate::windows::Windows;

/// Most stretches of a window whose coverage is told one by one.
const STRETCHES: usize = 16;
/// Stretches that are nearer together are told as one, ns: a clock that is slewed by steps makes
/// such.
const NEAR_NS: u64 = 10_000_000;

/// The stretches of the window whose coverage is told, each by itself.
pub fn told(windows: &Windows) -> Windows {
    Windows::new(windows.iter(), NEAR_NS).unwrap_or_else(|| windows.clone()).at_most(STRETCHES)
}
