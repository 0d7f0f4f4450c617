//! For which span of a distributed trace each thread works, as events say: the text of a mark, the
//! path that a thread asks access(2) or one of its kind about, and what its process publishes of
//! the thread (OTEP 4947). Such calls are marks for programs that have no socket to write to: the
//! path needs not to be there.
//!
//! What is published is recorded when the thread is about to be switched out, and at the end of a
//! slow call without a switch: it holds from then on, until another span is recorded, or none. So
//! it is right of the switch, the wait after it, the end of the call in which the thread waited,
//! and that of a slow call. Short calls between two switches, of a thread that changes its span
//! meanwhile, count to the span of the first.

use flightrec_format::abi::kinds::{Kind, ThreadContext};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::Meta;
use flightrec_format::trace_context::{LONGEST_NS, Said, TraceContext, find};
use rustc_hash::FxHashMap;

/// Most threads whose spans are known at a time.
const TRACED_MAX: usize = 65_536;
/// Calls whose path may be a mark.
const CALLS: [&str; 3] = ["access", "faccessat", "faccessat2"];

/// Finds what events say of spans.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    /// Calls whose path may be a mark, by table and number.
    calls: Vec<(Abi, u16)>,
}

impl Marks {
    /// In events of a recording.
    pub fn new(meta: &Meta) -> Self {
        let tables = [(Abi::Native, &meta.native), (Abi::Compat, &meta.compat)];
        let named = tables.into_iter().flat_map(|(abi, calls)| {
            let marks = calls.iter().filter(|call| CALLS.contains(&&*call.name));
            marks.map(move |call| (abi, call.nr))
        });
        Self { calls: named.collect() }
    }

    /// What an event says of the span of its thread; `None`: nothing.
    #[inline]
    pub fn said(&self, event: &Event) -> Option<Said> {
        match &event.body {
            Body::Mark(text) => find(&text.bytes),
            Body::Plain(plain) if plain.kind() == Kind::ThreadContext => {
                ThreadContext::read(plain.bytes()).map(published)
            }
            Body::Enter(call) | Body::Exit { call, .. } if !call.strings.is_empty() => {
                self.path(call).and_then(find)
            }
            _ => None,
        }
    }

    /// The path of a call that may be a mark.
    fn path<'c>(&self, call: &'c Call) -> Option<&'c [u8]> {
        let path = call.strings.iter().find(|text| text.is_string())?;
        self.calls.contains(&(call.abi, call.nr)).then_some(&*path.bytes)
    }
}

/// What a thread's process publishes of it.
fn published(of: ThreadContext) -> Said {
    if of.trace.0 == [0; 16] || of.span.0 == [0; 8] {
        return Said::End;
    }
    Said::Begin(TraceContext { trace: of.trace.0, span: of.span.0, flags: of.flags as u8 })
}

/// The span that each thread works for at the moment.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    marks: Marks,
    /// By thread: the span, and until when that holds.
    threads: FxHashMap<u32, (TraceContext, u64)>,
}

impl Traces {
    /// At the beginning of a recording.
    pub fn new(meta: &Meta) -> Self {
        Self { marks: Marks::new(meta), threads: FxHashMap::default() }
    }

    /// Goes past an event.
    #[inline]
    pub fn take(&mut self, event: &Event) {
        if let Body::TaskExit(_) = event.body {
            // Whoever has its id next works for none.
            if let Some((_, until)) = self.threads.get_mut(&event.tid) {
                *until = event.time.saturating_add(1).min(*until);
            }
            return;
        }
        match self.marks.said(event) {
            Some(Said::Begin(context)) => self.begin(event, context),
            Some(Said::End) if !self.threads.is_empty() => {
                self.threads.remove(&event.tid);
            }
            _ => {}
        }
    }

