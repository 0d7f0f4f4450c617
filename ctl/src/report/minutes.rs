//! The part of a window of which the events are gone, and only the sums of minutes are left
//! (`flightrec-sums`).
//!
//! Sums answer where a period begins before the files of the recording do. Such a period is taken
//! whole, and events count from its end on, so nothing counts twice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use flightrec_reader::names::errno;
use flightrec_reader::source::HistoryPlace;
use flightrec_reader::source::snapshots::directory;
use flightrec_reader::window::Edge;
use flightrec_store::{Store, read_header};
use flightrec_sums::file::BlockHeader;
use flightrec_sums::history::{self, Dated};
use flightrec_sums::model::{Cell, Group, Table, flags};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::pass::Scope;
use super::table::Period;
use super::{Key, Report, Sums};
use crate::filter::FilterSpec;
use crate::options::past::Past;
use flightrec_format::human::counted;

/// A recording's boot.
type Boot = [u8; 16];

/// What of a filter sums can tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    units: Vec<String>,
    calls: Vec<String>,
    /// Options that sums know nothing of.
    foreign: Vec<&'static str>,
}

impl Wanted {
    /// Of what was typed.
    pub fn of(spec: &FilterSpec) -> Self {
        let is_name = |call: &String| {
            call.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
                && !["file", "network", "process", "signal", "memory", "desc"].contains(&&**call)
        };
        let foreign = [
            ("--pid", !spec.pid.is_empty()),
            ("--tid", !spec.tid.is_empty()),
            ("--tree", !spec.tree.is_empty()),
            ("--comm", !spec.comm.is_empty()),
            ("--cgroup", !spec.cgroup.is_empty()),
            ("--container", !spec.container.is_empty()),
            ("--pod", !spec.pod.is_empty()),
            ("--cpu", !spec.cpu.is_empty()),
            ("--syscall with more than names", !spec.syscall.iter().all(is_name)),
            ("--path", !spec.path.is_empty()),
            ("--errors", spec.errors),
            ("--errno", !spec.errno.is_empty()),
            ("--slower-than", spec.slower_than.is_some()),
            ("--faster-than", spec.faster_than.is_some()),
            ("--device", !spec.device.is_empty()),
            ("--event", !spec.event.is_empty()),
        ];
        let units = spec
            .unit
            .iter()
            .map(|name| if name.contains('.') { name.clone() } else { format!("{name}.service") });
        Self {
            units: units.collect(),
            calls: spec.syscall.clone(),
            foreign: foreign.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect(),
        }
    }
}

/// The keys of a table's groups, as reports call them.
pub fn keys(table: Table) -> &'static [Key] {
    match table {
        Table::Calls => &[Key::Unit, Key::Syscall],
        Table::Errors => &[Key::Unit, Key::Syscall, Key::Errno],
        Table::RunQueue => &[Key::Unit],
        Table::Cpus => &[Key::Cpu],
        Table::Waits => &[Key::Unit, Key::Reason],
        Table::Block => &[Key::Device, Key::Op, Key::Unit],
        Table::Bytes => &[Key::Unit, Key::Syscall, Key::Op],
    }
}

/// The first of a report's tables that knows all of these keys.
pub fn table(tables: &[Table], by: &[Key]) -> Option<Table> {
    tables.iter().copied().find(|table| by.iter().all(|key| keys(*table).contains(key)))
}

/// What is said of sums that were used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SumsTold {
    /// The stretches that they cover.
    pub periods: Vec<Period>,
    /// The longest period, ns.
    pub step_ns: u64,
    /// Events that were missing when they were made.
    pub lost_events: u64,
    /// Periods of which something is missing.
    pub not_whole: u64,
    /// The stretches among them for which there are no sums: the events were gone too early.
    pub unsummed: Vec<Period>,
    /// Their length, ns.
    pub unsummed_ns: u64,
    /// ns of threads of which it is not known what they did.
    pub unknown_ns: u64,
    /// Some groups were not told apart.
    pub is_crowded: bool,
}

/// The first file of a boot.
#[derive(Debug, Clone, Copy)]
struct First {
    session: u64,
    /// All that was recorded before is in earlier files; 0: of its session there are none.
    begins: u64,
    created: u64,
}

impl First {
    /// From when on there are events, ns of `CLOCK_MONOTONIC`.
    fn from(&self) -> u64 {
        if self.begins != 0 { self.begins } else { self.created }
    }

