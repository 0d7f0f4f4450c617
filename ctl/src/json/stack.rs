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
        Status::Taken => frames(&stack.frames, symbols, out),
        Status::Refused => out.extend_from_slice(b",\"stack\":null,\"stack_missing\":\"refused\""),
        Status::Unreadable => {
            out.extend_from_slice(b",\"stack\":null,\"stack_missing\":\"unreadable\"");
        }
    }
    if stack.cut {
        out.extend_from_slice(b",\"stack_cut\":true");
    }
}

/// `,"stack":[…]`
fn frames(frames: &[u32], symbols: &Symbols, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"stack\":[");
    for (i, frame) in frames.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match symbols.find(*frame) {
            Some(of) => {
                out.extend_from_slice(b"{\"symbol\":");
                value::string(of.function.as_bytes(), out);
                out.extend_from_slice(b",\"offset\":");
                decimal(of.offset, out);
                if let Some(module) = of.module {
                    out.extend_from_slice(b",\"module\":");
                    value::string(module.as_bytes(), out);
                }
            }
            None => {
                out.extend_from_slice(b"{\"frame\":");
                decimal(*frame, out);
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}
