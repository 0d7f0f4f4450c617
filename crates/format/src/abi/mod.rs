//! The layout of everything the probes write: plain integers, little-endian, pinned sizes.

pub mod args;
pub mod counts;
pub mod field;
pub mod file;
pub mod function;
pub mod id;
pub mod ip;
pub mod kinds;
pub mod page;
pub mod pointee;
pub mod probe;
pub mod publisher;
pub mod record;
pub mod share;
pub mod slot;
pub mod state;
pub mod tracepoint;
pub mod value_names;
