//! `cargo xtask bench ship`: many hosts ship to one S3 server, through kills of all of them.
//!
//! Each host is a `flight-ship` in UTS, mount and IPC namespaces of its own, named by its host
//! name, with directories of its own. New snapshots (copies of real ones) and new hours of sums
//! come all the time, and flightd's retention deletes old snapshots meanwhile. flight-ships are
//! killed at random, the server is killed and stays away for a while, and a third of the hosts has
//! a spool that is too small for that. At the end, DuckDB is asked what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use flightrec_tests::shipping::{S3Server, Shipper, copy_snapshot, write_minutes};
use flightrec_tests::{Options, Recorder, workload};
use serde_json::Value;
use xtask::command::{read, repository};

/// What is to be simulated.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShipArgs {
    /// Number of hosts.
    #[arg(long, default_value_t = 20)]
    hosts: usize,
    /// Minutes for which hosts record and are killed.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Seconds between a snapshot and the next one of a host, and between hours of sums.
    #[arg(long, default_value_t = 40)]
    every: u64,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// ns of an hour.
const HOUR: i64 = 3_600_000_000_000;
/// Minutes of an hour of sums.
const MINUTES: u64 = 60;
/// Snapshots that flightd keeps of a host: fewer than come while the server is away for long.
const KEPT: usize = 2;
/// Tables of a snapshot, and its page.
const OBJECTS: usize = 9;
/// How long it may take until all is shipped after the end.
const PATIENCE: Duration = Duration::from_mins(10);

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        let (a, b) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(a).wrapping_add(b);
        (self.0 >> 33) % most.max(1)
    }
}

/// A host.
struct Host {
    name: String,
    state_dir: PathBuf,
    shipper: Shipper,
    /// Snapshots that it ever had, the oldest first: id, and of which real one.
    snapshots: Vec<(String, usize)>,
    hours: u32,
    next: Instant,
    /// When it is started again, where it was killed.
    again: Option<Instant>,
}

/// What was done to them.
#[derive(Debug, Default)]
struct Done {
    kills: u64,
    server_kills: u64,
    away: Duration,
    /// Hosts whose spool was full when the server came back.
    full: usize,
    peak: u64,
}

pub(crate) fn run(args: &ShipArgs) -> Result<()> {
    let dir = tempfile::Builder::new().prefix("flightrec-ship-").tempdir()?;
    let real = record(dir.path())?;
    let mut server = S3Server::start(&dir.path().join("s3"), None)?;
    let base = now() / HOUR * HOUR;
    let mut hosts = Vec::new();
    for n in 0..args.hosts {
        hosts.push(host(dir.path(), n, &server.endpoint())?);
    }
    println!(
        "{} hosts for {} minutes; a snapshot and an hour of sums of each every {} s; real \
         snapshots of {} KiB",
        args.hosts,
        args.minutes,
        args.every,
        real.iter().filter_map(|of| of.metadata().ok()).map(|of| of.len() >> 10).max().unwrap_or(0)
    );
    let mut numbers = Numbers(args.seed);
    let mut done = Done::default();
    chaos(args, &mut hosts, &mut server, (&real, base), (&mut numbers, &mut done))?;
    let ended = Instant::now();
    settle(&mut hosts)?;
    let caught_up = ended.elapsed();
    check(dir.path(), &hosts, &server, &real)?;
    let failures: u64 = hosts.iter().filter_map(|host| number(host, "failures")).sum();
    println!(
        "{} kills of flight-ship, {} of the server, which was away for {} s in all; the spools of \
         {} hosts were full at once; {failures} uploads failed and were tried again; all was \
         shipped {} s after the end; at most {} MiB of memory a flight-ship",
        done.kills,
        done.server_kills,
        done.away.as_secs(),
        done.full,
        caught_up.as_secs(),
        done.peak >> 20,
    );
    Ok(())
}

/// Two real snapshots.
fn record(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut recorder = Recorder::try_start(Options::default())?;
    let mut real = Vec::new();
    for n in 0..2 {
        workload::run(dir)?;
        let reason = format!("number {n}");
        let output = recorder.flightctl(&["snapshot", "--last", "1s", "--reason", &reason]);
        ensure!(output.status.success(), "no snapshot: {output:?}\n{}", recorder.log());
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let to = dir.join(format!("{n}.flight"));
        fs::copy(recorder.sandbox().state_dir().join(format!("snapshots/{id}.flight")), &to)?;
        real.push(to);
    }
    recorder.terminate()?;
    Ok(real)
}

