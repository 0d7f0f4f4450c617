//! `flight-ship compact`: what is compacted is what hosts shipped, in a directory and on a server
//! of S3's protocol, whoever is killed.

use flightrec_tests::Judge;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::LazyLock;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use flightrec_tests::fleet::SUMS_COLUMNS;
use flightrec_tests::shipping::{S3Server, Shipper, objects, write_minutes};
use tempfile::TempDir;

use crate::export::tables;

/// ns of an hour.
const HOUR: i64 = 3_600_000_000_000;
/// Hours that hosts ship.
pub(crate) const HOURS: i64 = 2;
/// Their names.
pub(crate) const HOSTS: [&str; 3] = ["db1", "web1", "web2"];
/// Where compacted tables are.
const COMPACT: &str = "fleet/schema=1/compact/";
/// The start of the first hour, ns since 1970: the same for all hosts.
static FIRST: LazyLock<i64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos() as i64;
    now - now % HOUR - HOURS * HOUR
});

fn exits(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

/// A host that ships its hours of so many minutes once.
pub(crate) fn ship(
    dir: &Path,
    host: &str,
    minutes: u64,
    (to, storage): (&str, &str),
    environment: &[(&str, &str)],
) {
    let state = TempDir::new_in(dir).expect("a directory");
    for hour in 0..HOURS {
        let number = hour as u32 + 1;
        write_minutes(state.path(), number, *FIRST + hour * HOUR, minutes).expect("sums");
    }
    let config = format!(
        "[ship]\nto = {to:?}\nhost = {host:?}\nstate_dir = \"{}\"\n[sums]\nsettle = \"0s\"\n\
         [storage]\n{storage}",
        state.path().display()
    );
    let own = TempDir::new_in(dir).expect("a directory");
    let mut shipper = Shipper::new(own.path(), &config).expect("flight-ship");
    shipper.environment(environment);
    exits(&shipper.run(&["--once"]).expect("flight-ship"), 0);
}

/// What compacts.
pub(crate) fn compactor(dir: &Path, to: &str, storage: &str) -> Shipper {
    let config = format!("[ship]\nto = {to:?}\n[storage]\n{storage}");
    Shipper::new(&dir.join("compactor"), &config).expect("flight-ship")
}

pub(crate) const ARGS: [&str; 3] = ["compact", "--settle", "0s"];

/// The compacted tables, but not what is written down of them: it has times in it.
pub(crate) fn compacted(all: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, usize> {
    let all = all.iter().filter(|(name, _)| name.ends_with(".parquet"));
    all.filter_map(|(name, of)| Some((name.strip_prefix(COMPACT)?.to_owned(), of.len()))).collect()
}

/// How many rows of the minutes are not both in what was shipped and in what is compacted, and how
/// many there are; what the hours come to beside the minutes.
pub(crate) fn compare(lake: &Path) {
    let of = |table: &str| {
        let files = lake.join(format!("fleet/schema=1/{table}/**/*.parquet"));
        format!("read_parquet('{}', hive_partitioning = true)", files.display())
    };
    let (raw, new) = (of("table=sums"), of("compact/table=sums"));
    let (hours, histograms) = (of("compact/table=hours"), of("compact/table=histograms"));
    let less = |a: &str, b: &str| {
        format!("(select {SUMS_COLUMNS} from {a} except all select {SUMS_COLUMNS} from {b})")
    };
    let totals = |from: &str| {
        format!(
            "select host, what, unit, call, sum(count) as n, sum(sum) as ns, max(max) as most \
             from {from} where what <> 'period' group by all order by all"
        )
    };
    let queries = [
        format!("select count(*) as n from ({} union all {})", less(&raw, &new), less(&new, &raw)),
        format!("select count(*) as n, count(distinct host) as hosts from {new}"),
        totals(&new),
        totals(&hours),
        format!("select host, what, sum(n) as n from {histograms} group by all order by all"),
        format!(
            "select host, what, sum(count) as n from {new} where what = 'call' \
             group by all order by all"
        ),
    ];
    let empty = TempDir::new().expect("a directory");
    let rows = tables("duckdb", empty.path(), &queries.each_ref().map(String::as_str));
    assert_eq!(rows[0][0]["n"], 0, "rows that are not in both");
    assert_eq!(rows[1][0]["hosts"], HOSTS.len());
    assert!(rows[1][0]["n"].as_u64() > Some(1000), "{:?}", rows[1]);
    assert!(!rows[2].is_empty() && rows[2] == rows[3], "{:?} and {:?}", rows[2], rows[3]);
    assert_eq!(rows[4], rows[5]);
}

/// Writes objects into a directory.
pub(crate) fn put(dir: &Path, all: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in all {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }
}

/// In a directory: as it was shipped, and an hour that a host ships late.
#[test]
fn a_directory_has_the_rows_that_were_shipped() {
    Judge::DUCKDB.require();
    let dir = TempDir::new().expect("a directory");
    let lake = dir.path().join("lake");
    let to = lake.join("fleet").display().to_string();
    fs::create_dir_all(&lake).expect("a directory");
    for host in &HOSTS[..2] {
        ship(dir.path(), host, 60, (&to, ""), &[]);
    }
    let compactor = compactor(dir.path(), &to, "");
    let said = compactor.run(&ARGS).expect("flight-ship");
    exits(&said, 0);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(text.lines().count(), HOURS as usize, "{text}");
    assert!(text.contains("2 hosts: 4 objects"), "{text}");
    let again = compactor.run(&ARGS).expect("flight-ship");
    exits(&again, 0);
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(text.lines().all(|line| line.ends_with("  unchanged")), "{text}");
    ship(dir.path(), HOSTS[2], 31, (&to, ""), &[]);
    exits(&compactor.run(&ARGS).expect("flight-ship"), 0);
    compare(&lake);
    // What one host shipped can't be read: the others are there, and it is told.
    let all = objects(&lake).expect("objects");
    let bad = all.keys().find(|name| name.contains("table=sums/") && name.contains("host=web1"));
    fs::write(lake.join(bad.expect("an object")), "PAR1").expect("written");
    let told = compactor.run(&[&ARGS[..], &["--json"]].concat()).expect("flight-ship");
    exits(&told, 3);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let logged = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(text.contains("\"state\":\"compacted\"") && text.contains("it is damaged"), "{text}");
    assert!(logged.contains("is left out: it is damaged"), "{logged}");
    // The storage's own rule deletes what was shipped; what is compacted stays.
    let before = compacted(&objects(&lake).expect("objects"));
    fs::remove_dir_all(lake.join("fleet/schema=1/table=sums")).expect("removed");
    let closed = compactor.run(&ARGS).expect("flight-ship");
    exits(&closed, 0);
    let text = String::from_utf8_lossy(&closed.stdout).into_owned();
    assert!(text.contains("stays as it is: 3 of the objects"), "{text}");
    assert_eq!(compacted(&objects(&lake).expect("objects")), before);
}

/// On a server, through kills: no host is there twice, or not at all, at any moment.
#[test]
fn s3_has_each_host_once_whoever_is_killed() {
    Judge::DUCKDB.require();
    Judge::S3.require();
    let dir = TempDir::new().expect("a directory");
    let server = S3Server::start(&dir.path().join("s3"), None).expect("a server");
    let storage = format!("endpoint = {:?}\nallow_http = true\n", server.endpoint());
    let to = "s3://lake/fleet";
    for host in HOSTS {
        ship(dir.path(), host, 60, (to, &storage), &[]);
    }
    let compactor = compactor(dir.path(), to, &storage);
    let again = [&ARGS[..], &["--again"]].concat();
    let begun = Instant::now();
    exits(&compactor.run(&again).expect("flight-ship"), 0);
    let whole = begun.elapsed();
    let mut kills = 0;
    for n in 0..30 {
        let mut child = compactor.command(&again).spawn().expect("flight-ship");
        thread::sleep(whole * n / 30);
        let ended = child.try_wait().expect("a process");
        kills += usize::from(ended.is_none());
        // It may have ended: then there is nothing to be killed.
        drop(child.kill());
        drop(child.wait());
    }
    assert!(kills > 5, "only {kills} were killed");
    exits(&compactor.run(&ARGS).expect("flight-ship"), 0);
    let all = server.objects().expect("objects");
    // Four tables an hour, a part each, and nothing else.
    assert_eq!(compacted(&all).len(), 4 * HOURS as usize, "{:?}", compacted(&all));
    let lake = dir.path().join("lake");
    put(&lake, &all);
    compare(&lake);
    // Without the right to read, that is said.
    let mut stranger = compactor;
    stranger.credentials("S3RVER", "wrong");
    let refused = stranger.run(&ARGS).expect("flight-ship");
    exits(&refused, 1);
    let logged = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(logged.contains("the secret key is not that of the access key"), "{logged}");
}
