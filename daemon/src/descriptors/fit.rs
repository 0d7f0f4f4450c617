//! What of a snapshot there is room for.

use flightrec_format::descriptors::{Snapshot, Table};

/// Descriptors of each table that are tried, the lowest numbers: a machine where one process has
/// very many still has the others' names.
const LIMITS: [usize; 7] = [1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1];

/// The document of as much of the snapshot as fits into `room` bytes; what does not is taken out of
/// it and counted.
pub(super) fn encode(snapshot: &mut Snapshot, room: usize) -> Vec<u8> {
    let whole = snapshot.encode();
    if whole.len() <= room {
        return whole;
    }
    for limit in LIMITS {
        let document = cut(snapshot, |table| table.files.truncate(limit));
        if document.len() <= room {
            return document;
        }
    }
    // One of each is too much.
    loop {
        let half = snapshot.tables.len() / 2;
        snapshot.left_out +=
            snapshot.tables.drain(half..).map(|table| table.files.len() as u64).sum::<u64>();
        let document = cut(snapshot, |_| {});
        if document.len() <= room || half == 0 {
            return document;
        }
    }
}

/// Makes every table shorter, drops the objects that nothing stands for any more, and encodes what
/// is left.
fn cut(snapshot: &mut Snapshot, shorten: impl Fn(&mut Table)) -> Vec<u8> {
    let mut kept = vec![false; snapshot.objects.len()];
    for table in &mut snapshot.tables {
        let before = table.files.len();
        shorten(table);
        snapshot.left_out += (before - table.files.len()) as u64;
        for file in &table.files {
            if let Some(kept) = kept.get_mut(file.object as usize) {
                *kept = true;
            }
        }
    }
    let mut next = 0;
    let numbers: Vec<u32> = kept
        .iter()
        .map(|kept| {
            let number = next;
            next += u32::from(*kept);
            number
        })
        .collect();
    let mut at = kept.iter();
    snapshot.objects.retain(|_| at.next().copied().unwrap_or_default());
    for file in snapshot.tables.iter_mut().flat_map(|table| &mut table.files) {
        file.object = numbers.get(file.object as usize).copied().unwrap_or_default();
    }
    snapshot.encode()
}
