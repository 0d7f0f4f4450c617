//! The table `coverage`: what is complete, and each gap.

use flightrec_format::abi::page::Lane;
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use super::{Parquet, Table};
use crate::gaps;
use crate::printable::printable;

impl Parquet {
    /// Appends what a window has.
    pub(super) fn cover(&mut self, report: &Coverage, wall: &mut WallClock) {
        let Self { writer, id, cpus, .. } = self;
        let Some(writer) = writer else { return };
        let rows = writer.rows(Table::Coverage);
        let from = report.window.from.max(report.started);
        let until = report.window.until.min(report.now).max(from);
        let (from, until) = (wall.wall(from), wall.wall(until));
        let mut row = |what: &str, complete: bool| {
            rows.time(from).long(until).text(what).bool(complete);
        };
        row("window", report.is_complete());
        rows.text(None).int(None).text(None).text(None).long(None).text(&**id);
        for lane in Lane::RINGS {
            let complete = report.complete_cpus(lane);
            let off = report.is_off(lane).then_some("left out by the configuration");
            for cpu in &*cpus {
                rows.time(from).long(until).text("lane").bool(complete.contains(cpu));
                rows.text(lane.name()).int(i32::from(*cpu)).text(None).text(off).long(None);
                rows.text(&**id);
            }
        }
        for of in &report.lacking {
            let what = printable(of.what.as_bytes());
            // Threads that are not known are a row without a kind.
            let kinds = of.kinds.iter().map(Some).chain(of.kinds.is_empty().then_some(None));
            for kind in kinds {
                let kind = kind.map(|kind| printable(kind.as_bytes()));
                rows.time(from).long(until).text("lacking").bool(false).text(None).int(None);
                rows.text(kind.as_deref()).text(&*what).long(None).text(&**id);
            }
        }
        for of in &report.switched_off {
            for kind in &of.kinds {
                rows.time(from).long(until).text("switched_off").bool(false).text(None).int(None);
                rows.text(&*printable(kind.as_bytes())).text(&*printable(of.key.as_bytes()));
                rows.long(None).text(&**id);
            }
        }
        for (from, until) in &report.detached {
            rows.time(wall.wall(*from)).long(wall.wall(*until)).text("detached").bool(false);
            rows.text(Lane::Syscall.name()).int(None).text(None);
            rows.text("system calls were not recorded").long(None).text(&**id);
        }
    }

    /// Appends a gap.
    pub(super) fn miss(&mut self, gap: &Gap, window: Window, wall: &mut WallClock) {
        let Self { writer, id, .. } = self;
        let Some(writer) = writer else { return };
        let rows = writer.rows(Table::Coverage);
        let (from, until) = gaps::within(gap, window);
        let (from, until) = (wall.wall(from), wall.wall(until));
        let mut row = |what: &str, kind: Option<&str>, reason: &str, missing: Option<u64>| {
            rows.time(from).long(until).text(what).bool(false);
            rows.text(gap.lane.name()).int(i32::from(gap.cpu)).text(kind).text(reason);
            rows.long(missing.map(|n| n as i64)).text(&**id);
        };
        row("gap", None, gap.reason.describe(), gaps::missing(gap));
        for (key, n) in gaps::lost(gap) {
            row("lost", key.strip_prefix("lost_"), &key, Some(n));
        }
    }
}
