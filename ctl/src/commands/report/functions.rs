//! `flightctl report functions --probed`: how often each probed function was called.

use std::iter;
use std::path::Path;

use anyhow::{Result, bail};
use flightrec_format::control::FunctionCalls;
use flightrec_reader::control::Client;
use serde::Serialize;

use super::args::ReportFormat;
use crate::exit::Exit;
use crate::output::Output;
use crate::schema::document;
use crate::text::printable;
use flightrec_format::human::span;

/// Asks the daemon, which has the counts.
pub(super) fn run(format: ReportFormat, runtime_dir: &Path) -> Result<Exit> {
    let (calls, now) = Client::connect(runtime_dir)?.function_calls()?;
    let counts = Counts::new(calls, now);
    let text = match format {
        ReportFormat::Text => counts.text(),
        ReportFormat::Json => document(&counts)?,
        ReportFormat::Csv | ReportFormat::Folded => {
            bail!("--probed: there are the formats text and json")
        }
    };
    Output::standard().print(text.as_bytes())?;
    Ok(Exit::Fine)
}

/// The counts, with the names that `--format json` has: scripts rely on them.
#[derive(Debug, Serialize)]
struct Counts {
    /// The busiest first.
    functions: Vec<Count>,
}

#[derive(Debug, Serialize)]
struct Count {
    name: String,
    path: String,
    calls: u64,
    /// Null: they are not counted.
    returns: Option<u64>,
    /// For how long it was counted.
    counted_seconds: f64,
    /// Whether it still is.
    is_probed: bool,
    #[serde(skip)]
    counted_ns: u64,
}

impl Counts {
    fn new(calls: Vec<FunctionCalls>, now: u64) -> Self {
        let one = |of: FunctionCalls| {
            let until = if of.until == 0 { now } else { of.until };
            let counted_ns = until.saturating_sub(of.since);
            Count {
                name: of.name,
                path: of.path,
                calls: of.calls,
                returns: of.returns,
                counted_seconds: counted_ns as f64 / 1e9,
                is_probed: of.until == 0,
                counted_ns,
            }
        };
        let mut functions: Vec<Count> = calls.into_iter().map(one).collect();
        functions.sort_by(|a, b| {
            b.calls.cmp(&a.calls).then_with(|| (&a.path, &a.name).cmp(&(&b.path, &b.name)))
        });
        Self { functions }
    }

    fn text(&self) -> String {
        if self.functions.is_empty() {
            return "no function was probed since flightd started: see `flightctl probe add \
                    --help`\n"
                .into();
        }
        let row = |of: &Count| {
            let returns = of.returns.map_or_else(|| "-".to_owned(), |returns| returns.to_string());
            let ended = if of.is_probed { "" } else { " (ended)" };
            format!(
                "{:>14} {returns:>14} {:>9}  {} {}{ended}\n",
                of.calls,
                span(of.counted_ns),
                printable(&of.name),
                printable(&of.path)
            )
        };
        let head = format!("{:>14} {:>14} {:>9}  FUNCTION\n", "CALLS", "RETURNS", "COUNTED");
        iter::once(head).chain(self.functions.iter().map(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_first() {
        let calls = |name: &str, calls, returns, until| FunctionCalls {
            name: name.into(),
            path: "/a\x1b".into(),
            calls,
            returns,
            since: 1_000_000_000,
            until,
        };
        let all = vec![
            calls("b", 1, Some(0), 0),
            calls("p:m", 1_000_000, None, 3_000_000_000),
            calls("a", 1, Some(1), 0),
        ];
        let counts = Counts::new(all, 61_000_000_000);
        let text = counts.text();
        let lines: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..5], ["1000000", "-", "2.0", "s", "p:m"]);
        assert_eq!(lines[0][6], "(ended)");
        assert_eq!(lines[1][..5], ["1", "1", "1m", "0s", "a"]);
        assert_eq!(lines[2][4], "b");
        assert!(!text.contains('\x1b'));
        assert!(Counts::new(Vec::new(), 0).text().contains("no function"));
    }
}
