//! The table of kinds, and what FORMAT.md says of it.

use std::fmt::Write as _;

use flightrec_format::abi::kinds::{BODY_MAX, Form, KINDS_MAX, Kind, Row, Type, Unit, Value};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::counter;
use flightrec_format::decode::Plain;

const FORMAT: &str = include_str!("../../FORMAT.md");

/// The tables of FORMAT.md: the kinds; and, for each lane, the fields of those that have fixed
/// ones.
fn tables() -> Vec<String> {
    let mut kinds = "| kind | number | lane | name | meaning |\n".to_owned();
    kinds.push_str("| --- | ---: | --- | --- | --- |\n");
    for kind in Kind::ALL {
        let (row, lane) = (kind.row(), kind.lane().name());
        let about = row.about.trim();
        writeln!(
            kinds,
            "| {} | {:#04x} | `{lane}` | `{}` | {about} |",
            row.constant, row.number, row.name
        )
        .unwrap();
    }
    let fields = Lane::RINGS.map(fields).into_iter().flatten();
    Some(kinds).into_iter().chain(fields).collect()
}

/// The fields of a lane's kinds; `None`: it has none.
fn fields(lane: Lane) -> Option<String> {
    let mut fields = "| kind | byte | type | field | meaning |\n".to_owned();
    fields.push_str("| --- | ---: | --- | --- | --- |\n");
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.lane() == lane);
    let rows: Vec<&Row> = kinds.map(Kind::row).filter(|row| !row.fields.is_empty()).collect();
    for row in &rows {
        for (i, field) in row.fields.iter().enumerate() {
            let constant = if i == 0 { row.constant } else { "" };
            let unit = unit(field.unit);
            writeln!(
                fields,
                "| {constant} | {} | {} | `{}` | {}{unit} |",
                field.at,
                field.ty.name(),
                field.name,
                field.meaning.trim()
            )
            .unwrap();
        }
    }
    (!rows.is_empty()).then_some(fields)
}

/// ` (thread id)`, ` (0 off, 1 on)`
fn unit(unit: Unit) -> String {
    let value = |&(value, name): &(u64, &str)| match unit {
        Unit::Flags(_) => format!("{value:#x} {name}"),
        _ => format!("{value} {name}"),
    };
    let names = unit.names().iter().map(value);
    let all: Vec<String> = Some(unit.name().to_owned()).into_iter().chain(names).collect();
    match all.join(", ").trim_start_matches(", ") {
        "" => String::new(),
        all => format!(" ({all})"),
    }
}

#[test]
fn the_specification_has_every_kind_and_field() {
    for table in tables() {
        assert!(FORMAT.contains(&table), "FORMAT.md should have:\n{table}");
    }
}

#[test]
fn numbers_names_and_counters_fit_together() {
    for kind in Kind::ALL {
        let (number, lane) = (kind as u8, kind.lane());
        assert_eq!(Kind::from_number(number), Some(kind));
        assert_eq!((kind.row().number, usize::from(number >> 4) - 1), (number, lane as usize));
        assert_eq!(Kind::counted(lane, counter(number)), Some(kind));
        assert_eq!(Kind::ALL[kind.place()], kind);
        assert_eq!(Kind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
    }
    assert_eq!((0..=u8::MAX).filter_map(Kind::from_number).count(), Kind::COUNT);
    assert_eq!(Kind::counted(Lane::Syscall, 2), None);
    assert_eq!(Kind::counted(Lane::Task, KINDS_MAX), None);
}

#[test]
fn fields_stand_one_after_the_other() {
    for kind in Kind::ALL {
        let row = kind.row();
        let size = |ty| match ty {
            Type::U32 | Type::I32 => 4,
            Type::U64 | Type::I64 | Type::SpanId => 8,
            Type::Name | Type::Ip | Type::TraceId => 16,
        };
        let mut at = 0;
        for field in row.fields {
            assert_eq!(field.at, at, "{kind:?}: {}", field.name);
            at += size(field.ty);
        }
        assert_eq!(row.bytes, at);
        assert!(row.form == Form::Own || at > 0);
    }
}

#[test]
fn a_body_is_read_by_its_row() {
    let bytes: Vec<u8> = (1..=BODY_MAX as u8 + 8).collect();
    let fork = Plain::read(Kind::Fork, &bytes).unwrap();
    let values: Vec<Value> = fork.fields().map(|(_, value)| value).collect();
    let comm = std::array::from_fn(|i| i as u8 + 33);
    let expected = [
        Value::Unsigned(0x0403_0201),
        Value::Unsigned(0x0807_0605),
        Value::Unsigned(0x0c0b_0a09),
        Value::Unsigned(0x100f_0e0d),
        Value::Unsigned(0x1817_1615_1413_1211),
        Value::Unsigned(0x201f_1e1d_1c1b_1a19),
        Value::Name(comm),
        Value::Unsigned(0x3837_3635_3433_3231),
    ];
    assert_eq!(values, expected);
    assert_eq!(fork.thread(), Some(0x0403_0201));
    assert_eq!(fork.ids(Unit::Process).collect::<Vec<_>>(), [0x0807_0605, 0x100f_0e0d]);
    assert_eq!(fork.bytes(), &bytes[..56]);
    assert_eq!(Plain::read(Kind::Fork, &bytes[..55]), None);
    assert_eq!(Plain::read(Kind::Mark, &bytes), None, "it has no fields");
}
