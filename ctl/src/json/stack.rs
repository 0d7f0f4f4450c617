//! Where in the kernel a thread waited.

use flightrec_format::abi::record::stack::Status;
use flightrec_format::decode::Stack;
use flightrec_format::symbols::Symbols;

use super::value;
use crate::text::number::decimal;

/// `,"slept_ns":…,"stack":[{"symbol":…,"offset":…,"module":…},{"frame":…}],"stack_cut":true`;
/// where there is none, `"stack":null,"stack_missing":"refused"`.
pub(super) fn object(stack: &Stack, symbols: &Symbols, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"slept_ns\":");
    match stack.slept {
        Some(ns) => decimal(ns, out),
        None => out.extend_from_slice(b"null"),
    }
    match stack.status {
        Status::Taken => {
            out.extend_from_slice(b",\"stack\":");
            frames(&stack.frames, false, symbols, out);
        }
        Status::Refused => out.extend_from_slice(b",\"stack\":null,\"stack_missing\":\"refused\""),
        Status::Unreadable => {
            out.extend_from_slice(b",\"stack\":null,\"stack_missing\":\"unreadable\"");
        }
    }
    if stack.cut {
        out.extend_from_slice(b",\"stack_cut\":true");
    }
}

/// `[…]`; `ran`: the first frame is after the first byte of the instruction that ran.
pub(super) fn frames(frames: &[u32], ran: bool, symbols: &Symbols, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, frame) in frames.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if let Some(of) = symbols.find(*frame) {
            out.extend_from_slice(b"{\"symbol\":");
            value::string(of.function.as_bytes(), out);
            out.extend_from_slice(b",\"offset\":");
            decimal(of.offset - u32::from(ran && i == 0), out);
            if let Some(module) = of.module {
                out.extend_from_slice(b",\"module\":");
                value::string(module.as_bytes(), out);
            }
        } else {
            out.extend_from_slice(b"{\"frame\":");
            decimal(*frame, out);
        }
        out.push(b'}');
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::text::stack::tests::{symbols, taken};

    fn shown(stack: &Stack) -> Value {
        let mut out = b"{\"event\":\"stack\"".to_vec();
        object(stack, &symbols(&["wait", "fsync [xfs]", "\u{1b}"]), &mut out);
        out.push(b'}');
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn frames_have_their_functions() {
        let expected = json!({"event": "stack", "slept_ns": 12_345_678, "stack": [
            {"symbol": "wait", "offset": 10},
            {"symbol": "fsync", "offset": 100, "module": "xfs"},
            {"symbol": "\\33", "offset": 1},
            {"frame": 4_000_000_000u32},
        ]});
        assert_eq!(shown(&taken(&[110, 300, 301, 4_000_000_000])), expected);
    }

    #[test]
    fn what_is_missing_is_said() {
        let cut = Stack { cut: true, slept: None, ..taken(&[]) };
        let expected = json!({"event": "stack", "slept_ns": null, "stack": [], "stack_cut": true});
        assert_eq!(shown(&cut), expected);
        for (status, why) in [(Status::Refused, "refused"), (Status::Unreadable, "unreadable")] {
            let none = shown(&Stack { status, ..taken(&[]) });
            assert_eq!((&none["stack"], &none["stack_missing"]), (&Value::Null, &json!(why)));
        }
    }
}
