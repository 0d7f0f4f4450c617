//! The default line of a kind of event: its name, and the fields of its row in the table of kinds.

use std::io::Write as _;

use flightrec_format::abi::kinds::{Field, Names, Unit, Value};
use flightrec_format::decode::Plain;
use flightrec_reader::names::errno;
use flightrec_reader::threads::trim;

use super::argument::write_signal;
use super::devices::Devices;
use super::escape::quote;
use super::number::{decimal, hex_or_zero};
use super::si_code;

/// `(NAME) field=value field=value`; the event's own thread, which begins the line, is left out.
pub(super) fn line(plain: &Plain, devices: &Devices, out: &mut Vec<u8>) {
    out.push(b'(');
    out.extend(plain.kind().name().bytes().map(|byte| byte.to_ascii_uppercase()));
    out.push(b')');
    for (field, value) in shown(plain) {
        out.push(b' ');
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        write(plain, value, field.unit, devices, out);
    }
}

/// The fields that are shown: all but the event's own thread, and what is reserved.
pub(crate) fn shown(plain: &Plain) -> impl Iterator<Item = (&'static Field, Value)> + '_ {
    let own = usize::from(plain.kind().names_thread());
    plain.fields().skip(own).filter(|(field, _)| field.unit != Unit::Reserved)
}

/// A field's value. `plain` is the event: a code's name depends on its signal.
pub(crate) fn write(plain: &Plain, value: Value, unit: Unit, devices: &Devices, out: &mut Vec<u8>) {
    match (value, unit) {
        (Value::Name(comm), _) => quote(trim(&comm), false, out),
        (Value::Ip(ip), _) => {
            // Writing to a vector does not fail.
            let _ = write!(out, "{ip}");
        }
        (Value::TraceId(id), _) => drop(write!(out, "{id}")),
        (Value::SpanId(id), _) => drop(write!(out, "{id}")),
        (Value::Unsigned(number), Unit::Signal) => write_signal(number as u32, out),
        (Value::Signed(code), Unit::SignalCode) => {
            let signal = plain.ids(Unit::Signal).next().unwrap_or(0);
            match si_code::name(signal, code as i32) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => decimal(code, out),
            }
        }
        (Value::Unsigned(number), Unit::Device) => devices.write(number as u32, out),
        (Value::Unsigned(number), Unit::Hex) => hex_or_zero(number, out),
        (Value::Unsigned(bits), Unit::Flags(names)) => flags(bits, names, out),
        (Value::Unsigned(number), Unit::OneOf(names) | Unit::Address(names)) => {
            match names.iter().find(|(named, _)| *named == number) {
                Some((_, name)) => out.extend_from_slice(name.as_bytes()),
                None => hex_or_zero(number, out),
            }
        }
        (Value::Unsigned(number), _) => decimal(number, out),
        (Value::Signed(number), _) => decimal(number, out),
    }
    if let (Value::Signed(number), Unit::Ret) = (value, unit)
        && let Some(name) = number
            .checked_neg()
            .and_then(|n| i32::try_from(n).ok())
            .filter(|n| *n > 0)
            .and_then(errno)
    {
        out.extend_from_slice(b" (");
        out.extend_from_slice(name.as_bytes());
        out.push(b')');
    }
    if unit == Unit::Ns {
        out.extend_from_slice(b"ns");
    }
}

/// `NAME|NAME|0x20`
fn flags(bits: u64, names: Names, out: &mut Vec<u8>) {
    let mut rest = bits;
    for (flag, name) in names.iter().filter(|(flag, _)| bits & flag == *flag) {
        out.extend_from_slice(name.as_bytes());
        rest &= !flag;
        if rest != 0 {
            out.push(b'|');
        }
    }
    if rest != 0 || bits == 0 {
        hex_or_zero(rest, out);
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::kinds::{Fork, Kind, Rename, TaskExit};

    use super::*;

    fn text(plain: Option<Plain>) -> String {
        let mut out = Vec::new();
        line(&plain.unwrap(), &Devices::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_default_line_has_all_fields_but_the_events_thread() {
        let comm = *b"a\"b\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let fork = Fork {
            parent_tid: 7,
            parent_tgid: 6,
            tid: 9,
            tgid: 8,
            start_time: 12,
            cgroup: u64::MAX,
            comm,
            shares: 0,
        };
        let expected = "(FORK) parent_tgid=6 tid=9 tgid=8 start_time=12ns \
                        cgroup=18446744073709551615 comm=\"a\\\"b\" shares=0";
        assert_eq!(text(Plain::read(Kind::Fork, &fork.bytes())), expected);
        let exit = TaskExit { tid: 7, tgid: 6, code: 9, left: 0, start_time: 0, comm };
        let expected = "(EXIT) tgid=6 code=9 left=0 start_time=0ns comm=\"a\\\"b\"";
        assert_eq!(text(Plain::read(Kind::Exit, &exit.bytes())), expected);
    }

    #[test]
    fn any_name_is_printable() {
        let rename = Rename { tid: 7, tgid: 6, old: [0x1b; 16], new: [0xff; 16] };
        let line = text(Plain::read(Kind::Rename, &rename.bytes()));
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
    }

    #[test]
    fn units_are_written_as_people_read_them() {
        let rename = Rename { tid: 7, tgid: 6, old: [0; 16], new: [0; 16] };
        let plain = Plain::read(Kind::Rename, &rename.bytes()).unwrap();
        let written = |value, unit| {
            let mut out = Vec::new();
            write(&plain, value, unit, &Devices::default(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Value::Unsigned(9), Unit::Signal), "SIGKILL");
        assert_eq!(written(Value::Signed(-14), Unit::Plain), "-14");
        assert_eq!(written(Value::Unsigned(14), Unit::Ns), "14ns");
        assert_eq!(written(Value::Unsigned(14), Unit::Bytes), "14");
        assert_eq!(written(Value::Signed(-2), Unit::Ret), "-2 (ENOENT)");
        assert_eq!(written(Value::Signed(2), Unit::Ret), "2");
        assert_eq!(written(Value::Signed(i64::MIN), Unit::Ret), "-9223372036854775808");
        assert_eq!(written(Value::Signed(-6), Unit::SignalCode), "SI_TKILL");
        assert_eq!(written(Value::Signed(-99), Unit::SignalCode), "-99");
        let names: Names = &[(0, "DFL"), (1, "IGN"), (4, "FOUR")];
        let one = |value| written(Value::Unsigned(value), Unit::OneOf(names));
        assert_eq!((one(0), one(4), one(26)), ("DFL".into(), "FOUR".into(), "0x1a".into()));
        let address = |value| written(Value::Unsigned(value), Unit::Address(names));
        assert_eq!((address(1), address(0x55aa)), ("IGN".into(), "0x55aa".into()));
        let flags = |value| written(Value::Unsigned(value), Unit::Flags(&[(1, "A"), (4, "B")]));
        assert_eq!([flags(0), flags(5), flags(4)], ["0", "A|B", "B"]);
        assert_eq!([flags(0x13), flags(0x20)], ["A|0x12", "0x20"]);
    }
}
