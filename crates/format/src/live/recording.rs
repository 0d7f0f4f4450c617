//! All of a running recording, mapped.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::clock;
use super::error::LiveError;
use super::map::ArrayMap;
use super::ring::{Cursor, Ids, Pages, RingPlace, Since};
use super::state;
use super::sys;
use super::tables;
use crate::abi::page::{Lane, PAGE_SIZE, RING_LANES};
use crate::abi::state::CpuState;
use crate::control::{Budget, CpuTotals, Position, Totals};
use crate::meta::{Meta, PAGES_LEAST};

/// The maps of a generation.
#[derive(Debug)]
pub struct Maps {
    /// `rings_syscall`, `rings_sched`, `rings_task`, `rings_kernel`, by [`Lane`].
    pub rings: [ArrayMap; RING_LANES],
    /// `state`: one [`CpuState`] per possible CPU.
    pub state: ArrayMap,
    /// `meta`.
    pub meta: ArrayMap,
    /// `slots`.
    pub slots: ArrayMap,
    /// `descriptors`; recordings of early releases have none.
    pub descriptors: Option<ArrayMap>,
    /// `quiet`, the quiet ring; recordings of early releases have none.
    pub quiet: Option<ArrayMap>,
}

impl Maps {
    /// Names of the ring maps in `maps/`, by [`Lane`].
    pub const RINGS: [&'static str; RING_LANES] =
        ["rings_syscall", "rings_sched", "rings_task", "rings_kernel"];

    /// Maps what a generation's directory holds.
    pub fn open(gen_dir: &Path, writable: bool) -> Result<Self, LiveError> {
        let open = |name: &str| {
            let path: PathBuf = gen_dir.join("maps").join(name);
            ArrayMap::open(&path, writable).map_err(|e| LiveError::at(&path, e))
        };
        let optional = |name: &str| match open(name) {
            Err(LiveError::Open { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        };
        let [syscall, sched, task, kernel] = Self::RINGS;
        Ok(Self {
            rings: [open(syscall)?, open(sched)?, open(task)?, open(kernel)?],
            state: open("state")?.in_values(size_of::<CpuState>()),
            meta: open("meta")?,
            slots: open("slots")?,
            descriptors: optional("descriptors")?,
            quiet: optional("quiet")?,
        })
    }

    /// Kernel memory of rings and tables, bytes.
    pub fn bytes(&self) -> u64 {
        let maps = self.rings.iter().chain([&self.state, &self.meta, &self.slots]);
        let maps = maps.chain(&self.descriptors).chain(&self.quiet);
        maps.map(|map| map.entries() as u64 * map.stride() as u64).sum()
    }

    /// Checks their shapes: pages where pages are expected.
    fn check(&self) -> Result<(), LiveError> {
        let [syscall, sched, task, kernel] = &self.rings;
        let strides = [
            ("rings_syscall", syscall, PAGE_SIZE),
            ("rings_sched", sched, PAGE_SIZE),
            ("rings_task", task, PAGE_SIZE),
            ("rings_kernel", kernel, PAGE_SIZE),
            ("state", &self.state, size_of::<CpuState>()),
            ("meta", &self.meta, PAGE_SIZE),
            ("slots", &self.slots, PAGE_SIZE),
        ];
        let descriptors = self.descriptors.as_ref().map(|map| ("descriptors", map, PAGE_SIZE));
        let quiet = self.quiet.as_ref().map(|map| ("quiet", map, PAGE_SIZE));
        for (map, array, stride) in strides.into_iter().chain(descriptors).chain(quiet) {
            if array.stride() != stride {
                return Err(LiveError::Layout {
                    map,
                    what: format!("values of {} bytes", array.stride()),
                });
            }
        }
        if self.meta.entries() < PAGES_LEAST {
            return Err(LiveError::Layout {
                map: "meta",
                what: format!("{} pages", self.meta.entries()),
            });
        }
        Ok(())
    }
}

/// A running recording. All methods copy; nothing here stops or slows the probes.
#[derive(Debug)]
pub struct LiveRings {
    maps: Maps,
    ids: Ids,
    started: u64,
}

impl LiveRings {
    /// Maps the generation in `gen_dir` (see [`super::Generation::find`]), for reading, or also for
    /// the daemon's own writing.
    pub fn open(gen_dir: &Path, writable: bool) -> Result<Self, LiveError> {
        Self::new(Maps::open(gen_dir, writable)?)
    }

    /// A recording whose maps are already at hand. Its metadata must have been published.
    pub fn new(maps: Maps) -> Result<Self, LiveError> {
        maps.check()?;
        let (ids, meta) = tables::read_identified(&maps.meta)?;
        Ok(Self { maps, ids, started: meta.started })
    }

    /// Its public session id.
    pub fn session(&self) -> u64 {
        self.ids.public
    }

    /// When it began, ns of `CLOCK_MONOTONIC`.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Its maps.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Its metadata, as published last.
    pub fn meta(&self) -> Result<Meta, LiveError> {
        tables::read_meta(&self.maps.meta)
    }

    /// Publishes new metadata of the same session, and returns its generation. For the one daemon
    /// that opened the recording writable.
    pub fn publish_meta(&self, meta: &Meta) -> Result<u64, LiveError> {
        tables::publish_meta(&self.maps.meta, meta, self.ids.secret)
    }

    /// CPUs that have a ring of any lane.
    pub fn cpus(&self) -> Vec<u16> {
        let cpus = 0..self.maps.state.entries();
        let ringed = |cpu: &usize| {
            Lane::RINGS.into_iter().any(|lane| state::place(&self.maps.state, lane, *cpu).1 != 0)
        };
        cpus.filter(ringed).filter_map(|cpu| u16::try_from(cpu).ok()).collect()
    }

    /// Where a ring is; `None` for what is no ring, or a CPU that has none.
    fn place(&self, lane: Lane, cpu: u16) -> Option<RingPlace<'_>> {
        let map = self.maps.rings.get(lane as usize)?;
        let (first, pages) = state::place(&self.maps.state, lane, usize::from(cpu));
        let (first, pages) = (first as usize, pages as usize);
        // A state of another layout is no reason to look for long.
        let within = pages != 0 && first.saturating_add(pages) <= map.entries();
        within.then_some(RingPlace { map, ids: self.ids, first, pages })
    }

    /// Copies of the pages of one ring that may hold events of [`from`, `until`) (ns of
    /// `CLOCK_MONOTONIC`), oldest first, and of the first page after the window. All that was
    /// recorded in the window before this call is in them, unless the ring is written over
    /// while it is copied, which the pages' totals then show.
    pub fn pages(&self, lane: Lane, cpu: u16, from: u64, until: u64) -> Pages<'_> {
        Pages { recording: self, cursor: self.cursor(lane, cpu, from, until) }
    }

    /// As [`Self::pages`], for [`Self::advance`].
    pub fn cursor(&self, lane: Lane, cpu: u16, from: u64, until: u64) -> Cursor {
        Cursor::new(lane, cpu, self.place(lane, cpu), (from, until))
    }

    /// The next page of a cursor of this recording.
    pub fn advance(&self, cursor: &mut Cursor) -> Option<[u8; PAGE_SIZE]> {
        cursor.advance(&self.place(cursor.lane, cursor.cpu)?)
    }

    /// Appends it to pages one after the other; `false`: there is none.
    pub fn append(&self, cursor: &mut Cursor, out: &mut Vec<u8>) -> bool {
        self.place(cursor.lane, cursor.cpu).is_some_and(|place| cursor.append(&place, out))
    }

    /// What is new in a ring after a position, at most the `newest` pages, for
    /// [`Self::advance_since`]. Looks at no page but those.
    pub fn since(&self, after: &Position, newest: u32) -> Since {
        let lane = Lane::RINGS.get(usize::from(after.lane)).copied();
        let last = lane.map_or(0, |lane| self.newest(lane, after.cpu));
        Since::new(lane, *after, last, u64::from(newest))
    }

    /// The pages of a ring after a position, up to page `last`, which must have been seen
    /// ([`Self::newest`]); for [`Self::advance_since`].
    pub fn after(&self, after: &Position, last: u64) -> Since {
        let lane = Lane::RINGS.get(usize::from(after.lane)).copied();
        Since::new(lane, *after, last, u64::MAX)
    }

    /// Sequence number of a ring's newest page, by one load; 0: it has none yet. A page is closed
    /// when a newer one is there. The newest may be a little newer than this tells.
    pub fn newest(&self, lane: Lane, cpu: u16) -> u64 {
        state::newest(&self.maps.state, lane, usize::from(cpu))
    }

    /// Pages of a ring; 0: it has no place.
    pub fn ring_pages(&self, lane: Lane, cpu: u16) -> u64 {
        self.place(lane, cpu).map_or(0, |place| place.pages as u64)
    }

    /// The next page of [`Self::since`] or [`Self::after`].
    pub fn advance_since(&self, since: &mut Since) -> Option<[u8; PAGE_SIZE]> {
        self.page_since(since).map(|page| *page)
    }

    /// Appends it to pages one after the other; `false`: there is none.
    pub fn append_since(&self, since: &mut Since, out: &mut Vec<u8>) -> bool {
        let place = since.lane.and_then(|lane| self.place(lane, since.cpu));
        place.is_some_and(|place| since.append(&place, out))
    }

    /// As [`Self::advance_since`], for a caller that keeps the page: it is copied once.
    pub fn page_since(&self, since: &mut Since) -> Option<Box<[u8; PAGE_SIZE]>> {
        since.advance(&self.place(since.lane?, since.cpu)?)
    }

    /// Copies of the slot pages that hold any thread, for [`crate::slots::read`].
    pub fn slots(&self) -> impl Iterator<Item = [u8; PAGE_SIZE]> + '_ {
        (0..self.maps.slots.entries())
            .filter_map(|index| tables::copy_slots(&self.maps.slots, self.ids, index))
    }

