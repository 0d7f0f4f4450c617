//! The metrics against the rules of their format.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::state::testing::{status, store, sums};

/// A line that is no comment; its value as it stands there.
#[derive(Debug, PartialEq, Eq)]
struct Sample {
    labels: Vec<(String, String)>,
    value: String,
}

/// Splits `{a="b",c="d"}`, undoing the escapes.
fn labels(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"").expect("a label");
        assert!(key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{key:?}");
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next().expect("a closing quote") {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().expect("an escape").1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    other => panic!("escape {other:?}"),
                }),
                (_, c) => value.push(c),
            }
        };
        found.push((key.to_owned(), value));
        let rest = rest.get(end + 1..).expect("a boundary");
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    found
}

/// The rules for names of Prometheus, as `promtool check metrics` has them, and of OpenMetrics.
fn well_named(name: &str, kind: &str) {
    let rest = name.strip_prefix("flightrec_").expect("the prefix of all");
    assert!(rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
    let words: Vec<&str> = rest.split('_').collect();
    assert!(words.iter().all(|word| !word.is_empty()), "{name}");
    // A family of counters is named without the suffix of its samples.
    let reserved = ["total", "created", "bucket", "count", "sum", "counter", "gauge"];
    assert!(!words.iter().any(|word| reserved.contains(word)), "reserved: {name}");
    let not_base = [
        "ns",
        "us",
        "ms",
        "nanoseconds",
        "microseconds",
        "milliseconds",
        "minutes",
        "hours",
        "days",
        "kib",
        "mib",
        "kb",
        "mb",
        "kilobytes",
        "megabytes",
        "bits",
        "percent",
    ];
    assert!(!words.iter().any(|word| not_base.contains(word)), "no base unit: {name}");
    let unit = words.iter().position(|word| ["seconds", "bytes"].contains(word));
    assert!(unit.is_none_or(|at| at + 1 == words.len()), "its unit is not last: {name}");
    assert!(kind == "gauge" || !name.ends_with("_info"), "{name}");
}

/// Holds a text against the rules of OpenMetrics that concern counters and gauges; its samples
/// by name.
fn parse(text: &str) -> HashMap<String, Vec<Sample>> {
    let body = text.strip_suffix("# EOF\n").expect("ends with # EOF and a newline");
    let (mut families, mut seen): (HashSet<String>, HashSet<String>) =
        (HashSet::new(), HashSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    let mut samples: HashMap<String, Vec<_>> = HashMap::new();
    for line in body.lines() {
        if let Some(meta) = line.strip_prefix("# ") {
            let parts: Vec<&str> = meta.splitn(3, ' ').collect();
            let [word, name, value] = parts[..] else { panic!("{line}") };
            match word {
                "TYPE" => {
                    assert!(families.insert(name.to_owned()), "{name} is there twice");
                    assert!(matches!(value, "counter" | "gauge"), "{line}");
                    well_named(name, value);
                    (family, kind) = (name.to_owned(), value.to_owned());
                }
                "UNIT" => {
                    assert!(name == family && name.ends_with(&format!("_{value}")), "{line}");
                }
                "HELP" => assert!(name == family && value.ends_with('.'), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert!(seen.insert(series.to_owned()), "{series} is there twice");
        let (name, braces) = series.split_once('{').unwrap_or((series, "}"));
        let suffix = if kind == "counter" { "_total" } else { "" };
        assert_eq!(name, format!("{family}{suffix}"), "a sample outside of its family");
        let number: f64 = value.parse().expect("a number");
        assert!(number.is_finite() && number >= 0.0, "{line}");
        let labels = labels(braces.strip_suffix('}').expect("a closing brace"));
        samples
            .entry(name.to_owned())
            .or_default()
            .push(Sample { labels, value: value.to_owned() });
    }
    samples
}

#[test]
fn what_the_kernel_lacks_is_a_family_of_its_own() {
    let of = |what: &str| (what.to_owned(), "refused".to_owned());
    let lacking = vec![of("the kernel's \"log\""), of("signals"), of("signals")];
    let samples = parse(&text(&State::of_daemon(Status { lacking, ..status() })));
    let found = samples["flightrec_lacking"].iter();
    let whats: Vec<&str> = found.map(|sample| &*sample.labels[0].1).collect();
    assert_eq!(whats, ["signals", "the kernel's \"log\""]);
    assert!(!text(&State::of_daemon(status())).contains("lacking"));
}

#[test]
fn the_text_is_open_metrics_and_complete() {
    let samples = parse(&text(&State::of_daemon(status())));
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels: Vec<_> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let found =
            samples.get(name).and_then(|all| all.iter().find(|sample| sample.labels == labels));
        &*found.unwrap_or_else(|| panic!("no {name} {labels:?} in {samples:?}")).value
    };
    let events = |lane, kind| {
        value("flightrec_events_total", &[("cpu", "1"), ("lane", lane), ("kind", kind)])
    };
    assert_eq!(
        (events("syscall", "sys_enter"), events("sched", "switch"), events("task", "fork")),
        ("100", "7", "3")
    );
    let lost = |cpu, lane, reason| {
        value("flightrec_lost_events_total", &[("cpu", cpu), ("lane", lane), ("reason", reason)])
    };
    assert_eq!((lost("0", "syscall", "busy"), lost("2", "task", "no_ring")), ("4", "3"));
    assert_eq!(value("flightrec_own_events_total", &[("cpu", "0"), ("lane", "syscall")]), "9");
    assert_eq!(value("flightrec_recursion_misses_total", &[("program", "sys_enter")]), "2");
    assert_eq!(value("flightrec_thread_table_collisions_total", &[]), "1");
    assert_eq!(value("flightrec_held_seconds", &[("lane", "syscall")]), "12.5");
    assert_eq!(value("flightrec_ring_bytes", &[("lane", "task")]), "1048576");
    assert_eq!(value("flightrec_memory_bytes", &[]), "52428800");
    assert_eq!(value("flightrec_threads", &[]), "321");
    assert_eq!(value("flightrec_level", &[]), "2");
    assert_eq!(value("flightrec_cpu_level", &[("cpu", "1")]), "2");
    assert_eq!(value("flightrec_daemon_up", &[]), "1");
    assert_eq!(value("flightrec_daemon_cpu_seconds_total", &[]), "0.5");
    assert_eq!(value("flightrec_start_time_seconds", &[]), "1700000020");
    assert_eq!(value("flightrec_recording_start_time_seconds", &[]), "1700000010");
    let labels = [("session", "0000000000000abc"), ("syscall_programs", "tp_btf")];
    assert_eq!(value("flightrec_recording_info", &labels), "1");
    for (name, want) in [
        ("up", "1"),
        ("files", "12"),
        ("bytes", "734003200"),
        ("oldest_timestamp_seconds", "1699990000"),
        ("behind_seconds", "1"),
        ("unsynced_seconds", "7.5"),
        ("written_bytes_total", "3145728"),
        ("failures_total", "2"),
        ("cpu_seconds_total", "0.025"),
    ] {
        assert_eq!(value(&format!("flightrec_store_{name}"), &[]), want, "{name}");
    }
    assert_eq!(value("flightrec_store_written_events_total", &[("lane", "sched")]), "30");
    assert_eq!(value("flightrec_store_lost_events_total", &[("lane", "syscall")]), "5");
    assert_eq!(value("flightrec_store_deleted_files_total", &[("limit", "keep_free")]), "3");
    assert_eq!(value("flightrec_store_deleted_bytes_total", &[("limit", "max_age")]), "0");
}

#[test]
fn files_that_are_off_or_fail() {
    let samples = |state| {
        let store = StoreStatus { state, ..store() };
        parse(&text(&State::of_daemon(Status { store, ..status() })))
    };
    assert!(!samples(StoreState::Off).keys().any(|name| name.starts_with("flightrec_store")));
    let failed = samples(StoreState::Failed { since: 1, reason: "why".into() });
    assert_eq!(failed["flightrec_store_up"], [Sample { labels: vec![], value: "0".into() }]);
}

#[test]
fn how_late_sums_are() {
    let samples = parse(&text(&State::of_daemon(status())));
    for (name, expected) in [
        ("sums_up", "1"),
        ("sums_files", "3"),
        ("sums_bytes", "5242880"),
        ("sums_newest_timestamp_seconds", "1700000010"),
        ("sums_waiting", "1"),
        ("sums_behind_seconds", "4"),
        ("sums_haste", "1"),
        ("sums_events_total", "9000000"),
        ("sums_unsummed_seconds_total", "120"),
        ("sums_cpu_seconds_total", "1.3"),
    ] {
        assert_eq!(samples[&format!("flightrec_{name}")][0].value, expected, "{name}");
    }
    let of = |sums| parse(&text(&State::of_daemon(Status { sums, ..status() })));
    let failed = of(SumsStatus { failed: Some("why".into()), written: 0, ..sums() });
    assert_eq!(failed["flightrec_sums_up"][0].value, "0");
    assert!(!failed.contains_key("flightrec_sums_newest_timestamp_seconds"));
    let unknown = of(SumsStatus { looked: false, ..sums() });
    assert!(!unknown.contains_key("flightrec_sums_behind_seconds"));
    let off = of(SumsStatus::default());
    assert!(!off.keys().any(|name| name.starts_with("flightrec_sums")));
}

#[test]
fn the_last_look_at_descriptors() {
    let value = |samples: &HashMap<String, Vec<Sample>>, name: &str| samples[name][0].value.clone();
    let samples = parse(&text(&State::of_daemon(status())));
    for (name, expected) in
        [("up", "1"), ("age_seconds", "0.5"), ("cost_seconds", "0.0025"), ("open", "345")]
    {
        assert_eq!(value(&samples, &format!("flightrec_descriptors_{name}")), expected, "{name}");
    }
    let none = parse(&text(&State { descriptors: None, ..State::of_daemon(status()) }));
    assert_eq!(value(&none, "flightrec_descriptors_up"), "0");
    assert!(!none.contains_key("flightrec_descriptors_age_seconds"));
}

#[test]
fn what_was_kept_because_something_happened() {
    let samples = parse(&text(&State::of_daemon(status())));
    for (name, expected) in [
        ("", "9"),
        ("_bytes", "41943040"),
        ("_pending", "1"),
        ("_taken_total", "3"),
        ("_repeated_total", "1234"),
        ("_refused_total", "5"),
        ("_failed_total", "6"),
        ("_last_timestamp_seconds", "1700000065"),
    ] {
        assert_eq!(samples[&format!("flightrec_snapshots{name}")][0].value, expected, "{name}");
    }
    let none = parse(&text(&State { snapshots: None, ..State::of_daemon(status()) }));
    assert!(!none.contains_key("flightrec_snapshots"));
}

#[test]
fn without_a_daemon_it_is_still_whole() {
    let state = State { daemon: None, ..State::of_daemon(status()) };
    let samples = parse(&text(&state));
    assert_eq!(samples["flightrec_daemon_up"], [Sample { labels: vec![], value: "0".into() }]);
    assert!(!samples.contains_key("flightrec_daemon_cpu_seconds_total"));
    assert!(samples.contains_key("flightrec_events_total"));
}

#[test]
fn hostile_labels_come_back_as_they_were() {
    let mut status = status();
    status.version = "a\"b\\c\nd{e}, f=\"".into();
    let samples = parse(&text(&State::of_daemon(status.clone())));
    let labels = vec![("version".to_owned(), status.version)];
    assert_eq!(samples["flightrec_build_info"], [Sample { labels, value: "1".into() }]);
}

/// Samples of the page's table, by their names.
fn documented() -> HashSet<String> {
    let page = include_str!("../../../../docs/status.md");
    let (_, section) = page.split_once("## `flightctl metrics`").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

#[test]
fn every_family_is_in_the_reference_and_in_the_page() {
    let reference: HashSet<String> = parse(&every_family()).into_keys().collect();
    let lacking = vec![("signals".to_owned(), "refused".to_owned())];
    let printed = parse(&text(&State::of_daemon(Status { lacking, ..status() })));
    assert_eq!(reference, printed.into_keys().collect());
    assert_eq!(reference, documented());
}
