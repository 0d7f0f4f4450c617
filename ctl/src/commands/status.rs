//! `flightctl status`

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::Lane;
use flightrec_format::control::{Status, Totals};

use crate::control::Client;
use crate::exit::Exit;
use crate::human::{bytes, counted, ranges, span};
use crate::kind::Kind;
use crate::output::Output;
use crate::plan::Origin;
use crate::source::{PinnedSource, Source};

/// Shows the state of the recording: the daemon's answer, or what the pinned rings tell where they are asked for.
pub fn run(origin: &Origin) -> Result<Exit> {
    let text = match origin {
        Origin::Daemon { runtime_dir, .. } => of_daemon(&Client::connect(runtime_dir)?.status()?, &TimeZone::system()),
        Origin::Pinned { bpffs_dir } => of_rings(bpffs_dir)?,
    };
    let mut output = Output::open(None)?;
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|e| output.explain(e))?;
    Ok(Exit::Fine)
}

/// A paragraph: lines of a name and a value.
#[derive(Default)]
struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "{name:<12} {value}");
    }
}

fn of_daemon(status: &Status, zone: &TimeZone) -> String {
    let now = status.totals.now;
    let mut table = Table::default();
    table.row("recording", &since(status.recording_since, status.wall_offset, now, zone));
    table.row("session", &format!("{:016x}", status.session));
    let running = now.saturating_sub(status.daemon_since);
    let percent = status.daemon_cpu as f64 * 100.0 / running.max(1) as f64;
    table.row(
        "daemon",
        &format!(
            "flightd {}, pid {}, running for {}, CPU time {} ({percent:.2} %)",
            status.version,
            status.pid,
            span(running),
            span(status.daemon_cpu),
        ),
    );
    let strings = if status.strings { "recorded" } else { "not recorded" };
    table.row("programs", &format!("{} for system calls, strings {strings}", status.syscall_programs));
    table.row("memory", &format!("{} of rings and tables in the kernel", bytes(status.memory)));
    table.row("threads", &format!("{} in the thread table", status.threads));
    lanes(&mut table, &status.totals, status.held, status.ring_bytes);
    losses(&mut table, &status.totals);
    table.0
}

fn of_rings(bpffs_dir: &Path) -> Result<String> {
    let source = PinnedSource::open(bpffs_dir)?;
    let (meta, totals) = (source.meta()?, source.totals()?);
    let mut table = Table::default();
    table.row("recording", &since(meta.started, source.clock().wall_offset, totals.now, &TimeZone::system()));
    table.row("session", &format!("{:016x}", meta.session));
    table.row("daemon", "not asked: read from the pinned rings");
    let strings = if meta.strings { "recorded" } else { "not recorded" };
    table.row("programs", &format!("{} for system calls, strings {strings}", meta.syscall_programs));
    lanes(&mut table, &totals, source.held(), meta.ring_bytes);
    losses(&mut table, &totals);
    Ok(table.0)
}

/// `since 2026-01-31 14:03:07 (2h 3m)`
fn since(mono: u64, wall_offset: i64, now: u64, zone: &TimeZone) -> String {
    let wall = i128::from(mono) + i128::from(wall_offset);
    let moment = Timestamp::from_nanosecond(wall).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone.clone());
    format!("since {} ({})", moment.strftime("%Y-%m-%d %H:%M:%S"), span(now.saturating_sub(mono)))
}

fn lanes(table: &mut Table, totals: &Totals, held: [u64; 3], ring_bytes: [u64; 3]) {
    let recorded = totals.cpus.iter().filter(|cpu| cpu.recorded).map(|cpu| cpu.cpu);
    table.row("CPUs", &ranges(recorded));
    for (i, lane) in Lane::RINGS.iter().enumerate() {
        let mut counts = Vec::new();
        for index in 0..6 {
            let of_cpu = totals.cpus.iter().filter_map(|cpu| cpu.events.get(i)?.get(index));
            let n = of_cpu.fold(0u64, |sum, n| sum.saturating_add(*n));
            if let Some(kind) = Kind::counted(i, index) {
                counts.push(format!("{} {n}", kind.name()));
            }
        }
        let (held, ring) = (held.get(i).copied().unwrap_or(0), ring_bytes.get(i).copied().unwrap_or(0));
        let seconds = held as f64 / 1e9;
        table.row(lane.name(), &format!("holds {seconds:.1} s in {} a CPU; {}", bytes(ring), counts.join(", ")));
    }
}

/// Everything that was not recorded since the start; overwriting old history is what rings do, and no loss.
fn losses(table: &mut Table, totals: &Totals) {
    let mut lost = Vec::new();
    let reasons = ["refused, lane busy", "refused by the budget", "left out (the recorder's own)"];
    for (reason, words) in reasons.iter().enumerate() {
        push(&mut lost, totals.cpus.iter().flat_map(|cpu| &cpu.refused).filter_map(|by| by.get(reason)), words);
    }
    push(&mut lost, totals.cpus.iter().flat_map(|cpu| &cpu.no_ring), "on CPUs without rings");
    push(&mut lost, totals.misses.iter().map(|(_, n)| n), "skipped by the kernel (recursion)");
    if totals.slot_collisions != 0 {
        lost.push(format!("{} without room in the thread table", counted(totals.slot_collisions, "thread")));
    }
    table.row("not recorded", &if lost.is_empty() { "nothing".to_owned() } else { lost.join("; ") });
}

fn push<'a>(lost: &mut Vec<String>, counts: impl Iterator<Item = &'a u64>, words: &str) {
    let n = counts.fold(0u64, |sum, n| sum.saturating_add(*n));
    if n != 0 {
        lost.push(format!("{} {words}", counted(n, "event")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::control::CpuTotals;

    #[test]
    fn every_figure_is_shown() {
        let cpu = |cpu, recorded| CpuTotals {
            cpu,
            recorded,
            events: [[100, 99, 0, 0, 0, 0], [7, 5, 1, 2, 0, 0], [3, 2, 1, 1, 1, 1]],
            refused: [[4, 0, 9], [0; 3], [0; 3]],
            no_ring: [0; 3],
        };
        let totals = Totals {
            now: 70_000_000_000,
            cpus: vec![cpu(0, true), cpu(1, true), CpuTotals { cpu: 2, no_ring: [1, 2, 3], ..CpuTotals::default() }],
            misses: vec![("sys_enter".into(), 2)],
            slot_collisions: 1,
        };
        let status = Status {
            version: "0.1.0".into(),
            session: 0xabc,
            pid: 77,
            recording_since: 10_000_000_000,
            wall_offset: 1_700_000_000_000_000_000,
            daemon_since: 20_000_000_000,
            daemon_cpu: 500_000_000,
            syscall_programs: "tp_btf".into(),
            memory: 50 << 20,
            ring_bytes: [16 << 20, 8 << 20, 1 << 20],
            held: [12_500_000_000, 60_000_000_000, 60_000_000_000],
            totals,
            strings: true,
            threads: 321,
        };
        let text = of_daemon(&status, &TimeZone::UTC);
        for part in [
            "recording    since 2023-11-14 22:13:30 (1m 0s)",
            "session      0000000000000abc",
            "pid 77, running for 50.0 s, CPU time 500.0 ms (1.00 %)",
            "tp_btf for system calls, strings recorded",
            "50 MiB of rings",
            "321 in the thread table",
            "CPUs         0-1",
            "syscall      holds 12.5 s in 16 MiB a CPU; sys_enter 200, sys_exit 198",
            "8 events refused, lane busy; 18 events left out",
            "6 events on CPUs without rings; 2 events skipped by the kernel (recursion); 1 thread without room",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}
