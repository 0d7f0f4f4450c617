//! Sums in files: what is written is read again, damage is told, limits are kept.

mod support;

use std::fs;
use std::path::Path;

use flightrec_sums::dir;
use flightrec_sums::file::{SumsFile, block};
use flightrec_sums::history;
use flightrec_sums::keeper::{Keeper, Limits, STEPS};
use flightrec_sums::model::{Cell, Group, Period, Table, bucket, flags};
use flightrec_sums::{codec, model};
use proptest::prelude::*;

use support::{BOOT, MINUTE, SESSION, WALL, day, minute};

const ALL: (i64, i64) = (i64::MIN, i64::MAX);

fn read(dir: &Path) -> (Vec<Period>, Vec<String>) {
    let mut periods = Vec::new();
    let damage = history::read(
        dir,
        ALL,
        |_| true,
        |dated| {
            assert_eq!((dated.boot, dated.session), (BOOT, SESSION));
            periods.push(dated.period);
        },
    );
    (periods, damage.unwrap())
}

fn written(dir: &Path, periods: &[Period], limits: Limits) {
    let mut keeper = Keeper::open(dir, limits, None).unwrap();
    for period in periods {
        keeper.add(BOOT, SESSION, period.clone()).unwrap();
    }
    keeper.flush().unwrap();
}

const ROOMY: Limits = Limits { max_size: 50_000_000, keep: None };

#[test]
fn what_is_written_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let periods: Vec<Period> = (0..40).map(|at| minute(at, 5)).collect();
    written(dir.path(), &periods[..20], ROOMY);
    // Another one goes on where the first one ended.
    let keeper = Keeper::open(dir.path(), ROOMY, None).unwrap();
    assert_eq!(keeper.reached(BOOT, SESSION), Some(periods[19].until));
    assert_eq!(keeper.reached(BOOT, SESSION + 1), None);
    drop(keeper);
    written(dir.path(), &periods[20..], ROOMY);
    assert_eq!(read(dir.path()), (periods, Vec::new()));
}

/// The service may not change the group of anything, and has the right one already.
#[test]
fn who_may_not_give_files_to_a_group_keeps_them() {
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    let periods: Vec<Period> = (0..10).map(|at| minute(at, 2)).collect();
    // Only this thread is another user (setfsuid(2)), who has none of root's rights to files.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if nix::unistd::geteuid().is_root() {
                std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            nix::unistd::setfsuid(NOBODY.into());
            let mut keeper = Keeper::open(dir.path(), ROOMY, Some(NOBODY - 7)).unwrap();
            for period in &periods {
                keeper.add(BOOT, SESSION, period.clone()).unwrap();
            }
            keeper.flush().unwrap();
        });
    });
    assert_eq!(read(dir.path()), (periods, Vec::new()));
}

/// An attempt that failed half-way is made again: what stands there twice counts once.
#[test]
fn what_is_there_twice_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let periods: Vec<Period> = (0..10).map(|at| minute(at, 2)).collect();
    written(dir.path(), &periods[..8], ROOMY);
    written(dir.path(), &periods[4..], ROOMY);
    assert_eq!(read(dir.path()).0, periods);
}

#[test]
fn damage_costs_its_block_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let periods: Vec<Period> = (0..45).map(|at| minute(at, 1)).collect();
    written(dir.path(), &periods, ROOMY);
    let path = dir::files(dir.path()).unwrap()[0].path.clone();
    let good = fs::read(&path).unwrap();
    let blocks = SumsFile::open(&path).unwrap().blocks().len();
    assert_eq!(blocks, 3);
    let mut told = 0;
    for at in (0..good.len()).step_by(61) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        fs::write(&path, &bad).unwrap();
        let (found, damage) = read(dir.path());
        // Never a period that was not written, and at most one block less; all where the header
        // of the file is damaged.
        assert!(found.iter().all(|period| periods.contains(period)), "byte {at}");
        if at >= 56 {
            assert!(found.len() >= 30, "byte {at}: {} periods", found.len());
        }
        assert_eq!(found.len() == 45, damage.is_empty(), "byte {at}: {damage:?}");
        told += usize::from(!damage.is_empty());
    }
    assert!(told > good.len() / 61 * 9 / 10, "of {} damages {told} were told", good.len() / 61);
    for length in (0..good.len()).step_by(97) {
        fs::write(&path, &good[..length]).unwrap();
        let (found, _) = read(dir.path());
        assert_eq!(found, periods[..found.len()], "cut at {length}");
    }
}

