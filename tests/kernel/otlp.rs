//! `flight-ship` and a collector of other people (`tests/judges/otlp`): what a real recorder kept
//! is taken whole, over HTTP and gRPC.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flightrec_tests::shipping::{Shipper, copy_snapshot};
use flightrec_tests::{Judge, PATIENCE, die_with_parent, wait_until};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::snapshots::taken_for;
use crate::support::{certificate, start};
use crate::triggers::{bad_end, figure, with};

/// The span that a thread works for, as W3C has it: the trace and the span.
const TRACE: (&str, &str) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
/// How long it waits for a lock.
const HELD: Duration = Duration::from_millis(300);

/// rotel, on two ports of loopback. It is killed with the value.
struct Rotel {
    child: Child,
    http: u16,
    grpc: u16,
    log: PathBuf,
}

impl Rotel {
    fn start(dir: &Path) -> Self {
        let setup = "tests/judges/otlp/setup.sh installs it";
        let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/judges/otlp/lib");
        let found = fs::read_dir(lib).expect(setup).flatten().find_map(|entry| {
            let program = entry.path().join("site-packages/rotel/rotel-agent");
            program.is_file().then_some(program)
        });
        let port = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let (http, grpc, log) = (port(), port(), dir.join("rotel.log"));
        let out = File::create(&log).expect("a file");
        let mut command = Command::new(found.expect(setup));
        command
            .arg("start")
            .args(["--otlp-http-endpoint", &format!("127.0.0.1:{http}")])
            .args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{grpc}")])
            .args(["--exporter", "blackhole", "--debug-log-verbosity", "detailed"])
            .args(["--debug-log", "logs", "--debug-log", "traces", "--debug-log", "metrics"])
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a file"))
            .stderr(out);
        die_with_parent(&mut command, Signal::SIGKILL);
        let child = command.spawn().expect(setup);
        let rotel = Self { child, http, grpc, log };
        let listens =
            || [http, grpc].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok());
        assert!(wait_until(PATIENCE, listens), "{}", rotel.said());
        rotel
    }

    /// What it says of what it got.
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).expect("its log")).into_owned()
    }
}

impl Drop for Rotel {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What ends TLS in front of a port, by the files of [`certificate`]. It is killed with the value.
struct Tls {
    child: Child,
    port: u16,
}

impl Tls {
    fn start(dir: &Path, port: u16) -> Self {
        let judges = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(judges.join("../target/judges/otlp/bin/python3"));
        command
            .arg(judges.join("judges/otlp/tls.py"))
            .args([dir.join("key"), dir.join("certificate")])
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        die_with_parent(&mut command, Signal::SIGKILL);
        let mut child = command.spawn().expect("tests/judges/otlp/setup.sh installs it");
        let mut line = String::new();
        let said = child.stdout.take().expect("its output");
        BufReader::new(said).read_line(&mut line).expect("a line");
        Self { child, port: line.trim().parse().expect("a port") }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits for a lock in a span, told by a path that nobody has.
fn wait_for_lock(file: &Path) {
    let lock = || {
        let file = File::create(file).expect("a file");
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| e).expect("a lock")
    };
    let held = lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mark = format!("Orders:00-{}-{}-01\0", TRACE.0, TRACE.1);
            // SAFETY: the path ends with NUL; the call reads it alone.
            let told = unsafe { libc::syscall(libc::SYS_faccessat2, 0, mark.as_ptr(), 0, 0) };
            assert_eq!(told, -1, "nobody has such a file");
            drop(lock());
        });
        thread::sleep(HELD);
        drop(held);
    });
}

