//! The files of a recording: what `flightd` writes and `flightctl` reads.
//!
//! - A file is `STATE_DIR/<boot id>/<UTC start>-<number>.flight` ([`dir`]), one recording session
//!   in each, at most [`block::BLOCKS_MAX`] blocks of at most [`block::RAW_MAX`] bytes before
//!   compression.
//! - Each is a valid zstd stream: headers and index in skippable frames, content in frames of their
//!   own ([`header`], [`block`], [`index`]). Every part has a checksum, and is read without the
//!   others.
//! - After the data of a block of pages stands what is in it ([`summary`]).
//! - [`StoreWriter`] alone makes files, appends, and deletes the oldest. It never changes what is
//!   written: after any fault it goes on in a new file.
//! - [`FileReader`] takes any bytes, changes nothing, and says what is missing.
//!
//! `FORMAT.md` is the specification; a change here is a change there.

pub mod block;
pub mod checkpoint;
pub mod clocks;
pub mod coder;
pub mod columns;
mod components;
pub mod content;
pub mod damage;
pub mod dir;
pub mod disk;
pub mod error;
mod fields;
mod frame;
pub mod header;
pub mod index;
pub mod limits;
mod lock;
mod missing;
pub mod reader;
pub mod retention;
mod slice;
pub mod snapshot;
pub mod snapshots;
pub mod store_writer;
pub mod summary;
pub mod verify;
mod walk;
pub mod writer;

pub use block::{BlockHeader, BlockRef, Kind};
pub use checkpoint::{Checkpoint, RingMark};
pub use clocks::Clocks;
pub use coder::Block;
pub use content::Content;
pub use damage::{Damage, What};
pub use dir::{Boot, FileInfo, Store};
pub use error::StoreError;
pub use flightrec_format::part;
pub use header::FileHeader;
pub use limits::Limits;
pub use reader::{FileReader, PagesReader, read_header};
pub use slice::slice;
pub use store_writer::{
    Deleted, Gone, Now, Opening, Options, State, Stats, StoreWriter, SyncJob, Synced,
};
pub use verify::{Report, Verifier, verify};
pub use writer::FileWriter;
