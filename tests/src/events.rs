//! All that a live recording holds at one moment, past `flightd` and `flightctl`: for statements
//! that must be exact.

use std::collections::HashSet;
use std::path::Path;

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::{Abi, StringStatus};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::control::Totals;
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::live::{Generation, LiveRings};
use flightrec_format::meta::Meta;
use flightrec_format::ring::{Gap, LaneStream, Reason, RingCoverage, Rings, Scope};
use flightrec_format::slots;
use nix::errno::Errno;
use nix::unistd::{Pid, getpgid};

use crate::kernel::monotonic_ns;

/// Where [`numbered_call`] counts from: process ids from here on don't exist (`PID_MAX_LIMIT` is
/// 4,194,304).
pub const NUMBERED_BASE: u32 = 5_000_000;

/// Makes a system call that nobody else makes, and that carries `n`: getpgid of a process that
/// can't exist. [`Snapshot::numbered_calls`] finds it.
///
/// # Panics
/// If there is such a process after all.
pub fn numbered_call(n: u32) {
    let pid = Pid::from_raw((NUMBERED_BASE + n) as i32);
    assert_eq!(getpgid(Some(pid)), Err(Errno::ESRCH));
}

/// One system call of a thread, put together from its entry and its exit.
#[derive(Debug, Clone)]
pub struct MadeCall<'a> {
    /// Its name; a number that has none as digits.
    pub name: String,
    /// Whose number it is.
    pub abi: Abi,
    /// When it was entered, and with what; `None`: the recording has no entry.
    pub enter: Option<(u64, &'a Call)>,
    /// When it ended, and what its exit record carries; `None`: the recording has no exit.
    pub exit: Option<(u64, &'a Call)>,
    /// What it returned.
    pub ret: Option<i64>,
}

impl MadeCall<'_> {
    /// The arguments that were recorded, at the entry if there.
    pub fn args(&self) -> &[u64] {
        let call = self.enter.or(self.exit).map(|(_, call)| call);
        call.map_or(&[], |call| &call.args[..usize::from(call.nargs)])
    }

    /// The string that argument `index` points to: read at the entry, else at the exit, as one
    /// whose page was not there at the entry.
    pub fn string(&self, index: u8) -> Option<&Text> {
        let texts =
            [self.enter, self.exit].into_iter().flatten().flat_map(|(_, call)| &call.strings);
        texts
            .filter(|text| text.index == index)
            .find(|text| text.status != StringStatus::Unreadable)
    }
}

/// Everything in the rings and tables, at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The recording's description.
    pub meta: Meta,
    /// The rings, by lane and CPU.
    pub streams: Vec<LaneStream>,
    /// All events of all rings by time.
    pub events: Vec<Event>,
    /// The thread table.
    pub slots: Vec<TaskSlot>,
    /// The counters, read after the pages.
    pub totals: Totals,
    /// When the copying began, ns of `CLOCK_MONOTONIC`: what happened before is in it.
    pub copied: u64,
}

impl Snapshot {
    /// Copies the newest recording that is pinned below a bpffs directory.
    ///
    /// # Panics
    /// If there is none, or it can't be read, or one of its pages is none.
    pub fn take(bpffs_dir: &Path) -> Self {
        let dir = Generation::find(bpffs_dir).unwrap_or_else(|e| panic!("{e}"));
        let recording = LiveRings::open(&dir, false).unwrap_or_else(|e| panic!("{e}"));
        let meta = recording.meta().unwrap_or_else(|e| panic!("{e}"));
        let copied = monotonic_ns();
        let mut rings = Rings::new(meta.session);
        for lane in Lane::RINGS {
            for cpu in recording.cpus() {
                rings.expect(lane, cpu);
                for bytes in recording.pages(lane, cpu, 0, u64::MAX) {
                    let page = Page::copy_from(&bytes)
                        .unwrap_or_else(|e| panic!("lane {}: {e}", lane.name()));
                    assert!(
                        rings.add(page),
                        "a page of another ring in lane {} of CPU {cpu}",
                        lane.name()
                    );
                }
            }
        }
        let slots =
            recording.slots().flat_map(|page| slots::read(&page).collect::<Vec<_>>()).collect();
        let totals = recording.totals(&dir.join("progs")).unwrap_or_else(|e| panic!("{e}"));
        let streams = rings.finish();
        let mut events: Vec<Event> = streams.iter().flat_map(LaneStream::events).collect();
        events.sort_by_key(|event| event.time); // stable: a ring's own order stays
        Self { meta, streams, events, slots, totals, copied }
    }