fn host(dir: &Path, n: usize, endpoint: &str) -> Result<Host> {
    let name = format!("host-{n:03}");
    let state_dir = dir.join(&name).join("state");
    fs::create_dir_all(&state_dir)?;
    // A third of them has room for a snapshot or two.
    let spool = if n.is_multiple_of(3) { "1MiB" } else { "64MiB" };
    let config = format!(
        "[ship]\nto = \"s3://lake/fleet\"\nstate_dir = \"{}\"\n\
         interval = \"1s\"\n[snapshots]\nsettle = \"0s\"\n[sums]\nsettle = \"0s\"\n[storage]\n\
         endpoint = {endpoint:?}\nallow_http = true\nretry_least = \"200ms\"\nretry_most = \"5s\"\n\
         timeout = \"10s\"\n[limits]\nspool = \"{spool}\"\n",
        state_dir.display()
    );
    let shipper = Shipper::new(&dir.join(&name).join("ship"), &config)?.on_host(&name);
    let (snapshots, next) = (Vec::new(), Instant::now() + Duration::from_millis(500 * n as u64));
    Ok(Host { name, state_dir, shipper, snapshots, hours: 0, next, again: Some(Instant::now()) })
}

/// Lets them record, and kills them.
fn chaos(
    args: &ShipArgs,
    hosts: &mut [Host],
    server: &mut S3Server,
    (real, base): (&[PathBuf], i64),
    (numbers, done): (&mut Numbers, &mut Done),
) -> Result<()> {
    let (start, length) = (Instant::now(), Duration::from_secs(60 * args.minutes));
    let mut kill = start + Duration::from_secs(5);
    let mut server_kill = start + Duration::from_secs(20);
    let mut server_back: Option<Instant> = None;
    let mut long_away = true;
    while start.elapsed() < length {
        let now = Instant::now();
        for host in hosts.iter_mut() {
            if now >= host.next {
                host.next = now + Duration::from_secs(args.every);
                more(host, real, base)?;
            }
            if host.again.is_some_and(|at| now >= at) {
                host.again = None;
                host.shipper.start()?;
            }
        }
        if now >= kill {
            kill = now + Duration::from_millis(300 + numbers.below(1700));
            let at = numbers.below(hosts.len() as u64) as usize;
            if let Some(host) = hosts.get_mut(at).filter(|host| host.again.is_none()) {
                ensure!(host.shipper.is_running(), "{} died: {}", host.name, host.shipper.log());
                done.peak = done.peak.max(host.shipper.peak().unwrap_or(0));
                host.shipper.kill();
                done.kills += 1;
                host.again = Some(now + Duration::from_millis(numbers.below(3000)));
            }
        }
        if server_back.is_some_and(|at| now >= at) {
            done.full = done.full.max(full(hosts));
            server.restart()?;
            server_back = None;
            server_kill = now + Duration::from_secs(15 + numbers.below(40));
        } else if server_back.is_none() && now >= server_kill {
            server.kill();
            done.server_kills += 1;
            // Once for so long that small spools are full.
            let is_long = long_away && start.elapsed() > length / 3;
            long_away &= !is_long;
            let seconds = if is_long { 6 * args.every } else { 1 + numbers.below(8) };
            done.away += Duration::from_secs(seconds);
            server_back = Some(now + Duration::from_secs(seconds));
        }
        thread::sleep(Duration::from_millis(20));
    }
    if server_back.is_some() {
        done.full = done.full.max(full(hosts));
        server.restart()?;
    }
    Ok(())
}

/// How many hosts have a full spool.
fn full(hosts: &[Host]) -> usize {
    let is_full =
        |host: &&Host| host.shipper.status().is_some_and(|status| status["spool_full"] == true);
    hosts.iter().filter(is_full).count()
}

/// A host has one snapshot and one hour more; old snapshots go.
fn more(host: &mut Host, real: &[PathBuf], base: i64) -> Result<()> {
    let n = host.snapshots.len();
    let (id, which) = (format!("20261126T{n:06}Z-test"), n % real.len().max(1));
    copy_snapshot(real.get(which).context("a snapshot")?, &host.state_dir, &id)?;
    host.snapshots.push((id, which));
    if let Some(old) = host.snapshots.len().checked_sub(KEPT + 1) {
        let (id, _) = &host.snapshots[old];
        fs::remove_file(host.state_dir.join(format!("snapshots/{id}.flight")))?;
    }
    host.hours += 1;
    write_minutes(&host.state_dir, host.hours, base - i64::from(host.hours) * HOUR, MINUTES)
}

