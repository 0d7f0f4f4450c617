//! What is compacted is what was shipped: whoever is killed, late, or wrong.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flightrec_export::parquet::write_sums;
use flightrec_export::redact::Redact;
use flightrec_tests::shipping::{objects, write_minutes};
use parquet::data_type::Int64Type;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor as _;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use super::*;
use crate::config::{self, Target};
use crate::journal::{Item, Items, State};
use crate::layout::Layout;
use crate::told;

/// A storage of a directory, and what hosts ship into it.
struct Lake {
    dir: TempDir,
    hour: Hour,
}

impl Lake {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), hour: "2026-11-25T07".parse().unwrap() }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("lake")
    }

    fn compactor(&self, part_bytes: u64) -> Compactor {
        let own = TempDir::new_in(self.dir.path()).unwrap().keep();
        let target = Target::Directory(self.root());
        let storage = Storage::open(target, &config::Storage::default()).unwrap();
        Compactor::new(storage, "", own, part_bytes)
    }

    /// A host ships so many minutes of the hour.
    fn ship(&self, host: &str, minutes: u64) {
        let state = TempDir::new().unwrap();
        write_minutes(state.path(), 1, self.hour.start(), minutes).unwrap();
        let made = TempDir::new().unwrap();
        let window = (self.hour.start(), self.hour.end());
        let told = write_sums(made.path(), state.path(), window, &Redact::default()).unwrap();
        let complete = told.complete && minutes == 60;
        self.put(host, "sums", fs::read(made.path().join("sums.parquet")).unwrap());
        let item = Item {
            state: State::Shipped,
            complete: Some(complete),
            since: window.0,
            until: window.1,
            periods: told.periods,
            ..Item::default()
        };
        let items = Items { sums: Some(item), ..Items::default() };
        let rows = told::rows(self.hour, &items, &Redact::default());
        self.put(host, "shipped", told::file(&rows).unwrap());
    }

    fn path(&self, host: &str, table: &str) -> PathBuf {
        let name = Layout::new("", host, "00aa00bb").hourly(table, self.hour);
        self.root().join(name.as_ref())
    }

    fn put(&self, host: &str, table: &str, bytes: Vec<u8>) {
        let path = self.path(host, table);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn compacted(&self) -> BTreeMap<String, Vec<u8>> {
        objects(&self.root().join("schema=1/compact")).unwrap()
    }

    /// The rows of a table, without what tells the host, by host; as they are compacted.
    fn rows(&self, table: &str) -> BTreeMap<String, Vec<String>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let part = format!("table={table}/");
        let files = self.compacted().into_iter().filter(|(name, _)| name.starts_with(&part));
        for (_, bytes) in files {
            let file = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
            for row in file.get_row_iter(None).unwrap() {
                let row = row.unwrap();
                let host = row.get_string(0).unwrap().clone();
                let text = row.to_string();
                let rest = text.split_once("machine: \"00aa00bb\", ").unwrap().1.to_owned();
                all.entry(host).or_default().push(rest);
            }
        }
        for rows in all.values_mut() {
            rows.sort();
        }
        all
    }

    /// The same, as a host shipped them.
    fn shipped(&self, host: &str, table: &str) -> Vec<String> {
        let file = SerializedFileReader::new(File::open(self.path(host, table)).unwrap()).unwrap();
        let rows = file.get_row_iter(None).unwrap();
        let mut rows: Vec<String> =
            rows.map(|row| row.unwrap().to_string().trim_start_matches('{').to_owned()).collect();
        rows.sort();
        rows
    }
}

fn compacted(outcome: Outcome) -> Done {
    let Outcome::Compacted(done) = outcome else { panic!("{outcome:?}") };
    done
}

