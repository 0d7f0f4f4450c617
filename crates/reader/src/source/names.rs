//! Names of threads out of a recording's file, for what was said of it before they were known.

use std::path::{Path, PathBuf};

use flightrec_format::abi::page::Lane;
use flightrec_format::merge::Merge;
use flightrec_format::ring::LaneStream;

use super::SourceError;
use super::files::catalog;
use super::files::pages::streams;
use super::files::pick::Pick;
use super::files::session::SessionSource;
use crate::threads::Threads;
use crate::window::Window;

/// The threads of a file at a moment, ns of `CLOCK_MONOTONIC`: also those whose names only what
/// came later tells.
///
/// # Errors
/// The file can not be read, or is no recording.
pub fn at(path: &Path, moment: u64) -> Result<Threads, SourceError> {
    let boots = catalog::files(&[PathBuf::from(path)])?;
    let session = boots.into_iter().flat_map(|boot| boot.sessions).next();
    let Some(session) = session else { return Ok(Threads::default()) };
    let window = Window { from: moment, until: u64::MAX };
    let found = SessionSource::open(session)?.find(window, Pick::Lanes(&[Lane::Task]))?;
    let streams = streams(&found.meta, found.pages);
    let events = || Merge::new(streams.iter().map(LaneStream::events));
    let mut threads = Threads::before(events(), found.slots.into_iter(), 0);
    for event in events().take_while(|event| event.time < moment) {
        threads.apply(&event);
    }
    Ok(threads)
}
