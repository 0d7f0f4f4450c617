//! `flight-ship`: what is in the storage is what was recorded, each object once, whoever is killed
//! meanwhile; and what is wrong is said.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flightrec_tests::shipping::{S3Server, Shipper, copy_snapshot, objects, write_minutes};
use flightrec_tests::{Judge, PATIENCE, Recorder, Tmpfs, bin_dir, wait_until};
use tempfile::TempDir;

use crate::export::tables;
use crate::snapshots::taken_for;
use crate::support::{certificate, start};

/// ns of an hour.
const HOUR: i64 = 3_600_000_000_000;
/// Hours of sums that there are.
const HOURS: i64 = 3;
/// What the recorded programs have in their arguments and paths, and a mark.
const PATH: &str = "/nonexistent/sekret-path";
const ARGUMENT: &str = "--password=sekret-argument";
const MARK: &str = "sekret-mark";

/// A state directory of flightd with snapshots and hours of sums.
pub(crate) struct Recorded {
    dir: TempDir,
    ids: Vec<String>,
}

impl Recorded {
    /// Of a real recorder, which has ended.
    pub(crate) fn new() -> Self {
        Self::of(start(""), || ())
    }

    /// The same; `work` is done before the snapshots are taken.
    pub(crate) fn of(mut recorder: Recorder, work: impl FnOnce()) -> Self {
        let dir = TempDir::new().expect("a directory");
        work();
        for n in 0..2 {
            let script = format!("test -e {PATH}; exec true {ARGUMENT}");
            let status = Command::new("sh").args(["-c", &script]).status().expect("sh");
            assert!(status.success());
            assert!(recorder.flightctl(&["mark", MARK]).status.success());
            let reason = format!("number {n}");
            taken_for(&recorder, &reason, &["--last", "5s"]);
        }
        recorder.terminate().expect("its end");
        let from = recorder.sandbox().state_dir().join("snapshots");
        let mut ids = Vec::new();
        for entry in fs::read_dir(&from).expect("snapshots") {
            let path = entry.expect("an entry").path();
            if let Some(id) =
                path.file_name().and_then(|name| name.to_str()?.strip_suffix(".flight"))
            {
                copy_snapshot(&path, dir.path(), id).expect("a copy");
                ids.push(id.to_owned());
            }
        }
        assert_eq!(ids.len(), 2);
        ids.sort();
        let recorded = Self { dir, ids };
        write_minutes(recorded.path(), 1, this_hour() - HOURS * HOUR, HOURS as u64 * 60)
            .expect("sums");
        recorded
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// How many items there are.
    pub(crate) fn items(&self) -> u64 {
        self.ids.len() as u64 + HOURS as u64
    }

    /// A configuration that ships it to `to`.
    pub(crate) fn config(&self, to: &str, more: &str) -> String {
        let state_dir = self.path().display();
        format!(
            "[ship]\nto = {to:?}\nhost = \"web1\"\nstate_dir = \"{state_dir}\"\n\
             interval = \"200ms\"\n{more}\n[sums]\nsettle = \"0s\"\n\
             [storage]\nretry_least = \"50ms\"\nretry_most = \"200ms\"\n"
        )
    }

    /// The objects of a run without any trouble, into a directory.
    pub(crate) fn shipped(&self, more: &str) -> (TempDir, BTreeMap<String, Vec<u8>>) {
        self.shipped_as(&format!("{SETTLED}{more}"))
    }

    /// The same, all of the configuration from `[snapshots]` on being given.
    pub(crate) fn shipped_as(&self, more: &str) -> (TempDir, BTreeMap<String, Vec<u8>>) {
        let dir = TempDir::new().expect("a directory");
        let lake = dir.path().join("lake");
        let config = self.config(lake.to_str().expect("text"), more);
        let shipper = Shipper::new(&dir.path().join("ship"), &config).expect("flight-ship");
        exits(&shipper.run(&["--once"]).expect("flight-ship"), 0);
        let all = objects(&lake).expect("objects");
        (dir, all)
    }
}

/// Snapshots are shipped at once; they are in the way of nothing else.
pub(crate) const SETTLED: &str = "[snapshots]\nsettle = \"0s\"\n";

/// The start of this hour, ns since 1970.
fn this_hour() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos() as i64;
    now - now % HOUR
}

pub(crate) fn exits(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

/// The same objects, each as it is.
pub(crate) fn same(ours: &BTreeMap<String, Vec<u8>>, theirs: &BTreeMap<String, Vec<u8>>) {
    let names = |of: &BTreeMap<String, Vec<u8>>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(ours), names(theirs));
    for (name, bytes) in ours {
        assert!(*bytes == theirs[name], "{name}: {} and {} bytes", bytes.len(), theirs[name].len());
    }
}

