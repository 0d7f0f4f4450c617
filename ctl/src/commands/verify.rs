//! `flightctl verify`: files checked whole.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::Lane;
use flightrec_format::ring::Gap;
use flightrec_reader::boots;
use flightrec_reader::source::FilesPlan;
use flightrec_reader::source::files::{FilesError, catalog};
use flightrec_reader::source::state_dir;
use flightrec_store::verify::{Report, Verifier};
use flightrec_store::{FileHeader, What, read_header};

use super::prelude::*;
use crate::output::Output;
use crate::progress::Progress;
use crate::text::printable;
use crate::{explain, guard};
use flightrec_cli::note;
use flightrec_format::human::{bytes, counted, span};

/// Most gaps of a file that are told one by one; the others are counted.
const GAPS_TOLD: usize = 20;

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Files, or directories with files in or below them [default: the state directory].
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Files to check.
#[derive(Debug, PartialEq)]
pub struct VerifyPlan {
    files: FilesPlan,
}

impl Arguments for VerifyArgs {
    const HELP: Help = Help {
        about: "Check files completely: report what is damaged, and which events are lost",
        examples: &[
            ("flightctl verify", "check all files of this machine"),
            ("flightctl verify incident.flight", "check one file"),
        ],
        exits: &[Exit::Fine, Exit::Damaged, Exit::Error],
    };
    type Plan = VerifyPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<VerifyPlan> {
        Ok(VerifyPlan { files: recorder.files(self.paths) })
    }
}

impl Plan for VerifyPlan {
    fn run(&self) -> Result<Exit> {
        guard::watch();
        let paths = state_dir::paths(&self.files)?;
        let found = catalog::find(&paths)?;
        if found.is_empty() {
            return Err(FilesError::Empty(paths.first().cloned().unwrap_or_default()).into());
        }
        let (files, unreadable) = in_order(found);
        let mut output = Output::standard();
        let progress = Progress::start("checking the files");
        let zone = crate::zone::system();
        let (mut verifier, mut sum) = (Verifier::default(), Sum::default());
        let last = files.iter().rposition(|(header, _)| {
            Some(header.boot_id) == boots::present() && header.number != 0
        });
        let mut failed = unreadable;
        for (at, (_, path)) in files.iter().enumerate() {
            match verifier.file(path) {
                Ok(report) => {
                    progress.add(report.size);
                    explain::reads_all(path, report.blocks as u64, report.size);
                    let text = sum.add(&report, last == Some(at), &zone);
                    output.write_all(text.as_bytes()).map_err(|e| output.explain(e))?;
                }
                Err(error) => failed.push(error.into()),
            }
        }
        output.print(sum.line().as_bytes())?;
        for error in &failed {
            note(&format!("not checked: {error}"));
        }
        Ok(match (failed.is_empty(), sum.damaged) {
            (false, _) => Exit::Error,
            (true, 0) => Exit::Fine,
            (true, _) => Exit::Damaged,
        })
    }
}

/// The files of each session in the order of writing, so that what is missing between two is found;
/// and those that are no recordings.
fn in_order(paths: Vec<PathBuf>) -> (Vec<(FileHeader, PathBuf)>, Vec<FilesError>) {
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for path in paths {
        match read_header(&path) {
            Ok(header) => files.push((header, path)),
            Err(error) => failed.push(error.into()),
        }
    }
    files.sort_by_key(|(header, _): &(FileHeader, PathBuf)| {
        (header.boot_id, header.session, header.number, header.created_mono)
    });
    (files, failed)
}

/// What all files came to.
#[derive(Debug, Default)]
struct Sum {
    files: u64,
    damaged: u64,
    events: u64,
    /// Events in blocks that are damaged, as their headers count them.
    damaged_events: u64,
    missing: u64,
}

