//! Threads that the table has no place for: it is bounded, and a thread has a choice of few places.

use std::collections::BTreeSet;
use std::fs;

use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::live::sys;

use flightrec_format::human::counted;

/// So many are named.
const NAMED: usize = 8;

/// The threads that there are now, but for those that have ended and wait for their parents; `None`
/// where /proc does not tell, or by other ids.
pub fn alive() -> Option<BTreeSet<u32>> {
    sys::is_in_first_pid_namespace().filter(|is_first| *is_first)?;
    let mut alive = BTreeSet::new();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(threads) = fs::read_dir(process.path().join("task")) else { continue };
        for thread in threads.flatten() {
            let tid = thread.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(tid) = tid.filter(|_| !has_ended(&thread.path().join("stat"))) else {
                continue;
            };
            alive.insert(tid);
        }
    }
    Some(alive)
}

/// Whether a thread's line in /proc says that it has ended.
fn has_ended(stat: &std::path::Path) -> bool {
    // The name before the state may have any byte in it.
    let text = fs::read(stat).unwrap_or_default();
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}

/// Those that were alive before the table was read and after that, and are not in it.
pub fn missing(before: &BTreeSet<u32>, table: &[TaskSlot], after: &BTreeSet<u32>) -> Vec<u32> {
    let table: BTreeSet<u32> = table.iter().map(|slot| slot.tid).collect();
    before.intersection(after).filter(|tid| !table.contains(tid)).copied().collect()
}

/// What is said of them; `None`: there are none.
pub fn said(missing: &[u32]) -> Option<String> {
    let first: Vec<String> = missing.iter().take(NAMED).map(u32::to_string).collect();
    let more = if missing.len() > NAMED { ", …" } else { "" };
    let have = if missing.len() == 1 { "has" } else { "have" };
    let threads = counted(missing.len() as u64, "thread");
    (!missing.is_empty()).then(|| {
        let ids = first.join(", ");
        format!(
            "{threads} {have} no place in the thread table ({ids}{more}) and are not shown; raise \
             threads.slots in flightd.toml"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::slots;

    #[test]
    fn only_who_was_there_all_the_time_is_missing() {
        let slot = |tid| TaskSlot { tid, ..slots::parse(&[0; size_of::<TaskSlot>()]) };
        let (before, after) = (BTreeSet::from([1, 2, 3, 4]), BTreeSet::from([2, 3, 4, 5]));
        let missing = missing(&before, &[slot(3)], &after);
        assert_eq!(missing, [2, 4]);
        assert!(said(&missing).is_some_and(|said| said.starts_with(
            "2 threads have no place in \
                                                                    the thread table (2, 4)"
        )));
        assert!(said(&[7]).is_some_and(|said| said.starts_with("1 thread has no place")));
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn this_thread_is_alive() {
        let me = nix::unistd::gettid().as_raw() as u32;
        assert!(alive().is_none_or(|alive| alive.contains(&me)));
    }
}
