//! How it stands, as OpenMetrics text, of the types that the older Prometheus format has too.

use std::fmt::{Display, Write as _};

use crate::otlp::client::Kind;
use crate::report::{Otlp, Report};

/// The kinds of problems, in metrics.
const KINDS: [&str; 11] = [
    "bucket",
    "credentials",
    "denied",
    "clock",
    "tls",
    "unreachable",
    "busy",
    "full",
    "missing",
    "file",
    "other",
];

/// The text.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let seconds = |ns: i64| ns as f64 / 1e9;
    let mut one = |name: &str, kind: &str, help: &str, samples: &[(&str, &dyn Display)]| {
        // Writing to a string can't fail.
        let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}");
        let suffix = if kind == "counter" { "_total" } else { "" };
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{suffix}{labels} {value}");
        }
    };
    let up = u8::from(report.running);
    one("flightship_up", "gauge", "Whether flight-ship runs.", &[("", &up)]);
    let at = seconds(report.at);
    one("flightship_status_timestamp_seconds", "gauge", "When these values were so.", &[("", &at)]);
    let last = seconds(report.last_upload);
    one(
        "flightship_last_upload_timestamp_seconds",
        "gauge",
        "When something was uploaded last; 0: not yet.",
        &[("", &last)],
    );
    let present = report.problem.as_ref().map(|problem| problem.kind.as_str());
    let problems: Vec<(String, u8)> = KINDS
        .iter()
        .map(|kind| (format!("{{kind=\"{kind}\"}}"), u8::from(present == Some(*kind))))
        .collect();
    let problems: Vec<(&str, &dyn Display)> =
        problems.iter().map(|(labels, value)| (labels.as_str(), value as &dyn Display)).collect();
    one("flightship_problem", "gauge", "What is wrong with the storage now.", &problems);
    let trouble = u8::from(report.trouble.is_some());
    let help = "Whether something is wrong with the state directories.";
    one("flightship_trouble", "gauge", help, &[("", &trouble)]);
    let states: [(&str, &dyn Display); 6] = [
        ("{state=\"waiting\"}", &report.waiting),
        ("{state=\"spooled\"}", &report.spooled),
        ("{state=\"shipped\"}", &report.shipped),
        ("{state=\"dropped\"}", &report.dropped),
        ("{state=\"failed\"}", &report.failed),
        ("{state=\"absent\"}", &report.absent),
    ];
    one(
        "flightship_items",
        "gauge",
        "Snapshots, and hours of sums, of the days that the journal has.",
        &states,
    );
    one(
        "flightship_spool_bytes",
        "gauge",
        "What waits in the spool.",
        &[("", &report.spool_bytes)],
    );
    let limit: &dyn Display = &report.spool_limit;
    one("flightship_spool_limit_bytes", "gauge", "Most that may wait there.", &[("", limit)]);
    let full = u8::from(report.spool_full);
    one("flightship_spool_full", "gauge", "Whether items wait for room there.", &[("", &full)]);
    let day: &dyn Display = &report.day_bytes;
    one("flightship_day_bytes", "gauge", "Uploaded today, UTC.", &[("", day)]);
    let limit: &dyn Display = &report.day_limit;
    let help = "Most that is uploaded on a day; 0: no limit.";
    one("flightship_day_limit_bytes", "gauge", help, &[("", limit)]);
    let full = u8::from(report.day_full);
    one("flightship_day_full", "gauge", "Whether the limit of today is reached.", &[("", &full)]);
    one("flightship_uploaded_bytes", "counter", "Bytes sent.", &[("", &report.bytes)]);
    one(
        "flightship_uploaded_objects",
        "counter",
        "Objects that arrived.",
        &[("", &report.objects)],
    );
    let failures: &dyn Display = &report.failures;
    one("flightship_failures", "counter", "Attempts to upload that failed.", &[("", failures)]);
    if let Some(of) = &report.otlp {
        otlp(of, &mut one);
    }
    out.push_str("# EOF\n");
    out
}

/// What writes a family: its name, its type, what it is, and its samples.
type Write<'a> = dyn FnMut(&str, &str, &str, &[(&str, &dyn Display)]) + 'a;

/// How it stands with a collector.
fn otlp(of: &Otlp, one: &mut Write<'_>) {
    let last = of.last as f64 / 1e9;
    one(
        "flightship_otlp_last_timestamp_seconds",
        "gauge",
        "When the collector took something last; 0: not yet.",
        &[("", &last)],
    );
    let present = of.problem.as_ref().map(|problem| problem.kind.as_str());
    let problems: Vec<(String, u8)> = Kind::ALL
        .iter()
        .map(|kind| kind.name())
        .map(|kind| (format!("{{kind=\"{kind}\"}}"), u8::from(present == Some(kind))))
        .collect();
    let problems: Vec<(&str, &dyn Display)> =
        problems.iter().map(|(labels, value)| (labels.as_str(), value as &dyn Display)).collect();
    one("flightship_otlp_problem", "gauge", "What is wrong with the collector now.", &problems);
    let help = "Snapshots that wait to be told.";
    one("flightship_otlp_waiting", "gauge", help, &[("", &of.waiting)]);
    let counters: [(&str, &str, &u64); 8] = [
        ("flightship_otlp_snapshots", "Snapshots told.", &of.records),
        ("flightship_otlp_spans", "Spans told.", &of.spans),
        ("flightship_otlp_points", "Points of metrics told.", &of.points),
        ("flightship_otlp_snapshots_left_out", "Snapshots left out.", &of.left_out),
        ("flightship_otlp_spans_left_out", "Spans left out.", &of.spans_left_out),
        (
            "flightship_otlp_rejected",
            "Records, spans and points that the collector rejected.",
            &of.rejected,
        ),
        ("flightship_otlp_refused", "Requests that the collector refused.", &of.refused),
        ("flightship_otlp_failures", "Requests that failed.", &of.failures),
    ];
    for (name, help, value) in counters {
        one(name, "counter", help, &[("", value)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Problem;

    #[test]
    fn each_sample_is_of_a_family() {
        let problem = Problem { kind: "tls".into(), message: String::new(), since: 0 };
        let otlp = Otlp { problem: Some(problem.clone()), ..Otlp::default() };
        let report =
            Report { problem: Some(problem), objects: 7, otlp: Some(otlp), ..Report::default() };
        let text = text(&report);
        assert!(text.contains("\nflightship_problem{kind=\"tls\"} 1\n"), "{text}");
        assert!(text.contains("\nflightship_problem{kind=\"clock\"} 0\n"), "{text}");
        assert!(text.contains("\nflightship_uploaded_objects_total 7\n"), "{text}");
        assert!(text.contains("\nflightship_otlp_problem{kind=\"tls\"} 1\n"), "{text}");
        assert!(text.ends_with("# EOF\n"));
        let mut family = String::new();
        for line in text.lines().filter(|line| *line != "# EOF") {
            match line.strip_prefix("# TYPE ") {
                Some(named) => family = named.split(' ').next().unwrap().to_owned(),
                None => assert!(line.trim_start_matches("# HELP ").starts_with(&family), "{line}"),
            }
        }
    }

    #[test]
    fn every_kind_of_problem_has_its_sample() {
        use crate::storage::Kind;
        for kind in [
            Kind::Bucket,
            Kind::Credentials,
            Kind::Denied,
            Kind::Clock,
            Kind::Tls,
            Kind::Unreachable,
            Kind::Busy,
            Kind::Full,
            Kind::Missing,
            Kind::File,
            Kind::Other,
        ] {
            assert!(KINDS.contains(&kind.name()), "{kind:?}");
        }
    }
}
