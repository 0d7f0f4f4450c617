//! Functions that are probed, and marks in programs.

use flightrec_format::abi::function::{ARGUMENTS, ENTRY, MARK, RETURN};
use flightrec_format::abi::kinds::Function;
use flightrec_format::decode::{Body, Event, Plain};
use flightrec_reader::binaries::ProbedFunctions;
use flightrec_reader::pipeline::FunctionCall;
use rustc_hash::FxHashMap;

use super::escape::escape;
use super::number::{decimal, duration, hex_or_zero, pad};

/// Most threads whose depth is remembered.
const DEPTHS_MAX: usize = 4096;
/// Columns for each function that a thread is in, and most of them.
const STEP: usize = 2;
const STEPS_MAX: u32 = 40;

/// How deep threads are in probed functions.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    depths: FxHashMap<u32, u32>,
}

impl Graph {
    /// Indents what a thread does: its functions, and the system calls that it makes in them.
    pub(super) fn indent(
        &mut self,
        event: &Event,
        function: Option<&FunctionCall>,
        out: &mut Vec<u8>,
    ) {
        let depth = match (&event.body, function) {
            (Body::Plain(plain), Some(FunctionCall { depth, .. })) => {
                let inside = Function::read(plain.bytes()).is_some_and(|of| of.point == ENTRY);
                if self.depths.len() >= DEPTHS_MAX {
                    self.depths.clear();
                }
                match depth + u32::from(inside) {
                    0 => drop(self.depths.remove(&event.tid)),
                    depth => drop(self.depths.insert(event.tid, depth)),
                }
                *depth
            }
            (Body::Enter(_) | Body::Exit { .. }, _) => {
                self.depths.get(&event.tid).copied().unwrap_or(0)
            }
            (Body::TaskExit(_) | Body::Exec { .. }, _) => {
                self.depths.remove(&event.tid);
                0
            }
            _ => 0,
        };
        pad(STEP * depth.min(STEPS_MAX) as usize, b' ', out);
    }
}

/// `(FUNCTION) name(0x1, 0x2) --> [file]`, `(FUNCTION) name <-- 0x3 (4.2 us) [file]`,
/// `(FUNCTION) provider:name(0x1) [file]`; in a graph `name(0x1, 0x2) {` and
/// `} = 0x3 (4.2 us) name`. What the recording does not name is its number.
pub(super) fn line(
    plain: &Plain,
    known: Option<&FunctionCall>,
    functions: &ProbedFunctions,
    is_graph: bool,
    out: &mut Vec<u8>,
) {
    let Some(of) = Function::read(plain.bytes()) else { return };
    let found = functions.find(of.probe);
    let name = |out: &mut Vec<u8>| {
        if let Some((name, _)) = found {
            escape(name.as_bytes(), out);
        } else {
            out.extend_from_slice(b"probe ");
            decimal(of.probe, out);
        }
    };
    if !is_graph {
        out.extend_from_slice(b"(FUNCTION) ");
    }
    match of.point {
        RETURN if is_graph => {
            out.extend_from_slice(b"} = ");
            value(&of, known, out);
            out.push(b' ');
            name(out);
            return;
        }
        RETURN => {
            name(out);
            out.extend_from_slice(b" <-- ");
            value(&of, known, out);
        }
        point => {
            name(out);
            arguments(&of, out);
            match point {
                ENTRY if is_graph => out.extend_from_slice(b" {"),
                ENTRY => out.extend_from_slice(b" -->"),
                MARK => {}
                // Of a later release.
                point => {
                    out.extend_from_slice(b" point ");
                    decimal(point, out);
                }
            }
        }
    }
    if let Some((_, file)) = found.filter(|_| !is_graph) {
        let base = file.path.rsplit('/').next().unwrap_or_default();
        out.extend_from_slice(b" [");
        escape(base.as_bytes(), out);
        out.push(b']');
    }
}

/// `(0x1, 0x2)`
fn arguments(of: &Function, out: &mut Vec<u8>) {
    out.push(b'(');
    let all = [of.a0, of.a1, of.a2, of.a3, of.a4, of.a5];
    for (i, argument) in all.iter().take((of.arguments as usize).min(ARGUMENTS)).enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        hex_or_zero(*argument, out);
    }
    out.push(b')');
}

/// `0x3 (4.2 us)`
fn value(of: &Function, known: Option<&FunctionCall>, out: &mut Vec<u8>) {
    hex_or_zero(of.a0, out);
    if let Some(FunctionCall { duration_ns: Some(ns), .. }) = known {
        out.extend_from_slice(b" (");
        duration(*ns, out);
        out.push(b')');
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::kinds::Kind;
    use flightrec_format::meta::{Meta, Probed};

    use super::*;

    fn functions() -> ProbedFunctions {
        let file = Probed {
            path: "/usr/lib/libfoo.so".into(),
            build_id: String::new(),
            functions: vec![(3, "foo_\x1bopen".into()), (4, "foo:mark".into())],
        };
        ProbedFunctions::new(&Meta { probed: vec![file], ..Meta::default() })
    }

    fn plain(probe: u32, point: u32, arguments: u32) -> Plain {
        let of = Function {
            probe,
            point,
            stack: 0,
            arguments,
            a0: 0x47,
            a1: 0,
            a2: 3,
            a3: 4,
            a4: 5,
            a5: 6,
        };
        Plain::read(Kind::Function, &of.bytes()).unwrap()
    }

    fn written(plain: &Plain, duration_ns: Option<u64>, is_graph: bool) -> String {
        let mut out = Vec::new();
        let known = FunctionCall { depth: 0, duration_ns };
        line(plain, Some(&known), &functions(), is_graph, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn entries_returns_and_marks() {
        assert_eq!(
            written(&plain(3, ENTRY, 3), None, false),
            "(FUNCTION) foo_\\33open(0x47, 0, 0x3) --> [libfoo.so]"
        );
        assert_eq!(
            written(&plain(3, RETURN, 1), Some(4200), false),
            "(FUNCTION) foo_\\33open <-- 0x47 (4.2 us) [libfoo.so]"
        );
        assert_eq!(
            written(&plain(4, MARK, 1), None, false),
            "(FUNCTION) foo:mark(0x47) [libfoo.so]"
        );
        assert_eq!(written(&plain(9, ENTRY, 0), None, false), "(FUNCTION) probe 9() -->");
        assert_eq!(written(&plain(9, 7, u32::MAX).clone(), None, true).matches(", ").count(), 5);
    }

    #[test]
    fn a_graph() {
        assert_eq!(written(&plain(3, ENTRY, 1), None, true), "foo_\\33open(0x47) {");
        assert_eq!(
            written(&plain(3, RETURN, 1), Some(4200), true),
            "} = 0x47 (4.2 us) foo_\\33open"
        );
        let mut graph = Graph::default();
        let mut indent = |plain: Plain, depth| {
            let event = Event { time: 1, cpu: 0, tid: 5, body: Body::Plain(plain) };
            let mut out = Vec::new();
            let known = FunctionCall { depth, duration_ns: None };
            graph.indent(&event, Some(&known), &mut out);
            out.len()
        };
        assert_eq!(indent(plain(3, ENTRY, 1), 0), 0);
        assert_eq!(indent(plain(3, ENTRY, 1), 1), STEP);
        assert_eq!(indent(plain(3, ENTRY, 1), u32::MAX - 1), STEP * STEPS_MAX as usize);
        assert_eq!(indent(plain(3, RETURN, 1), 1), STEP);
    }
}
