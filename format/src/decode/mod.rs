//! From pages to events. Takes any 4096 bytes and never panics.

mod event;

pub use event::{Body, Call, Event, Text};
