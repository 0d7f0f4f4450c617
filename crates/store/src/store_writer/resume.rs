//! Where an earlier writer of the session stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::progress::Progress;
use crate::block::Kind;
use crate::content::Content;
use crate::dir::{FileInfo, Store};
use crate::reader::FileReader;

/// The last checkpoint of a session in the files of a boot, and the file that it is in; nothing
/// where there is none.
pub(super) fn resume(store: &Store, boot: &[u8; 16], session: u64) -> (Progress, Option<PathBuf>) {
    for file in store.files(boot).iter().rev() {
        // What can't be read is passed over: the rings are then read from an earlier place, or
        // whole.
        let Ok(reader) = FileReader::open(&file.path) else { continue };
        if reader.header().session != session {
            continue;
        }
        let last = reader.of(Kind::Checkpoint).rev().find_map(|block| match reader.read(block) {
            Ok(Content::Checkpoint(checkpoint)) => Some(checkpoint),
            _ => None,
        });
        if let Some(checkpoint) = last {
            return (Progress::of(&checkpoint), Some(file.path.clone()));
        }
    }
    (Progress::default(), None)
}

/// When the files of a boot ended at the latest: when the next one was begun, ns of
/// `CLOCK_MONOTONIC`, by number.
pub(super) fn ends(store: &Store, boot: &[u8; 16]) -> BTreeMap<u32, u64> {
    let begun = |file: &FileInfo| Some(FileReader::open(&file.path).ok()?.header().created_mono);
    let files = store.files(boot);
    let next = files.iter().skip(1).map(begun);
    files.iter().zip(next).filter_map(|(file, next)| Some((file.number, next?))).collect()
}