/// Thirty days of a machine of 100 units, by a clock: see `support`.
#[test]
#[ignore = "long: 43,200 minutes of 100 units"]
fn thirty_days_of_100_units_in_50_mb() {
    let dir = tempfile::tempdir().unwrap();
    // In a debug build two days, in a part of the room.
    let (days, max_size) = if cfg!(debug_assertions) { (1, 4_000_000) } else { (33, 50_000_000) };
    let limits = Limits { max_size, keep: Some(30 * 86_400_000_000_000) };
    let mut keeper = Keeper::open(dir.path(), limits, None).unwrap();
    let (mut all, mut most) = (Cell::default(), 0);
    for day_at in 0..days {
        for period in day(day_at) {
            for (group, cell) in &period.rows {
                if group.table == Table::Calls {
                    all.merge(cell);
                }
            }
            keeper.add(BOOT, SESSION, period).unwrap();
            most = most.max(keeper.bytes());
        }
    }
    keeper.flush().unwrap();
    let on_disk: u64 = dir::files(dir.path()).unwrap().iter().map(|file| file.bytes).sum();
    assert_eq!(on_disk, keeper.bytes());
    assert!(most <= limits.max_size, "{most} bytes at a time");
    let (mut steps, mut first, mut last, mut until) = ([0u64; 3], i64::MAX, 0, 0);
    let mut left = Cell::default();
    let damage = history::read(
        dir.path(),
        ALL,
        |_| true,
        |dated| {
            let period = dated.period;
            // Nothing between: each period begins where the one before ends.
            assert!(until == 0 || period.from == until, "a hole at {until}");
            until = period.until;
            let length = (period.until - period.from) / 1_000_000_000;
            let at = STEPS.iter().rposition(|step| u64::from(*step) <= length).unwrap();
            steps[at] += period.until - period.from;
            (first, last) = (first.min(period.wall), period.wall_until());
            for (group, cell) in &period.rows {
                if group.table == Table::Calls {
                    left.merge(cell);
                }
            }
        },
    );
    assert_eq!(damage.unwrap(), Vec::<String>::new());
    let hours = steps.map(|ns| ns / 3_600_000_000_000);
    println!(
        "{days} days of 100 units: {most} bytes at most, {on_disk} in the end; by the minute {} h, \
         by 10 minutes {} h, by the hour {} h",
        hours[0], hours[1], hours[2]
    );
    let least = if days == 33 { 24 } else { 2 };
    assert!(hours[0] >= least, "{} h by the minute", hours[0]);
    let kept = (last - first) / 86_400_000_000_000;
    if days == 33 {
        // A file is deleted as a whole, so the oldest may be up to a file's length older.
        assert!((30..=31).contains(&kept), "{kept} days");
    } else {
        // Nothing was deleted, so joining has lost nothing.
        assert!(left == all, "{} calls of {}", left.count, all.count);
    }
}

#[test]
fn joined_periods_keep_their_sums_and_their_marks() {
    let dir = tempfile::tempdir().unwrap();
    let mut periods: Vec<Period> = (0..300).map(|at| minute(at, 30)).collect();
    periods[7].flags = flags::LOST;
    periods[7].lost[1] = 3;
    let mut whole = Period::default();
    for period in &periods {
        whole.join(period.clone());
    }
    written(dir.path(), &periods, Limits { max_size: 800_000, keep: None });
    let (found, _) = read(dir.path());
    assert!(found.len() < periods.len() && found.iter().any(|of| of.until - of.from > MINUTE));
    let mut joined = Period::default();
    for period in &found {
        joined.join(period.clone());
    }
    assert!(joined == whole, "joining changed the sums");
    let first = &found[0];
    assert_eq!((first.flags, first.lost[1]), (flags::LOST, 3));
    // None goes over the end of an hour.
    let hour = |wall: i64| wall.div_euclid(60 * MINUTE as i64);
    assert!(found.iter().all(|of| hour(of.wall) == hour(of.wall_until() - 1)));
}

#[test]
fn files_that_are_something_else_are_told_or_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read(dir.path()), (Vec::new(), Vec::new()));
    written(dir.path(), &[minute(0, 2)], ROOMY);
    let sums = dir::directory(dir.path());
    fs::write(sums.join("notes.txt"), "x").unwrap();
    fs::write(sums.join("20260101T000000Z-00000009.sums"), "no sums").unwrap();
    let (found, damage) = read(dir.path());
    assert_eq!(found.len(), 1);
    assert!(damage.len() == 1 && damage[0].contains("no file of sums"), "{damage:?}");
    // A later format is refused by name.
    let path = dir::files(dir.path()).unwrap()[0].path.clone();
    let mut bytes = fs::read(&path).unwrap();
    bytes[16] = 2;
    let crc = crc32fast::hash(&bytes[8..52]).to_le_bytes();
    bytes[52..56].copy_from_slice(&crc);
    fs::write(&path, bytes).unwrap();
    let damage = read(dir.path()).1;
    assert!(damage[0].contains("version 2"), "{damage:?}");
}

