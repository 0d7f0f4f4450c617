//! `flightctl metrics`: the recorder's state as OpenMetrics text.
//!
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>. Only types that the older Prometheus text
//! format has too are used, so that node_exporter's textfile collector takes it as well.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::io::Write as _;

use anyhow::Result;
use jiff::Timestamp;

use crate::exit::Exit;
use crate::output::Output;
use crate::source::Origin;
use crate::state::{CpuState, Descriptors, Files, Snapshots, State, Store};

/// Prints the metrics.
pub fn run(origin: &Origin) -> Result<Exit> {
    let text = text(&State::read(origin)?);
    let mut output = Output::standard();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|e| output.explain(e))?;
    Ok(Exit::Fine)
}

/// Labels of a sample.
type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// A text in the making.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    /// Begins a family: its samples follow. A counter's samples have `_total` behind the name.
    fn family(&mut self, name: &'static str, unit: &str, counter: bool, help: &str) -> Family<'_> {
        let (kind, suffix) = if counter { ("counter", "_total") } else { ("gauge", "") };
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
        Family { out: &mut self.0, name, suffix }
    }

    /// A family of one sample without labels.
    fn gauge(&mut self, name: &'static str, unit: &str, help: &str, value: impl Display) {
        self.family(name, unit, false, help).sample(&[], value);
    }
}

/// Samples of one name.
struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
    suffix: &'static str,
}

impl Family<'_> {
    fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.out.push_str(self.name);
        self.out.push_str(self.suffix);
        for (i, (key, label)) in labels.iter().enumerate() {
            // Writing to a string can't fail.
            let _ =
                write!(self.out, "{}{key}=\"{}\"", if i == 0 { '{' } else { ',' }, escaped(label));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{end} {value}");
    }
}

