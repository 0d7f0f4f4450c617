//! Sums of hours, shipped into a directory: limits, hours that grow, and what is told.

use std::fs;

use flightrec_tests::shipping::{objects, write_minutes};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use tempfile::TempDir;

use super::*;
use crate::config::Size;
use crate::hour::Hour;

/// A state directory of flightd, one of flight-ship, and a storage.
struct Place {
    dir: TempDir,
    config: Config,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.ship.to = dir.path().join("lake").to_string_lossy().into_owned();
        config.ship.host = "web1".into();
        config.ship.state_dir = dir.path().join("state");
        config.ship.interval = "100ms".parse().unwrap();
        config.sums.settle = "0s".parse().unwrap();
        config.limits.bandwidth = Size::new(0);
        fs::create_dir(dir.path().join("state")).unwrap();
        Self { dir, config }
    }

    /// Sums of so many minutes from `hours` hours ago and some minutes on.
    fn minutes(&self, number: u32, hours: i64, (first, minutes): (i64, u64)) {
        let wall = Hour::of(now()).before(hours).start() + first * 60_000_000_000;
        write_minutes(&self.config.ship.state_dir, number, wall, minutes).unwrap();
    }

    /// Ships what is there.
    async fn ship(&self) -> Outcome {
        let own = self.dir.path().join("own");
        Service::open(self.config.clone(), &own, true).unwrap().run().await
    }

    /// Rows of all objects of a table, as text.
    fn rows(&self, table: &str) -> Vec<String> {
        let all = objects(&self.dir.path().join("lake")).unwrap();
        let of_table =
            all.into_iter().filter(|(name, _)| name.contains(&format!("table={table}/")));
        let mut rows = Vec::new();
        for (_, bytes) in of_table {
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
            rows.extend(reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()));
        }
        rows
    }
}

fn with<'a>(rows: &'a [String], text: &str) -> Vec<&'a String> {
    rows.iter().filter(|row| row.contains(text)).collect()
}

#[tokio::test]
async fn an_hour_that_grows_is_shipped_again_as_a_whole() {
    let place = Place::new();
    place.minutes(1, 2, (0, 30));
    assert_eq!(place.ship().await, Outcome::Shipped);
    assert_eq!(with(&place.rows("sums"), "what: \"period\"").len(), 30);
    let told = place.rows("shipped");
    assert_eq!(with(&told, "complete: false").len(), 1, "{told:?}");
    assert_eq!(with(&told, "periods: 30").len(), 1, "{told:?}");
    // Nothing new: nothing is sent.
    let sent =
        || crate::ledger::Ledger::open(&place.dir.path().join("own"), 0).unwrap().numbers().bytes;
    let before = sent();
    assert_eq!(place.ship().await, Outcome::Shipped);
    assert_eq!(sent(), before);
    place.minutes(2, 2, (30, 60));
    assert_eq!(place.ship().await, Outcome::Shipped);
    let periods = place.rows("sums");
    // The next hour has the others; each is there once.
    assert_eq!(with(&periods, "what: \"period\"").len(), 90);
    let told = place.rows("shipped");
    assert_eq!(with(&told, "periods: 60").len(), 1, "{told:?}");
    assert_eq!(with(&told, "complete: true").len(), 1, "{told:?}");
    assert!(sent() > before);
}

#[tokio::test]
async fn hours_without_sums_are_told() {
    let place = Place::new();
    let own = place.dir.path().join("own");
    fs::create_dir(&own).unwrap();
    let begun = Hour::of(now()).before(4).start();
    crate::ledger::Ledger::open(&own, begun).unwrap();
    place.minutes(1, 3, (0, 60));
    assert_eq!(place.ship().await, Outcome::Shipped);
    let told = place.rows("shipped");
    assert_eq!(with(&told, "state: \"shipped\"").len(), 1, "{told:?}");
    let absent = with(&told, "state: \"absent\"");
    assert_eq!(absent.len(), 3, "{told:?}");
    assert!(absent.iter().all(|row| row.contains("there are no sums of this hour")), "{told:?}");
}

#[tokio::test]
async fn a_day_has_its_limit_and_what_waits_is_told() {
    let mut place = Place::new();
    place.minutes(1, 5, (0, 240));
    place.ship().await;
    let whole = objects(&place.dir.path().join("lake")).unwrap();
    let largest = whole.iter().filter(|(name, _)| name.contains("table=sums"));
    let largest = largest.map(|(_, bytes)| bytes.len() as u64).max().unwrap();
    let mut place2 = Place::new();
    place2.minutes(1, 5, (0, 240));
    std::mem::swap(&mut place, &mut place2);
    // Two hours fit, with the tables of what there is, which are sent in any case.
    place.config.limits.per_day = Size::new(2 * largest + 10);
    assert_eq!(place.ship().await, Outcome::Left);
    let told = place.rows("shipped");
    assert_eq!(with(&told, "state: \"shipped\"").len(), 2, "{told:?}");
    assert_eq!(with(&told, "state: \"waiting\"").len(), 2, "{told:?}");
    assert_eq!(with(&place.rows("sums"), "what: \"period\"").len(), 120);
    // On another day, or with another limit, the rest goes.
    place.config.limits.per_day = Size::new(0);
    assert_eq!(place.ship().await, Outcome::Shipped);
    let names = |of: &TempDir| {
        let all = objects(&of.path().join("lake")).unwrap();
        all.into_iter().filter(|(name, _)| name.contains("table=sums")).collect::<Vec<_>>()
    };
    assert_eq!(names(&place.dir), names(&place2.dir));
    assert_eq!(with(&place.rows("shipped"), "state: \"shipped\"").len(), 4);
}

#[tokio::test]
async fn what_is_larger_than_the_spool_is_told() {
    let mut place = Place::new();
    place.minutes(1, 3, (0, 60));
    place.config.limits.spool = Size::new(100);
    assert_eq!(place.ship().await, Outcome::Lacking);
    let told = place.rows("shipped");
    assert_eq!(with(&told, "state: \"dropped\"").len(), 1, "{told:?}");
    assert_eq!(with(&told, "and [limits] spool allows 100").len(), 1, "{told:?}");
    assert_eq!(place.rows("sums"), [""; 0]);
}

#[tokio::test]
async fn one_service_has_a_state_directory() {
    let place = Place::new();
    let own = place.dir.path().join("own");
    let service = Service::open(place.config.clone(), &own, true).unwrap();
    assert!(is_running(&own));
    let another = Service::open(place.config.clone(), &own, true).err().unwrap();
    assert!(matches!(another, StartError::Running(_)), "{another}");
    drop(service);
    assert!(!is_running(&own));
    let nowhere = Service::open(Config::default(), &own, true).err().unwrap();
    assert!(nowhere.to_string().contains("[ship] to names no storage"), "{nowhere}");
}
