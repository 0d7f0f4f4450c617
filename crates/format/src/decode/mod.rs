//! From pages to events. Takes any 4096 bytes and never panics.

mod arguments;
mod body;
mod brief;
mod calls;
mod decoder;
mod event;
pub mod page;
mod plain;
pub(crate) mod records;

pub use brief::{Brief, BriefCalls, Half};
pub use calls::{CallRecord, Calls, FirstCall, FirstCalls};
pub use decoder::{Damage, Decoder, Fault, Summary};
pub use event::{Body, Call, Event, KernelStack, Sample, Stack, Text, Tracepoint, unnamed_call};
pub use page::{Page, PageError};
pub use plain::Plain;
