//! Waits in spans of distributed traces, as spans below them.

use sha2::{Digest as _, Sha256};

use super::answer::{Answer, Wait};
use super::message::{Resource, ResourceSpans, ScopeSpans, Span, Traces, flag, text};
use super::record::{cause, cut, thread};
use super::resource::{SCHEMA, scope};

/// `SpanKind`: within a program.
const INTERNAL: i32 = 1;

/// The spans of a snapshot of this recording.
pub fn spans(answer: &Answer, session: u64) -> Vec<Span> {
    answer.spans.iter().filter_map(|wait| span(wait, session)).collect()
}

/// A request with spans of this machine.
pub fn request(resource: &Resource, spans: Vec<Span>) -> Traces {
    let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
    let resource = Some(resource.clone());
    Traces {
        resource_spans: vec![ResourceSpans {
            resource,
            scope_spans,
            schema_url: SCHEMA.to_owned(),
        }],
    }
}

/// A wait; `None`: it has no ids of a span.
fn span(wait: &Wait, session: u64) -> Option<Span> {
    let (trace_id, parent_span_id) = wait.trace.ids()?;
    let object = wait.object.as_deref().unwrap_or_default();
    let is_path = object.starts_with('/');
    let mut attributes = vec![
        text("flightrec.wait.state", &wait.state),
        text("flightrec.wait.what", &cut(&wait.did)),
        text(if is_path { "file.path" } else { "flightrec.wait.object" }, &cut(object)),
        text("flightrec.wait.doubt", &cut(wait.doubt.as_deref().unwrap_or_default())),
        // Its end is that of the window.
        wait.goes_on.then(|| flag("flightrec.wait.goes_on", true)),
    ];
    attributes.extend(thread("", Some(&wait.thread)));
    attributes.extend(cause("flightrec.holder", wait.culprit.as_ref()));
    Some(Span {
        span_id: id(wait, session),
        trace_id,
        parent_span_id,
        name: wait.call.clone(),
        kind: INTERNAL,
        start_time_unix_nano: wait.from_ns.try_into().unwrap_or(0),
        end_time_unix_nano: wait.until_ns.try_into().unwrap_or(0),
        attributes: attributes.into_iter().flatten().collect(),
        flags: wait.trace.flags.into(),
    })
}

/// The same wait has the same id, in whichever snapshot it is, however often it is sent.
fn id(wait: &Wait, session: u64) -> Vec<u8> {
    let Wait { trace, thread, mono_ns, .. } = wait;
    let of = format!("{session:016x} {} {} {mono_ns}", trace.trace_id, thread.tid);
    let id = Sha256::digest(of)[..8].to_vec();
    // All zeros would be none.
    if id.iter().all(|byte| *byte == 0) { vec![0, 0, 0, 0, 0, 0, 0, 1] } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::answer::{Culprit, Thread, Trace};
    use crate::otlp::message::Value;

    fn wait(tid: u32) -> Wait {
        let thread = |tid| Thread { tid, name: "t".into(), ..Thread::default() };
        Wait {
            trace: Trace {
                trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
                span_id: "b7ad6b7169203331".into(),
                flags: 1,
            },
            thread: thread(tid),
            from_ns: 10,
            until_ns: 20,
            mono_ns: 5,
            call: "flock".into(),
            object: Some("/srv/journal".into()),
            culprit: Some(Culprit { thread: Some(thread(9)), ..Culprit::default() }),
            ..Wait::default()
        }
    }

    #[test]
    fn a_wait_is_a_child_of_the_span() {
        let none = Wait { trace: Trace::default(), ..wait(3) };
        let answer = Answer { spans: vec![wait(1), wait(2), none], ..Answer::default() };
        let all = spans(&answer, 7);
        assert_eq!(all.len(), 2);
        let of = &all[0];
        assert_eq!(
            (of.name.as_str(), of.start_time_unix_nano, of.end_time_unix_nano),
            ("flock", 10, 20)
        );
        assert_eq!((of.trace_id.len(), of.parent_span_id.len(), of.flags), (16, 8, 1));
        let value = |key: &str| {
            let found = of.attributes.iter().find(|of| of.key == key)?;
            found.value.clone()?.value
        };
        assert_eq!(value("file.path"), Some(Value::Text("/srv/journal".into())));
        assert_eq!(value("flightrec.holder.thread.id"), Some(Value::Int(9)));
        assert_eq!(value("thread.id"), Some(Value::Int(1)));
        // The same again: the same id; another wait has another.
        assert_eq!(spans(&answer, 7), all);
        assert_ne!(all[0].span_id, all[1].span_id);
        assert_ne!(spans(&answer, 8)[0].span_id, of.span_id);
        assert_eq!(of.span_id.len(), 8);
    }
}
