//! A snapshot as a log record.

use sha2::{Digest as _, Sha256};

use super::answer::{Answer, Container, Culprit, Thread, Trace};
use super::message::{
    AnyValue, KeyValue, LogRecord, Logs, Resource, ResourceLogs, ScopeLogs, Value, flag, number,
    text, texts,
};
use super::resource::{SCHEMA, digits, scope};
use crate::source::About;

/// What kind of record it is.
const EVENT: &str = "flightrec.snapshot";
/// Most doubts of an answer that are told, and the longest text, bytes.
const DOUBTS_MAX: usize = 8;
const TEXT_MAX: usize = 4096;
/// `SeverityNumber`, and its word.
const INFO: (i32, &str) = (9, "INFO");
const WARN: (i32, &str) = (13, "WARN");
const ERROR: (i32, &str) = (17, "ERROR");

/// What is known of a snapshot beside its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Where its page, or else its first object, is in the storage; empty: it is not there.
    pub object: String,
    /// Snapshots that were not told since the record before.
    pub left_out: u64,
    /// Now, ns since 1970.
    pub now: i64,
}

/// The record of a snapshot.
pub fn record(id: &str, about: &About, answer: &Answer, facts: &Facts) -> LogRecord {
    let severity = severity(&about.cause);
    let (trace_id, span_id) = answer.trace.as_ref().and_then(Trace::ids).unwrap_or_default();
    let flags = answer.trace.as_ref().filter(|_| !trace_id.is_empty()).map_or(0, |of| of.flags);
    let sentence = match (answer.sentence.as_str(), answer.doubts.first()) {
        ("", Some(doubt)) => format!("flightctl why has no answer about this snapshot: {doubt}"),
        ("", None) => "nothing is recorded of the time of this snapshot".to_owned(),
        (sentence, _) => sentence.to_owned(),
    };
    let doubts: Vec<String> = answer.doubts.iter().take(DOUBTS_MAX).map(|of| cut(of)).collect();
    let mut attributes = vec![
        text("log.record.uid", &uid(id, about.session)),
        text("flightrec.snapshot.id", id),
        text("flightrec.snapshot.cause", &about.cause),
        Some(number("flightrec.window.start", about.since)),
        Some(number("flightrec.window.end", about.until)),
        Some(flag("flightrec.complete", answer.complete)),
        texts("flightrec.doubts", &doubts),
        text("flightrec.recording", &format!("{:016x}", about.session)),
        text("flightrec.object", &facts.object),
        text("systemd.unit", &answer.unit),
    ];
    attributes.extend(thread("", answer.subject.as_ref()));
    attributes.extend(container(&answer.container));
    attributes.extend(cause("flightrec.culprit", answer.culprits.first()));
    let counts = [
        ("flightrec.left_out", facts.left_out),
        ("flightrec.spans.left_out", answer.spans_left_out),
        ("flightrec.spans.unsampled", answer.spans_unsampled),
    ];
    attributes.extend(counts.map(|(key, n)| (n > 0).then(|| number(key, n))));
    LogRecord {
        time_unix_nano: about.wall.try_into().unwrap_or(0),
        observed_time_unix_nano: facts.now.try_into().unwrap_or(0),
        severity_number: severity.0,
        severity_text: severity.1.to_owned(),
        body: Some(AnyValue { value: Some(Value::Text(cut(&sentence))) }),
        attributes: attributes.into_iter().flatten().collect(),
        flags: flags.into(),
        trace_id,
        span_id,
        event_name: EVENT.to_owned(),
    }
}

/// A request with records of this machine.
pub fn request(resource: &Resource, log_records: Vec<LogRecord>) -> Logs {
    let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records }];
    let resource = Some(resource.clone());
    Logs {
        resource_logs: vec![ResourceLogs { resource, scope_logs, schema_url: SCHEMA.to_owned() }],
    }
}

/// How bad a cause is.
fn severity(cause: &str) -> (i32, &'static str) {
    match cause {
        "request" | "save" => INFO,
        "core_dump" | "oom_kill" | "kernel_log" => ERROR,
        _ => WARN,
    }
}

/// What a record of the same snapshot has every time: whoever gets two of them can drop one.
fn uid(id: &str, session: u64) -> String {
    digits(&Sha256::digest(format!("flightrec.snapshot {id} {session:016x}"))[..16])
}

/// A thread, by the names of the conventions; `prefix`: where it is not the record's own.
pub(super) fn thread(prefix: &str, of: Option<&Thread>) -> [Option<KeyValue>; 3] {
    let key = |name: &str| format!("{prefix}{name}");
    let is_known = of.filter(|of| of.tid != 0);
    [
        is_known.map(|of| number(&key("thread.id"), of.tid)),
        is_known.and_then(|of| text(&key("thread.name"), &cut(&of.name))),
        is_known.and_then(|of| Some(number(&key("process.pid"), of.pid?))),
    ]
}