/// The objects of a table.
fn of_table<'a>(all: &'a BTreeMap<String, Vec<u8>>, table: &str) -> Vec<(&'a String, &'a Vec<u8>)> {
    all.iter().filter(|(name, _)| name.contains(&format!("/table={table}/"))).collect()
}

/// And nothing else, when it was killed again and again.
#[test]
fn a_directory_has_what_flightctl_exports() {
    let recorded = Recorded::new();
    let (_reference, all) = recorded.shipped("");
    // Eight tables and a page of each snapshot, hours of sums, and of these and of the snapshots
    // the table of what there is.
    let hours = of_table(&all, "shipped").len();
    assert_eq!(all.len(), 9 * recorded.ids.len() + HOURS as usize + hours, "{:?}", all.keys());
    assert_eq!(of_table(&all, "sums").len(), HOURS as usize);
    let temporary = TempDir::new().expect("a directory");
    for id in &recorded.ids {
        let out = temporary.path().join(id);
        let file = recorded.path().join(format!("snapshots/{id}.flight"));
        let args = ["export", "--format", "parquet", "-o"];
        let output = Command::new(bin_dir().join("flightctl"))
            .args(args)
            .args([&out, &file])
            .output()
            .expect("flightctl");
        exits(&output, 0);
        for table in ["events", "calls", "waits", "block_io", "threads", "processes", "coverage"] {
            let ours =
                of_table(&all, table).into_iter().find(|(name, _)| name.contains(id.as_str()));
            let (name, bytes) = ours.expect("a table of the snapshot");
            let theirs = fs::read(out.join(format!("{table}.parquet"))).expect("an export");
            assert!(*bytes == theirs, "{name}");
            let is_whole = name.starts_with("schema=1/table=") && name.contains("/host=web1/");
            assert!(is_whole && name.contains("/dt=") && name.contains("/hour="), "{name}");
        }
    }
    let page = all.iter().find(|(name, _)| name.contains("/pages/")).expect("a page").1;
    assert!(String::from_utf8_lossy(page).contains("<!doctype html>"));
    let dir = TempDir::new().expect("a directory");
    let lake = dir.path().join("lake");
    let config = recorded.config(lake.to_str().expect("text"), SETTLED);
    let mut shipper = Shipper::new(&dir.path().join("ship"), &config).expect("flight-ship");
    kill_until_done(&mut shipper, recorded.items(), 10, |_| ());
    same(&objects(&lake).expect("objects"), &all);
    // Another one is refused while it runs, and nothing is left of what was made.
    exits(&shipper.run(&["--once"]).expect("flight-ship"), 2);
    let spool = fs::read_dir(shipper.state_dir().join("spool")).expect("the spool");
    assert_eq!(spool.count(), 0);
}

