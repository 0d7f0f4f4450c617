//! What a tracepoint that the configuration names published.

use flightrec_format::abi::record::stack::Status;
use flightrec_format::abi::record::tracepoint::Hidden;
use flightrec_format::decode::Tracepoint;
use flightrec_format::published::{Tracepoints, Value};
use flightrec_format::symbols::Symbols;

use super::{stack, value};
use crate::text::argument::Number;
use crate::text::number::decimal;
use crate::text::tracepoint::{name, place, set_bits};

/// `,"tracepoint":"ext4:ext4_sync_file_exit","context":"thread","fields":{…},"names":{…}`, and
/// `"cut":true`, `"stack":[…]` where that is so.
pub(super) fn object(
    event: &Tracepoint,
    known: &Tracepoints,
    symbols: &Symbols,
    out: &mut Vec<u8>,
) {
    let of = known.find(event.id);
    out.extend_from_slice(b",\"tracepoint\":");
    match of {
        Some(of) => value::string(of.name.as_bytes(), out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"context\":\"");
    out.extend_from_slice(event.context.name().as_bytes());
    out.extend_from_slice(b"\",\"fields\":{");
    let fields = of.map_or(&[][..], |of| &of.fields);
    let mut names = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        value::string(field.name.as_bytes(), out);
        out.push(b':');
        let read = field.read(event);
        one(&read, symbols, out);
        if let Some(name) = name(field, &read) {
            names.push((&field.name, name));
        }
    }
    out.push(b'}');
    if !names.is_empty() {
        out.extend_from_slice(b",\"names\":{");
        for (i, (field, name)) in names.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            value::string(field.as_bytes(), out);
            out.push(b':');
            value::string(name.as_bytes(), out);
        }
        out.push(b'}');
    }
    if event.cut {
        out.extend_from_slice(b",\"cut\":true");
    }
    let Some(of) = &event.stack else { return };
    match of.status {
        Status::Taken => {
            out.extend_from_slice(b",\"stack\":");
            stack::frames(&of.frames, false, symbols, out);
        }
        Status::Refused => out.extend_from_slice(b",\"stack\":null,\"stack_missing\":\"refused\""),
        Status::Unreadable => {
            out.extend_from_slice(b",\"stack\":null,\"stack_missing\":\"unreadable\"");
        }
    }
    if of.cut {
        out.extend_from_slice(b",\"stack_cut\":true");
    }
}

/// A value: a number, a text, numbers in a row, the bits that are set, what stands for an address
/// of the kernel; `null`: it is not recorded.
fn one(of: &Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    match of {
        Value::Unsigned(number) => value::number(Number::Unsigned(*number), out),
        Value::Signed(number) => value::number(Number::Signed(*number), out),
        Value::Text(text) => value::string(text, out),
        Value::Array(numbers) => {
            out.push(b'[');
            for (i, number) in numbers.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                one(number, symbols, out);
            }
            out.push(b']');
        }
        Value::Bits(bytes) => {
            out.push(b'[');
            for (i, bit) in set_bits(bytes).enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                decimal(bit as u64, out);
            }
            out.push(b']');
        }
        Value::Hidden(Hidden::Code(frame)) => {
            if let Some((name, offset)) = place(*frame, symbols) {
                out.extend_from_slice(b"{\"symbol\":");
                value::string(name.as_bytes(), out);
                out.extend_from_slice(b",\"offset\":");
                decimal(offset, out);
            } else {
                out.extend_from_slice(b"{\"frame\":");
                decimal(*frame, out);
            }
            out.push(b'}');
        }
        Value::Hidden(Hidden::Data(number)) => {
            out.extend_from_slice(b"{\"address_hash\":");
            decimal(*number, out);
            out.push(b'}');
        }
        Value::Missing => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::record::WakeContext;
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::text::stack::tests::symbols;
    use crate::text::tracepoint::tests::{described, event};

    fn shown(event: &Tracepoint) -> Json {
        let mut out = b"{\"event\":\"tracepoint\"".to_vec();
        object(event, &described(), &symbols(&["function"]), &mut out);
        out.push(b'}');
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn fields_keep_their_types() {
        let expected = json!({"event": "tracepoint", "tracepoint": "a:b", "context": "softirq",
            "fields": {"dev": 7 << 20 | 1, "ret": -5, "flags": 7, "name": "x\"\\n",
                "code": {"symbol": "function", "offset": 4}, "data": {"address_hash": 0x1a2b},
                "array": [1, 258], "cpus": [0, 3, 4, 5, 7], "far": null},
            "names": {"flags": "A|B\\33|0x4"}, "cut": true, "stack_cut": true,
            "stack": [{"symbol": "function", "offset": 10}]});
        assert_eq!(shown(&event()), expected);
        let context = WakeContext::Thread;
        let none = Tracepoint { id: 9, context, cut: false, stack: None, ..event() };
        let expected = json!({"event": "tracepoint", "tracepoint": null, "context": "thread",
            "fields": {}});
        assert_eq!(shown(&none), expected);
    }
}