/// A cause: who it was, and what it did.
pub(super) fn cause(prefix: &str, of: Option<&Culprit>) -> Vec<Option<KeyValue>> {
    let Some(of) = of else { return Vec::new() };
    let key = |name: &str| format!("{prefix}.{name}");
    let mut all = thread(&format!("{prefix}."), of.thread.as_ref()).to_vec();
    all.push(text(&key("mechanism"), &of.mechanism));
    all.push(text(&key("call"), of.call.as_deref().unwrap_or_default()));
    all.push(text(&key("object"), &cut(of.object.as_deref().unwrap_or_default())));
    all
}

fn container(of: &Container) -> [Option<KeyValue>; 6] {
    [
        text("container.id", &of.id),
        // In a pod, the name is that of the pod's own description.
        text(if of.pod.is_empty() { "container.name" } else { "k8s.container.name" }, &of.name),
        text("container.image.name", &of.image),
        text("k8s.pod.name", &of.pod),
        text("k8s.pod.uid", &of.pod_uid),
        text("k8s.namespace.name", &of.namespace),
    ]
}

/// A text of bounded length.
pub(super) fn cut(text: &str) -> String {
    match text.get(..text.floor_char_boundary(TEXT_MAX)) {
        Some(head) if head.len() < text.len() => format!("{head}..."),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(cause: &str) -> About {
        About { session: 0xab, cause: cause.into(), wall: 1_000, since: 500, until: 1_500 }
    }

    fn value(record: &LogRecord, key: &str) -> Option<Value> {
        let all = &record.attributes;
        assert!(all.iter().filter(|of| of.key == key).count() < 2, "{key} twice");
        all.iter().find(|of| of.key == key)?.value.clone()?.value
    }

    #[test]
    fn a_snapshot_by_the_names_of_the_conventions() {
        let thread = |tid| Thread { tid, pid: Some(7), name: "orders".into(), cgroup: None };
        let answer = Answer {
            sentence: "orders waited".into(),
            subject: Some(thread(8)),
            complete: true,
            doubts: vec!["d".into()],
            culprits: vec![Culprit { mechanism: "I/O".into(), ..Culprit::default() }],
            unit: "shop.service".into(),
            container: Container {
                pod: "shop-1".into(),
                name: "app".into(),
                ..Container::default()
            },
            trace: Some(Trace {
                trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
                span_id: "b7ad6b7169203331".into(),
                flags: 1,
            }),
            ..Answer::default()
        };
        let facts = Facts { object: "s3://b/x".into(), left_out: 3, now: 2_000 };
        let record = record("x", &about("slow_call"), &answer, &facts);
        assert_eq!((record.time_unix_nano, record.observed_time_unix_nano), (1_000, 2_000));
        assert_eq!((record.severity_number, record.event_name.as_str()), (13, EVENT));
        assert_eq!((record.trace_id.len(), record.span_id.len(), record.flags), (16, 8, 1));
        let text = |text: &str| Some(Value::Text(text.into()));
        assert_eq!(record.body.as_ref().unwrap().value, text("orders waited"));
        assert_eq!(value(&record, "k8s.pod.name"), text("shop-1"));
        assert_eq!(value(&record, "k8s.container.name"), text("app"));
        assert_eq!(value(&record, "container.name"), None);
        assert_eq!(value(&record, "thread.id"), Some(Value::Int(8)));
        assert_eq!(value(&record, "flightrec.left_out"), Some(Value::Int(3)));
        assert_eq!(value(&record, "flightrec.complete"), Some(Value::Bool(true)));
        assert_eq!(value(&record, "flightrec.culprit.mechanism"), text("I/O"));
        assert_eq!(value(&record, "flightrec.object"), text("s3://b/x"));
        let again = super::record("x", &about("slow_call"), &Answer::default(), &facts);
        assert_eq!(value(&again, "log.record.uid"), value(&record, "log.record.uid"));
        assert_eq!((again.trace_id.len(), again.flags), (0, 0));
        assert_eq!(
            again.body.unwrap().value,
            text("nothing is recorded of the time of this snapshot")
        );
        let failed = Answer { doubts: vec!["it was killed".into()], ..Answer::default() };
        assert_eq!(
            super::record("x", &about("slow_call"), &failed, &facts).body.unwrap().value,
            text("flightctl why has no answer about this snapshot: it was killed")
        );
    }

    #[test]
    fn causes_have_severities_and_texts_are_bounded() {
        let number = |cause: &str| severity(cause).0;
        assert_eq!((number("request"), number("blocked"), number("oom_kill")), (9, 13, 17));
        let long = "\u{e4}".repeat(TEXT_MAX);
        assert_eq!(cut(&long).len(), TEXT_MAX + 3);
        assert_eq!(cut("a"), "a");
    }
}
