//! The layout of everything the probes write: plain integers, little-endian, pinned sizes.

pub mod args;
pub mod counts;
pub mod file;
pub mod ip;
pub mod kinds;
pub mod net;
pub mod page;
pub mod probe;
pub mod record;
pub mod share;
pub mod slot;
pub mod state;