/// Waits until all is shipped.
fn settle(hosts: &mut [Host]) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    for host in hosts.iter_mut().filter(|host| host.again.is_some()) {
        host.shipper.start()?;
    }
    for host in hosts.iter_mut() {
        let items = host.snapshots.len() as u64 + u64::from(host.hours);
        while !host.shipper.is_done(items) {
            let (status, log) = (host.shipper.status(), host.shipper.log());
            ensure!(Instant::now() < end, "{}: {status:?}\n{log}", host.name);
            thread::sleep(Duration::from_millis(200));
        }
    }
    // The tables of what there is come after the rest.
    for host in hosts.iter_mut() {
        host.shipper.kill();
        let told = host.shipper.run(&["--once"])?;
        let code = told.status.code();
        ensure!(matches!(code, Some(0 | 3)), "{}: {told:?}", host.name);
    }
    Ok(())
}

/// Holds what is in the storage against what there was.
fn check(dir: &Path, hosts: &[Host], server: &S3Server, real: &[PathBuf]) -> Result<()> {
    let lake = dir.join("lake");
    let objects = server.objects()?;
    let mut bytes = 0;
    for (name, of) in &objects {
        let path = lake.join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(path, of)?;
        bytes += of.len();
    }
    let of = |table: &str| {
        let files = lake.join(format!("fleet/schema=1/table={table}/**/*.parquet"));
        format!("read_parquet('{}', hive_partitioning = true)", files.display())
    };
    let told = ask(
        dir,
        &[
            format!(
                "select host, what, id, state, count(*) as n from {} group by all",
                of("shipped")
            ),
            format!(
                "select host, count(*) as n, count(distinct ts_ns) as minutes from {} \
             where what = 'period' group by host",
                of("sums")
            ),
        ],
    )?;
    let [shipped, sums] = &told[..] else { anyhow::bail!("{told:?}") };
    let mut states: BTreeMap<(String, String), String> = BTreeMap::new();
    for row in shipped {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let key = (text("host"), text("id"));
        ensure!(row["n"] == 1, "told {} times: {row}", row["n"]);
        ensure!(states.insert(key, text("state")).is_none(), "told twice: {row}");
    }
    let (mut whole, mut dropped, mut minutes) = (0, 0, 0);
    let mut bodies: BTreeMap<(usize, String), &Vec<u8>> = BTreeMap::new();
    let mut expected = BTreeSet::new();
    for host in hosts {
        for (id, which) in &host.snapshots {
            let state = states.get(&(host.name.clone(), id.clone()));
            let part = format!("/host={}/{id}-", host.name);
            let found: Vec<_> = objects.iter().filter(|(name, _)| name.contains(&part)).collect();
            match state.map(String::as_str) {
                Some("shipped") => {
                    ensure!(found.len() == OBJECTS, "{id} of {}: {}", host.name, found.len());
                    whole += 1;
                    for (name, body) in found {
                        let sort = name.split('/').nth(2).unwrap_or_default().to_owned();
                        let same = bodies.entry((*which, sort)).or_insert(body);
                        ensure!(*same == body, "{name} is not as that of another host");
                        expected.insert(name.clone());
                    }
                }
                Some("dropped") => dropped += 1,
                state => {
                    anyhow::bail!("{id} of {} is neither there nor told: {state:?}", host.name)
                }
            }
        }
        let row = sums.iter().find(|row| row["host"] == host.name.as_str());
        let wanted = u64::from(host.hours) * MINUTES;
        let (n, distinct) = row.map_or((0, 0), |row| {
            (row["n"].as_u64().unwrap_or(0), row["minutes"].as_u64().unwrap_or(0))
        });
        ensure!(
            (n, distinct) == (wanted, wanted),
            "{}: {n} rows of {distinct} minutes, of {wanted}",
            host.name
        );
        minutes += wanted;
    }
    let others = objects.keys().filter(|name| !expected.contains(*name));
    let others: Vec<_> = others
        .filter(|name| !name.contains("/table=sums/") && !name.contains("/table=shipped/"))
        .collect();
    ensure!(
        others.iter().all(|name| name.contains("-test-")),
        "nobody knows what these are: {others:?}"
    );
    println!(
        "{whole} snapshots are there whole, each object once and as those of other hosts; \
         {dropped} are told as lost ({} of their objects were uploaded before); all {minutes} \
         minutes are there once; {} objects, {} MiB, of {} real snapshots",
        others.len(),
        objects.len(),
        bytes >> 20,
        real.len()
    );
    Ok(())
}

/// What DuckDB answers.
fn ask(dir: &Path, queries: &[String]) -> Result<Vec<Vec<Value>>> {
    let judge = repository().join("tests/judges/parquet/run.sh");
    let empty = dir.join("empty");
    fs::create_dir_all(&empty)?;
    let mut command = Command::new(judge);
    command.arg("duckdb").arg(&empty).args(queries).stdin(Stdio::null());
    let text = read(&mut command).context("tests/judges/parquet/setup.sh installs DuckDB")?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn number(host: &Host, key: &str) -> Option<u64> {
    host.shipper.status()?[key].as_u64()
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_nanos() as i64
}
