//! Windows within a stretch in which nothing was recorded.

use std::process::Output;

use flightrec_format::abi::page::{Lane, Refusal};
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, WALL, dump, flightctl, meta, stderr, stdout};
use crate::disk::{Disk, calls};

/// Half seconds in which CPU 0 refuses all calls.
const REFUSED: std::ops::Range<u64> = 8..24;
/// Calls that each of them refuses.
const EACH: u64 = 100_000;

/// 15 s of calls, none of which is recorded for 8 s in the middle.
fn recorded(dir: Option<&TempDir>) -> Recording {
    let mut recording = Recording::new();
    let mut disk = dir.map(|dir| Disk::new(dir.path(), meta(), WALL, 3));
    let mut time = NOW - 15 * SECOND;
    for half in 0..30 {
        if REFUSED.contains(&half) {
            (0..EACH).for_each(|_| recording.ring(Lane::Syscall, 0).refuse(Refusal::Throttled));
            time += SECOND / 2;
        } else {
            time = calls(&mut recording, time, half * 500..half * 500 + 500);
        }
        if let Some(disk) = &mut disk {
            disk.drain(&mut recording, time);
        }
    }
    if let Some(disk) = disk {
        disk.close(&mut recording, time);
    }
    recording
}

/// Half a second in the middle of the stretch.
const WINDOW: [&str; 4] =
    ["--since", "2026-01-01T00:01:52.6Z", "--until", "2026-01-01T00:01:53.1Z"];

/// What a dump says of its gaps, and of what was refused in all.
fn told(out: &Output) -> (Vec<String>, Vec<String>) {
    let text = stderr(out);
    let of =
        |word: &str| text.lines().filter(|line| line.contains(word)).map(str::to_owned).collect();
    assert!(!text.contains("overwritten") && text.contains("INCOMPLETE"), "{text}");
    (of("gap: "), of("refused by the budget"))
}

#[test]
fn the_rings_tell_the_stretch_and_that_its_count_is_a_bound() {
    let daemon = recorded(None).serve();
    let (gaps, refused) = told(&dump(daemon.path(), &WINDOW));
    let n = EACH * REFUSED.count() as u64;
    let all = format!("{n} events refused ({n} throttled); at most that many are in the window");
    assert!(
        gaps.len() == 1
            && gaps[0].starts_with("gap: CPU 0, lane syscall, ")
            && gaps[0].ends_with(&all),
        "{gaps:?}"
    );
    assert_eq!(refused, [format!("at most {n} events refused by the budget ({n} syscall)")]);
    let json = stdout(&dump(daemon.path(), &[&["--format", "jsonl"], &WINDOW[..]].concat()));
    let coverage = &crate::json::valid(&json)[0];
    let gap = &coverage["gaps"][0];
    assert_eq!((&gap["beyond"], &gap["refused"]["throttled"]), (&true.into(), &n.into()), "{gap}");
    // The whole of it is known exactly.
    let (_, refused) = told(&dump(daemon.path(), &["--all"]));
    assert_eq!(refused, [format!("{n} events refused by the budget ({n} syscall)")]);
}

#[test]
fn files_tell_it_from_checkpoint_to_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let _rings = recorded(Some(&dir));
    let out =
        flightctl(&[&["dump", "--store", dir.path().to_str().unwrap()], &WINDOW[..]].concat());
    let (gaps, refused) = told(&out);
    // A checkpoint each half second.
    let n = 2 * EACH;
    assert_eq!(
        refused,
        [format!("at most {n} events refused by the budget ({n} syscall)")],
        "{gaps:?}"
    );
    assert!(gaps.len() == 1 && gaps[0].contains(" (1.0 s): "), "{gaps:?}");
}

/// The gaps of a saved window are those of the files that it is saved of.
#[test]
fn a_saved_file_tells_it_from_checkpoint_to_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let _rings = recorded(Some(&dir));
    let store = ["--store", dir.path().to_str().unwrap()];
    let out = tempfile::tempdir().unwrap();
    let of_files = told(&flightctl(&[&["dump"], &store[..], &WINDOW].concat()));
    let around = ["--since", "2026-01-01T00:01:47Z", "--until", "2026-01-01T00:01:58Z"];
    for (name, window) in [("all", &["--all"][..]), ("around", &around)] {
        let file = out.path().join(name);
        let file = file.to_str().unwrap();
        let saved = flightctl(&[&["save", "-o", file], &store[..], window].concat());
        assert!(saved.status.success(), "{}", stderr(&saved));
        let of_file = told(&flightctl(&[&["dump", "--file", file], &WINDOW[..]].concat()));
        assert_eq!(of_file, of_files, "{name}");
        // So are those at the edges of the saved window.
        let of_files = told(&flightctl(&[&["dump"], &store[..], window].concat()));
        let of_file = told(&flightctl(&[&["dump", "--file", file], window].concat()));
        assert_eq!(of_file, of_files, "{name}");
    }
}
