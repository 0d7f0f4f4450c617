//! Real sockets, a fake recording, and clients of every kind of bad manners.

mod files;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flightrec_format::control::{
    self, Account, Budget, DescriptorStatus, FunctionCalls, NewProbe, PAGES_MAX, Position,
    ProbeChoice, ProbeStatus, REQUEST_MAX, RESPONSE_MAX, Request, Response, STACKS_MAX,
    SnapshotStatus, StoreStatus, SumsStatus, ThreadStack,
};
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::server::serve_with;
use super::*;

const BATCHES: usize = 40;
const BATCH: usize = PAGES_MAX * 4096;

/// A recording of [`BATCHES`] batches, which notes what is asked of it.
#[derive(Default)]
struct Fake {
    marks: Mutex<Vec<(String, u32)>>,
    taken: Arc<AtomicUsize>,
    windows: Mutex<Vec<(u64, u64)>>,
    panics: bool,
    meter: Meter,
    /// How long a batch keeps a CPU busy.
    busy: Duration,
}

impl Backend for Fake {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn account(&self) -> Account {
        Account { total: 3, ..Account::default() }
    }

    fn set_budget(&self, total: Option<u32>, _: Option<u32>) -> Result<(), String> {
        total.map_or_else(|| Err("nothing to set".into()), |_| Ok(()))
    }

    fn status(&self) -> Status {
        assert!(!self.panics, "a fault in the backend");
        Status {
            version: "1".into(),
            session: 7,
            pid: std::process::id(),
            recording_since: 1,
            wall_offset: 2,
            daemon_since: 3,
            daemon_cpu: 4,
            syscall_programs: "tp_btf".into(),
            memory: 5,
            ring_bytes: [1, 2, 3, 4],
            held: [4, 5, 6, 7],
            totals: Totals::default(),
            strings: true,
            threads: 9,
            budget: Budget::default(),
            store: StoreStatus::default(),
            sums: SumsStatus::default(),
            descriptors: DescriptorStatus::default(),
            snapshots: SnapshotStatus::default(),
            unpinned: None,
            switched_off: Vec::new(),
            lacking: Vec::new(),
            tracepoints: Vec::new(),
        }
    }

    fn meta(&self) -> String {
        "{}".into()
    }

    fn add_probe(&self, new: &NewProbe, events: Vec<OwnedFd>) -> Result<ProbeStatus, String> {
        Ok(ProbeStatus {
            functions: events.len() as u32,
            spec: new.spec.clone(),
            ..Default::default()
        })
    }

    fn probes(&self) -> Vec<ProbeStatus> {
        vec![ProbeStatus { id: 1, ..ProbeStatus::default() }]
    }

    fn takes_files(&self) -> bool {
        true
    }

    fn remove_probes(&self, _: &ProbeChoice) -> Result<Vec<ProbeStatus>, String> {
        Err("none".into())
    }

    fn function_calls(&self) -> (Vec<FunctionCalls>, u64) {
        (Vec::new(), 5)
    }

    fn pages(&self, from: u64, until: u64) -> Batches {
        self.windows.lock().unwrap().push((from, until));
        let (taken, busy) = (self.taken.clone(), self.busy);
        batches((0..BATCHES).map(move |i| {
            taken.fetch_add(1, Ordering::SeqCst);
            let until = crate::clock::thread_cpu() + busy.as_nanos() as u64;
            while crate::clock::thread_cpu() < until {
                std::hint::spin_loop();
            }
            vec![i as u8; BATCH]
        }))
    }

    fn since(&self, session: u64, after: Vec<Position>, newest: u32) -> Option<Batches> {
        let batch = after
            .into_iter()
            .map(move |position| vec![position.used as u8; newest as usize * 4096]);
        (session == 7).then(|| batches(batch))
    }

    fn totals(&self) -> Totals {
        Totals { now: 99, ..Totals::default() }
    }

    fn mark(&self, text: &str, tid: u32) -> Result<(), String> {
        if text == "no" {
            return Err("refused".into());
        }
        self.marks.lock().unwrap().push((text.into(), tid));
        Ok(())
    }