    /// Whether the events of what began then, in a session, are gone.
    fn is_after(&self, session: u64, from: u64) -> bool {
        let is_whole = session == self.session && self.begins == 0;
        !is_whole && from < self.from()
    }
}

/// The state directory in which there may be sums of what is read, and whether the rings are read
/// beside it.
fn state_dir(place: &HistoryPlace) -> Option<(PathBuf, bool)> {
    match place {
        HistoryPlace::Recorder { origin, state_dir } => {
            let runtime_dir = match origin {
                flightrec_reader::source::Origin::Daemon { runtime_dir, .. } => runtime_dir.clone(),
                flightrec_reader::source::Origin::Pinned { .. } => return None,
            };
            let snapshots = directory(&runtime_dir, state_dir.as_deref()).ok()?;
            Some((snapshots.parent()?.to_owned(), true))
        }
        HistoryPlace::Store(dir) => Some((dir.clone(), false)),
        _ => None,
    }
}

/// A window in UNIX time, ns. `last`: the end of the files; "10 s ago" is before the end of what is
/// read.
fn window(past: &Past, last: Option<i64>, is_live: bool) -> Option<(i64, i64)> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    let present = if is_live { now } else { last.unwrap_or(now) };
    let edge = |edge: Edge, open: i64| match edge {
        Edge::Open => open,
        Edge::Ago(ns) => present.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX)),
        Edge::Wall(at) => at,
    };
    Some((edge(past.since, i64::MIN), edge(past.until, i64::MAX)))
}

/// The state directory in which there may be sums of a window, and the window in UNIX time, ns.
pub fn place(past: &Past) -> Option<(PathBuf, (i64, i64))> {
    let (state_dir, is_live) = state_dir(&past.history.place)?;
    let store = Store::open(&state_dir).ok();
    let boots = store.as_ref().map(Store::boots).unwrap_or_default();
    let window = window(past, boots.iter().map(|boot| boot.last).max(), is_live)?;
    Some((state_dir, window))
}

/// The part of a window of which only sums are left.
#[derive(Debug)]
pub struct Minutes {
    state_dir: PathBuf,
    /// UNIX time in ns.
    window: (i64, i64),
    /// By boot, the first file that is left.
    begins: BTreeMap<Boot, First>,
    /// By boot, from when on events count, ns of `CLOCK_MONOTONIC`.
    seams: BTreeMap<Boot, u64>,
    /// Where the last period ends that is used, UNIX time in ns.
    until: i64,
    /// Beside the files there are the rings.
    is_live: bool,
}

impl Minutes {
    /// Of the window of a scope; `None`: there are none, or its events are there.
    pub fn find(scope: &Scope) -> Option<Self> {
        if scope.dump.is_some() || scope.past.history.boot.is_some() {
            return None;
        }
        let (state_dir, is_live) = state_dir(&scope.past.history.place)?;
        let store = Store::open(&state_dir).ok();
        let boots = store.as_ref().map(Store::boots).unwrap_or_default();
        let window = window(&scope.past, boots.iter().map(|boot| boot.last).max(), is_live)?;
        let mut begins = BTreeMap::new();
        let mut is_before = boots.is_empty();
        for (at, boot) in boots.iter().enumerate() {
            let first = store.as_ref()?.files(&boot.id).into_iter().next()?;
            let Ok(header) = read_header(&first.path) else { continue };
            let first = First {
                session: header.session,
                begins: header.begins,
                created: header.created_mono,
            };
            let ns = first.created.saturating_sub(first.from());
            let wall = header.created_wall.saturating_sub(i64::try_from(ns).unwrap_or(0));
            begins.insert(boot.id, first);
            is_before |= at == 0 && wall > window.0;
        }
        if !is_before {
            return None;
        }
        let mut minutes =
            Self { state_dir, window, begins, seams: BTreeMap::new(), until: i64::MIN, is_live };
        let (seams, until) = minutes.ends().ok()?;
        (minutes.seams, minutes.until) = (seams, until);
        (!minutes.seams.is_empty()).then_some(minutes)
    }

