//! The file of an hour: the sums of its minutes.

use std::path::Path;

use flightrec_export::ExportError;
use flightrec_export::parquet::write_sums;

use super::MakeError;
use crate::config::Config;
use crate::files::is_full;
use crate::hour::{Hour, NS};
use crate::journal::Item;
use crate::layout::Layout;
use crate::spool::{Manifest, Object};

/// The file, as it is made.
const FILE: &str = "sums.parquet";
/// How much of an hour may lack sums that is none the less whole: periods are measured by another
/// clock.
const SLACK: u64 = 1_000_000_000;

/// Makes it in a directory that is there. `item`: what the journal has of it.
///
/// # Errors
/// See [`MakeError`].
pub fn make(
    hour: Hour,
    item: &Item,
    config: &Config,
    layout: &Layout,
    dir: &Path,
) -> Result<Manifest, MakeError> {
    let window = (hour.start(), hour.end());
    let made = write_sums(dir, &config.ship.state_dir, window, &config.redact()).map_err(of)?;
    let mut item = item.clone();
    (item.since, item.until) = window;
    (item.periods, item.missing) = (made.periods, made.missing);
    let is_whole = made.covered.saturating_add(SLACK) >= NS as u64;
    item.complete = Some(made.complete && is_whole && made.damage.is_empty());
    item.why = made.damage.first().cloned().unwrap_or_default();
    if made.periods == 0 {
        // Periods that begin before it reach into it.
        return Ok(Manifest { item, objects: Vec::new() });
    }
    let bytes = dir.join(FILE).metadata().map_err(crate::files::FileError::of(dir))?.len();
    (item.objects, item.bytes) = (1, bytes);
    let name = layout.hourly("sums", hour).to_string();
    Ok(Manifest { item, objects: vec![Object { name, file: FILE.to_owned(), bytes }] })
}

fn of(error: ExportError) -> MakeError {
    let text = error.to_string();
    match error {
        ExportError::Io { source, .. } if is_full(&source) => MakeError::Full(text),
        _ => MakeError::Broken(text),
    }
}