/// What DuckDB says of what is shipped, parted by Hive's names.
#[test]
fn duckdb_reads_what_is_shipped_and_nothing_that_is_hidden() {
    Judge::DUCKDB.require();
    let recorded = Recorded::new();
    let (dir, _) = recorded.shipped("");
    let of = |lake: &Path, table: &str| {
        let files = lake.join(format!("lake/schema=1/table={table}/**/*.parquet"));
        format!("read_parquet('{}', hive_partitioning = true)", files.display())
    };
    let empty = TempDir::new().expect("a directory");
    let here = dir.path();
    let queries = [
        format!(
            "select count(*) as n, min(host) as host, count(distinct filename) as files
                 from read_parquet('{}/lake/schema=1/table=calls/**/*.parquet',
                 hive_partitioning = true, filename = true)",
            here.display()
        ),
        format!(
            "select what, state, complete, count(*) as n, sum(periods) as periods from {}
                 group by all order by what",
            of(here, "shipped")
        ),
        format!(
            "select count(*) as n, count(distinct ts) as minutes, sum(count) as calls from {}
                 where what = 'call'",
            of(here, "sums")
        ),
        format!("select count(*) as n from {} where path like '%sekret-path'", of(here, "calls")),
        format!(
            "select count(*) as n from {} where args like '%sekret-argument%'",
            of(here, "processes")
        ),
        format!(
            "select count(*) as n from {} where fields like '%sekret-mark%'",
            of(here, "events")
        ),
    ];
    let asked: Vec<&str> = queries.iter().map(String::as_str).collect();
    let told = tables("duckdb", empty.path(), &asked);
    let n = |rows: &[serde_json::Value], key: &str| rows[0][key].as_u64().unwrap_or(0);
    assert_eq!(told[0][0]["host"], "web1");
    assert_eq!(n(&told[0], "files"), recorded.ids.len() as u64);
    let each: u64 = recorded
        .ids
        .iter()
        .map(|id| {
            let out = empty.path().join(id);
            let file = recorded.path().join(format!("snapshots/{id}.flight"));
            let output = Command::new(bin_dir().join("flightctl"))
                .args(["export", "--format", "parquet", "-o"])
                .args([&out, &file])
                .output()
                .expect("flightctl");
            exits(&output, 0);
            n(&tables("duckdb", &out, &["select count(*) as n from calls"])[0], "n")
        })
        .sum();
    assert_eq!(n(&told[0], "n"), each);
    assert!(each > 100, "{each} calls");
    let shipped: Vec<_> = told[1].iter().filter(|row| row["what"] == "sums").collect();
    assert_eq!(shipped.len(), 1, "{:?}", told[1]);
    assert_eq!((&shipped[0]["state"], &shipped[0]["complete"]), (&"shipped".into(), &true.into()));
    assert_eq!(shipped[0]["periods"].as_f64(), Some(HOURS as f64 * 60.0));
    assert_eq!(n(&told[2], "minutes"), HOURS as u64 * 60);
    assert_eq!(n(&told[2], "n"), HOURS as u64 * 60 * 6);
    assert!(told[3..].iter().all(|rows| n(rows, "n") > 0), "{:?}", &told[3..]);
    // The same without strings: neither tables nor pages have them.
    for (redaction, gone) in [
        ("strings = \"none\"", vec!["sekret-path", "sekret-argument", "sekret-mark"]),
        ("strings = \"paths\"", vec!["sekret-argument", "sekret-mark"]),
        ("patterns = [\"sekret-[a-z]+\", \"b[.]service\"]", vec!["sekret-", "b.service"]),
    ] {
        let dir = TempDir::new().expect("a directory");
        let lake = dir.path().join("lake");
        let config =
            recorded.config(lake.to_str().expect("text"), &format!("{redaction}\n{SETTLED}"));
        let shipper = Shipper::new(&dir.path().join("ship"), &config).expect("flight-ship");
        exits(&shipper.run(&["--once"]).expect("flight-ship"), 0);
        for (name, bytes) in objects(&lake).expect("objects") {
            let text = String::from_utf8_lossy(&bytes);
            let found = gone.iter().find(|word| name.contains("/pages/") && text.contains(**word));
            assert_eq!(found, None, "{redaction}: {name}");
        }
        let every = ["events", "calls", "waits", "threads", "processes", "sums"];
        let texts: Vec<String> = every
            .iter()
            .map(|table| format!("select t::varchar as row from {} as t", of(dir.path(), table)))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for (table, rows) in every.iter().zip(tables("duckdb", empty.path(), &texts)) {
            assert!(!rows.is_empty(), "{table}");
            for row in rows {
                let row = row["row"].as_str().expect("text");
                let found = gone.iter().find(|word| row.contains(**word));
                assert_eq!(found, None, "{redaction}: {table}: {row}");
            }
        }
        let kept = format!(
            "select count(*) as n from {} where path like '%-path'",
            of(dir.path(), "calls")
        );
        let kept = n(&tables("duckdb", empty.path(), &[&kept])[0], "n");
        assert_eq!(kept > 0, redaction.contains("paths"), "{redaction}");
    }
}

/// Numbers that look random, the same ones each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Starts and kills a service until all is shipped; `meanwhile` is called between.
pub(crate) fn kill_until_done(
    shipper: &mut Shipper,
    items: u64,
    kills: u64,
    mut meanwhile: impl FnMut(u64),
) {
    let (mut numbers, mut n) = (Numbers(25), 0);
    let end = Instant::now() + PATIENCE;
    while n < kills {
        shipper.start().expect("flight-ship");
        thread::sleep(Duration::from_millis(20 + numbers.next(500)));
        meanwhile(n);
        shipper.kill();
        n += 1;
    }
    shipper.start().expect("flight-ship");
    let is_done = || shipper.is_done(items);
    let left = end.saturating_duration_since(Instant::now());
    assert!(wait_until(left, is_done), "{:?}\n{}", shipper.status(), shipper.log());
    // The table of what there is comes after the rest.
    thread::sleep(Duration::from_secs(1));
}

