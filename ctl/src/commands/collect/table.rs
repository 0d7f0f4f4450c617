//! Who answered, and whose window is complete.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::ask::Answer;
use super::hosts::Host;
use super::survey::{Held, moment, timestamp};
use crate::clock_offset::Ahead;
use crate::exit::Exit;
use crate::schema::document;
use crate::text::printable;
use flightrec_format::human::{bytes, counted, span};

/// A host, and what came of it.
pub(super) type Row = (Host, Answer);

/// By which times windows were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// By such before now: of the same stretch of time whatever a clock says.
    BeforeNow,
    /// By times of day, which mean each host's clock.
    OfDay,
}

/// Clocks that differ by more than so much are told: those that the network sets don't, ns.
const WRONG_NS: u64 = 100_000_000;

/// How it ended in all.
pub(super) fn exit(rows: &[Row], times: Times) -> Exit {
    let all = |is: fn(&Answer) -> bool| rows.iter().all(|(_, answer)| is(answer));
    if !all(|answer| !matches!(answer, Answer::None(_))) {
        Exit::Unanswered
    } else if !all(is_complete)
        || times == Times::OfDay && rows.iter().any(|row| wrong(row).is_some())
    {
        Exit::Partial
    } else {
        Exit::Fine
    }
}

/// The clock of a host that is surely wrong, or that of this machine is.
fn wrong((_, answer): &Row) -> Option<Ahead> {
    clock(answer).filter(|clock| clock.least() > WRONG_NS)
}

/// The clock of a host that told the time.
fn clock(answer: &Answer) -> Option<Ahead> {
    match answer {
        Answer::Saved { clock, .. } | Answer::Nothing { clock } => *clock,
        Answer::None(_) => None,
    }
}

/// `4m 59s ahead`
fn ahead(clock: Ahead) -> String {
    match clock.ns {
        _ if clock.least() == 0 => format!("within {}", span(clock.most())),
        ns @ 0.. => format!("{} ahead", span(ns.unsigned_abs())),
        ns => format!("{} behind", span(ns.unsigned_abs())),
    }
}

fn is_complete(answer: &Answer) -> bool {
    matches!(answer, Answer::Saved { held, .. } if held.complete)
}

/// The table.
pub(super) fn text(rows: &[Row], times: Times, zone: &TimeZone) -> String {
    let head = ["HOST", "ANSWER", "WINDOW", "CLOCK", "MISSING", "FILE"].map(str::to_owned);
    let cells: Vec<[String; 6]> =
        std::iter::once(head).chain(rows.iter().map(|row| cells(row, zone))).collect();
    let width = |at: usize| {
        cells.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..5).map(|at| width(at).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths.iter().chain([&0])) {
            // Writing to a string can't fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let count = |is: fn(&Answer) -> bool| rows.iter().filter(|(_, answer)| is(answer)).count();
    let answered = count(|answer| !matches!(answer, Answer::None(_)));
    let complete = count(is_complete);
    let _ = writeln!(
        out,
        "{answered} of {} answered, {complete} with a complete window",
        counted(rows.len() as u64, "host")
    );
    for (row, clock) in rows.iter().filter_map(|row| Some((row, wrong(row)?))) {
        let of_it = match times {
            Times::BeforeNow => "the times in its files differ by that",
            Times::OfDay => "so its window is not of the time that was asked for",
        };
        let _ = writeln!(
            out,
            "{}: its clock is {} {} this machine's: {of_it}",
            printable(&row.0.name),
            span(clock.ns.unsigned_abs()),
            if clock.ns < 0 { "behind" } else { "ahead of" },
        );
    }
    out
}

fn cells((host, answer): &Row, zone: &TimeZone) -> [String; 6] {
    let clock = clock(answer).map_or_else(|| "-".to_owned(), ahead);
    let cells = |answer: &str, window, missing, file| {
        [printable(&host.name), answer.to_owned(), window, clock, missing, file]
    };
    let none = || "-".to_owned();
    match answer {
        Answer::Saved { files, bytes: size, held, .. } => {
            let window = held.window.map_or_else(none, |(from, until)| {
                let length = span(u64::try_from(until.saturating_sub(from)).unwrap_or(0));
                format!("{}, {length}", moment(from, zone))
            });
            let answer = if held.complete { "complete" } else { "INCOMPLETE" };
            let files: Vec<String> =
                files.iter().map(|path| printable(path.to_string_lossy().as_bytes())).collect();
            let file = format!("{} ({})", files.join(" "), bytes(*size));
            cells(answer, window, missing(held), file)
        }
        Answer::Nothing { .. } => cells("nothing recorded", none(), none(), none()),
        Answer::None(why) => {
            let [host, answer, window, ..] = cells("no answer:", printable(why), none(), none());
            [host, answer, window, String::new(), String::new(), String::new()]
        }
    }
}

/// `at least 12034 events`
fn missing(held: &Held) -> String {
    if held.complete {
        return "-".to_owned();
    }
    match (bound(held), held.missing) {
        ("exact", 0) => "see flightctl dump".to_owned(),
        ("exact", n) => counted(n, "event"),
        ("at_least", 0) => "unknown".to_owned(),
        (bound, n) => format!("{} {}", bound.replace('_', " "), counted(n, "event")),
    }
}

/// What the number of missing events is.
fn bound(held: &Held) -> &'static str {
    match (held.is_counted, held.is_bound) {
        (true, false) => "exact",
        (true, true) => "at_most",
        (false, false) => "at_least",
        (false, true) => "about",
    }
}