impl Sum {
    /// Takes a file in; what is to be said of it. `is_last`: it may be being written.
    fn add(&mut self, report: &Report, is_last: bool, zone: &TimeZone) -> String {
        let events = report.events.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let is_unfinished = |what: &What| *what == What::Cut && is_last && !report.complete;
        let damage: Vec<_> =
            report.damage.iter().filter(|damage| !is_unfinished(&damage.what)).collect();
        let lost = damage
            .iter()
            .filter_map(|damage| damage.block.as_deref())
            .map(|block| block.events)
            .fold(0, u64::saturating_add);
        self.files += 1;
        self.events = self.events.saturating_add(events);
        self.damaged += u64::from(!damage.is_empty());
        self.damaged_events = self.damaged_events.saturating_add(lost);
        self.missing = self.missing.saturating_add(report.lost);

        let state = match (damage.is_empty(), report.complete, is_last) {
            (false, ..) => "DAMAGED",
            (true, true, _) => "sound",
            (true, false, true) => "sound so far, not closed yet",
            (true, false, false) => "sound, but never closed",
        };
        let times = Times { header: &report.header, zone };
        let lanes =
            Lane::RINGS.iter().zip(report.events).map(|(lane, n)| format!("{n} {}", lane.name()));
        let lanes = lanes.collect::<Vec<_>>().join(", ");
        let time = report.time.map_or_else(String::new, |(from, until)| {
            format!(
                ", {} to {} ({})",
                times.at(from),
                times.at(until),
                span(until.saturating_sub(from))
            )
        });
        let (blocks, size) = (counted(report.blocks as u64, "block"), bytes(report.size));
        // Writing to a string can't fail.
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}: {state}: {size} in {blocks}, {} ({lanes}){time}",
            printable(report.path.as_os_str().as_encoded_bytes()),
            counted(events, "event")
        );
        for damage in damage {
            let _ = write!(text, "  damage {damage}");
            if let Some(block) = &damage.block {
                let _ = write!(text, ", {} to {}", times.at(block.first), times.at(block.last));
            }
            text.push('\n');
        }
        for gap in report.gaps.iter().take(GAPS_TOLD) {
            let _ = writeln!(text, "  {}", gap_line(gap, &times));
        }
        let more = report.gaps.len().saturating_sub(GAPS_TOLD);
        if more != 0 {
            let _ = writeln!(text, "  and {} more", counted(more as u64, "gap"));
        }
        text
    }

    /// All in one line.
    fn line(&self) -> String {
        let files = counted(self.files, "file");
        let mut line = format!("{files} checked, {}", counted(self.events, "event"));
        if self.damaged == 0 {
            line.push_str(": no damage");
        } else {
            let events = counted(self.damaged_events, "event");
            // Writing to a string can't fail.
            let _ =
                write!(line, ": {} DAMAGED, {events} in blocks that can't be read", self.damaged);
        }
        if self.missing != 0 {
            let missing = counted(self.missing, "event");
            let _ = write!(
                line,
                "; {missing} missing in all, by damage or overwritten before they could be written"
            );
        }
        line.push('\n');
        line
    }
}

fn gap_line(gap: &Gap, times: &Times<'_>) -> String {
    let missing = gap
        .missing()
        .map_or_else(|| "unknown number of events".to_owned(), |n| counted(n, "event"));
    let (from, until) = (times.at(gap.from), times.at(gap.until));
    format!("gap: CPU {}, lane {}, {from} to {until}: {missing} missing", gap.cpu, gap.lane.name())
}

/// Moments of a file as local times, by the clock as it was when the file was begun.
struct Times<'a> {
    header: &'a FileHeader,
    zone: &'a TimeZone,
}

impl Times<'_> {
    fn at(&self, mono: u64) -> String {
        let FileHeader { created_wall, created_mono, .. } = *self.header;
        let wall = i128::from(created_wall) + i128::from(mono) - i128::from(created_mono);
        let moment = Timestamp::from_nanosecond(wall).unwrap_or(Timestamp::UNIX_EPOCH);
        moment.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
    }
}
