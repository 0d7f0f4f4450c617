//! Golden lines, one group for each kind of event, and lines of anything at all.

mod calls;
mod others;

use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_reader::pipeline::EventContext;
use serde_json::Value;

use super::{Aside, Renderer};
use crate::text::tests as text;

/// 2026-03-04 14:03:07.123456789 UTC.
const WALL: i64 = 1_772_632_987_123_456_789;

fn meta() -> Meta {
    text::meta()
}

fn context() -> EventContext<'static> {
    EventContext {
        wall_ns: WALL,
        pid: 8880,
        comm: text::comm(b"mysqld"),
        ..EventContext::default()
    }
}

/// The line of an event of thread 8883 on CPU 1.
fn line(body: Body, cx: &EventContext<'_>) -> String {
    let event = Event { time: 1_000_000, cpu: 1, tid: 8883, body };
    let mut out = Vec::new();
    Renderer::new(&meta(), false, []).object(&event, cx, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches('\n').count(), 1);
    text.strip_suffix('\n').unwrap().to_owned()
}

/// The same, read back.
fn object(body: Body, cx: &EventContext<'_>) -> Value {
    serde_json::from_str(&line(body, cx)).unwrap()
}

#[test]
fn gaps_stand_where_they_fall() {
    let aside = |time| Aside { time, line: format!("{time}\n") };
    let mut renderer = Renderer::new(&meta(), false, [aside(5), aside(10)]);
    renderer.add([aside(30)]);
    let mut out = Vec::new();
    for time in [4, 10, 20] {
        let body = Body::Migrate { thread: 1, prio: 120, from: 0, to: 1 };
        renderer.object(&Event { time, cpu: 0, tid: 1, body }, &context(), &mut out);
    }
    renderer.rest(&mut out);
    let lines = String::from_utf8(out).unwrap();
    let short: Vec<&str> =
        lines.lines().map(|line| if line.starts_with('{') { "event" } else { line }).collect();
    assert_eq!(short, ["event", "5", "10", "event", "event", "30"]);
}
