//! Operations of io_uring: handed over, done.

use flightrec_format::abi::kinds::{Field, IoComplete, IoSubmit, Kind, Value};
use flightrec_format::abi::record::StringStatus;
use flightrec_format::abi::value_names::{IO_DIRECT, IO_FIXED_FILE};
use flightrec_format::decode::{Plain, Text};
use flightrec_reader::fds::FdNames;
use flightrec_reader::names::io_op;
use flightrec_reader::pipeline::Operation;

use super::argument::descriptor;
use super::devices::Devices;
use super::escape::quote_text;
use super::fields;
use super::number::decimal;

/// `(IO_SUBMIT) ring=0x1f op=openat fd=AT_FDCWD path="/etc/hosts"`
pub(super) fn submit(submit: &IoSubmit, paths: &[Text], fds: FdNames<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(IO_SUBMIT)");
    let Some(plain) = Plain::read(Kind::IoSubmit, &submit.bytes()) else { return };
    for (field, value) in fields::shown(&plain) {
        out.push(b' ');
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        match field.name {
            "fd" => file(submit, fds, out),
            _ => plain_field(&plain, field, value, out),
        }
    }
    for path in paths {
        out.push(b' ');
        out.extend_from_slice(path_key(path).as_bytes());
        out.push(b'=');
        match path.status {
            StringStatus::Unreadable => out.push(b'?'),
            _ => quote_text(path, out),
        }
    }
}

fn plain_field(plain: &Plain, field: &Field, value: Value, out: &mut Vec<u8>) {
    fields::write(plain, value, field.unit, &Devices::default(), out);
}

/// What a path is to its operation.
pub(crate) fn path_key(path: &Text) -> &'static str {
    if path.index == 0 { "path" } else { "new_path" }
}

/// The name of the descriptor that an operation is about; `None`: it is about none, or about one
/// that is not known.
pub(crate) fn name_of_fd<'a>(submit: &IoSubmit, fds: FdNames<'a>) -> Option<&'a [u8]> {
    let is_place = submit.flags & IO_FIXED_FILE != 0
        || submit.flags & IO_DIRECT != 0 && io_op(submit.op) == Some("close");
    if is_place { None } else { fds.get(submit.fd) }
}

/// Whether the result of an operation is a descriptor.
pub(crate) fn makes_descriptor(submit: &IoSubmit) -> bool {
    submit.flags & IO_DIRECT == 0
        && matches!(
            io_op(submit.op),
            Some("openat" | "openat2" | "accept" | "socket" | "fixed_fd_install")
        )
}

/// `AT_FDCWD`, `3</etc/hosts>`; `-1` where there is none.
fn file(submit: &IoSubmit, fds: FdNames<'_>, out: &mut Vec<u8>) {
    if submit.fd == libc::AT_FDCWD {
        out.extend_from_slice(b"AT_FDCWD");
    } else if let Some(name) = name_of_fd(submit, fds) {
        descriptor(submit.fd, Some(name), out);
    } else {
        decimal(submit.fd, out);
    }
}

/// ` submitted_by=7 took=1200ns fd=3</etc/hosts>`, or, of one that made a descriptor,
/// ` made=3</etc/hosts>`
pub(super) fn done(
    plain: &Plain,
    operation: Option<&Operation>,
    fds: FdNames<'_>,
    out: &mut Vec<u8>,
) {
    let Some(Operation { submitted_by, duration_ns, submit }) = operation else { return };
    let Some(done) = IoComplete::read(plain.bytes()) else { return };
    out.extend_from_slice(b" submitted_by=");
    decimal(*submitted_by, out);
    out.extend_from_slice(b" took=");
    decimal(*duration_ns, out);
    out.extend_from_slice(b"ns");
    if makes_descriptor(submit) {
        if done.result >= 0 {
            out.extend_from_slice(b" made=");
            descriptor(done.result, fds.get(done.result), out);
        }
    } else if submit.fd >= 0 {
        out.extend_from_slice(b" fd=");
        file(submit, fds, out);
    }
}