    /// Copies of the pages of the descriptor snapshot, for [`crate::chunks`]: those of the present
    /// one, and what is left of the one before.
    pub fn descriptors(&self) -> impl Iterator<Item = [u8; PAGE_SIZE]> + '_ {
        self.maps.descriptors.iter().flat_map(|map| tables::copy_descriptors(map, self.ids))
    }

    /// Publishes a snapshot's pages ([`crate::chunks::pack`] with
    /// [`crate::descriptors::HALF_PAGES`]), of a generation greater than those before. For the
    /// one daemon that opened the recording writable. `false`: there is no map.
    pub fn publish_descriptors(&self, generation: u64, pages: &[[u8; PAGE_SIZE]]) -> bool {
        let map = self.maps.descriptors.as_ref();
        map.is_some_and(|map| tables::publish_descriptors(map, generation, pages, self.ids.secret))
    }

    /// Pages that one generation of the metadata may take.
    pub fn meta_half(&self) -> usize {
        self.maps.meta.entries() / 2
    }

    /// Pages that the quiet ring has room for; 0: there is none.
    pub fn quiet_pages(&self) -> usize {
        self.maps.quiet.as_ref().map_or(0, ArrayMap::entries)
    }

    /// Copies of the quiet ring's pages ([`crate::kept`]), in no order, of these places, with their
    /// places.
    pub fn kept(
        &self,
        places: Range<usize>,
    ) -> impl Iterator<Item = (usize, [u8; PAGE_SIZE])> + '_ {
        let map = self.maps.quiet.as_ref();
        let pages = map.into_iter().flat_map(move |map| {
            (places.start..places.end.min(map.entries()))
                .map(move |index| (index, tables::copy_kept(map, self.ids, index)))
        });
        pages.filter_map(|(index, page)| Some((index, page?)))
    }

    /// Puts a page into a place of the quiet ring, in place of what is there. For the one daemon
    /// that opened the recording writable. `false`: there is no such place.
    pub fn keep(&self, index: usize, page: &[u8; PAGE_SIZE]) -> bool {
        let map = self.maps.quiet.as_ref();
        map.is_some_and(|map| {
            tables::write_pages(map, index, std::slice::from_ref(page), self.ids.secret)
        })
    }

    /// Brings a page of the quiet ring up to date, to which records were added since it was put
    /// there.
    pub fn keep_more(&self, index: usize, page: &[u8; PAGE_SIZE]) -> bool {
        self.maps.quiet.as_ref().is_some_and(|map| tables::extend_kept(map, index, page))
    }

    /// The counters of the recording: the probes' own, and the kernel's, of the programs pinned in
    /// `progs_dir`. Taken a moment after [`Totals::now`], never before.
    pub fn totals(&self, progs_dir: &Path) -> Result<Totals, LiveError> {
        Ok(Totals { misses: misses(progs_dir)?, ..self.counters() })
    }

    /// The probes' own counters alone, as [`Self::totals`] has them.
    pub fn counters(&self) -> Totals {
        let mut totals = Totals { now: clock::monotonic(), ..Totals::default() };
        for cpu in 0..self.maps.state.entries() {
            let view = state::cpu(&self.maps.state, cpu);
            totals.slot_collisions += view.slot_collisions;
            totals.cpus.push(CpuTotals {
                cpu: cpu as u16,
                recorded: view.lanes.iter().any(|lane| lane.ring_pages != 0),
                events: view.lanes.map(|lane| lane.events),
                refused: view.lanes.map(|lane| lane.refused),
                no_ring: view.no_ring,
                throttled: view.throttled,
                strings: view.strings,
                stack_time: view.stack_time,
                looked: view.looked,
                given: view.given,
            });
        }
        totals
    }

    /// What recording may cost, and what it costs.
    pub fn budget(&self) -> Budget {
        state::budget(&self.maps.state)
    }

    /// The history in ns that every ring of the lane holds: the least over the CPUs whose ring has
    /// wrapped; since the start where none has.
    pub fn held(&self, lane: Lane) -> u64 {
        let now = clock::monotonic();
        let oldest = |cpu: u16| self.place(lane, cpu)?.scan().first().copied();
        let wrapped = self.cpus().into_iter().filter_map(oldest).filter(|page| page.seq > 1);
        let begin = wrapped.map(|page| page.base).max().unwrap_or(self.started);
        now.saturating_sub(begin)
    }
}

/// How often the kernel skipped each pinned program.
fn misses(progs_dir: &Path) -> Result<Vec<(String, u64)>, LiveError> {
    let mut misses = Vec::new();
    for entry in std::fs::read_dir(progs_dir).map_err(|e| LiveError::at(progs_dir, e))? {
        let path = entry.map_err(|e| LiveError::at(progs_dir, e))?.path();
        let Some(name) = path.file_name() else { continue };
        let program = sys::obj_get(&path).map_err(|e| LiveError::at(&path, e))?;
        let missed = sys::prog_misses(std::os::fd::AsFd::as_fd(&program))
            .map_err(|e| LiveError::at(&path, e))?;
        misses.push((name.to_string_lossy().into_owned(), missed));
    }
    misses.sort();
    Ok(misses)
}
