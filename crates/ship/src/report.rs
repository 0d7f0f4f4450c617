//! How it stands: `STATE_DIR/status.json`, written by the service, and read by `status` and
//! `metrics`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::files::{self, FileError};

/// The file in the state directory.
const FILE: &str = "status.json";

/// How it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// When this was so, ns since 1970.
    pub at: i64,
    /// Whether the service runs; found out by who reads.
    pub running: bool,
    /// Where the storage is.
    pub storage: String,
    /// This machine's name in it.
    pub host: String,
    /// What is wrong with the storage; `None`: nothing is known to be.
    pub problem: Option<Problem>,
    /// What is wrong with the state directories; `None`: nothing is known to be.
    pub trouble: Option<String>,
    /// When something was uploaded last, ns since 1970; 0: not yet.
    pub last_upload: i64,
    /// Items that are to be made.
    pub waiting: u64,
    /// Items in the spool.
    pub spooled: u64,
    /// Their bytes.
    pub spool_bytes: u64,
    /// Most bytes of the spool.
    pub spool_limit: u64,
    /// Whether items wait because the spool is full.
    pub spool_full: bool,
    /// Items that are in the storage, of the days that the journal has.
    pub shipped: u64,
    /// Items that are lost.
    pub dropped: u64,
    /// Items that could not be made.
    pub failed: u64,
    /// Hours without sums.
    pub absent: u64,
    /// Bytes that were uploaded today (UTC).
    pub day_bytes: u64,
    /// Most bytes of a day; 0: no limit.
    pub day_limit: u64,
    /// Whether the limit of today is reached.
    pub day_full: bool,
    /// Bytes that were uploaded at all times.
    pub bytes: u64,
    /// Objects that were.
    pub objects: u64,
    /// Attempts to upload that failed.
    pub failures: u64,
    /// The last things that could not be made or were lost, and why.
    pub remarks: Vec<String>,
    /// A collector; `None`: none is told.
    pub otlp: Option<Otlp>,
}

/// How it stands with a collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Otlp {
    /// Where it is.
    pub collector: String,
    /// What is wrong with it; `None`: nothing is known to be.
    pub problem: Option<Problem>,
    /// What is wrong with the state directories; `None`: nothing is known to be.
    pub trouble: Option<String>,
    /// When it took something last, ns since 1970; 0: not yet.
    pub last: i64,
    /// Snapshots that are to be told.
    pub waiting: u64,
    /// Snapshots that were.
    pub records: u64,
    /// Spans that were.
    pub spans: u64,
    /// Points of metrics that were.
    pub points: u64,
    /// Snapshots that were left out.
    pub left_out: u64,
    /// Spans that were.
    pub spans_left_out: u64,
    /// What the collector said that it did not take.
    pub rejected: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that failed, and were sent again.
    pub failures: u64,
}

/// What is wrong with the storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Of what kind it is, in a word.
    pub kind: String,
    /// What it is, and what to do.
    pub message: String,
    /// Since when, ns since 1970.
    pub since: i64,
}