/// The table for programs.
#[derive(Serialize)]
struct Document {
    asked: usize,
    answered: usize,
    complete: usize,
    hosts: Vec<Line>,
}

/// A host, for programs.
#[derive(Serialize)]
struct Line {
    host: String,
    answered: bool,
    error: Option<String>,
    complete: bool,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    missing_events: Option<u64>,
    missing_events_are: Option<&'static str>,
    clock_ahead_ns: Option<i64>,
    clock_ahead_within_ns: Option<u64>,
    files: Vec<String>,
    bytes: u64,
}

/// The table as JSON.
pub(super) fn json(rows: &[Row]) -> serde_json::Result<String> {
    let hosts: Vec<Line> = rows.iter().map(line).collect();
    document(Document {
        asked: hosts.len(),
        answered: hosts.iter().filter(|host| host.answered).count(),
        complete: hosts.iter().filter(|host| host.complete).count(),
        hosts,
    })
}

fn line((host, answer): &Row) -> Line {
    let clock = clock(answer);
    let mut line = Line {
        host: host.name.clone(),
        answered: true,
        error: None,
        complete: is_complete(answer),
        from: None,
        until: None,
        missing_events: None,
        missing_events_are: None,
        clock_ahead_ns: clock.map(|clock| clock.ns),
        clock_ahead_within_ns: clock.map(|clock| clock.within),
        files: Vec::new(),
        bytes: 0,
    };
    match answer {
        Answer::Saved { files, bytes, held, .. } => {
            let window = held.window.map(|(from, until)| (timestamp(from), timestamp(until)));
            (line.from, line.until) = window.unzip();
            line.missing_events = Some(held.missing);
            line.missing_events_are = Some(bound(held));
            line.files = files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            line.bytes = *bytes;
        }
        Answer::Nothing { .. } => {}
        Answer::None(why) => {
            line.answered = false;
            line.error = Some(why.clone());
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, answer: Answer) -> Row {
        (Host { name: name.into(), stem: name.into() }, answer)
    }

    fn saved(held: Held) -> Answer {
        told(held, 200_000)
    }

    /// With a clock that is so much ahead, ns.
    fn told(held: Held, ns: i64) -> Answer {
        let clock = Some(Ahead { ns, within: 1_000_000 });
        Answer::Saved { files: vec!["d/x.flight".into()], bytes: 2048, held, clock }
    }

    fn held(complete: bool, missing: u64) -> Held {
        let window = Some((1_767_225_600_000_000_000, 1_767_225_630_000_000_000));
        Held { window, complete, missing, is_counted: true, is_bound: false }
    }

    #[test]
    fn the_status_tells_whether_all_answered_and_are_complete() {
        let fine = row("a", saved(held(true, 0)));
        let gaps = row("b", saved(held(false, 7)));
        let none = row("c", Answer::None("x".into()));
        let empty = row("d", Answer::Nothing { clock: None });
        let exit = |rows: &[Row]| exit(rows, Times::BeforeNow);
        assert_eq!(exit(std::slice::from_ref(&fine)), Exit::Fine);
        assert_eq!(exit(&[fine.clone(), gaps.clone()]), Exit::Partial);
        assert_eq!(exit(&[fine.clone(), empty]), Exit::Partial);
        assert_eq!(exit(&[fine, gaps, none]), Exit::Unanswered);
    }

    #[test]
    fn a_wrong_clock_is_told_and_makes_times_of_day_others() {
        let second = 1_000_000_000;
        for (ns, words, is_wrong) in [
            (-200_000, "within 1.2 ms", false),
            (90_000_000, "90.0 ms ahead", false),
            (101_000_001, "101.0 ms ahead", true),
            (300 * second, "5m 0s ahead", true),
            (-2 * second, "2.0 s behind", true),
        ] {
            let rows = [row("a", told(held(true, 0), ns))];
            for (times, end) in [
                (Times::BeforeNow, "the times in its files differ by that"),
                (Times::OfDay, "so its window is not of the time that was asked for"),
            ] {
                let text = text(&rows, times, &TimeZone::UTC);
                let lines: Vec<&str> = text.lines().collect();
                assert!(lines[1].contains(words), "{text}");
                let words = words.replace("ahead", "ahead of");
                let told = format!("a: its clock is {words} this machine's: {end}");
                assert_eq!(lines.get(3), is_wrong.then_some(&&*told), "{text}");
                let partial = is_wrong && times == Times::OfDay;
                assert_eq!(exit(&rows, times) == Exit::Partial, partial, "{ns}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_told_as_exactly_as_it_is_known() {
        let of = |missing, is_counted, is_bound| {
            self::missing(&Held { is_counted, is_bound, ..held(false, missing) })
        };
        assert_eq!(of(7, true, false), "7 events");
        assert_eq!(of(7, true, true), "at most 7 events");
        assert_eq!(of(7, false, false), "at least 7 events");
        assert_eq!(of(7, false, true), "about 7 events");
        assert_eq!(of(0, false, false), "unknown");
        assert_eq!(missing(&held(true, 0)), "-");
    }

    #[test]
    fn a_line_each_and_no_terminal_is_told_what_to_do() {
        let rows = [
            row("web1", saved(held(true, 0))),
            row("db", Answer::None("no\u{1b}[2J route".into())),
        ];
        let text = text(&rows, Times::BeforeNow, &TimeZone::UTC);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
            "web1 complete 2026-01-01 00:00:00.000, 30.0 s within 1.2 ms - d/x.flight (2 KiB)"
        );
        assert!(lines[2].contains("no answer:  no\\"), "{text}");
        assert_eq!(lines[3], "1 of 2 hosts answered, 1 with a complete window");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
