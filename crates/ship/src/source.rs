//! What there is to be shipped in the state directory of flightd: its snapshots, and its sums.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flightrec_store::{StoreError, read_header, snapshots};
use flightrec_sums::dir;
use flightrec_sums::file::SumsFile;

use crate::hour::Hour;

/// A snapshot, by its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The file's size.
    pub bytes: u64,
    /// When the file was changed last, ns since 1970.
    pub modified: i64,
}

/// What a snapshot says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The recording.
    pub session: u64,
    /// What made flightd take it.
    pub cause: String,
    /// The moment that it is about, ns since 1970.
    pub wall: i64,
    /// Start of its window.
    pub since: i64,
    /// End of its window.
    pub until: i64,
}

/// The snapshots, newest first.
///
/// # Errors
/// The directory can't be read.
pub fn snapshots(state_dir: &Path) -> Result<Vec<Snapshot>, StoreError> {
    let found = snapshots::list(&snapshots::directory(state_dir))?;
    let snapshot = |of: snapshots::Entry| Snapshot {
        id: of.id,
        path: of.path,
        bytes: of.bytes,
        modified: of.modified,
    };
    Ok(found.into_iter().map(snapshot).collect())
}

/// What a snapshot says of itself; `None`: it is none, or is damaged there.
///
/// # Errors
/// The file can't be read.
pub fn about(snapshot: &Snapshot) -> Result<Option<About>, StoreError> {
    let session = read_header(&snapshot.path)?.session;
    let Some(about) = snapshots::about(&snapshot.path)? else { return Ok(None) };
    let wall =
        |mono: u64| about.wall.saturating_add((mono as i64).saturating_sub(about.time as i64));
    Ok(Some(About {
        session,
        wall: about.wall,
        since: wall(about.from),
        until: wall(about.until),
        cause: about.cause,
    }))
}

/// For how many ns of each hour from `since` to `until` (ns since 1970) there are sums, by the
/// headers of their blocks. Files that can't be read are left out: reading them tells.
///
/// # Errors
/// The directory can't be read.
pub fn hours(state_dir: &Path, (since, until): (i64, i64)) -> std::io::Result<BTreeMap<Hour, u64>> {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for info in dir::files(state_dir)? {
        let Ok(file) = SumsFile::open(&info.path) else { continue };
        let within = file.blocks().map(|of| (of.wall.max(since), of.wall_until.min(until)));
        spans.extend(within.filter(|(from, until)| from < until));
    }
    Ok(covered(spans))
}

/// How much of each hour spans cover, those that overlap counted once.
fn covered(mut spans: Vec<(i64, i64)>) -> BTreeMap<Hour, u64> {
    spans.sort_unstable();
    let mut hours = BTreeMap::new();
    let mut reached = i64::MIN;
    for (from, until) in spans {
        let mut from = from.max(reached);
        reached = reached.max(until);
        while from < until {
            let hour = Hour::of(from);
            let end = until.min(hour.end());
            *hours.entry(hour).or_insert(0) += end.abs_diff(from);
            from = end;
        }
    }
    hours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hour::NS;

    #[test]
    fn hours_of_spans() {
        let spans = vec![(NS / 2, 2 * NS + 7), (0, 10), (5, 12), (NS, NS + 5)];
        let hours = covered(spans);
        let expected = [(0, 12 + NS / 2), (1, NS), (2, 7)];
        let expected = expected.map(|(hour, ns)| (Hour::of(hour * NS), ns as u64));
        assert_eq!(hours, BTreeMap::from(expected));
        assert_eq!(covered(Vec::new()), BTreeMap::new());
    }

    #[test]
    fn nothing_is_there_where_nothing_was_recorded() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(snapshots(dir.path()).unwrap(), []);
        assert_eq!(hours(dir.path(), (0, i64::MAX)).unwrap(), BTreeMap::new());
    }
}