impl Report {
    fn path(state_dir: &Path) -> PathBuf {
        state_dir.join(FILE)
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, state_dir: &Path) -> Result<(), FileError> {
        files::replace(&Self::path(state_dir), &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads it; `None`: the service never ran there.
    ///
    /// # Errors
    /// The file system's.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, FileError> {
        let bytes = files::read(&Self::path(state_dir))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// As text, for people; times in their zone.
    pub fn text(&self, zone: &TimeZone) -> String {
        let moment = |ns: i64| {
            let at = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(Timestamp::UNIX_EPOCH);
            at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
        };
        let mut lines = vec![format!(
            "flight-ship: {}, as of {}",
            if self.running { "running" } else { "NOT RUNNING" },
            moment(self.at)
        )];
        let reached =
            |problem: &Option<Problem>, last: i64, nothing: &str, something: &str| match problem {
                None if last == 0 => format!("             {nothing}"),
                None => format!("             {something} {}", moment(last)),
                Some(problem) => {
                    let since = moment(problem.since);
                    format!("             NOT REACHED since {since}: {}", problem.message)
                }
            };
        if let Some(of) = &self.otlp {
            lines.push(format!("collector:   {}, as host {}", of.collector, self.host));
            lines.push(reached(&of.problem, of.last, "nothing told yet", "last told"));
            lines.extend(of.trouble.iter().map(|trouble| format!("TROUBLE:     {trouble}")));
            lines.push(format!(
                "told:        {} snapshots, {} spans, {} points of metrics; {} waiting",
                of.records, of.spans, of.points, of.waiting
            ));
            lines.push(format!(
                "             {} snapshots and {} spans left out, {} rejected, {} requests refused",
                of.left_out, of.spans_left_out, of.rejected, of.refused
            ));
        }
        if self.storage.is_empty() {
            lines.push(String::new());
            return lines.join("\n");
        }
        lines.push(format!("storage:     {}, as host {}", self.storage, self.host));
        lines.push(reached(&self.problem, self.last_upload, "nothing uploaded yet", "last upload"));
        lines.extend(self.trouble.iter().map(|trouble| format!("TROUBLE:     {trouble}")));
        let full = if self.spool_full { ", FULL" } else { "" };
        lines.push(format!(
            "waiting:     {} to be made, {} in the spool ({} of {}{full})",
            self.waiting,
            self.spooled,
            bytes(self.spool_bytes),
            bytes(self.spool_limit),
        ));
        let limit = match self.day_limit {
            0 => String::new(),
            limit => format!(" of {}", bytes(limit)),
        };
        let full = if self.day_full { ", REACHED: the rest waits for tomorrow (UTC)" } else { "" };
        lines.push(format!("today:       {}{limit} uploaded{full}", bytes(self.day_bytes)));
        lines.push(format!(
            "journal:     {} shipped, {} lost, {} failed, {} hours without sums",
            self.shipped, self.dropped, self.failed, self.absent
        ));
        lines.extend(self.remarks.iter().map(|remark| format!("             {remark}")));
        lines.push(String::new());
        lines.join("\n")
    }
}

/// A text of somebody else, on one line of bounded length.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// A size for people.
fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", n as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", n as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read() {
        let mut report = Report {
            running: true,
            storage: "the bucket \"b\"".into(),
            host: "web1".into(),
            spool_limit: 512 << 20,
            day_limit: 2 << 30,
            ..Report::default()
        };
        assert_eq!(
            report.text(&TimeZone::UTC),
            "flight-ship: running, as of 1970-01-01 00:00:00 UTC\n\
             storage:     the bucket \"b\", as host web1\n             nothing uploaded yet\n\
             waiting:     0 to be made, 0 in the spool (0 B of 512.0 MiB)\n\
             today:       0 B of 2.0 GiB uploaded\n\
             journal:     0 shipped, 0 lost, 0 failed, 0 hours without sums\n"
        );
        report.problem = Some(Problem { kind: "tls".into(), message: "TLS: no".into(), since: 0 });
        (report.running, report.spool_full, report.day_full) = (false, true, true);
        report.remarks = vec!["snapshot x: lost".into()];
        let text = report.text(&TimeZone::UTC);
        for part in [
            "NOT RUNNING",
            "NOT REACHED since 1970-01-01 00:00:00 UTC: TLS: no",
            ", FULL)",
            "REACHED: the rest waits",
            "\n             snapshot x: lost\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_collector_is_told_of_as_well_or_alone() {
        let problem = Problem { kind: "busy".into(), message: "later".into(), since: 0 };
        let otlp = Otlp {
            collector: "http://c:4318 (http)".into(),
            problem: Some(problem),
            records: 7,
            left_out: 2,
            ..Otlp::default()
        };
        let mut report = Report { otlp: Some(otlp), host: "web1".into(), ..Report::default() };
        let alone = report.text(&TimeZone::UTC);
        assert_eq!(
            alone,
            "flight-ship: NOT RUNNING, as of 1970-01-01 00:00:00 UTC\n\
             collector:   http://c:4318 (http), as host web1\n             \
             NOT REACHED since 1970-01-01 00:00:00 UTC: later\n\
             told:        7 snapshots, 0 spans, 0 points of metrics; 0 waiting\n             \
             2 snapshots and 0 spans left out, 0 rejected, 0 requests refused\n"
        );
        report.storage = "the bucket \"b\"".into();
        let both = report.text(&TimeZone::UTC);
        assert!(both.contains("collector: ") && both.contains("storage: "), "{both}");
    }

    #[test]
    fn it_reads_what_it_writes() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Report::read(dir.path()).unwrap(), None);
        let report = Report { at: 5, shipped: 7, ..Report::default() };
        report.write(dir.path()).unwrap();
        assert_eq!(Report::read(dir.path()).unwrap(), Some(report));
    }
}