/// The bytes of a block never change: files are kept for a month, and over upgrades.
#[test]
fn golden() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1.sums");
    let mut periods = vec![minute(0, 3), minute(1, 3)];
    periods[1].flags = flags::LOST | flags::PART;
    periods[1].lost = [1, 2, 0, 300];
    periods[1].unknown_ns = 5_000_000_000;
    if std::env::var_os("BLESS").is_some() {
        let header = flightrec_sums::file::Header { number: 7, step: 60, created: WALL };
        let mut bytes = header.encode();
        bytes.extend(block(BOOT, SESSION, &periods).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let file = SumsFile::open(&path).unwrap();
    assert_eq!((file.header.number, file.header.step, file.header.created), (7, 60, WALL));
    assert_eq!(file.periods(0).as_ref(), Some(&periods));
    assert_eq!(file.blocks().next().unwrap().wall, periods[0].wall);
    // What is compressed may differ with zstd's version; what is inside does not.
    assert_eq!(codec::decode(&codec::encode(&periods)).as_ref(), Ok(&periods));
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let values = prop::collection::vec(any::<u64>(), 0..20);
    (values, any::<[u64; 5]>()).prop_map(|(values, extras)| {
        let mut cell = Cell { extras, ..Cell::default() };
        for value in values {
            cell.add(value);
        }
        cell
    })
}

fn any_period() -> impl Strategy<Value = Period> {
    let word = || prop::collection::vec(any::<u8>(), 0..9);
    let row = ((0u8..7), word(), word(), word(), any_cell());
    let rows = prop::collection::vec(row, 0..12);
    (0u64..1 << 62, 0u64..1 << 62, any::<i64>(), any::<u32>(), any::<[u64; 4]>(), rows).prop_map(
        |(from, length, wall, flags, lost, rows)| {
            let rows = rows.into_iter().map(|(table, a, b, c, cell)| {
                (Group::new(Table::of(table).unwrap(), [&*a, &*b, &*c]), cell)
            });
            Period {
                from,
                until: from + length,
                wall,
                flags,
                lost,
                unknown_ns: length / 2,
                rows: rows.collect(),
            }
        },
    )
}

proptest! {
    #[test]
    fn any_periods_come_back(periods in prop::collection::vec(any_period(), 0..8)) {
        prop_assert_eq!(codec::decode(&codec::encode(&periods)), Ok(periods));
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = codec::decode(&bytes);
    }

    /// A percentile of a sum is in the bucket, between two powers of two, of the events' own.
    #[test]
    fn percentiles_are_within_a_bucket(
        mut values in prop::collection::vec(0u64..1 << 50, 1..400), percent in 1u8..=100,
        cuts in prop::collection::vec(0usize..400, 0..5)
    ) {
        let mut cells = vec![Cell::default(); 6];
        for (at, value) in values.iter().enumerate() {
            let cell = cuts.iter().filter(|cut| **cut <= at).count();
            cells[cell].add(*value);
        }
        let mut all = Cell::default();
        for cell in &cells { all.merge(cell); }
        let sum = all.to_sum();
        prop_assert_eq!(sum.values.sum(), values.iter().sum::<u64>());
        prop_assert_eq!(sum.values.max(), values.iter().copied().max().unwrap());
        values.sort_unstable();
        let exact = values[(values.len() * usize::from(percent)).div_ceil(100) - 1];
        let told = sum.values.percentile(percent).unwrap();
        prop_assert_eq!(bucket(told), bucket(exact), "{} for {}", told, exact);
    }
}

#[test]
fn too_many_groups_are_others() {
    let mut period = Period::default();
    for at in 0..model::ROWS_MAX + 10 {
        let unit = format!("unit-{at}.service");
        period.cell(Group::new(Table::Calls, [unit.as_bytes(), b"read", b""])).add(1);
    }
    let total: u64 = period.rows.values().map(|cell| cell.count).sum();
    assert_eq!(total, model::ROWS_MAX as u64 + 10);
    assert_eq!(period.rows.len(), model::ROWS_MAX + 1);
    assert!(period.flags & flags::CROWDED != 0);
}