/// A label's value, as the format wants it.
fn escaped(label: &dyn Display) -> String {
    label.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn text(state: &State) -> String {
    let mut out = Exposition::default();
    out.gauge(
        "flightrec_daemon_up",
        "",
        "Whether flightd answers.",
        u8::from(state.daemon.is_some()),
    );
    let help = "The id of the recording, and the form of its programs.";
    out.family("flightrec_recording_info", "", false, help)
        .sample(&[("session", &state.session), ("syscall_programs", &state.syscall_programs)], 1);
    let help = "Degradation of the recording: 0 none; each step above 0 records less.";
    out.gauge("flightrec_level", "", help, state.level.number());
    if !state.lacking.is_empty() {
        let help = "What this kernel lacks, so that it is not recorded.";
        let mut family = out.family("flightrec_lacking", "", false, help);
        let all: BTreeSet<&str> = state.lacking.iter().map(|lacking| &*lacking.what).collect();
        for what in all {
            family.sample(&[("what", &what)], 1);
        }
    }
    let help = "Degradation of each CPU: number of steps that are taken.";
    let mut family = out.family("flightrec_cpu_level", "", false, help);
    for cpu in state.cpus.iter().filter(|cpu| cpu.recorded) {
        family.sample(&[("cpu", &cpu.cpu)], cpu.degraded.len());
    }
    let help = "Start of the recording, UNIX time.";
    out.gauge(
        "flightrec_recording_start_time_seconds",
        "seconds",
        help,
        unix(state.recording_since),
    );
    counters(&mut out, &state.cpus);
    let help = "Program runs that the kernel skipped as recursion, each of which lost an event.";
    let mut family = out.family("flightrec_recursion_misses", "", true, help);
    for (program, n) in &state.recursion_misses {
        family.sample(&[("program", program)], n);
    }
    let help = "Threads that found no room in the thread table.";
    out.family("flightrec_thread_table_collisions", "", true, help)
        .sample(&[], state.thread_table_collisions);
    let mut family = out.family(
        "flightrec_held_seconds",
        "seconds",
        false,
        "History that every CPU's ring holds.",
    );
    for (lane, of) in &state.lanes {
        family.sample(&[("lane", lane)], of.held_seconds);
    }
    let mut family = out.family("flightrec_ring_bytes", "bytes", false, "Size of one CPU's ring.");
    for (lane, of) in &state.lanes {
        family.sample(&[("lane", lane)], of.ring_bytes);
    }
    out.gauge(
        "flightrec_memory_bytes",
        "bytes",
        "Kernel memory of rings and tables.",
        state.memory_bytes,
    );
    out.gauge("flightrec_threads", "", "Threads in the thread table.", state.threads);
    if let Some(daemon) = &state.daemon {
        let help = "CPU time that flightd has used.";
        out.family("flightrec_daemon_cpu_seconds", "seconds", true, help)
            .sample(&[], daemon.cpu_seconds);
        let help = "Start of flightd, UNIX time.";
        out.gauge("flightrec_start_time_seconds", "seconds", help, unix(daemon.since));
        let help = "The version of flightd.";
        out.family("flightrec_build_info", "", false, help)
            .sample(&[("version", &daemon.version)], 1);
        descriptors(&mut out, state.descriptors.as_ref());
    }
    if let Some(store) = state.store.as_ref().filter(|store| store.state != Files::Off) {
        files(&mut out, store);
    }
    if let Some(of) = state.snapshots.as_ref().filter(|of| of.enabled) {
        snapshots(&mut out, of);
    }
    out.0.push_str("# EOF\n");
    out.0
}

/// The last descriptor snapshot.
fn descriptors(out: &mut Exposition, last: Option<&Descriptors>) {
    let help = "Whether there is a descriptor snapshot.";
    out.gauge("flightrec_descriptors_up", "", help, u8::from(last.is_some()));
    let Some(last) = last else { return };
    out.gauge(
        "flightrec_descriptors_age_seconds",
        "seconds",
        "Age of the last descriptor snapshot.",
        last.age_seconds,
    );
    let help = "CPU time of the last descriptor snapshot.";
    out.gauge("flightrec_descriptors_cost_seconds", "seconds", help, last.cost_seconds);
    out.gauge(
        "flightrec_descriptors_processes",
        "",
        "Processes in the last descriptor snapshot.",
        last.processes,
    );
    out.gauge(
        "flightrec_descriptors_open",
        "",
        "Descriptors in the last descriptor snapshot.",
        last.descriptors,
    );
    let help = "Descriptors for which the last descriptor snapshot had no room.";
    out.gauge("flightrec_descriptors_left_out", "", help, last.left_out);
    out.gauge("flightrec_descriptors_kept", "", "Descriptor snapshots in memory.", last.kept);
}

/// What was kept because something happened.
fn snapshots(out: &mut Exposition, of: &Snapshots) {
    out.gauge("flightrec_snapshots", "", "Snapshots in the directory.", of.kept);
    out.gauge("flightrec_snapshots_bytes", "bytes", "Size of the snapshots.", of.bytes);
    out.gauge("flightrec_snapshots_pending", "", "Snapshots being taken.", of.pending);
    for (name, help, n) in [
        ("flightrec_snapshots_taken", "Snapshots taken.", of.taken),
        (
            "flightrec_snapshots_repeated",
            "Causes that recurred and were only counted.",
            of.repeated,
        ),
        (
            "flightrec_snapshots_refused",
            "Snapshots refused because a quota was used up.",
            of.refused,
        ),
        ("flightrec_snapshots_failed", "Snapshots that could not be written.", of.failed),
    ] {
        out.family(name, "", true, help).sample(&[], n);
    }
    if let Some(last) = &of.last {
        let help = "Time of the last snapshot's cause, UNIX time.";
        out.gauge("flightrec_snapshots_last_timestamp_seconds", "seconds", help, unix(last.time));
    }
}

/// The files.
fn files(out: &mut Exposition, store: &Store) {
    let up = u8::from(store.state == Files::Writing);
    out.gauge("flightrec_store_up", "", "Whether files can be written.", up);
    if let (Some(files), Some(bytes)) = (store.files, store.bytes) {
        out.gauge("flightrec_store_files", "", "Files of all boots.", files);
        out.gauge("flightrec_store_bytes", "bytes", "Size of the files.", bytes);
    }
    if let Some(oldest) = store.oldest {
        out.gauge(
            "flightrec_store_oldest_timestamp_seconds",
            "seconds",
            "Beginning of the oldest file, UNIX time.",
            unix(oldest),
        );
    }
    if let Some(behind) = store.behind_seconds {
        out.gauge(
            "flightrec_store_behind_seconds",
            "seconds",
            "Time by which the files are behind.",
            behind,
        );
    }
    if let Some(behind) = store.unsynced_seconds {
        let help = "Time by which the disk is behind.";
        out.gauge("flightrec_store_unsynced_seconds", "seconds", help, behind);
    }
    let help = "Bytes written to files.";
    out.family("flightrec_store_written_bytes", "bytes", true, help)
        .sample(&[], store.written_bytes);
    for (name, help, counts) in [
        ("flightrec_store_written_events", "Events written to files.", &store.written_events),
        (
            "flightrec_store_lost_events",
            "Events overwritten before they were written.",
            &store.lost_events,
        ),
    ] {
        let mut family = out.family(name, "", true, help);
        for (lane, n) in counts {
            family.sample(&[("lane", lane)], n);
        }
    }
    for (name, unit, help, counts) in [
        (
            "flightrec_store_deleted_files",
            "",
            "Files deleted to keep a limit.",
            &store.deleted_files,
        ),
        (
            "flightrec_store_deleted_bytes",
            "bytes",
            "Bytes of files deleted to keep a limit.",
            &store.deleted_bytes,
        ),
    ] {
        let mut family = out.family(name, unit, true, help);
        for (limit, n) in counts {
            family.sample(&[("limit", limit)], n);
        }
    }
    out.family("flightrec_store_failures", "", true, "Number of times that writing failed.")
        .sample(&[], store.failures);
    let help = "CPU time of draining, encoding and writing.";
    out.family("flightrec_store_cpu_seconds", "seconds", true, help).sample(&[], store.cpu_seconds);
}

/// What is counted by CPU and lane.
fn counters(out: &mut Exposition, cpus: &[CpuState]) {
    let lanes = || {
        cpus.iter().flat_map(|cpu| cpu.lanes.iter().map(|(lane, counts)| (cpu.cpu, *lane, counts)))
    };
    let mut family = out.family("flightrec_events", "", true, "Events recorded.");
    for (cpu, lane, counts) in lanes() {
        for (kind, n) in &counts.events {
            family.sample(&[("cpu", &cpu), ("lane", &lane), ("kind", kind)], n);
        }
    }
    let mut family =
        out.family("flightrec_lost_events", "", true, "Events that happened and are not recorded.");
    for (cpu, lane, counts) in lanes() {
        for (reason, n) in &counts.lost {
            family.sample(&[("cpu", &cpu), ("lane", &lane), ("reason", reason)], n);
        }
    }
    let help = "Events of the recorder itself, left out on purpose.";
    let mut family = out.family("flightrec_own_events", "", true, help);
    for (cpu, lane, counts) in lanes() {
        family.sample(&[("cpu", &cpu), ("lane", &lane)], counts.own);
    }
}

/// Seconds since 1970.
fn unix(moment: Timestamp) -> f64 {
    moment.as_nanosecond() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::state::testing::{status, store};
    use flightrec_format::control::{Status, StoreState, StoreStatus};

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
            value(
                "flightrec_lost_events_total",
                &[("cpu", cpu), ("lane", lane), ("reason", reason)],
            )
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
    fn the_last_look_at_descriptors() {
        let value =
            |samples: &HashMap<String, Vec<Sample>>, name: &str| samples[name][0].value.clone();
        let samples = parse(&text(&State::of_daemon(status())));
        for (name, expected) in
            [("up", "1"), ("age_seconds", "0.5"), ("cost_seconds", "0.0025"), ("open", "345")]
        {
            assert_eq!(
                value(&samples, &format!("flightrec_descriptors_{name}")),
                expected,
                "{name}"
            );
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
}