#[tokio::test]
async fn the_rows_are_those_that_were_shipped() {
    let lake = Lake::new();
    let hosts = ["db1", "web1", "web2", "web3", "web4"];
    for host in &hosts {
        lake.ship(host, 60);
    }
    lake.ship("web2", 17);
    // Parts that hold a host or two.
    let one = fs::metadata(lake.path("web1", "sums")).unwrap().len();
    let done = compacted(lake.compactor(2 * one).hour(lake.hour, false).await.unwrap());
    assert_eq!((done.hosts, done.inputs, done.parts), (5, 10, 3), "{done:?}");
    for table in ["sums", "shipped"] {
        let rows = lake.rows(table);
        assert_eq!(rows.keys().map(String::as_str).collect::<Vec<_>>(), hosts);
        for host in hosts {
            assert_eq!(rows[host], lake.shipped(host, table), "{table} of {host}");
        }
    }
    // What `write_minutes` makes, added up by hand: 60 minutes of 1 to 5 calls of 1 µs, 2 µs…
    let hours = lake.rows("hours");
    let fsync = hours["web1"].iter().find(|row| row.contains("call: \"fsync\"")).unwrap();
    for part in [
        "complete: true",
        "unit: \"a.service\"",
        "count: 180",
        "sum: 420000",
        "max: 5000",
        "p50_below: 2048",
        "p99_below: 8192",
        "periods: 60",
    ] {
        assert!(fsync.contains(part), "{part}: {fsync}");
    }
    let period = hours["web2"].iter().find(|row| row.contains("what: \"period\"")).unwrap();
    for part in ["complete: false", "periods: 17", "covered_ns: 1020000000000", "missing: 0"] {
        assert!(period.contains(part), "{part}: {period}");
    }
    let histograms = lake.rows("histograms");
    let of = |row: &&String| row.contains("call: \"fsync\"") && row.contains("\"a.service\"");
    let buckets: Vec<&String> = histograms["web1"].iter().filter(of).collect();
    assert_eq!(buckets.len(), 4, "{buckets:?}");
    assert!(buckets.iter().any(|row| row.contains("least: 512, below: 1024, n: 60")));
    // Each part's groups of rows tell of one kind.
    for (name, bytes) in lake.compacted().iter().filter(|(name, _)| name.ends_with(".parquet")) {
        let file = SerializedFileReader::new(Bytes::from(bytes.clone())).unwrap();
        for group in file.metadata().row_groups() {
            let column =
                |of: &str| group.columns().iter().find(|c| c.column_path().string() == of).unwrap();
            let Some(Statistics::ByteArray(what)) = column("what").statistics() else {
                panic!("{name}: no statistics")
            };
            assert_eq!(what.min_opt(), what.max_opt(), "{name}");
            assert!(column("host").statistics().is_some());
        }
    }
}

#[tokio::test]
async fn what_is_late_is_added_and_what_is_deleted_stays() {
    let lake = Lake::new();
    let compactor = lake.compactor(1);
    assert_eq!(compactor.hour(lake.hour, false).await.unwrap(), Outcome::Nothing);
    for host in ["a", "b", "c"] {
        lake.ship(host, 60);
    }
    let first = compacted(compactor.hour(lake.hour, false).await.unwrap());
    assert_eq!(first.parts, 999, "one byte a part");
    let before = lake.compacted();
    let again = compactor.hour(lake.hour, false).await.unwrap();
    assert_eq!(again, Outcome::Unchanged(first.clone()));
    // What is asked for in any case is as it was.
    compacted(compactor.hour(lake.hour, true).await.unwrap());
    assert!(lake.compacted() == before);
    // A host ships late; and another one once more.
    lake.ship("d", 60);
    lake.ship("a", 30);
    let late = compacted(compactor.hour(lake.hour, false).await.unwrap());
    assert_eq!((late.hosts, late.parts), (4, 999), "hosts stay in their parts");
    let rows = lake.rows("sums");
    for host in ["a", "b", "c", "d"] {
        assert_eq!(rows[host], lake.shipped(host, "sums"), "{host}");
    }
    // The storage's rules delete what hosts shipped; then one more comes.
    fs::remove_file(lake.path("b", "sums")).unwrap();
    lake.ship("e", 60);
    let closed = compactor.hour(lake.hour, true).await.unwrap();
    assert_eq!(closed, Outcome::Closed(1, late.clone()));
    fs::remove_dir_all(lake.root().join("schema=1/table=sums")).unwrap();
    fs::remove_dir_all(lake.root().join("schema=1/table=shipped")).unwrap();
    assert!(matches!(compactor.hour(lake.hour, false).await, Ok(Outcome::Closed(8, _))));
    assert_eq!(lake.rows("sums"), rows);
}

/// Compacts, and is killed so much later; whether that was before its end.
fn killed(lake: &Lake, part_bytes: u64, wait: Duration) -> bool {
    // What is dropped with it waits for writes of files that are under way, as a kernel does.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let compactor = lake.compactor(part_bytes);
    let hour = compactor.hour(lake.hour, false);
    runtime.block_on(async { tokio::time::timeout(wait, hour).await.is_err() })
}

#[test]
fn killed_at_any_moment_no_host_is_there_twice_or_gone() {
    let lake = Lake::new();
    let end = Duration::from_mins(1);
    let hosts: Vec<String> = (0..6).map(|n| format!("h{n:02}")).collect();
    for host in &hosts {
        lake.ship(host, 60);
    }
    let one = fs::metadata(lake.path("h00", "sums")).unwrap().len();
    assert!(!killed(&lake, 2 * one, end));
    let complete = lake.rows("sums");
    let (mut cut, mut wait) = (0, Duration::from_micros(200));
    // Each time a host ships less, and what compacts is killed a little later.
    for minutes in (1..30).rev() {
        lake.ship("h05", minutes);
        cut += usize::from(killed(&lake, 2 * one, wait));
        wait += wait * 2 / 5;
        let rows = lake.rows("sums");
        for host in &hosts {
            let is_old = rows[host].len() > lake.shipped("h05", "sums").len();
            assert!(host == "h05" && is_old || rows[host] == lake.shipped(host, "sums"), "{host}");
        }
    }
    assert!(cut > 3, "only {cut} were cut off");
    for host in &hosts {
        lake.ship(host, 60);
    }
    assert!(!killed(&lake, 2 * one, end));
    assert!(lake.rows("sums") == complete);
    // Killed before it was written down at all, the number of parts is as it was.
    let before = lake.compacted();
    let note = lake.root().join("schema=1/compact/done/dt=2026-11-25/07.json");
    fs::remove_file(note).unwrap();
    assert!(!killed(&lake, 1, end));
    let after = lake.compacted();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after);
}

