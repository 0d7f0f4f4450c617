//! The page format, one file for each kind of truth.

mod golden;
mod hostile;
mod loss;
mod metadata;
mod parts;
mod roundtrip;
mod support;