    fn begin(&mut self, event: &Event, context: TraceContext) {
        if self.threads.len() >= TRACED_MAX && !self.threads.contains_key(&event.tid) {
            self.threads.retain(|_, (_, until)| *until > event.time);
            if self.threads.len() >= TRACED_MAX {
                return;
            }
        }
        self.threads.insert(event.tid, (context, event.time.saturating_add(LONGEST_NS)));
    }

    /// The span that a thread works for at a moment, after the events so far.
    #[inline]
    pub fn of(&self, tid: u32, time: u64) -> Option<TraceContext> {
        if self.threads.is_empty() {
            return None;
        }
        self.threads.get(&tid).filter(|(_, until)| time < *until).map(|(context, _)| *context)
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::id::{SpanId, TraceId};
    use flightrec_format::abi::record::StringStatus;
    use flightrec_format::decode::{Plain, Text};
    use flightrec_format::meta::Syscall;

    use super::*;

    const VALUE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn text(bytes: &str) -> Text {
        Text { index: 0, status: StringStatus::Whole, bytes: bytes.as_bytes().into() }
    }

    fn call(nr: u16, path: &str) -> Body {
        let strings = vec![text(path)];
        Body::Enter(Call { nr, abi: Abi::Native, nargs: 1, args: [0; 6], strings })
    }

    #[test]
    fn marks_of_both_kinds() {
        let named = |nr, name: &str| Syscall { nr, name: name.into(), args: None };
        let native = vec![named(439, "faccessat2"), named(2, "open")];
        let mut traces = Traces::new(&Meta { native, ..Meta::default() });
        let path = format!("Orders:{VALUE}");
        let mut take = |time, tid, body| traces.take(&Event { time, cpu: 0, tid, body });
        take(5, 7, Body::Mark(text(&format!("traceparent={VALUE}"))));
        take(5, 8, call(439, &path));
        take(5, 9, call(2, &path));
        let has = |traces: &Traces, tid, time| traces.of(tid, time).is_some();
        assert!(has(&traces, 7, 5) && has(&traces, 8, 1_000_000_000));
        assert!(!has(&traces, 9, 5), "not every path is a mark");
        assert!(!has(&traces, 8, 5 + LONGEST_NS), "it was not said again");
        traces.take(&Event { time: 9, cpu: 0, tid: 7, body: Body::Mark(text("traceparent=")) });
        assert!(!has(&traces, 7, 9) && has(&traces, 8, 9));
    }

    #[test]
    fn what_a_process_publishes() {
        let mut traces = Traces::default();
        let mut take = |time, trace, span| {
            let of = ThreadContext {
                trace: TraceId([trace; 16]),
                span: SpanId([span; 8]),
                flags: 1,
                reserved: 0,
            };
            let plain = Plain::read(Kind::ThreadContext, &of.bytes()).expect("a whole body");
            traces.take(&Event { time, cpu: 0, tid: 7, body: Body::Plain(plain) });
            traces.of(7, time)
        };
        let context =
            |trace, span| Some(TraceContext { trace: [trace; 16], span: [span; 8], flags: 1 });
        assert_eq!(take(5, 1, 2), context(1, 2));
        assert_eq!(take(6, 1, 3), context(1, 3));
        assert_eq!((take(7, 1, 0), take(8, 0, 3)), (None, None), "one without the other");
        assert_eq!(take(9, 4, 4), context(4, 4));
        assert_eq!(take(10, 0, 0), None);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut traces = Traces::default();
        let mut say = |time, tid| {
            let body = Body::Mark(text(VALUE));
            traces.take(&Event { time, cpu: 0, tid, body });
            (traces.threads.len(), traces.of(tid, time).is_some())
        };
        for tid in 1..=TRACED_MAX as u32 {
            assert!(say(1, tid).1);
        }
        assert_eq!(say(2, 0), (TRACED_MAX, false));
        // Said again by one that is known, and by others when all before are over.
        assert_eq!(say(3, 1), (TRACED_MAX, true));
        assert_eq!(say(2 + LONGEST_NS, 0), (2, true));
    }
}