    fn stacks(&self) -> Result<Vec<ThreadStack>, String> {
        Ok((0..=STACKS_MAX as u32).map(|tid| ThreadStack { tid, frames: vec![7] }).collect())
    }

    fn snapshot(&self, last: u64, reason: &str, uid: u32) -> Result<String, String> {
        if reason == "no" { Err("refused".into()) } else { Ok(format!("{last} {reason} {uid}")) }
    }
}

fn batches(mut pages: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Batches {
    Box::new(move |out| out.extend(pages.next().unwrap_or_default()))
}

/// A server on a socket of its own.
struct Server {
    backend: Arc<Fake>,
    path: PathBuf,
    _dir: TempDir,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

fn root_only() -> Access {
    Access { uid: 0, gid: None }
}

impl Server {
    fn start(limits: Limits) -> Self {
        Self::start_with(limits, root_only(), Fake::default())
    }

    fn start_with(limits: Limits, access: Access, fake: Fake) -> Self {
        let dir = TempDir::new().unwrap();
        // Other users' threads connect in a test below.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join(control::SOCKET_NAME);
        let listener = Listener::bind(&path, &access).unwrap();
        let backend = Arc::new(fake);
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        let task = tokio::spawn(serve_with(listener, backend.clone(), access, shutdown, limits));
        Self { backend, path, _dir: dir, stop, task }
    }

    async fn client(&self) -> Client {
        loop {
            match UnixStream::connect(&self.path).await {
                // The queue is full; who blocks there waits in it.
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                connected => return Client(connected.unwrap()),
            }
        }
    }

    /// It still answers a well-behaved client.
    async fn serves(&self) {
        let mut client = self.client().await;
        client.ask(&Request::Status).await;
        assert!(matches!(client.answer().await, Some(Response::Status(s)) if s.session == 7));
    }
}

struct Client(UnixStream);

impl Client {
    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    async fn ask(&mut self, request: &Request) {
        self.send(&control::encode(request).unwrap()).await;
    }

    /// The next answer; `None` at the end of the connection.
    async fn answer(&mut self) -> Option<Response> {
        let mut prefix = [0; 4];
        // Closing with input unread resets the connection, once the answer has been read.
        self.0.read_exact(&mut prefix).await.ok()?;
        let mut frame = vec![0; control::length(prefix, RESPONSE_MAX).unwrap()];
        self.0.read_exact(&mut frame).await.unwrap();
        Some(control::decode(&frame).unwrap())
    }

    /// The next answer is an error that says `part`, and the last.
    async fn is_refused(&mut self, part: &str) {
        match self.answer().await {
            Some(Response::Error(text)) => assert!(text.contains(part), "{text}"),
            other => panic!("expected an error about {part:?}, not {other:?}"),
        }
        assert_eq!(self.answer().await, None, "the connection stays open");
    }
}

fn short() -> Limits {
    let limit = Duration::from_millis(300);
    Limits {
        connections: 3,
        reserved: 0,
        each: 3,
        request: limit,
        idle: Duration::from_secs(20),
        write: limit,
        ..Limits::default()
    }
}

#[tokio::test]
async fn requests_are_answered_in_turn() {
    let server = Server::start(Limits::default());
    let mut client = server.client().await;
    // Two at once: the second waits its turn.
    let two = [Request::Mark { text: "here".into() }, Request::Mark { text: "no".into() }];
    let bytes: Vec<u8> = two.iter().flat_map(|r| control::encode(r).unwrap()).collect();
    client.send(&bytes).await;
    assert_eq!(client.answer().await, Some(Response::Done));
    assert_eq!(client.answer().await, Some(Response::Error("refused".into())));
    client.ask(&Request::Mark { text: "x".repeat(256) }).await;
    assert!(matches!(client.answer().await, Some(Response::Error(e)) if e.contains("at most 255")));
    assert_eq!(*server.backend.marks.lock().unwrap(), [("here".to_owned(), std::process::id())]);

    client.ask(&Request::Pages { from: 5, until: 6 }).await;
    assert_eq!(client.answer().await, Some(Response::Meta("{}".into())));
    for i in 0..BATCHES {
        let Some(Response::Pages(batch)) = client.answer().await else { panic!("batch {i}") };
        assert!(batch.len() == BATCH && batch.iter().all(|b| *b == i as u8), "batch {i}");
    }
    assert!(matches!(client.answer().await, Some(Response::End(t)) if t.now == 99));
    assert_eq!(*server.backend.windows.lock().unwrap(), [(5, 6)]);
    client.ask(&Request::Status).await;
    assert!(matches!(client.answer().await, Some(Response::Status(_))));
}

#[tokio::test]
async fn what_is_new_comes_without_metadata_unless_the_recording_is_another() {
    let server = Server::start(Limits::default());
    let mut client = server.client().await;
    let after = vec![
        Position { lane: 0, cpu: 1, seq: 9, used: 17 },
        Position { lane: 1, cpu: 1, seq: 9, used: 18 },
    ];
    client.ask(&Request::Since { session: 7, after: after.clone(), newest: 2 }).await;
    for used in [17, 18] {
        assert_eq!(client.answer().await, Some(Response::Pages(vec![used; 8192])));
    }
    assert!(matches!(client.answer().await, Some(Response::End(t)) if t.now == 99));
    client.ask(&Request::Since { session: 8, after, newest: 2 }).await;
    assert_eq!(client.answer().await, Some(Response::Meta("{}".into())));
    assert!(matches!(client.answer().await, Some(Response::End(_))));
}

#[tokio::test]
async fn stacks_come_after_the_metadata_that_name_them() {
    let server = Server::start(Limits::default());
    let mut client = server.client().await;
    client.ask(&Request::Stacks).await;
    assert_eq!(client.answer().await, Some(Response::Meta("{}".into())));
    for count in [STACKS_MAX, 1] {
        let Some(Response::Stacks(stacks)) = client.answer().await else { panic!("{count}") };
        assert_eq!(stacks.len(), count);
    }
    assert!(matches!(client.answer().await, Some(Response::End(t)) if t.now == 99));
}

#[tokio::test]
async fn a_ring_that_is_named_twice_is_refused() {
    let server = Server::start(Limits::default());
    let mut client = server.client().await;
    let position = |cpu, seq| Position { lane: 0, cpu, seq, used: 0 };
    let after = vec![position(1, 0), position(2, 0), position(1, 5)];
    client.ask(&Request::Since { session: 7, after, newest: 2 }).await;
    assert!(matches!(client.answer().await, Some(Response::Error(e)) if e.contains("twice")));
    // As often as fits into a request.
    let many = vec![position(1, 0); 30_000];
    client.ask(&Request::Since { session: 7, after: many, newest: 1 }).await;
    assert!(matches!(client.answer().await, Some(Response::Error(e)) if e.contains("twice")));
    client.ask(&Request::Status).await;
    assert!(
        matches!(client.answer().await, Some(Response::Status(_))),
        "the connection is good for more"
    );
}

/// How long a user's client takes for a dump of [`BATCHES`] batches, 4 ms of a CPU each; and what
/// the meter says then.
async fn dump_as(uid: u32) -> (Duration, Duration) {
    const GROUP: u32 = 4711;
    let limits = Limits {
        readers: Allowance { burst: Duration::from_millis(60), percent: 20 },
        ..Limits::default()
    };
    let fake = Fake { busy: Duration::from_millis(4), ..Fake::default() };
    let server = Server::start_with(limits, Access { uid: 0, gid: Some(GROUP) }, fake);
    let path = server.path.clone();
    let stream =
        tokio::task::spawn_blocking(move || connect_as(&path, uid, GROUP, vec![])).await.unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut client = Client(UnixStream::from_std(stream).unwrap());
    let begun = Instant::now();
    client.ask(&Request::Pages { from: 0, until: 1 }).await;
    while !matches!(client.answer().await, Some(Response::End(_))) {}
    (begun.elapsed(), Duration::from_nanos(server.backend.meter.spent()))
}

#[tokio::test]
async fn readers_are_counted_and_bounded() {
    const SPENT: Duration = Duration::from_millis(4 * BATCHES as u64);
    let (_, spent) = dump_as(0).await;
    assert!(spent >= SPENT, "{spent:?}");
    // 100 ms and more beyond what may be had at once, at a fifth of a CPU.
    let (took, spent) = dump_as(12_345).await;
    assert!(spent >= SPENT && took >= Duration::from_millis(500), "{took:?} for {spent:?}");
}

/// Does something once more, on the connection that there is.
type Flood = fn(&Path, &mut Option<StdStream>);

/// CPU time that flightd spends for a user who does this for a second, again and again.
async fn flooded_by(flood: Flood) -> Duration {
    const GROUP: u32 = 4711;
    let limits = Limits {
        readers: Allowance { burst: Duration::from_millis(5), percent: 2 },
        door: Allowance { burst: Duration::from_millis(5), percent: 2 },
        ..Limits::default()
    };
    let server = Server::start_with(limits, Access { uid: 0, gid: Some(GROUP) }, Fake::default());
    let path = server.path.clone();
    let flooding = move || {
        let begun = Instant::now();
        let mut stream = None;
        while begun.elapsed() < Duration::from_secs(1) {
            flood(&path, &mut stream);
        }
    };
    tokio::task::spawn_blocking(move || as_user(12_345, GROUP, vec![], flooding)).await.unwrap();
    let spent = server.backend.meter.spent();
    server.serves().await;
    Duration::from_nanos(spent)
}

/// Sends a request, on a new connection where there is none, and reads what is answered.
fn ask_again(path: &Path, stream: &mut Option<StdStream>, request: &[u8]) {
    let open = stream.get_or_insert_with(|| StdStream::connect(path).unwrap());
    let mut prefix = [0; 4];
    let answered = open.write_all(request).and_then(|()| open.read_exact(&mut prefix));
    let rest = answered.and_then(|()| {
        let mut frame = vec![0; control::length(prefix, RESPONSE_MAX).unwrap()];
        open.read_exact(&mut frame)
    });
    if rest.is_err() {
        *stream = None;
    }
}

#[tokio::test]
async fn what_is_refused_counts_as_well() {
    let floods: [(&str, Flood); 5] = [
        ("a change of the budget", |path, stream| {
            let request = Request::SetBudget { total: Some(1), per_cpu: None };
            ask_again(path, stream, &control::encode(&request).unwrap());
        }),
        ("the end of probes", |path, stream| {
            let request = Request::RemoveProbes(ProbeChoice::All);
            ask_again(path, stream, &control::encode(&request).unwrap());
        }),
        ("a mark that is too long", |path, stream| {
            let request = Request::Mark { text: "x".repeat(60_000) };
            ask_again(path, stream, &control::encode(&request).unwrap());
        }),
        ("nonsense", |path, stream| {
            ask_again(path, stream, &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
            *stream = None;
        }),
        ("connections", |path, _| drop(StdStream::connect(path))),
    ];
    for (what, flood) in floods {
        let spent = flooded_by(flood).await;
        // Of a user and of new connections: at once, in the second, and the last answer.
        let most = Duration::from_millis(2 * (5 + 20) + 25);
        assert!(!spent.is_zero() && spent < most, "{what}: {spent:?}");
    }
}

/// New connections count in their user's account, also those that are refused.
#[tokio::test]
async fn who_only_connects_pays_for_it() {
    const GROUP: u32 = 4711;
    let limits = Limits {
        readers: Allowance { burst: Duration::from_millis(5), percent: 2 },
        door: Allowance { burst: Duration::from_secs(1), percent: 100 },
        ..Limits::default()
    };
    let server = Server::start_with(limits, Access { uid: 0, gid: Some(GROUP) }, Fake::default());
    let path = server.path.clone();
    let asking = move || {
        let held: Vec<StdStream> =
            (0..limits.each).map(|_| StdStream::connect(&path).unwrap()).collect();
        for _ in 0..200 {
            // One more than a user may have: it is refused, which costs 0.1 ms at least.
            let mut refused = StdStream::connect(&path).unwrap();
            refused.read_exact(&mut [0; 4]).unwrap();
        }
        let mut stream = held.into_iter().next();
        let begun = Instant::now();
        for _ in 0..2 {
            ask_again(&path, &mut stream, &control::encode(&Request::Status).unwrap());
            assert!(stream.is_some());
        }
        begun.elapsed()
    };
    let waited = tokio::task::spawn_blocking(move || as_user(12_345, GROUP, vec![], asking));
    // 20 ms and more, of which 5 ms may be had at once, at 2 % of a CPU; and some pass meanwhile.
    let waited = waited.await.unwrap();
    assert!(waited > Duration::from_millis(300), "{waited:?}");
}

#[tokio::test]
async fn nonsense_is_answered_with_its_reason_and_the_end() {
    let server = Server::start(Limits::default());
    let whole = control::encode(&Request::Status).unwrap();
    let mut version = whole.clone();
    version[4] = 99;
    let mut after = whole.clone();
    after[0] += 1;
    after.push(0);
    let oversized = (REQUEST_MAX as u32 + 1).to_le_bytes().to_vec();
    let cases = [
        (version, "version 99 is not "),
        (after, "1 bytes after the message"),
        (oversized, "exceeds the limit of 262144"),
        (u32::MAX.to_le_bytes().to_vec(), "exceeds the limit"),
        (vec![0; 4], "a frame of 0 bytes"),
        (vec![4, 0, 0, 0, control::VERSION as u8, 0, 0xff, 0xff], "malformed"),
        // A string that claims to be longer than the frame.
        (
            vec![
                13,
                0,
                0,
                0,
                control::VERSION as u8,
                0,
                2,
                253,
                255,
                255,
                255,
                255,
                255,
                255,
                255,
                15,
                0,
            ],
            "malformed",
        ),
    ];
    for (bytes, reason) in cases {
        let mut client = server.client().await;
        client.send(&bytes).await;
        client.is_refused(reason).await;
    }
    server.serves().await;
}

#[tokio::test]
async fn a_half_closed_connection_is_served_to_its_end() {
    let server = Server::start(Limits::default());
    let mut client = server.client().await;
    client.ask(&Request::Status).await;
    client.0.shutdown().await.unwrap();
    assert!(matches!(client.answer().await, Some(Response::Status(_))));
    assert_eq!(client.answer().await, None);

    for keep in [1, 4, 6] {
        let mut client = server.client().await;
        client.send(&control::encode(&Request::Mark { text: "cut".into() }).unwrap()[..keep]).await;
        client.0.shutdown().await.unwrap();
        client.is_refused(&format!("cut off after {keep} bytes")).await;
    }
    assert!(server.backend.marks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_slow_request_is_cut_however_it_trickles() {
    let server = Server::start(short());
    let whole = control::encode(&Request::Mark { text: "x".repeat(200) }).unwrap();
    let mut client = server.client().await;
    let begun = Instant::now();
    // A byte now and then must not put off the end.
    for byte in whole.iter().take(100) {
        if client.0.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        if begun.elapsed() > short().request {
            break;
        }
    }
    client.is_refused("did not arrive completely within 0.3 s").await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    server.serves().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    let limits = Limits { idle: Duration::from_millis(100), ..Limits::default() };
    let server = Server::start(limits);
    let mut silent = server.client().await;
    assert_eq!(silent.answer().await, None);
    let mut once = server.client().await;
    once.ask(&Request::Status).await;
    assert!(matches!(once.answer().await, Some(Response::Status(_))));
    assert_eq!(once.answer().await, None);
}

#[tokio::test]
async fn who_does_not_read_holds_one_batch_and_not_for_long() {
    let server = Server::start(short());
    let mut client = server.client().await;
    client.ask(&Request::Pages { from: 0, until: u64::MAX }).await;
    let begun = Instant::now();
    // The server gives up: its backend is dropped, and only this test's reference remains.
    while Arc::strong_count(&server.backend) > 2 || server.backend.taken.load(Ordering::SeqCst) == 0
    {
        assert!(begun.elapsed() < Duration::from_secs(20), "it still holds the connection");
        server.serves().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        server.backend.taken.load(Ordering::SeqCst),
        2,
        "batches taken: one that is written, one ahead"
    );
    assert!(begun.elapsed() >= short().write);
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let server = Server::start(short());
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = server.client().await;
        client.ask(&Request::Status).await;
        assert!(matches!(client.answer().await, Some(Response::Status(_))));
        clients.push(client);
    }
    server.client().await.is_refused("all 3 connections are in use").await;
    // The others go on, and one that ends makes room.
    clients[0].ask(&Request::Status).await;
    assert!(matches!(clients[0].answer().await, Some(Response::Status(_))));
    clients.truncate(2);
    let begun = Instant::now();
    loop {
        let mut client = server.client().await;
        client.ask(&Request::Status).await;
        match client.answer().await {
            Some(Response::Status(_)) => break,
            Some(Response::Error(_)) | None if begun.elapsed() < Duration::from_secs(10) => {}
            other => panic!("no room was made: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_fault_in_the_backend_is_an_answer() {
    let server = Server::start_with(
        Limits::default(),
        root_only(),
        Fake { panics: true, ..Fake::default() },
    );
    let mut client = server.client().await;
    client.ask(&Request::Status).await;
    assert!(matches!(client.answer().await, Some(Response::Error(e)) if e.contains("see its log")));
    client.ask(&Request::Mark { text: "still here".into() }).await;
    assert_eq!(client.answer().await, Some(Response::Done));
}

#[tokio::test]
async fn shutdown_cuts_connections_and_removes_the_file() {
    let server = Server::start(Limits::default());
    let mut client = server.client().await;
    client.ask(&Request::Pages { from: 0, until: u64::MAX }).await;
    assert!(client.answer().await.is_some());
    server.stop.send(()).unwrap();
    server.task.await.unwrap().unwrap();
    assert!(!server.path.exists());
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() < BATCHES * BATCH);
}

/// Connects as another user.
fn connect_as(path: &Path, uid: u32, gid: u32, groups: Vec<u32>) -> StdStream {
    let path = path.to_owned();
    as_user(uid, gid, groups, move || StdStream::connect(path)).unwrap()
}

/// Does something as another user. Credentials belong to threads, as far as the kernel is concerned.
fn as_user<T: Send + 'static>(
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    deed: impl FnOnce() -> T + Send + 'static,
) -> T {
    let done = std::thread::spawn(move || {
        // SAFETY: plain numbers, and a pointer to a live array of the length given.
        unsafe {
            assert_eq!(
                libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
                0,
                "this test needs root"
            );
            assert_eq!(libc::syscall(libc::SYS_setresgid, gid, gid, gid), 0);
            assert_eq!(libc::syscall(libc::SYS_setresuid, uid, uid, uid), 0);
        }
        deed()
    });
    done.join().unwrap()
}

#[tokio::test]
async fn only_root_and_the_group_are_served() {
    const GROUP: u32 = 54_321;
    let server =
        Server::start_with(Limits::default(), Access { uid: 0, gid: Some(GROUP) }, Fake::default());
    let meta = fs::metadata(&server.path).unwrap();
    assert_eq!((meta.mode() & 0o777, meta.gid()), (0o660, GROUP));
    // The file's mode would keep strangers out by itself; here the credentials have to.
    fs::set_permissions(&server.path, Permissions::from_mode(0o666)).unwrap();
    let many: Vec<u32> = (100_000..100_300).chain([GROUP]).collect();
    for (uid, gid, groups, served) in [
        (65_534, 65_534, vec![], false),
        (65_534, 65_534, vec![1, 2, GROUP + 1], false),
        (65_534, 65_534, vec![1, GROUP], true),
        (65_534, 65_534, many, true),
        (65_534, GROUP, vec![], true),
        (0, 0, vec![], true),
    ] {
        let path = server.path.clone();
        let list = groups.clone();
        let stream =
            tokio::task::spawn_blocking(move || connect_as(&path, uid, gid, list)).await.unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut client = Client(UnixStream::from_std(stream).unwrap());
        if served {
            client.ask(&Request::Status).await;
            assert!(
                matches!(client.answer().await, Some(Response::Status(_))),
                "{uid}:{gid} {groups:?}"
            );
        } else {
            client.is_refused("only root and the members").await;
        }
    }
}

const GROUP: u32 = 54_321;

/// A connection of a member of the group.
async fn member(server: &Server, uid: u32) -> Client {
    let path = server.path.clone();
    let stream = tokio::task::spawn_blocking(move || connect_as(&path, uid, GROUP, Vec::new()))
        .await
        .unwrap();
    stream.set_nonblocking(true).unwrap();
    Client(UnixStream::from_std(stream).unwrap())
}

/// The same, held and served.
async fn held(server: &Server, uid: u32) -> Client {
    let mut client = member(server, uid).await;
    client.ask(&Request::Status).await;
    assert!(matches!(client.answer().await, Some(Response::Status(_))), "user {uid}");
    client
}

#[tokio::test]
async fn one_member_leaves_connections_to_the_others() {
    let limits = Limits::default();
    let server = Server::start_with(limits, Access { uid: 0, gid: Some(GROUP) }, Fake::default());
    let mut clients = Vec::new();
    for _ in 0..limits.each {
        clients.push(held(&server, 65_534).await);
    }
    member(&server, 65_534)
        .await
        .is_refused("user 65534 has 8 connections, the maximum for one user")
        .await;
    clients.push(held(&server, 65_533).await);
    // One that ends makes room.
    clients.remove(0);
    let mut client = member(&server, 65_534).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        client.ask(&Request::Status).await;
        if matches!(client.answer().await, Some(Response::Status(_))) {
            break;
        }
        assert!(Instant::now() < deadline, "its place stays taken");
        client = member(&server, 65_534).await;
    }
}

#[tokio::test]
async fn members_of_the_group_do_not_lock_root_out() {
    let access = Access { uid: 0, gid: Some(GROUP) };
    let limits = Limits::default();
    let server = Server::start_with(limits, access, Fake::default());
    let mut clients = Vec::new();
    for i in 0..limits.connections - limits.reserved {
        clients.push(held(&server, 65_534 - (i / limits.each) as u32).await);
    }
    member(&server, 65_000).await.is_refused("all 24 connections are in use").await;
    // Root has the rest, whatever the members do, and no more.
    let mut roots = Vec::new();
    for _ in 0..limits.reserved {
        let mut client = server.client().await;
        client.ask(&Request::Status).await;
        assert!(matches!(client.answer().await, Some(Response::Status(_))));
        roots.push(client);
    }
    server.client().await.is_refused("all 32 connections are in use").await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_end_in_an_answer_or_the_end(mut bytes: Vec<u8>, whole: bool) {
        if whole {
            // A right length and version, and anything after them.
            let length = (bytes.len() as u32 + 2).to_le_bytes();
            bytes = [&length[..], &control::VERSION.to_le_bytes(), &bytes].concat();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start(Limits::default());
            let mut client = server.client().await;
            // The server may have closed already, in the middle of it.
            let _ = client.0.write_all(&bytes).await;
            let _ = client.0.shutdown().await;
            while client.answer().await.is_some() {}
            server.serves().await;
        });
    }
}

#[tokio::test]
async fn the_budget_is_told_and_changed() {
    let server = Server::start(Limits::default());
    let mut client = server.client().await;
    client.ask(&Request::Budget).await;
    assert!(
        matches!(client.answer().await, Some(Response::Account(account)) if account.total == 3)
    );
    client.ask(&Request::SetBudget { total: Some(5000), per_cpu: None }).await;
    assert_eq!(client.answer().await, Some(Response::Done));
    client.ask(&Request::SetBudget { total: None, per_cpu: None }).await;
    assert_eq!(client.answer().await, Some(Response::Error("nothing to set".into())));
}

#[test]
fn the_group_may_not_change_the_budget() {
    let peer = |uid| Peer { pid: 1, uid, gid: 5, groups: vec![5] };
    assert!(Access { uid: 7, gid: Some(5) }.allows(&peer(12_345)));
    assert!(!peer(12_345).may_change());
    assert!(peer(0).may_change() && peer(nix::unistd::getuid().as_raw()).may_change());
}
