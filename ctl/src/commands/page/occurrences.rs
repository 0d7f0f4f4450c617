//! What happens beside the states and calls of threads: interrupts, signals, requests to disks.
//! Each has rows of its own in the timeline: interrupts below their CPU, signals below their
//! thread, requests in a lane of their disk.

use std::collections::BTreeMap;

use flightrec_export::devices::Devices;
use flightrec_export::page::lane::{Lane, Span};
use flightrec_export::page::model::Sort;
use flightrec_export::printable::printable;
use flightrec_format::abi::kinds::{BlockComplete, Interrupt, Kind, SignalDeliver, SignalGenerate};
use flightrec_format::abi::record::Comm;
use flightrec_format::abi::value_names::BLOCK_OPS;
use flightrec_format::decode::{Body, Plain};
use flightrec_reader::names::signal;
use flightrec_reader::threads::trim;
use flightrec_reader::window::Window;

use super::chosen::who;
use super::whats::Whats;
use crate::report::Seen;

/// Stretches of all these rows together: far from the cause, and near it.
const FAR_MAX: usize = 10_000;
const NEAR_MAX: usize = 4000;
/// The same of a row.
const ROW_FAR: (usize, usize) = (40, 1500);
const ROW_NEAR: (usize, usize) = (20, 600);
/// Most disks that are drawn.
const DISKS_MAX: usize = 4;

/// A disk.
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) requests: Lane,
}

/// Where something happened.
enum Place {
    Cpu(u16),
    Thread(u32),
    Disk(u32),
}

/// The rows.
pub(super) struct Occurrences {
    room: (usize, usize),
    interrupts: BTreeMap<u16, Lane>,
    signals: BTreeMap<u32, Lane>,
    disks: BTreeMap<u32, Disk>,
    /// There are requests to further disks.
    has_other_disks: bool,
}

impl Occurrences {
    /// For these CPUs and threads.
    pub(super) fn new(cpus: &[u16], tids: impl Iterator<Item = u32>) -> Self {
        let tids: Vec<u32> = tids.collect();
        let rows = cpus.len() + tids.len() + DISKS_MAX;
        let room = |all: usize, (least, most): (usize, usize)| (all / rows).clamp(least, most);
        let room = (room(FAR_MAX, ROW_FAR), room(NEAR_MAX, ROW_NEAR));
        let lane = || Lane::new(room.0, room.1);
        Self {
            room,
            interrupts: cpus.iter().map(|cpu| (*cpu, lane())).collect(),
            signals: tids.iter().map(|tid| (*tid, lane())).collect(),
            disks: BTreeMap::new(),
            has_other_disks: false,
        }
    }

    /// Takes an event in, if it is one of these.
    pub(super) fn take(
        &mut self,
        seen: &Seen<'_>,
        window: Window,
        is_near: impl Fn(u64, u64) -> bool,
        devices: impl Fn() -> Devices,
        whats: &mut Whats,
    ) {
        let Body::Plain(plain) = &seen.event.body else { return };
        let Some((place, ns, sort, [text, waker])) = told(plain, seen) else { return };
        let until = seen.event.time.min(window.until);
        let from = seen.event.time.saturating_sub(ns).max(window.from);
        if from > until {
            return;
        }
        let lane = match place {
            Place::Cpu(cpu) => self.interrupts.get_mut(&cpu),
            Place::Thread(tid) => self.signals.get_mut(&tid),
            Place::Disk(device) => self.disk(device, devices),
        };
        let Some(lane) = lane else { return };
        let what = whats.number(sort, [&text, "", &waker, ""]);
        let class = usize::from(sort == Sort::FailedRequest);
        lane.add(Span::new(from, until, what, class, is_near(from, until)));
    }

    fn disk(&mut self, device: u32, devices: impl Fn() -> Devices) -> Option<&mut Lane> {
        if !self.disks.contains_key(&device) && self.disks.len() >= DISKS_MAX {
            self.has_other_disks = true;
            return None;
        }
        let disk = self.disks.entry(device).or_insert_with(|| Disk {
            name: devices().name(device).into(),
            requests: Lane::new(self.room.0, self.room.1),
        });
        Some(&mut disk.requests)
    }

    /// The interrupts of a CPU, if there are any.
    pub(super) fn of_cpu(&self, cpu: u16) -> Option<&Lane> {
        self.interrupts.get(&cpu).filter(|lane| !lane.spans().is_empty())
    }

    /// The signals of a thread, if there are any.
    pub(super) fn of_thread(&self, tid: u32) -> Option<&Lane> {
        self.signals.get(&tid).filter(|lane| !lane.spans().is_empty())
    }

    /// The disks that there were requests to.
    pub(super) fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.disks.values()
    }

    /// All rows.
    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        let disks = self.disks.values().map(|disk| &disk.requests);
        self.interrupts.values().chain(self.signals.values()).chain(disks)
    }

    /// What is left out, in words.
    pub(super) fn remark(&self) -> Option<String> {
        self.has_other_disks.then(|| {
            format!("Of the disks the first {DISKS_MAX} are drawn. The table of block I/O has all.")
        })
    }
}

/// Where an event is drawn, how long it took, what it is, and who is behind it.
fn told(plain: &Plain, seen: &Seen<'_>) -> Option<(Place, u64, Sort, [String; 2])> {
    let text = |comm: &Comm| printable(trim(comm)).into_owned();
    let name = |number: u32| signal(number).map_or_else(|| number.to_string(), Into::into);
    match plain.kind() {
        Kind::Interrupt => {
            let of = Interrupt::read(plain.bytes())?;
            let class = if of.class == 0 { "hardirq" } else { "softirq" };
            let what = format!("{class} {} {}", of.number, text(&of.name));
            let place = Place::Cpu(seen.event.cpu);
            Some((place, of.duration, Sort::Interrupt, [what, String::new()]))
        }
        Kind::SignalGenerate => {
            let of = SignalGenerate::read(plain.bytes())?;
            let sender = who(&text(&seen.known.comm), seen.event.tid);
            Some((Place::Thread(of.target_tid), 0, Sort::Sent, [name(of.signal), sender]))
        }
        Kind::SignalDeliver => {
            let of = SignalDeliver::read(plain.bytes())?;
            let place = Place::Thread(seen.event.tid);
            Some((place, 0, Sort::Taken, [name(of.signal), String::new()]))
        }
        Kind::BlockComplete => {
            let of = BlockComplete::read(plain.bytes())?;
            let request = seen.known.request.unwrap_or_default();
            // A part of a request is told when all of it is done.
            let ns = request.service_ns.filter(|_| of.left == 0)?;
            let op = BLOCK_OPS.iter().find(|(number, _)| *number == u64::from(of.op));
            let op = op.map_or("other", |(_, name)| name);
            let by = request
                .issued_by
                .map_or_else(String::new, |tid| who(&printable(seen.facts_of(tid).comm), tid));
            let sort = if of.error == 0 { Sort::Request } else { Sort::FailedRequest };
            let place = Place::Disk(of.device);
            Some((place, ns, sort, [format!("{op} of {} bytes", of.bytes), by]))
        }
        _ => None,
    }
}
