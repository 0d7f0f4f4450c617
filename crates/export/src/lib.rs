//! Recordings in the formats of other tools.
//!
//! An [`Exporter`] takes the events of a window in the order of time, with what is known of each,
//! and makes the bytes of a format of them. It streams: what it keeps is bounded, whatever the
//! window. It does not know where events come from, which ones were asked for, nor where the bytes
//! go. Words (the names of arguments, of flags, of errors) come from the program that shows
//! recordings as text, through [`Words`].
//!
//! Every format tells what the recording lacks, in the way that it has for it: an exporter is given
//! each gap ([`Exporter::gap`]) and the coverage of each window ([`Exporter::coverage`]). What a
//! format has no place for, its exporter tells once, at the end ([`Exporter::remarks`]).
//!
//! [`page`] is not for a tool but for people: one file that any browser opens. It is made of sums
//! and of stretches rather than of events, so it is no exporter.
//!
//! Names and paths are hostile: they come out as printable text ([`printable`]), so that a file is
//! valid whatever the recording holds.

pub mod chrome;
pub mod ctf;
mod decimal;
pub mod devices;
pub mod exporter;
pub mod gaps;
mod json;
mod kernel;
mod kind;
pub mod lanes;
pub mod page;
pub mod parquet;
pub mod perfetto;
pub mod printable;
pub mod profile;
pub mod redact;
pub mod stacks;
pub mod trace_dat;

pub use self::exporter::{ExportError, Exporter, Session, Value, Words};
