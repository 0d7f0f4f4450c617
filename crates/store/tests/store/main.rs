//! What the store promises, one file per kind of truth.

mod columns;
mod damage;
#[path = "../../../format/tests/pages/support.rs"]
mod events;
mod faults;
mod faulty;
mod file;
mod golden;
#[path = "../../../format/tests/pages/later_pages.rs"]
mod later_pages;
mod limits;
mod machine;
mod model;
mod summaries;
mod support;
mod zstd;
