//! The default line of a kind of event: its name, and the fields of its row in the table of kinds.

use flightrec_format::abi::kinds::{Field, Unit, Value};
use flightrec_format::decode::Plain;

use super::argument::write_signal;
use super::escape::quote;
use super::number::decimal;
use crate::threads::trim;

/// `(NAME) field=value field=value`; the event's own thread, which begins the line, is left out.
pub(super) fn line(plain: &Plain, out: &mut Vec<u8>) {
    out.push(b'(');
    out.extend(plain.kind().name().bytes().map(|byte| byte.to_ascii_uppercase()));
    out.push(b')');
    for (field, value) in shown(plain) {
        out.push(b' ');
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        write(value, field.unit, out);
    }
}

/// The fields that are shown: all but the event's own thread, and what is reserved.
pub(crate) fn shown(plain: &Plain) -> impl Iterator<Item = (&'static Field, Value)> + '_ {
    let own = usize::from(plain.kind().names_thread());
    plain.fields().skip(own).filter(|(field, _)| field.unit != Unit::Reserved)
}

fn write(value: Value, unit: Unit, out: &mut Vec<u8>) {
    match (value, unit) {
        (Value::Name(comm), _) => quote(trim(&comm), false, out),
        (Value::Unsigned(number), Unit::Signal) => write_signal(number as u32, out),
        (Value::Unsigned(number), _) => decimal(number, out),
        (Value::Signed(number), _) => decimal(number, out),
    }
    if unit == Unit::Ns {
        out.extend_from_slice(b"ns");
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::kinds::{Fork, Kind, Rename, TaskExit};

    use super::*;

    fn text(plain: Option<Plain>) -> String {
        let mut out = Vec::new();
        line(&plain.unwrap(), &mut out);
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
        };
        let expected = "(FORK) parent_tgid=6 tid=9 tgid=8 start_time=12ns \
                        cgroup=18446744073709551615 comm=\"a\\\"b\"";
        assert_eq!(text(Plain::read(Kind::Fork, &fork.bytes())), expected);
        let exit = TaskExit { tid: 7, tgid: 6, code: 9, reserved: 0, start_time: 0, comm };
        let expected = "(EXIT) tgid=6 code=9 start_time=0ns comm=\"a\\\"b\"";
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
        let written = |value, unit| {
            let mut out = Vec::new();
            write(value, unit, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Value::Unsigned(9), Unit::Signal), "SIGKILL");
        assert_eq!(written(Value::Signed(-14), Unit::Plain), "-14");
        assert_eq!(written(Value::Unsigned(14), Unit::Ns), "14ns");
        assert_eq!(written(Value::Unsigned(14), Unit::Bytes), "14");
    }
}
