//! Operations of io_uring: handed over, done.

use flightrec_format::abi::kinds::{IoComplete, IoSubmit, Kind};
use flightrec_format::decode::{Plain, Text};
use flightrec_reader::fds::FdNames;
use flightrec_reader::pipeline::Operation;

use super::{fields, value};
use crate::text::devices::Devices;
use crate::text::io_uring::{makes_descriptor, name_of_fd, path_key};
use crate::text::number::decimal;

/// The fields of its row, and `,"file":…,"path":…`
pub(super) fn submit(submit: &IoSubmit, paths: &[Text], fds: FdNames<'_>, out: &mut Vec<u8>) {
    if let Some(plain) = Plain::read(Kind::IoSubmit, &submit.bytes()) {
        fields::object(&plain, &Devices::default(), out);
    }
    file(name_of_fd(submit, fds), out);
    for path in paths {
        value::text(path_key(path), Some(path), out);
    }
}

/// `,"submitted_by":…,"duration_ns":…,"fd":…,"file":…`, of which what is not known is absent.
pub(super) fn done(
    plain: &Plain,
    operation: Option<&Operation>,
    fds: FdNames<'_>,
    out: &mut Vec<u8>,
) {
    let Some(Operation { submitted_by, duration_ns, submit }) = operation else { return };
    let Some(done) = IoComplete::read(plain.bytes()) else { return };
    out.extend_from_slice(b",\"submitted_by\":");
    decimal(*submitted_by, out);
    out.extend_from_slice(b",\"duration_ns\":");
    decimal(*duration_ns, out);
    out.extend_from_slice(b",\"fd\":");
    decimal(submit.fd, out);
    let makes = makes_descriptor(submit);
    let made = if makes && done.result >= 0 { fds.get(done.result) } else { None };
    file(if makes { made } else { name_of_fd(submit, fds) }, out);
}

/// `,"file":…`
fn file(name: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(name) = name {
        out.extend_from_slice(b",\"file\":");
        value::string(name, out);
    }
}
