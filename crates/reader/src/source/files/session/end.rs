//! Finds the last moment of a session's files.

use flightrec_store::{FileReader, Kind};

use super::super::FilesError;
use super::SessionSource;

/// Where a session's files end.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// Everything that they hold was recorded before, ns of `CLOCK_MONOTONIC`.
    pub(super) now: u64,
    /// Whether the last was closed in order.
    pub(super) closed: bool,
}

impl SessionSource {
    /// The last moment: of the last file of the series that can be opened, and of those that were
    /// saved beside it.
    pub(super) fn find_end(&mut self) -> Result<End, FilesError> {
        let mut failure = None;
        let mut last: Option<End> = None;
        for index in (0..self.files.len()).rev() {
            let is_saved = self.files.get(index).is_some_and(|open| open.file.is_saved());
            match self.reader(index).map(end_of) {
                Ok(Some(end)) => {
                    last = Some(last.filter(|last| last.now >= end.now).unwrap_or(end));
                    if !is_saved {
                        break;
                    }
                }
                Ok(None) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match (last, failure) {
            (Some(end), _) => Ok(end),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(End { now: self.begins(), closed: false }),
        }
    }
}

/// Where a file ends; `None` where nothing is in it.
fn end_of(reader: &FileReader) -> Option<End> {
    let last_of = |kind: Kind| {
        let of_kind = reader.blocks().iter().filter(move |block| block.header.kind == kind);
        // 0: the writer did not know the counters yet.
        of_kind.map(|block| block.header.last).filter(|time| *time != 0).max()
    };
    // A file that was saved may have no checkpoint but the one before its window; then its window's
    // end is the last moment.
    let mark = last_of(Kind::Checkpoint).max(last_of(Kind::Snapshot));
    let last = reader.blocks().iter().map(|block| block.header.last.saturating_add(1)).max();
    // What came after the last checkpoint of a closed file is only there because its page was.
    let closed = reader.complete();
    let now = if closed { mark.or(last) } else { mark.max(last) };
    now.map(|now| End { now, closed })
}