#[test]
fn s3_has_each_object_once_whoever_is_killed() {
    Judge::S3.require();
    let recorded = Recorded::new();
    let (_reference, expected) = recorded.shipped("");
    let dir = TempDir::new().expect("a directory");
    let mut server = S3Server::start(&dir.path().join("s3"), None).expect("a server");
    let config = |to: &str, endpoint: &str| {
        format!("{}endpoint = {endpoint:?}\nallow_http = true\n", recorded.config(to, SETTLED))
    };
    let endpoint = server.endpoint();
    let right = config("s3://lake", &endpoint);
    let mut shipper = Shipper::new(&dir.path().join("ship"), &right).expect("flight-ship");
    // Where the storage can't be used, that is said, and nothing is lost.
    let fails = |shipper: &Shipper, words: &str| {
        let checked = shipper.run(&["--check"]).expect("flight-ship");
        exits(&checked, 1);
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(said.contains("FAILED  storage: ") && said.contains(words), "{words}: {said}");
        let tried = shipper.run(&["--once"]).expect("flight-ship");
        exits(&tried, 1);
        let logged = String::from_utf8_lossy(&tried.stderr).into_owned();
        assert!(logged.contains(words) && logged.contains("nothing is lost"), "{words}: {logged}");
        let status = shipper.status().expect("a status");
        assert!(status["problem"]["message"].as_str().expect("words").contains(words), "{status}");
        assert_eq!((&status["shipped"], &status["dropped"]), (&0.into(), &0.into()), "{status}");
        assert!(status["spooled"].as_u64() > Some(0), "{status}");
    };
    shipper.configure(&config("s3://lakes", &endpoint)).expect("written");
    fails(&shipper, "the bucket \"lakes\" at http://127.0.0.1");
    fails(&shipper, "does not exist: make it, or correct [ship] to");
    shipper.configure(&right).expect("written");
    shipper.credentials("S3RVER", "wrong");
    fails(&shipper, "the secret key is not that of the access key");
    shipper.credentials("nobody", "wrong");
    fails(&shipper, "the access key is not known there");
    shipper.credentials("S3RVER", "S3RVER");
    shipper.configure(&config("s3://lake", &endpoint.replace("http:", "https:"))).expect("written");
    fails(&shipper, "TLS: the server does not speak it at this address");
    for (code, words) in [
        ("RequestTimeTooSkewed", "this machine's clock is too far from the storage's"),
        ("SlowDown", "the storage can't take it now"),
        ("AccessDenied", "the credentials may not do that"),
    ] {
        let canned = canned(code);
        shipper.configure(&config("s3://lake", &canned)).expect("written");
        fails(&shipper, words);
    }
    server.kill();
    shipper.configure(&right).expect("written");
    fails(&shipper, "nobody answers at this address (connection refused)");
    server.restart().expect("the server");
    exits(&shipper.run(&["--check"]).expect("flight-ship"), 0);
    // Now with kills of both.
    kill_until_done(&mut shipper, recorded.items(), 10, |n| {
        if n % 3 == 1 {
            server.kill();
            thread::sleep(Duration::from_millis(100));
            server.restart().expect("the server");
        }
    });
    same(&server.objects().expect("objects"), &expected);
    let metrics = shipper.run(&["metrics"]).expect("flight-ship");
    let metrics = String::from_utf8_lossy(&metrics.stdout).into_owned();
    let shipped = format!("\nflightship_items{{state=\"shipped\"}} {}\n", recorded.items());
    assert!(metrics.contains("\nflightship_up 1\n") && metrics.contains(&shipped), "{metrics}");
}

/// A server that answers everything with one error of S3's; its address.
fn canned(code: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let status = if code == "SlowDown" { "503 Slow Down" } else { "403 Forbidden" };
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = vec![0; 1 << 16];
            // What is asked makes no difference, nor whether anybody waits for the answer.
            let _ = stream.read(&mut request);
            let body = format!("<Error><Code>{code}</Code></Error>");
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            let mut rest = Vec::new();
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = stream.read_to_end(&mut rest);
        }
    });
    format!("http://{address}")
}

