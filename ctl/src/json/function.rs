//! Functions that are probed: what the recording and its other events tell of one.

use flightrec_format::abi::kinds::{Function, Kind};
use flightrec_format::decode::Plain;
use flightrec_reader::binaries::ProbedFunctions;
use flightrec_reader::pipeline::FunctionCall;

use super::value;
use crate::text::number::decimal;

/// `,"function":…,"path":…,"build_id":…,"depth":…,"duration_ns":…`, of which what is not known is
/// absent.
pub(super) fn known(
    plain: &Plain,
    known: Option<&FunctionCall>,
    functions: &ProbedFunctions,
    out: &mut Vec<u8>,
) {
    let of = Some(plain).filter(|of| of.kind() == Kind::Function);
    let Some(of) = of.and_then(|of| Function::read(of.bytes())) else { return };
    if let Some((name, file)) = functions.find(of.probe) {
        let texts = [("function", name), ("path", &*file.path), ("build_id", &*file.build_id)];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(field.as_bytes());
            out.extend_from_slice(b"\":");
            value::string(text.as_bytes(), out);
        }
    }
    let Some(FunctionCall { depth, duration_ns }) = known else { return };
    out.extend_from_slice(b",\"depth\":");
    decimal(*depth, out);
    if let Some(ns) = duration_ns {
        out.extend_from_slice(b",\"duration_ns\":");
        decimal(*ns, out);
    }
}
