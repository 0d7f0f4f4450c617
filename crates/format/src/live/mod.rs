//! A recording that is running: its rings and tables, mapped from the kernel.

pub mod clock;
mod error;
mod generation;
pub mod map;
mod recording;
mod ring;
mod state;
pub mod sys;
mod tables;
#[cfg(test)]
mod tests;

pub use error::LiveError;
pub use generation::{Generation, PREFIX};
pub use recording::{LiveRings, Maps};
pub use ring::{Cursor, Pages, Since};
pub use tables::{publish_meta, read_meta, write_head};
