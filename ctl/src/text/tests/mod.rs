//! Golden lines, one group for each form, and lines of anything at all.

mod any;
mod calls;
mod fds;
mod others;

use flightrec_format::abi::record::{Abi, Comm, StringStatus};
use flightrec_format::decode::{Body, Call, Event, Text};
use flightrec_format::meta::{Argument, Meta, Syscall};
use jiff::tz::TimeZone;

use super::{EventContext, Naming, Options, Renderer};

/// 14:03:07.123456 UTC.
const WALL: i64 = 50_587_123_456_789;
/// What stands before the event in a line of thread 8883, mysqld, on CPU 1.
const COLUMNS: &str = "14:03:07.123456 [001]    8883 mysqld           ";

/// A table in the kernel's own words: `number name(type argument, ...)`.
fn table(text: &str) -> Vec<Syscall> {
    let argument = |text: &str| {
        let (ctype, name) = text.trim().rsplit_once(' ').unwrap();
        Argument { name: name.into(), ctype: ctype.into() }
    };
    text.trim()
        .lines()
        .map(|line| {
            let (nr, rest) = line.trim().split_once(' ').unwrap();
            let (name, list) = rest.split_once('(').unwrap_or((rest, ""));
            let list = list.trim_end_matches(')');
            let args = rest
                .contains('(')
                .then(|| list.split(',').filter(|a| !a.is_empty()).map(argument).collect());
            Syscall { nr: nr.parse().unwrap(), name: name.into(), args }
        })
        .collect()
}

pub(crate) fn meta() -> Meta {
    Meta {
        tracepoints: vec![super::tracepoint::tests::tracepoint()],
        native: table(include_str!("native.txt")),
        compat: table(include_str!("compat.txt")),
        ..Meta::default()
    }
}

fn renderer() -> Renderer {
    renderer_of(&meta())
}

fn renderer_of(meta: &Meta) -> Renderer {
    Renderer::new(
        meta,
        Options {
            colour: false,
            exit_arguments: false,
            merge: false,
            fds: Naming::Near,
            stacks: true,
            graph: false,
            traces: false,
            time_zone: TimeZone::UTC,
        },
    )
}

fn context() -> EventContext<'static> {
    EventContext {
        wall_ns: WALL,
        comm: comm(b"mysqld"),
        entry_seen: true,
        ..EventContext::default()
    }
}

/// A name as it is recorded, filled up with NUL.
pub(crate) fn comm(name: &[u8]) -> Comm {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    comm
}

/// The lines of an event of thread 8883, without the columns where they are the usual ones.
fn lines(body: Body, cx: &EventContext<'_>) -> Vec<String> {
    let event = Event { time: 1_000_000, cpu: 1, tid: 8883, body };
    let mut out = Vec::new();
    renderer().line(&event, cx, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| line.strip_prefix(COLUMNS).unwrap_or(line).to_string()).collect()
}

/// As [`lines`], of an event with one.
fn line(body: Body, cx: &EventContext<'_>) -> String {
    let mut lines = lines(body, cx);
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

pub(crate) fn string(index: u8, status: StringStatus, bytes: &[u8]) -> Text {
    Text { index, status, bytes: bytes.into() }
}

pub(crate) fn call(nr: u16, args: &[u64], strings: Vec<Text>) -> Call {
    let mut six = [0; 6];
    six[..args.len()].copy_from_slice(args);
    Call { nr, abi: Abi::Native, nargs: u8::try_from(args.len()).unwrap(), args: six, strings }
}
