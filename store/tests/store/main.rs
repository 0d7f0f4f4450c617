//! What the store promises, one file per kind of truth.

mod columns;
mod damage;
#[path = "../../../format/tests/pages/support.rs"]
mod events;
mod file;
mod support;
mod zstd;