/// A certificate of one's own is refused, until it is named.
#[test]
fn tls_with_a_certificate_of_ones_own() {
    Judge::S3.require();
    let dir = TempDir::new().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    certificate(dir.path());
    let tls = Some((at("key"), at("certificate")));
    let server = S3Server::start(&at("s3"), tls).expect("a server");
    fs::create_dir(at("state")).expect("a directory");
    let config = |more: &str| {
        let (state, endpoint) = (at("state"), server.endpoint());
        format!(
            "[ship]\nto = \"s3://lake/x\"\nhost = \"web1\"\nstate_dir = {state:?}\n\
             [storage]\nendpoint = {endpoint:?}\n{more}"
        )
    };
    let shipper = Shipper::new(&at("ship"), &config("")).expect("flight-ship");
    let checked = shipper.run(&["--check"]).expect("flight-ship");
    exits(&checked, 1);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    let words = "certificate is from nobody who is trusted here: name the certificate";
    assert!(said.contains(words), "{said}");
    shipper.configure(&config(&format!("ca_file = {:?}\n", at("certificate")))).expect("written");
    let checked = shipper.run(&["--check"]).expect("flight-ship");
    exits(&checked, 0);
}

#[test]
#[ignore = "long: a campaign of full disks"]
fn a_full_disk_or_spool_loses_nothing_that_is_there() {
    let recorded = Recorded::new();
    let (_reference, expected) = recorded.shipped("");
    let dir = TempDir::new().expect("a directory");
    let lake = dir.path().join("lake");
    let config = recorded.config(lake.to_str().expect("text"), SETTLED);
    let shipper = Shipper::new(&dir.path().join("ship"), &config).expect("flight-ship");
    let disk = Tmpfs::new(&shipper.state_dir(), "160k").expect("a tmpfs");
    let checked = shipper.run(&["--check"]).expect("flight-ship");
    exits(&checked, 1);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(said.contains("and [limits] spool allows 512MiB: make room, or lower it"), "{said}");
    let tried = shipper.run(&["--once"]).expect("flight-ship");
    exits(&tried, 1);
    let logged = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert!(logged.contains("there is no room in the spool: "), "{logged}");
    assert!(logged.contains("nothing is lost"), "{logged}");
    disk.resize("64m").expect("resized");
    let shipped = shipper.run(&["--once"]).expect("flight-ship");
    exits(&shipped, 0);
    same(&objects(&lake).expect("objects"), &expected);
    // The storage itself is full.
    let small = Tmpfs::new(&dir.path().join("small"), "300k").expect("a tmpfs");
    let config = recorded.config(small.path().to_str().expect("text"), SETTLED);
    let shipper = Shipper::new(&dir.path().join("ship2"), &config).expect("flight-ship");
    let tried = shipper.run(&["--once"]).expect("flight-ship");
    exits(&tried, 1);
    let logged = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert!(logged.contains("is full: make room there; nothing is lost"), "{logged}");
    small.resize("64m").expect("resized");
    exits(&shipper.run(&["--once"]).expect("flight-ship"), 0);
    same(&objects(small.path()).expect("objects"), &expected);
    // What flightd deletes while there is no way to the storage is told.
    let gone = dir.path().join("gone/lake");
    let config = recorded.config(gone.to_str().expect("text"), SETTLED);
    let config = config.replace("[sums]", "[limits]\nspool = \"1MiB\"\n[sums]");
    fs::create_dir(dir.path().join("gone")).expect("a directory");
    let mut shipper = Shipper::new(&dir.path().join("ship3"), &config).expect("flight-ship");
    fs::write(&gone, "no directory").expect("written");
    exits(&shipper.run(&["--once"]).expect("flight-ship"), 2);
    fs::remove_file(&gone).expect("removed");
    let blocked = Tmpfs::new(&gone, "4k").expect("a tmpfs");
    shipper.start().expect("flight-ship");
    let is_seen = || shipper.status().is_some_and(|status| status["problem"]["kind"] == "full");
    assert!(wait_until(PATIENCE, is_seen), "{:?}\n{}", shipper.status(), shipper.log());
    for id in &recorded.ids {
        fs::remove_file(recorded.path().join(format!("snapshots/{id}.flight"))).expect("removed");
    }
    blocked.resize("64m").expect("resized");
    let is_done = || shipper.is_done(recorded.items());
    assert!(wait_until(PATIENCE, is_done), "{:?}\n{}", shipper.status(), shipper.log());
    thread::sleep(Duration::from_secs(1));
    let all = objects(&gone).expect("objects");
    let status = shipper.status().expect("a status");
    let calls = of_table(&all, "calls").len() as u64;
    let lost = status["dropped"].as_u64().expect("a number");
    assert_eq!(calls + lost, recorded.ids.len() as u64, "{status}");
    assert_eq!(of_table(&all, "sums").len(), HOURS as usize, "{status}");
    assert!(!of_table(&all, "shipped").is_empty());
}