    /// What each ring can vouch for within `from` to `until`.
    pub fn coverage(&self, from: u64, until: u64) -> Vec<RingCoverage> {
        let (started, copied) = (self.meta.started, self.copied);
        let ring_bytes = self.meta.lanes.ring_bytes();
        let scope = Scope { from, until, started, copied, totals: Some(&self.totals), ring_bytes };
        self.streams.iter().map(|stream| stream.coverage(&scope)).collect()
    }

    /// Fails unless every ring has everything from `from` to `until`, but for events of lane
    /// `trace` that met others there, which any interrupt can make happen.
    ///
    /// # Panics
    /// With the rings that have not.
    pub fn assert_complete(&self, from: u64, until: u64) {
        let mut coverage = self.coverage(from, until);
        let is_meeting = |gap: &Gap| {
            gap.lane == Lane::Kernel
                && gap.reason == Reason::Refused
                && gap.refused[Refusal::Throttled as usize] == 0
        };
        for ring in &mut coverage {
            ring.gaps.retain(|gap| !is_meeting(gap));
        }
        coverage.retain(|ring| !ring.is_complete(from, until));
        assert!(coverage.is_empty(), "incomplete from {from} to {until}: {coverage:#?}");
        let damage: Vec<_> = self.streams.iter().flat_map(LaneStream::damage).collect();
        assert!(damage.is_empty(), "damaged pages: {damage:?}");
    }

    /// Events of one thread.
    pub fn of(&self, tid: u32) -> impl Iterator<Item = &Event> + '_ {
        self.events.iter().filter(move |event| event.tid == tid)
    }

    /// A thread's system calls, in order.
    pub fn calls(&self, tid: u32) -> Vec<MadeCall<'_>> {
        let mut calls: Vec<MadeCall<'_>> = Vec::new();
        for event in self.of(tid) {
            match &event.body {
                Body::Enter(call) => calls.push(MadeCall {
                    name: self.name(call),
                    abi: call.abi,
                    enter: Some((event.time, call)),
                    exit: None,
                    ret: None,
                }),
                Body::Exit { call, ret, .. } => {
                    let exit = Some((event.time, call));
                    let same = |made: &&mut MadeCall<'_>| {
                        made.exit.is_none()
                            && made.enter.is_some_and(|(_, e)| (e.nr, e.abi) == (call.nr, call.abi))
                    };
                    match calls.last_mut().filter(same) {
                        Some(made) => (made.exit, made.ret) = (exit, Some(*ret)),
                        None => calls.push(MadeCall {
                            name: self.name(call),
                            abi: call.abi,
                            enter: None,
                            exit,
                            ret: Some(*ret),
                        }),
                    }
                }
                _ => {}
            }
        }
        calls
    }

    /// A thread's calls of one name.
    pub fn calls_named(&self, tid: u32, name: &str) -> Vec<MadeCall<'_>> {
        self.calls(tid).into_iter().filter(|call| call.name == name).collect()
    }

    fn name(&self, call: &Call) -> String {
        let table = if call.abi == Abi::Compat { &self.meta.compat } else { &self.meta.native };
        table
            .iter()
            .find(|c| c.nr == call.nr)
            .map_or_else(|| call.nr.to_string(), |c| c.name.clone())
    }

    /// The numbers of a thread's [`numbered_call`]s that returned, in order.
    pub fn numbered_calls(&self, tid: u32) -> Vec<u32> {
        let number =
            |call: &MadeCall<'_>| (*call.args().first()? as u32).checked_sub(NUMBERED_BASE);
        let calls = self.calls_named(tid, "getpgid").into_iter();
        calls
            .filter(|c| c.ret == Some(-i64::from(libc::ESRCH)))
            .filter_map(|c| number(&c))
            .collect()
    }

    /// The threads of a process, as the task lane and the thread table know them.
    pub fn threads_of(&self, tgid: u32) -> HashSet<u32> {
        let forked = self.events.iter().filter_map(|event| match &event.body {
            Body::Fork(fork) if fork.tgid == tgid => Some(fork.tid),
            _ => None,
        });
        let alive = self.slots.iter().filter(|slot| slot.tgid == tgid).map(|slot| slot.tid);
        forked.chain(alive).chain([tgid]).collect()
    }

    /// Events counted by the probes on all CPUs in a lane: recorded ones, and refused ones by
    /// [`flightrec_format::abi::page::Refusal`].
    pub fn counted(&self, lane: Lane) -> (u64, [u64; 3]) {
        let mut all = (0, [0; 3]);
        for cpu in &self.totals.cpus {
            all.0 += cpu.events[lane as usize].iter().sum::<u64>();
            for (sum, n) in all.1.iter_mut().zip(cpu.refused[lane as usize]) {
                *sum += n;
            }
        }
        all
    }
}