#[test]
fn rotel_takes_all_of_it() {
    Judge::ROTEL.require();
    let mut recorder = start("");
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("journal");
    wait_for_lock(&file);
    taken_for(&recorder, "a lock", &["--last", "1m"]);
    let from = recorder.sandbox().state_dir().join("snapshots");
    let is_there = |path: &PathBuf| path.extension().is_some_and(|of| of == "flight");
    let find = || fs::read_dir(&from).ok()?.flatten().map(|of| of.path()).find(is_there);
    assert!(wait_until(PATIENCE, || find().is_some()), "{}", recorder.log());
    let snapshot = find().expect("a snapshot");
    let id = snapshot.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
    let state = dir.path().join("state");
    copy_snapshot(&snapshot, &state, &id).expect("a copy");
    let runtime = recorder.sandbox().runtime_dir().display().to_string();
    for (protocol, n) in [("http", 1), ("grpc", 2)] {
        let of = TempDir::new().expect("a directory");
        let rotel = Rotel::start(of.path());
        let port = if protocol == "http" { rotel.http } else { rotel.grpc };
        let config = format!(
            "[ship]\nhost = \"web{n}\"\nstate_dir = \"{}\"\nruntime_dir = \"{runtime}\"\n\
             [snapshots]\nsettle = \"0s\"\n\
             [otlp]\nendpoint = \"http://127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\n",
            state.display()
        );
        let shipper = Shipper::new(&of.path().join("ship"), &config).expect("flight-ship");
        let checked = shipper.run(&["--check"]).expect("flight-ship");
        assert_eq!(checked.status.code(), Some(0), "{checked:?}");
        let told = shipper.run(&["--once"]).expect("flight-ship");
        assert_eq!(told.status.code(), Some(0), "{told:?}");
        let status = shipper.status().expect("a status");
        let counts = |key: &str| status["otlp"][key].as_u64().expect("a number");
        for key in ["rejected", "refused", "failures", "left_out", "waiting"] {
            assert_eq!(counts(key), 0, "{key}: {status}");
        }
        assert_eq!((counts("records"), counts("spans") > 0), (1, true), "{status}");
        assert!(counts("points") > 100, "{status}");
        let end = Instant::now() + PATIENCE;
        // It writes what it got when it gets to it.
        let has = |words: &str| {
            let said = || rotel.said().contains(words);
            assert!(
                wait_until(end.saturating_duration_since(Instant::now()), said),
                "{words}: {}",
                rotel.said()
            );
        };
        for words in [
            "flightrec.snapshot",
            "log.record.uid",
            &format!("host.name: Str(web{n})"),
            &format!("flightrec.snapshot.id: Str({id})"),
            TRACE.0,
            TRACE.1,
            ": flock",
            &format!("file.path: Str({})", file.display()),
            "flightrec.wait.state: Str(blocked)",
            "Name: flightrec.events",
            "Unit: {event}",
            "Name: flightrec.lost_events",
            "Name: flightship.otlp_snapshots",
        ] {
            has(words);
        }
        // All that was counted came: each point of a metric, and each span.
        let said = rotel.said();
        let points = said.matches("\nValue: ").count() as u64;
        assert_eq!(points, counts("points"), "points");
        assert_eq!(said.matches("\nSpan #").count() as u64, counts("spans"), "spans");
        assert!(!said.contains("ERROR"), "{said}");
    }
    recorder.terminate().expect("its end");
}

/// Whenever flight-ship is killed, each snapshot is told, and what is told twice can be seen.
#[test]
fn kills_lose_nothing() {
    const SNAPSHOTS: usize = 20;
    Judge::ROTEL.require();
    let mut recorder = start("");
    let dir = TempDir::new().expect("a directory");
    taken_for(&recorder, "for kills", &["--last", "1s"]);
    recorder.terminate().expect("its end");
    let snapshots = recorder.sandbox().state_dir().join("snapshots");
    let mut found = fs::read_dir(&snapshots).expect("snapshots").flatten().map(|of| of.path());
    let snapshot = found.find(|path| path.extension().is_some_and(|of| of == "flight"));
    let snapshot = snapshot.expect("a snapshot");
    let state = dir.path().join("state");
    for n in 0..SNAPSHOTS {
        copy_snapshot(&snapshot, &state, &format!("20261126T120000Z-request-{n}")).expect("a copy");
    }
    let rotel = Rotel::start(dir.path());
    let config = format!(
        "[ship]\nstate_dir = \"{}\"\ninterval = \"100ms\"\n[snapshots]\nsettle = \"0s\"\n\
         [otlp]\nendpoint = \"http://127.0.0.1:{}\"\nprotocol = \"grpc\"\n\
         records_per_minute = 1000\nmetrics_interval = \"0s\"\n",
        state.display(),
        rotel.grpc
    );
    let mut shipper = Shipper::new(&dir.path().join("ship"), &config).expect("flight-ship");
    let told = |shipper: &Shipper| {
        shipper.status().and_then(|status| status["otlp"]["records"].as_u64()).unwrap_or(0)
    };
    let mut kills = 0;
    while told(&shipper) < SNAPSHOTS as u64 && kills < 10 {
        shipper.start().expect("flight-ship");
        thread::sleep(Duration::from_millis(100 + 37 * kills));
        shipper.kill();
        kills += 1;
    }
    let last = shipper.run(&["--once"]).expect("flight-ship");
    assert_eq!(last.status.code(), Some(0), "{last:?}");
    assert!(kills > 1, "it was killed meanwhile");
    let uids = || -> Vec<String> {
        let said = rotel.said();
        let lines = said.lines().filter_map(|line| line.trim().strip_prefix("-> log.record.uid: "));
        lines.map(str::to_owned).collect()
    };
    let distinct = || uids().into_iter().collect::<BTreeSet<_>>().len();
    assert!(wait_until(PATIENCE, || distinct() == SNAPSHOTS), "{}: {}", distinct(), rotel.said());
    let all = uids().len();
    assert!(all <= SNAPSHOTS + kills as usize, "{all} records, {kills} kills");
}

