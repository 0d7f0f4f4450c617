//! What the store promises, one file per kind of truth.

mod damage;
mod faulty;
mod file;
mod machine;
mod model;
mod support;
mod zstd;
