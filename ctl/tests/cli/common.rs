//! The program, and a daemon that plays a recording made by hand.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::control::{
    self, Budget, CpuTotals, DescriptorStatus, REQUEST_MAX, Request, Response, SnapshotStatus,
    Status, StoreStatus, SumsStatus, Totals,
};
use flightrec_format::decode::Event;
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Argument, Lanes, Meta, Syscall, TaiOffset, to_json};
use tempfile::TempDir;

pub(crate) fn flightctl(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flightctl"));
    usual(&mut command).args(args);
    command
}

/// Whatever is set where the tests are run: colours, widths, languages, time zones, limits and
/// directories do not come from there.
pub(crate) fn usual(command: &mut Command) -> &mut Command {
    let kept = ["HOME", "LLVM_PROFILE_FILE", "PATH", "TMPDIR"];
    let kept = kept.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(kept).env("TZ", "UTC")
}

pub(crate) fn stdout(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).unwrap()
}

pub(crate) fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

/// What the recording's pages say in the kernel's memory; and its public id, the hash of that,
/// which all copies say.
pub(crate) const SECRET: u64 = 0xf11e;
pub(crate) const SESSION: u64 = 0xab44_5cfd_8bb8_5abd;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const BOOT_ID: &str = "01234567-89ab-cdef-0123-456789abcdef";
/// When the recording started, and what now is.
pub(crate) const STARTED: u64 = 100 * SECOND;
pub(crate) const NOW: u64 = 120 * SECOND;
/// 2026-01-01 00:00:00 UTC, when the monotonic clock showed 0.
pub(crate) const WALL: u64 = 1_767_225_600 * SECOND;

pub(crate) fn meta() -> Meta {
    let call = |nr, name: &str, args: &[(&str, &str)]| Syscall {
        nr,
        name: name.into(),
        args: Some(
            args.iter().map(|(n, t)| Argument { name: (*n).into(), ctype: (*t).into() }).collect(),
        ),
    };
    Meta {
        session: SESSION,
        boot_id: BOOT_ID.into(),
        started: STARTED,
        wall_offsets: vec![WALL as i64],
        tai_offsets: vec![TaiOffset { since: 0, seconds: 37 }],
        cpus: vec![0, 1],
        lanes: Lanes::new([1 << 20; 4], [false; 4]),
        native: vec![
            call(
                1,
                "write",
                &[("fd", "unsigned int"), ("buf", "const char *"), ("count", "size_t")],
            ),
            call(39, "getpid", &[]),
            call(257, "openat", &[("dfd", "int"), ("filename", "const char *"), ("flags", "int")]),
        ],
        ..Meta::default()
    }
}

/// A recording in the making.
pub(crate) struct Recording {
    rings: Vec<(Lane, u16, PageWriter)>,
    /// Of each ring, the pages that are full.
    full: Vec<Vec<Box<[u8; PAGE_SIZE]>>>,
    pub(crate) drop_pages: usize,
    /// So many pages of a ring are left at most.
    pub(crate) keep_pages: usize,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns.
    wall: u64,
}

impl Recording {
    pub(crate) fn new() -> Self {
        Self::with(SESSION, WALL)
    }

    /// Of another session, or at another time.
    pub(crate) fn with(session: u64, wall: u64) -> Self {
        let tai = wall + 37 * SECOND;
        let ring = |lane, cpu| (lane, cpu, PageWriter::new(session, lane, cpu, tai));
        let rings: Vec<_> =
            Lane::RINGS.into_iter().flat_map(|lane| [ring(lane, 0), ring(lane, 1)]).collect();
        Self {
            full: vec![Vec::new(); rings.len()],
            rings,
            drop_pages: 0,
            keep_pages: usize::MAX,
            wall,
        }
    }

    /// Sets the wall clock: pages that are opened from now on tell it.
    pub(crate) fn set_wall(&mut self, wall: u64) {
        self.wall = wall;
        self.rings.iter_mut().for_each(|(.., ring)| ring.set_tai(wall + 37 * SECOND));
    }

    /// The pages of each ring, as they are now.
    pub(crate) fn pages(&mut self) -> Vec<Vec<Box<[u8; PAGE_SIZE]>>> {
        let all = self.rings.iter_mut().zip(&mut self.full);
        all.map(|((_, _, ring), full)| {
            full.extend(ring.take());
            full.iter().cloned().chain(ring.current()).collect()
        })
        .collect()
    }

    pub(crate) fn ring(&mut self, lane: Lane, cpu: u16) -> &mut PageWriter {
        &mut self.rings.iter_mut().find(|ring| (ring.0, ring.1) == (lane, cpu)).unwrap().2
    }

