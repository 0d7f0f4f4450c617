//! What was left out of calls that are recorded, as far as the question asks for it.

use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::{Doubt, Part};

use super::lines::Times;
use flightrec_format::human::counted;

/// A line for each CPU and part.
pub(super) fn doubt_lines(report: &Coverage, times: &mut Times<'_>) -> Vec<String> {
    report.doubts.iter().map(|doubt| line(doubt, report.strings, times)).collect()
}

/// `CPU 1, … to …: 12034 events that the filter can't decide: their paths were not recorded, to
/// stay within the budget`
fn line(doubt: &Doubt, strings: bool, times: &mut Times<'_>) -> String {
    let (from, until) = (times.full(doubt.from), times.short(doubt.until, doubt.from));
    let events = counted(doubt.events, "event");
    format!(
        "CPU {}, {from} to {until}: {events} that the filter can't decide: {}",
        doubt.cpu,
        why(doubt.part, strings)
    )
}

/// What is missing, and why. `strings`: the configuration has them recorded.
pub fn why(part: Part, strings: bool) -> &'static str {
    match part {
        Part::Paths if strings => "their paths were not recorded, to stay within the budget",
        Part::Paths => "their paths are not recorded (off in the configuration)",
        Part::UnreadPaths => "their paths were not in memory when they were to be recorded",
        Part::Directories => {
            "their paths are relative to a directory that is not known, such as a working directory"
        }
        Part::Arguments => "their arguments were not recorded, to stay within the budget",
        Part::Descriptors => {
            "the files of their descriptors are not known (opened before the first descriptor \
             snapshot, where events are missing, or by paths that were not recorded)"
        }
        Part::ExitTimes => "their durations were not recorded, to stay within the budget",
        Part::Entries => "the beginnings of their calls are not in the recording",
    }
}
