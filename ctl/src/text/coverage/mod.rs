//! Coverage in words: what is complete, what is missing, and why.

mod clock;
mod doubt;
mod fold;
mod lines;
mod seam;
mod skipped;
mod telling;
#[cfg(test)]
mod tests;

pub use clock::clock_lines;
pub use doubt::why;
pub use lines::{lacking, lines, unknown_lane};
pub use seam::Seam;
pub use skipped::{reasons, refused, skipped, time};
pub use telling::Telling;
