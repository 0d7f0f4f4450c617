//! `flight-ship` with directories of its own, an S3 server on loopback, and state directories to be
//! shipped from, made of real snapshots.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use flightrec_sums::file::{Header, block};
use flightrec_sums::model::{Cell, Group, Period, Table};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::{bin_dir, die_with_parent, on_host, repository};

/// The key, and the secret, of the server.
const KEY: &str = "S3RVER";
/// What the names of an object's files end in, in the server's directory.
const OBJECT: &str = "._S3rver_object";
/// ns of a minute.
const MINUTE: u64 = 60_000_000_000;

/// A `flight-ship`, which runs or not. It is killed with the value.
#[derive(Debug)]
pub struct Shipper {
    dir: PathBuf,
    child: Option<Child>,
    credentials: (String, String),
    /// Variables of its environment.
    environment: Vec<(String, String)>,
    /// The name of the host of its own that it runs on.
    host: Option<String>,
}

impl Shipper {
    /// In a directory, which is made, with this configuration.
    pub fn new(dir: &Path, config: &str) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))?;
        let credentials = (KEY.to_owned(), KEY.to_owned());
        let shipper =
            Self { dir: dir.into(), child: None, credentials, environment: Vec::new(), host: None };
        shipper.configure(config)?;
        Ok(shipper)
    }

    /// Has it run on a host of its own, in namespaces, which takes root.
    #[must_use]
    pub fn on_host(mut self, name: &str) -> Self {
        self.host = Some(name.to_owned());
        self
    }

    /// Gives it another configuration, for its next start.
    pub fn configure(&self, config: &str) -> Result<()> {
        Ok(fs::write(self.dir.join("flight-ship.toml"), config)?)
    }

    /// Gives it other credentials, for its next start.
    pub fn credentials(&mut self, key: &str, secret: &str) {
        self.credentials = (key.to_owned(), secret.to_owned());
    }

    /// Gives it these variables of the environment, for its next start: credentials of other
    /// storages than S3's.
    pub fn environment(&mut self, variables: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.environment = variables.iter().map(owned).collect();
    }

    /// Its own state directory.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("own")
    }

    /// A command of it. It dies with the calling thread.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(bin_dir().join("flight-ship"));
        command
            .arg("--config")
            .arg(self.dir.join("flight-ship.toml"))
            .arg("--state-dir")
            .arg(self.state_dir())
            .args(args)
            .env("AWS_ACCESS_KEY_ID", &self.credentials.0)
            .env("AWS_SECRET_ACCESS_KEY", &self.credentials.1)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        die_with_parent(&mut command, Signal::SIGKILL);
        if let Some(host) = &self.host {
            on_host(&mut command, host);
        }
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Result<Output> {
        self.command(args).output().context("can't run flight-ship")
    }

    /// Starts the service; what it logs goes to a file.
    pub fn start(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let child = self.command(&[]).stdout(Stdio::null()).stderr(log).spawn();
        self.child = Some(child.context("can't run flight-ship")?);
        Ok(())
    }

    /// Kills it, as SIGKILL does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended; then there is nothing to be killed.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// The most memory that it had in use at once, bytes; `None`: it does not run.
    pub fn peak(&self) -> Option<u64> {
        let pid = self.child.as_ref()?.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    }

    /// Ends it, as systemd does.
    pub fn terminate(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM)?;
            child.wait()?;
        }
        Ok(())
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// How it stands; `None`: it has not said so yet.
    pub fn status(&self) -> Option<serde_json::Value> {
        let output = self.run(&["status", "--json"]).ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Whether nothing waits, and at least `items` are shipped, lost, or can't be made.
    pub fn is_done(&self, items: u64) -> bool {
        let Some(status) = self.status() else { return false };
        let of = |key: &str| status[key].as_u64().unwrap_or(u64::MAX);
        of("waiting") == 0
            && of("spooled") == 0
            && of("shipped") + of("dropped") + of("failed") >= items
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server of S3's protocol on loopback, with the bucket `lake` (`tests/judges/s3`).
#[derive(Debug)]
pub struct S3Server {
    dir: PathBuf,
    port: u16,
    /// Key and certificate.
    tls: Option<(PathBuf, PathBuf)>,
    child: Option<Child>,
}

impl S3Server {
    /// Starts one whose objects are in a directory; with TLS, if there are key and certificate.
    pub fn start(dir: &Path, tls: Option<(PathBuf, PathBuf)>) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = Self { dir: dir.into(), port, tls, child: None };
        server.restart()?;
        Ok(server)
    }

    /// Starts it again after [`Self::kill`], at the same port.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        let packages = repository().join("target/judges/s3");
        let setup = "tests/judges/s3/setup.sh installs it";
        ensure!(packages.is_dir(), "the S3 server is not there: {setup}");
        let mut command = Command::new("node");
        command
            .arg(repository().join("tests/judges/s3/serve.mjs"))
            .args([&packages, &self.dir])
            .arg(self.port.to_string())
            .args(self.tls.iter().flat_map(|(key, certificate)| [key, certificate]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        die_with_parent(&mut command, Signal::SIGKILL);
        let mut child = command.spawn().with_context(|| format!("can't run node: {setup}"))?;
        let mut line = String::new();
        let out = child.stdout.take().context("its output")?;
        BufReader::new(out).read_line(&mut line)?;
        self.child = Some(child);
        if line.trim() != "ready" {
            bail!("the S3 server does not start: {line:?}");
        }
        Ok(())
    }

    /// Kills it, as SIGKILL does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended; then there is nothing to be killed.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Its address, as `[storage] endpoint` has it.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The objects of the bucket, by name.
    pub fn objects(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let all = objects(&self.dir.join("lake"))?.into_iter();
        Ok(all.filter_map(|(name, of)| Some((name.strip_suffix(OBJECT)?.to_owned(), of))).collect())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The files below a directory, by their paths in it.
pub fn objects(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let (mut all, mut dirs) = (BTreeMap::new(), vec![dir.to_path_buf()]);
    while let Some(of) = dirs.pop() {
        for entry in fs::read_dir(&of).with_context(|| format!("{}", of.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let name = path.strip_prefix(dir)?.to_str().context("a name")?.to_owned();
            all.insert(name, fs::read(&path)?);
        }
    }
    Ok(all)
}

/// Puts a copy of a snapshot into a state directory, by another id; it is there whole at once, as
/// flightd has it.
pub fn copy_snapshot(from: &Path, state_dir: &Path, id: &str) -> Result<()> {
    let dir = state_dir.join("snapshots");
    fs::create_dir_all(&dir)?;
    let new = dir.join(format!(".{id}.flight"));
    fs::copy(from, &new)?;
    Ok(fs::rename(new, dir.join(format!("{id}.flight")))?)
}

/// Writes sums of `minutes` minutes from `wall` (ns since 1970) on, in a file of that number, into
/// a state directory: of two units, three calls each.
pub fn write_minutes(state_dir: &Path, number: u32, wall: i64, minutes: u64) -> Result<()> {
    fs::create_dir_all(flightrec_sums::dir::directory(state_dir))?;
    let path = flightrec_sums::dir::path(state_dir, wall, number);
    let mut bytes = Header { number, step: 60, created: wall }.encode();
    let minute = |n: u64| {
        let from = MINUTE.saturating_mul(u64::from(number) * 100_000 + n);
        let wall = wall + (n * MINUTE) as i64;
        let mut period = Period { from, until: from + MINUTE, wall, ..Period::default() };
        for (unit, call) in ["a.service", "b.service"]
            .into_iter()
            .flat_map(|unit| ["read", "openat", "fsync"].map(|call| (unit, call)))
        {
            let group = Group::new(Table::Calls, [unit.as_bytes(), call.as_bytes(), b""]);
            let mut cell = Cell::default();
            (1..=n % 5 + 1).for_each(|value| cell.add(value * 1000));
            period.rows.insert(group, cell);
        }
        period
    };
    let periods: Vec<Period> = (0..minutes).map(minute).collect();
    for hour in periods.chunks(60) {
        bytes.extend(block([7; 16], u64::from(number), hour)?);
    }
    let new = path.with_extension(flightrec_sums::dir::UNFINISHED);
    fs::write(&new, bytes)?;
    Ok(fs::rename(new, path)?)
}
