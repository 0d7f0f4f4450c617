//! What the store promises, one file per kind of truth.

mod file;
mod support;