    pub(crate) fn push(&mut self, lane: Lane, event: &Event) {
        self.ring(lane, event.cpu).push(event).unwrap();
    }

    /// The counters at a moment.
    pub(crate) fn totals(&self, now: u64) -> Totals {
        let mut cpus = [0, 1].map(|cpu| CpuTotals { cpu, recorded: true, ..CpuTotals::default() });
        for (lane, cpu, ring) in &self.rings {
            let of_cpu = &mut cpus[usize::from(*cpu)];
            (of_cpu.events[*lane as usize], of_cpu.refused[*lane as usize]) = ring.totals();
        }
        Totals { now, cpus: cpus.into(), ..Totals::default() }
    }

    /// A daemon that has recorded this; it serves any number of clients until the test ends.
    pub(crate) fn serve(self) -> TempDir {
        self.serve_as(&meta())
    }

    /// The same, of another description.
    pub(crate) fn serve_as(mut self, meta: &Meta) -> TempDir {
        let meta = to_json(meta).unwrap();
        let totals = self.totals(NOW);
        let mut pages: Vec<Vec<u8>> = Vec::new();
        for all in self.pages() {
            let skip = if all.len() > 1 { self.drop_pages } else { 0 };
            let skip = skip.max(all.len().saturating_sub(self.keep_pages));
            pages.extend(all.iter().skip(skip).map(|page| page.to_vec()));
        }
        let status = Status { totals: totals.clone(), wall_offset: self.wall as i64, ..status() };
        daemon(move |request| match request {
            Request::Status => vec![Response::Status(Box::new(status.clone()))],
            Request::Mark { text } if text == "refuse" => {
                vec![Response::Error("no marks today".into())]
            }
            Request::Mark { .. } => vec![Response::Done],
            Request::Budget => vec![Response::Account(Box::default())],
            Request::SetBudget { .. } => vec![Response::Error("not for you".into())],
            Request::Snapshot { reason, .. } if reason == "refuse" => {
                vec![Response::Error("try again in 7 s".into())]
            }
            Request::Snapshot { last, reason } => {
                vec![Response::Snapshot(format!("{last}-{reason}"))]
            }
            Request::Stacks => vec![
                Response::Meta(meta.clone()),
                Response::Stacks(Vec::new()),
                Response::End(totals.clone()),
            ],
            Request::AddProbe(_) | Request::Probes | Request::RemoveProbes(_) => {
                vec![Response::Probes(Vec::new(), true)]
            }
            Request::FunctionCalls => vec![Response::FunctionCalls(Vec::new(), NOW)],
            Request::Since { .. } => vec![Response::Error("not recorded live".into())],
            Request::Pages { .. } => {
                let mut out = vec![Response::Meta(meta.clone())];
                out.extend(pages.chunks(100).map(|pages| Response::Pages(pages.concat())));
                out.push(Response::End(totals.clone()));
                out
            }
        })
    }
}

/// What a daemon says of itself that has recorded nothing.
pub(crate) fn status() -> Status {
    Status {
        version: "test".into(),
        session: SESSION,
        pid: 1,
        recording_since: STARTED,
        wall_offset: WALL as i64,
        daemon_since: STARTED,
        daemon_cpu: SECOND,
        syscall_programs: "tp_btf".into(),
        memory: 1 << 20,
        ring_bytes: [1 << 20; 4],
        held: [SECOND; 4],
        totals: Totals::default(),
        strings: true,
        threads: 0,
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

/// A daemon that answers as told.
pub(crate) fn daemon(answer: impl Fn(Request) -> Vec<Response> + Send + 'static) -> TempDir {
    raw_daemon(move |stream| {
        while let Some(frame) = read_frame(stream) {
            for response in answer(control::decode(&frame).unwrap()) {
                if stream.write_all(&control::encode(&response).unwrap()).is_err() {
                    return;
                }
            }
        }
    })
}

/// A daemon that does what it likes with a connection.
pub(crate) fn raw_daemon(serve: impl Fn(&mut UnixStream) + Send + 'static) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join(control::SOCKET_NAME)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(&mut stream.unwrap());
        }
    });
    dir
}

fn read_frame(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).ok()?;
    let mut frame = vec![0; control::length(prefix, REQUEST_MAX).unwrap()];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

pub(crate) fn dump(dir: &Path, args: &[&str]) -> Output {
    flightctl(&[&["--runtime-dir", dir.to_str().unwrap(), "dump"], args].concat())
}
