//! Trace contexts in what threads wrote as marks: in the text of `flightctl mark`, and in the path
//! that they asked access(2) or one of its kind about. Such calls are marks for programs that have
//! no socket to write to: the path needs not to be there.

use flightrec_analysis::trace_context::{Contexts, find};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::Meta;
use rustc_hash::FxHashSet;

/// How long a context lasts that is neither ended nor told again, ns.
const LONGEST_NS: u64 = 60_000_000_000;
/// Calls whose path may be a mark.
const CALLS: [&str; 3] = ["access", "faccessat", "faccessat2"];

/// Finds contexts.
#[derive(Debug)]
pub(super) struct Finder {
    calls: FxHashSet<(u8, u16)>,
    contexts: Contexts,
}

impl Finder {
    /// Of a recording.
    pub(super) fn new(meta: &Meta) -> Self {
        let mut calls = FxHashSet::default();
        for (abi, all) in [(Abi::Native, &meta.native), (Abi::Compat, &meta.compat)] {
            let named = all.iter().filter(|call| CALLS.contains(&&*call.name));
            calls.extend(named.map(|call| (abi as u8, call.nr)));
        }
        Self { calls, contexts: Contexts::new(LONGEST_NS) }
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        let said = match &event.body {
            Body::Mark(text) => find(&text.bytes),
            Body::Enter(call) | Body::Exit { call, .. } => self.path(call).and_then(find),
            Body::TaskExit(_) => {
                self.contexts.end(event.tid, event.time);
                None
            }
            _ => None,
        };
        if let Some(said) = said {
            self.contexts.take(event.tid, event.time, said);
        }
    }

    /// What has been found.
    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The path of a call that may be a mark.
    fn path<'c>(&self, call: &'c Call) -> Option<&'c [u8]> {
        let path = call.strings.iter().find(|text| text.is_string())?;
        self.calls.contains(&(call.abi as u8, call.nr)).then_some(&*path.bytes)
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::record::StringStatus;
    use flightrec_format::decode::Text;
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
        let mut finder = Finder::new(&Meta { native, ..Meta::default() });
        let path = format!("Orders:{VALUE}");
        let mut take = |time, tid, body| finder.take(&Event { time, cpu: 0, tid, body });
        take(5, 7, Body::Mark(text(&format!("traceparent={VALUE}"))));
        take(5, 8, call(439, &path));
        take(5, 9, call(2, &path));
        take(9, 7, Body::Mark(text("traceparent=")));
        let at = |tid, time| finder.contexts().at(tid, time).is_some();
        assert!(at(7, 5) && at(7, 8) && !at(7, 9));
        assert!(at(8, 1_000_000_000) && !at(8, 5 + LONGEST_NS));
        assert!(!at(9, 5), "not every path is a mark");
    }
}