    /// Where the last periods end that are used: by boot, and by the wall clock. A block that is
    /// used as a whole is not decompressed for that.
    fn ends(&self) -> std::io::Result<(BTreeMap<Boot, u64>, i64)> {
        let ends = RefCell::new((BTreeMap::new(), i64::MIN));
        let reach = |boot: Boot, until: u64, wall: i64| {
            let (seams, last) = &mut *ends.borrow_mut();
            let seam: &mut u64 = seams.entry(boot).or_default();
            (*seam, *last) = ((*seam).max(until), (*last).max(wall));
        };
        let wants = |block: &BlockHeader| {
            // Of a whole block, the last period begins before its end.
            let is_whole = self.is_gone(&block.boot, block.session, block.until);
            if is_whole {
                reach(block.boot, block.until, block.wall_until);
            }
            !is_whole && self.is_gone(&block.boot, block.session, block.from)
        };
        history::read(&self.state_dir, self.window, wants, |dated| {
            let Dated { boot, session, period } = dated;
            if self.is_gone(&boot, session, period.from) {
                reach(boot, period.until, period.wall_until());
            }
        })?;
        Ok(ends.into_inner())
    }

    /// Whether the events of what began then are gone.
    fn is_gone(&self, boot: &Boot, session: u64, from: u64) -> bool {
        self.begins.get(boot).is_none_or(|first| first.is_after(session, from))
    }

    /// Visits the periods that are used.
    fn each(&self, visit: &mut dyn FnMut(Dated)) -> std::io::Result<Vec<String>> {
        let wants = |block: &BlockHeader| self.is_gone(&block.boot, block.session, block.from);
        history::read(&self.state_dir, self.window, wants, |dated| {
            if self.is_gone(&dated.boot, dated.session, dated.period.from) {
                visit(dated);
            }
        })
    }

    /// From when on events of a boot count, ns of `CLOCK_MONOTONIC`.
    pub fn seam(&self, boot: &Boot) -> u64 {
        self.seams.get(boot).copied().unwrap_or(0)
    }

    /// Whether nothing of the window is after the sums.
    pub fn is_all(&self) -> bool {
        self.until >= self.window.1 || !self.is_live && self.begins.is_empty()
    }

    /// Why a report can't be made of sums; `None`: it can.
    pub fn refuses(report: &dyn Report, by: &[Key], wanted: &Wanted) -> Option<String> {
        if report.tables().is_empty() {
            return Some(format!("have nothing for report {}", report.shape().name));
        }
        if let Some(option) = wanted.foreign.first() {
            return Some(format!("know nothing of {option}: of filters only --unit and --syscall"));
        }
        let Some(table) = table(report.tables(), by) else {
            let known: Vec<&str> = report
                .tables()
                .iter()
                .flat_map(|table| keys(*table))
                .map(|key| key.name())
                .collect();
            return Some(format!("are by {} only", known.join(", ")));
        };
        let has = |key| keys(table).contains(&key);
        if !wanted.units.is_empty() && !has(Key::Unit) {
            return Some("of this kind are not by unit".into());
        }
        if !wanted.calls.is_empty() && !has(Key::Syscall) {
            return Some("of this kind are not by system call".into());
        }
        None
    }

    /// Adds the sums to a report; what they cover, and what is damaged, in words, a line each.
    pub fn add(
        &self,
        report: &mut dyn Report,
        wanted: &Wanted,
        to: &mut Sums,
    ) -> std::io::Result<(SumsTold, Vec<String>)> {
        let mut told = SumsTold::default();
        let damage = self.each(&mut |Dated { period, .. }| {
            told.take(&period);
            for (group, cell) in &period.rows {
                if is_wanted(wanted, group) {
                    give(report, group, cell, to);
                }
            }
        })?;
        Ok((told, damage))
    }

    /// When the events begin that are left, for people.
    pub fn events_from(&self, zone: &TimeZone) -> String {
        time(self.until, zone)
    }
}

fn is_wanted(wanted: &Wanted, group: &Group) -> bool {
    let is_of = |key: Key, words: &[String]| {
        let at = keys(group.table).iter().position(|of| *of == key);
        let word = at.and_then(|at| group.keys.get(at));
        words.is_empty()
            || word.is_some_and(|word| words.iter().any(|wanted| wanted.as_bytes() == &**word))
    };
    is_of(Key::Unit, &wanted.units) && is_of(Key::Syscall, &wanted.calls)
}

/// Gives a report a group by the names of its keys.
fn give(report: &mut dyn Report, group: &Group, cell: &Cell, to: &mut Sums) {
    let name = std::str::from_utf8(&group.keys[2]).ok();
    let error = name.filter(|_| group.table == Table::Errors).and_then(|n| n.parse().ok());
    let error = error.and_then(errno).map(str::as_bytes);
    let words: Vec<(Key, &[u8])> = keys(group.table)
        .iter()
        .zip(&group.keys)
        .map(|(key, word)| (*key, error.filter(|_| *key == Key::Errno).unwrap_or(word)))
        .collect();
    report.minute(group, &words, cell, to);
}