#[tokio::test]
async fn what_is_damaged_is_left_out_and_told() {
    let lake = Lake::new();
    for host in ["a", "b", "c"] {
        lake.ship(host, 60);
    }
    let good = fs::read(lake.path("b", "sums")).unwrap();
    let compactor = lake.compactor(PART_BYTES);
    let mut refused = 0;
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        lake.put("b", "sums", bad);
        let done = compacted(compactor.hour(lake.hour, false).await.unwrap());
        let rows = lake.rows("sums");
        assert_eq!(rows["a"], lake.shipped("a", "sums"));
        assert_eq!(rows["c"].len(), rows["a"].len());
        refused += done.refused.len();
        // All of it, or nothing; and then the hour is not whole.
        if done.refused.is_empty() {
            assert_eq!(rows["b"].len(), rows["a"].len());
            continue;
        }
        assert!(!rows.contains_key("b"), "{at}");
        assert!(done.refused[0].name.contains("host=b/"), "{done:?}");
        let hours = lake.rows("hours");
        assert_eq!(hours["b"].len(), 1, "{:?}", hours["b"]);
        for part in ["what: \"period\"", "complete: false", "periods: 0", "missing: null"] {
            assert!(hours["b"][0].contains(part), "{part}: {}", hours["b"][0]);
        }
    }
    assert!(refused > 5, "only {refused} were refused");
    for bad in [Vec::new(), b"PAR1".to_vec(), good[..good.len() / 2].to_vec()] {
        lake.put("b", "sums", bad);
        let done = compacted(compactor.hour(lake.hour, false).await.unwrap());
        assert!(done.refused[0].why.starts_with("it is damaged: "), "{done:?}");
    }
    lake.put("b", "sums", good);
    let done = compacted(compactor.hour(lake.hour, false).await.unwrap());
    assert_eq!(done.refused, []);
}

/// A file of that schema, with a row of zeros.
fn file(message: &str, columns: usize) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for _ in 0..columns {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[0], None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    out
}

#[tokio::test]
async fn another_schema_is_told() {
    let lake = Lake::new();
    lake.ship("a", 60);
    let compactor = lake.compactor(PART_BYTES);
    for (message, columns, why) in [
        (
            "message x { required int64 ts; required int64 ts_ns; }",
            2,
            "it is of another schema: it has no column until_ns",
        ),
        (
            "message x { required int64 ts; required int64 ts_ns; required int64 until_ns;
                required int64 what; }",
            4,
            "it is of another schema: its column what is INT64, not BYTE_ARRAY",
        ),
    ] {
        lake.put("b", "sums", file(message, columns));
        let done = compacted(compactor.hour(lake.hour, false).await.unwrap());
        assert_eq!(done.refused.len(), 1, "{done:?}");
        assert_eq!(done.refused[0].why, why);
    }
    // What is no table of a host is nobody's.
    let other = lake.path("b", "sums").with_file_name("notes.txt");
    fs::write(other, "x").unwrap();
    fs::remove_file(lake.path("b", "sums")).unwrap();
    fs::remove_file(lake.root().join("schema=1/compact/done/dt=2026-11-25/07.json")).unwrap();
    let done = compacted(compactor.hour(lake.hour, false).await.unwrap());
    assert_eq!((done.inputs, done.refused.len()), (2, 0));
}

/// However many hosts there are, no more than so much waits in memory.
#[test]
fn no_more_waits_than_is_allowed() {
    let dir = TempDir::new().unwrap();
    let mut output = output::Output::create(Table::Histograms, &dir.path().join("x"), "").unwrap();
    let (mut most, mut written) = (0, 0_u64);
    for host in 0..3000 {
        for what in ["call", "wait"] {
            let rows = output.rows(what.as_bytes());
            for n in 0..250_i64 {
                rows.word(format!("host-{host:05}").as_bytes()).word(b"00").long(n).long(n);
                rows.word(what.as_bytes()).bool(true).word(format!("unit-{n}").as_bytes());
                rows.text(None).text(None).text(None).text(None);
                rows.long(None).long(n).long(n).long(n);
                written += 1;
            }
        }
        output.settle().unwrap();
        most = most.max(output.waiting_bytes());
    }
    assert!(most < 40 << 20, "{most} bytes waited");
    let done = output.finish().unwrap();
    assert_eq!(done.rows, written);
    assert!((8..100).contains(&done.groups), "{done:?}");
    assert_eq!(done.bytes, fs::metadata(dir.path().join("x")).unwrap().len());
}
