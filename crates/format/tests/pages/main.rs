//! The page format, one file for each kind of truth.

mod golden;
mod hostile;
mod kinds;
mod later;
mod later_pages;
mod loss;
mod metadata;
mod parts;
mod roundtrip;
mod support;
