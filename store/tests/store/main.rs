//! What the store promises, one file per kind of truth.

mod damage;
mod faults;
mod faulty;
mod file;
mod limits;
mod machine;
mod model;
mod support;
mod zstd;