impl SumsTold {
    fn take(&mut self, period: &flightrec_sums::model::Period) {
        let ns = period.until.saturating_sub(period.from);
        self.lost_events = self.lost_events.saturating_add(period.missing());
        self.unknown_ns = self.unknown_ns.saturating_add(period.unknown_ns);
        let whole = period.flags & (flags::PART | flags::LOST | flags::NOT_SUMMED) == 0;
        self.not_whole = self.not_whole.saturating_add(u64::from(!whole));
        self.is_crowded |= period.flags & flags::CROWDED != 0;
        let of =
            Period { mono: (period.from, period.until), wall: (period.wall, period.wall_until()) };
        if period.flags & flags::NOT_SUMMED != 0 {
            self.unsummed_ns = self.unsummed_ns.saturating_add(ns);
            go_on(&mut self.unsummed, of);
        } else {
            // Its length is none of a period that was added up.
            self.step_ns = self.step_ns.max(ns);
        }
        go_on(&mut self.periods, of);
    }

    /// Lines for people.
    pub fn lines(&self, zone: &TimeZone) -> Vec<String> {
        let mut lines: Vec<String> = self
            .periods
            .iter()
            .map(|period| {
                format!(
                    "from {} to {} from sums of {}: the events are gone",
                    time(period.wall.0, zone),
                    time(period.wall.1, zone),
                    step(self.step_ns)
                )
            })
            .collect();
        if self.lost_events != 0 {
            lines.push(format!(
                "{} missing in these sums: they were overwritten or refused",
                if self.lost_events == 1 {
                    "1 event is".to_owned()
                } else {
                    format!("{} are", counted(self.lost_events, "event"))
                }
            ));
        }
        if self.not_whole != 0 {
            lines.push(format!(
                "{} of the sums not whole: events were missing, or the recording or its sums \
                 began or ended then",
                counted(self.not_whole, "period")
            ));
        }
        lines.extend(self.unsummed.iter().map(|period| {
            format!(
                "from {} to {} there are no sums: the events were deleted before they were added \
                 up",
                time(period.wall.0, zone),
                time(period.wall.1, zone)
            )
        }));
        if self.is_crowded {
            lines.push("there were too many groups: some sums are of (others)".to_owned());
        }
        lines
    }
}

/// Adds a stretch to those before it, of which it may be the continuation.
fn go_on(stretches: &mut Vec<Period>, of: Period) {
    match stretches.last_mut() {
        Some(last) if last.mono.1 == of.mono.0 => {
            (last.mono.1, last.wall.1) = (of.mono.1, of.wall.1);
        }
        _ => stretches.push(of),
    }
}

fn step(ns: u64) -> String {
    match ns / 1_000_000_000 {
        0..=90 => "minutes".to_owned(),
        91..=900 => "10 minutes".to_owned(),
        _ => "hours".to_owned(),
    }
}

fn time(wall: i64, zone: &TimeZone) -> String {
    let at = Timestamp::from_nanosecond(i128::from(wall)).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    fn period(from: u64, minutes: u64, flags: u32) -> flightrec_sums::model::Period {
        flightrec_sums::model::Period {
            from: from * MINUTE,
            until: (from + minutes) * MINUTE,
            wall: (from * MINUTE) as i64,
            flags,
            ..Default::default()
        }
    }

    #[test]
    fn what_was_not_added_up_is_told_with_its_time() {
        let mut told = SumsTold::default();
        for (from, minutes, flags) in
            [(60, 1, 0), (61, 45, flags::NOT_SUMMED | flags::PART), (106, 1, 0), (107, 1, 0)]
        {
            told.take(&period(from, minutes, flags));
        }
        assert_eq!((told.unsummed_ns, told.not_whole), (45 * MINUTE, 1));
        let lines = told.lines(&TimeZone::UTC);
        assert_eq!(
            lines,
            [
                "from 1970-01-01 01:00:00 to 1970-01-01 01:48:00 from sums of minutes: the events \
                 are gone",
                "1 period of the sums not whole: events were missing, or the recording or its sums \
                 began or ended then",
                "from 1970-01-01 01:01:00 to 1970-01-01 01:46:00 there are no sums: the events \
                 were deleted before they were added up",
            ]
        );
    }
}
