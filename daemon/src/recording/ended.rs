//! A recording that was ended.

use std::path::Path;

use flightrec_format::live::{self, LiveError};
use flightrec_format::meta::Meta;
use tracing::info;

use super::switch;
use crate::clock;

/// A recording that was ended, with what it holds.
#[derive(Debug)]
pub struct Ended {
    /// Its rings and tables.
    pub live: live::LiveRings,
    /// Its metadata.
    pub meta: Meta,
}

impl Ended {
    /// Stops the recording in `dir`, and keeps its memory.
    pub(super) fn open(dir: &Path) -> Result<Self, LiveError> {
        let live = live::LiveRings::open(dir, true)?;
        let mut meta = live.meta()?;
        switch(&live, 0, 0);
        if let Err(e) = say_ended(&live, &mut meta) {
            info!("it could not be marked as ended in its metadata: {e}");
        }
        Ok(Self { live, meta })
    }
}

/// Enters into a recording's metadata that it was ended. Freed memory keeps its pages for a while:
/// to the reader of a dump they must not look like those of the machine's last recording. Twice,
/// for both halves of the map: whichever is left says so.
pub(super) fn say_ended(live: &live::LiveRings, meta: &mut Meta) -> Result<(), LiveError> {
    meta.ended = clock::mono();
    live.publish_meta(meta).and_then(|_| live.publish_meta(meta)).map(|_| ())
}
