//! What runs on a CPU at a moment.

use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::decode::Sample;
use flightrec_format::symbols::Symbols;
use flightrec_reader::binaries::Binaries;

use super::{stack, value};
use crate::text::number::decimal;
use crate::text::sample::mode;

/// `,"mode":"kernel","kernel_stack":[…],"user_stack":[…]`; where there are none, both `null`,
/// and `"stack_missing":"refused"`.
pub(super) fn object(sample: &Sample, symbols: &Symbols, binaries: &Binaries, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"mode\":\"");
    out.extend_from_slice(mode(sample).as_bytes());
    out.extend_from_slice(b"\",\"kernel_stack\":");
    let why = match sample.status {
        Status::Taken => {
            stack::frames(&sample.kernel, true, symbols, out);
            out.extend_from_slice(b",\"user_stack\":");
            frames(&sample.user, binaries, out);
            None
        }
        Status::Refused => Some("refused"),
        Status::Unreadable => Some("unreadable"),
    };
    if let Some(why) = why {
        out.extend_from_slice(b"null,\"user_stack\":null,\"stack_missing\":\"");
        out.extend_from_slice(why.as_bytes());
        out.push(b'"');
    }
    if sample.kernel_cut {
        out.extend_from_slice(b",\"kernel_stack_cut\":true");
    }
    if sample.user_cut {
        out.extend_from_slice(b",\"user_stack_cut\":true");
    }
}

/// `[{"symbol":…,"offset":…,"binary":…,"build_id":…,"file_offset":…},{"address":…}]`
fn frames(frames: &[UserFrame], binaries: &Binaries, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, frame) in frames.iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",{" } else { b"{" });
        let place = binaries.find(*frame, i == 0);
        if let Some((function, offset)) = place.function {
            out.extend_from_slice(b"\"symbol\":");
            value::string(function.as_bytes(), out);
            out.extend_from_slice(b",\"offset\":");
            decimal(offset, out);
            out.push(b',');
        }
        if let Some(of) = place.binary {
            if !of.path.is_empty() {
                out.extend_from_slice(b"\"binary\":");
                value::string(of.path.as_bytes(), out);
                out.push(b',');
            }
            out.extend_from_slice(b"\"build_id\":");
            value::string(of.build_id.as_bytes(), out);
            out.push(b',');
        }
        let is_address = frame.binary == 0;
        out.extend_from_slice(if is_address { b"\"address\":" } else { b"\"file_offset\":" });
        decimal(frame.at, out);
        out.push(b'}');
    }
    out.push(b']');
}
