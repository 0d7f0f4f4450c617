//! What the store promises, one file per kind of truth.

mod damage;
mod file;
mod support;
mod zstd;
