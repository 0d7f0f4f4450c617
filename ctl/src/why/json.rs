//! An answer as JSON, as in `docs/flightctl-why.schema.json`.

use anyhow::Result;
use serde::Serialize;

use flightrec_analysis::why::{Culprit, Link, Share, Traced, TracedWait, Who};
use flightrec_format::containers::Container;
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::unit;
use flightrec_reader::wall::WallClock;
use serde_json::Value;

use super::hidden::Hidden;
use super::plan::WhyPlan;
use super::run::Answered;
use crate::schema::document;

/// The object. Times are UNIX times in ns by the machine's clock, lengths in ns.
#[derive(Serialize)]
struct Object {
    sentence: String,
    subject: Option<Thread>,
    window: Stretch,
    shares: Vec<ShareObject>,
    chain: Vec<LinkObject>,
    culprits: Vec<CulpritObject>,
    complete: bool,
    doubts: Vec<String>,
    /// What is covered, a line each, as dump tells it.
    coverage: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<ContainerObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<Vec<SpanObject>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans_left_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans_unsampled: Option<u64>,
}

/// The container and the pod of the subject; texts that are not known are left out.
#[derive(Serialize)]
struct ContainerObject {
    #[serde(skip_serializing_if = "String::is_empty")]
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pod: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pod_uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    image: String,
}

/// A span of a distributed trace.
#[derive(Serialize)]
struct TraceObject {
    trace_id: String,
    span_id: String,
    flags: u8,
}

/// A wait in a span of a distributed trace.
#[derive(Serialize)]
struct SpanObject {
    trace: TraceObject,
    thread: Thread,
    from_ns: i64,
    until_ns: i64,
    /// The start by the machine's own clock, which tells waits apart.
    mono_ns: u64,
    goes_on: bool,
    call: String,
    state: &'static str,
    did: String,
    object: Option<String>,
    culprit: Option<CulpritObject>,
    doubt: Option<String>,
}

#[derive(Serialize)]
struct Thread {
    tid: u32,
    /// Null: not known.
    pid: Option<u32>,
    name: String,
    cgroup: Option<String>,
}

#[derive(Serialize)]
struct Stretch {
    #[serde(rename = "from_ns")]
    from: i64,
    #[serde(rename = "until_ns")]
    until: i64,
    #[serde(rename = "length_ns")]
    length: u64,
}

#[derive(Serialize)]
struct ShareObject {
    state: &'static str,
    what: String,
    ns: u64,
    percent: f64,
    count: u64,
}

#[derive(Serialize)]
struct LinkObject {
    thread: Thread,
    state: &'static str,
    from_ns: i64,
    until_ns: i64,
    ns: u64,
    count: u64,
    did: String,
    call: Option<String>,
    object: Option<String>,
    evidence: Vec<String>,
    doubt: Option<String>,
}

#[derive(Serialize)]
struct CulpritObject {
    thread: Option<Thread>,
    mechanism: &'static str,
    call: Option<String>,
    object: Option<String>,
    ns: u64,
}

/// The answer.
pub(super) fn answer(of: &mut Answered, coverage: &[String], plan: &WhyPlan) -> Result<String> {
    let Answered { answer, wall, container, context, traced, .. } = of;
    let answer = std::mem::take(answer);
    let Traced { waits, left_out, unsampled } = std::mem::take(traced);
    let is_asked = plan.spans > 0;
    let subject = answer.subject.as_ref();
    let group = subject.and_then(|of| of.group.as_deref());
    let object = Object {
        window: stretch(answer.from, answer.until, wall),
        subject: subject.cloned().map(thread),
        sentence: answer.sentence.clone(),
        shares: answer.shares.iter().cloned().map(share).collect(),
        chain: answer.chain.iter().cloned().map(|of| link(of, wall)).collect(),
        culprits: answer.culprits.iter().cloned().map(culprit).collect(),
        complete: answer.complete,
        doubts: answer.doubts.clone(),
        coverage: coverage.to_vec(),
        unit: group.and_then(unit).map(str::to_owned),
        container: container.take().map(contained),
        trace: context.map(trace),
        spans: is_asked.then(|| waits.into_iter().map(|of| span(of, wall)).collect()),
        spans_left_out: is_asked.then_some(left_out),
        spans_unsampled: is_asked.then_some(unsampled),
    };
    of.answer = answer;
    if plan.hidden.is_none() {
        return Ok(document(object)?);
    }
    let mut value = serde_json::to_value(object)?;
    hide(&mut value, &plan.hidden);
    Ok(document(value)?)
}

/// Members whose texts are flightrec's own words, or numbers.
const OWN: [&str; 5] = ["state", "mechanism", "call", "trace_id", "span_id"];

/// Hides what patterns match in all texts but flightrec's own.
fn hide(value: &mut Value, hidden: &Hidden) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if !OWN.contains(&name.as_str()) {
                    hide(value, hidden);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| hide(value, hidden)),
        Value::String(text) => *text = hidden.text(text).into_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn contained(of: Container) -> ContainerObject {
    let Container { id, name, pod, pod_uid, namespace, image, .. } = of;
    ContainerObject { id, name, pod, pod_uid, namespace, image }
}

fn trace(of: TraceContext) -> TraceObject {
    TraceObject {
        trace_id: format!("{:032x}", u128::from_be_bytes(of.trace)),
        span_id: format!("{:016x}", u64::from_be_bytes(of.span)),
        flags: of.flags,
    }
}

fn span(of: TracedWait, wall: &mut WallClock) -> SpanObject {
    let TracedWait { context, who, from, until, goes_on, call, state, did, object, .. } = of;
    SpanObject {
        trace: trace(context),
        thread: thread(who),
        from_ns: wall.wall(from),
        until_ns: wall.wall(until),
        mono_ns: from,
        goes_on,
        call,
        state: if state.is_empty() { "unknown" } else { state },
        did,
        object,
        culprit: of.culprit.map(culprit),
        doubt: of.doubt,
    }
}

fn stretch(from: u64, until: u64, wall: &mut WallClock) -> Stretch {
    Stretch { from: wall.wall(from), until: wall.wall(until), length: until.saturating_sub(from) }
}

fn thread(of: Who) -> Thread {
    let Who { tid, pid, comm: name, group: cgroup } = of;
    Thread { tid, pid: (pid != 0).then_some(pid), name, cgroup }
}

fn share(of: Share) -> ShareObject {
    let Share { state, what, ns, percent, count } = of;
    ShareObject { state, what, ns, percent, count }
}

fn link(of: Link, wall: &mut WallClock) -> LinkObject {
    let Link { who, state, from, until, ns, count, did, call, object, evidence, doubt, .. } = of;
    let thread = thread(who);
    let state = if state.is_empty() { "unknown" } else { state };
    let (from_ns, until_ns) = (wall.wall(from), wall.wall(until));
    LinkObject { thread, state, from_ns, until_ns, ns, count, did, call, object, evidence, doubt }
}

fn culprit(of: Culprit) -> CulpritObject {
    let Culprit { who, mechanism, call, object, ns } = of;
    CulpritObject { thread: who.map(thread), mechanism, call, object, ns }
}