/// What is hidden in tables is hidden there, too.
#[test]
fn nothing_that_is_hidden_is_told() {
    let mut recorder = start("");
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("sekret-journal");
    wait_for_lock(&file);
    taken_for(&recorder, "a lock", &["--last", "1m"]);
    recorder.terminate().expect("its end");
    let snapshots = recorder.sandbox().state_dir().join("snapshots");
    let found = fs::read_dir(&snapshots).expect("snapshots").flatten().map(|of| of.path());
    let snapshot = found
        .into_iter()
        .find(|path| path.extension().is_some_and(|of| of == "flight"))
        .expect("a snapshot");
    let why = |args: &[&str]| {
        let args = [&["why", "--format", "json", "--spans", "50", "--tid", "1"][..], args].concat();
        let file = snapshot.to_str().expect("text");
        let output = recorder.flightctl(&[&args[..], &["--file", file]].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let all = why(&[]);
    assert!(all.contains("sekret-journal") && all.contains(TRACE.0), "{all}");
    let hidden = why(&["--hide", "sekret-[a-z]+"]);
    assert!(!hidden.contains("sekret") && hidden.contains(TRACE.0), "{hidden}");
    assert!(hidden.contains("***"), "{hidden}");
    // Paths are strings of programs as well: neither marks nor files are there.
    let none = why(&["--strings", "none"]);
    assert!(!none.contains("sekret") && !none.contains(TRACE.0), "{none}");
    assert!(none.contains("\"spans\": []"), "{none}");
    let paths = why(&["--strings", "paths"]);
    assert!(paths.contains("sekret-journal") && paths.contains(TRACE.0), "{paths}");
}

/// A certificate of one's own is refused, until it is named; over HTTP and gRPC.
#[test]
fn collectors_behind_tls() {
    Judge::ROTEL.require();
    let dir = TempDir::new().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    certificate(dir.path());
    fs::create_dir(at("state")).expect("a directory");
    let rotel = Rotel::start(dir.path());
    for (protocol, port) in [("http", rotel.http), ("grpc", rotel.grpc)] {
        let tls = Tls::start(dir.path(), port);
        let config = |more: &str| {
            format!(
                "[ship]\nhost = \"web1\"\nstate_dir = {:?}\n[otlp]\nprotocol = \"{protocol}\"\n\
                 endpoint = \"https://127.0.0.1:{}\"\n{more}",
                at("state"),
                tls.port
            )
        };
        let shipper = Shipper::new(&at(protocol), &config("")).expect("flight-ship");
        let checked = shipper.run(&["--check"]).expect("flight-ship");
        assert_eq!(checked.status.code(), Some(1), "{protocol}: {checked:?}");
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        let words = "certificate is from nobody who is trusted here: name the certificate";
        assert!(said.contains(words), "{protocol}: {said}");
        let named = config(&format!("ca_file = {:?}\n", at("certificate")));
        shipper.configure(&named).expect("written");
        for args in ["--check", "--once"] {
            let done = shipper.run(&[args]).expect("flight-ship");
            assert_eq!(done.status.code(), Some(0), "{protocol} {args}: {done:?}");
        }
        let status = shipper.status().expect("a status");
        assert!(status["otlp"]["points"].as_u64() > Some(10), "{protocol}: {status}");
        assert_eq!(status["otlp"]["failures"], 0, "{protocol}: {status}");
    }
    let has_points = || rotel.said().contains("Name: flightship.");
    assert!(wait_until(PATIENCE, has_points), "{}", rotel.said());
}

/// More causes than a collector wants to know: it gets no more records a minute than are allowed,
/// and each of the others is counted.
#[test]
fn a_storm_of_triggers_is_told_in_bounds() {
    const CRASHES: u64 = 12;
    const RECORDS: u64 = 4;
    const WAITING: u64 = 3;
    Judge::ROTEL.require();
    let mut recorder = with("core_dump", "enabled = true");
    let dir = TempDir::new().expect("a directory");
    let rotel = Rotel::start(dir.path());
    let [state, runtime] = [recorder.sandbox().state_dir(), recorder.sandbox().runtime_dir()]
        .map(|of| of.display().to_string());
    let config = format!(
        "[ship]\nhost = \"web1\"\nstate_dir = {state:?}\nruntime_dir = {runtime:?}\n\
         interval = \"1s\"\n[snapshots]\nsettle = \"0s\"\n\
         [otlp]\nendpoint = \"http://127.0.0.1:{}\"\nrecords_per_minute = {RECORDS}\n\
         waiting = {WAITING}\nspans = 0\n",
        rotel.http
    );
    let mut shipper = Shipper::new(&dir.path().join("ship"), &config).expect("flight-ship");
    shipper.start().expect("flight-ship");
    let began = Instant::now();
    // flightd lets one user cause two snapshots at once, and all users five, and then about one
    // a second.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut users = Vec::new();
    for n in 0..CRASHES {
        let user = 54_321 + n as u32;
        let program = dir.path().join(format!("crashes{n}"));
        fs::copy(bad_end(), &program).expect("a copy");
        // The user of a process that is gone is told by the one that began it.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "\"$0\" segv; sleep 3"]).arg(&program).uid(user).gid(user);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        users.push(command.spawn().expect("sh"));
        thread::sleep(Duration::from_millis(if n < 4 { 0 } else { 1100 }));
    }
    for mut user in users {
        user.wait().expect("its end");
    }
    let of = |name: &str| figure(&recorder, name).as_u64().unwrap_or(0);
    let is_over = || of("taken") + of("refused") == CRASHES && of("pending") == 0;
    assert!(wait_until(PATIENCE, is_over), "{}", recorder.log());
    let taken = of("taken");
    assert!(taken > RECORDS + WAITING, "{}", recorder.log());
    let counts = || {
        let status = shipper.status().unwrap_or_default();
        ["records", "waiting", "left_out"].map(|key| status["otlp"][key].as_u64().unwrap_or(0))
    };
    let are_known = || counts().iter().sum::<u64>() == taken;
    assert!(wait_until(PATIENCE, are_known), "{:?}\n{}", counts(), shipper.log());
    assert!(began.elapsed() < Duration::from_mins(1), "the machine is too slow to tell");
    let [records, waiting, left_out] = counts();
    assert_eq!((records, waiting <= WAITING), (RECORDS, true), "{waiting} wait");
    assert_eq!(left_out, taken - RECORDS - waiting);
    let status = shipper.status().expect("a status");
    for key in ["rejected", "refused", "failures"] {
        assert_eq!(status["otlp"][key], 0, "{key}: {status}");
    }
    // The collector has these, and no more.
    let came = || rotel.said().matches("flightrec.snapshot.id: Str(").count() as u64;
    assert!(wait_until(PATIENCE, || came() >= RECORDS), "{}", rotel.said());
    thread::sleep(Duration::from_secs(2));
    assert_eq!(came(), RECORDS, "{}", rotel.said());
    assert_eq!((of("failed"), of("kept")), (0, taken));
    recorder.terminate().expect("its end");
}
