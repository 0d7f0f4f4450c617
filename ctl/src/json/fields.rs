//! The default object of a kind of event: the fields of its row in the table of kinds.

use flightrec_format::abi::kinds::Value;
use flightrec_format::decode::Plain;

use super::value;
use crate::text::argument::Number;
use crate::text::devices::Devices;
use crate::text::fields::{shown, write};

/// `,"field":value,"field":value`
pub(super) fn object(plain: &Plain, devices: &Devices, out: &mut Vec<u8>) {
    for (field, value) in shown(plain) {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(field.name.as_bytes());
        out.extend_from_slice(b"\":");
        match (value, field.unit) {
            (Value::Name(comm), _) => value::comm(&comm, out),
            (value @ (Value::Ip(_) | Value::TraceId(_) | Value::SpanId(_)), unit) => {
                value::printed(|out| write(plain, value, unit, devices, out), out);
            }
            (value, unit) if unit.is_named() => {
                value::printed(|out| write(plain, value, unit, devices, out), out);
            }
            (Value::Unsigned(number), _) => value::number(Number::Unsigned(number), out),
            (Value::Signed(number), _) => value::number(Number::Signed(number), out),
        }
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::kinds::{Fork, Kind, Type, Unit};
    use serde_json::{Value as Json, json};

    use super::*;

    /// The schema of the object's lines, as they are documented.
    const SCHEMA: &str = include_str!("../../../docs/flightctl-dump.schema.json");
    /// What is absent where it is not known.
    const KNOWN: [&str; 11] = [
        "queue_ns",
        "service_ns",
        "issued_by",
        "submitted_by",
        "fd",
        "file",
        "function",
        "path",
        "build_id",
        "depth",
        "duration_ns",
    ];
    /// What every event has.
    const COMMON: [&str; 7] = ["time", "mono_ns", "cpu", "tid", "pid", "comm", "event"];

    #[test]
    fn the_default_object_has_all_fields_but_the_events_thread() {
        let comm = *b"abc\0\0\0\0\0\0\0\0\0\0\0\0\0";
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
        let mut out = b"{\"event\":\"fork\"".to_vec();
        let fork = Plain::read(Kind::Fork, &fork.bytes()).unwrap();
        object(&fork, &Devices::default(), &mut out);
        out.push(b'}');
        let expected = json!({"event": "fork", "parent_tgid": 6, "tid": 9, "tgid": 8,
            "start_time": 12, "cgroup": "0xffffffffffffffff", "comm": "abc",
            "shares": "0"});
        assert_eq!(serde_json::from_slice::<Json>(&out).unwrap(), expected);
    }

    /// What the schema must say of what the reader finds out of a request to a disk, of an
    /// operation of io_uring, or of a function that is probed.
    fn known(kind: Kind) -> impl Iterator<Item = (String, Json)> {
        let schema: Json = serde_json::from_str(SCHEMA).unwrap();
        let (def, names): (_, &[&str]) = match kind {
            Kind::BlockIssue => ("event_block_complete", &["queue_ns", "issued_by"]),
            Kind::BlockComplete => ("event_block_complete", &KNOWN[..3]),
            Kind::IoComplete => {
                ("event_io_complete", &["submitted_by", "duration_ns", "fd", "file"])
            }
            Kind::Function => ("event_function", &KNOWN[6..]),
            _ => ("", &[]),
        };
        names.iter().map(move |name| {
            let of = &schema["$defs"][def]["properties"][*name];
            assert!(of["description"].is_string(), "{name}");
            ((*name).to_owned(), of.clone())
        })
    }

    /// What the schema must say of a kind's fields.
    fn described(kind: Kind) -> serde_json::Map<String, Json> {
        let own = usize::from(kind.names_thread());
        let fields = kind.row().fields.iter().skip(own);
        let fields = fields.filter(|field| field.unit != Unit::Reserved);
        let of_field = |field: &flightrec_format::abi::kinds::Field| {
            let of_type = match (field.ty, field.unit) {
                (Type::Name, _) => "comm",
                (Type::Ip | Type::TraceId | Type::SpanId, _) => "printable",
                (_, unit) if unit.is_named() => "printable",
                (_, Unit::Thread | Unit::Process) => "id",
                _ => "number",
            };
            let meaning = field.meaning.trim();
            let value = json!({"$ref": format!("#/$defs/{of_type}"), "description": meaning});
            (field.name.to_owned(), value)
        };
        fields.map(of_field).chain(known(kind)).collect()
    }

    #[test]
    fn the_schema_describes_every_kind() {
        let schema: Json = serde_json::from_str(SCHEMA).unwrap();
        let listed = |at: &str| -> Vec<String> {
            let list = schema.pointer(at).unwrap_or_else(|| panic!("no {at}"));
            serde_json::from_value(list.clone()).unwrap()
        };
        for kind in Kind::ALL {
            // The recorder's own lines are events of other names.
            let lists = ["/$defs/kind/enum", "/properties/event/enum"];
            let lists = lists.iter().take(if kind == Kind::Recorder { 1 } else { 2 });
            for list in lists {
                assert!(listed(list).iter().any(|name| name == kind.name()), "{list}: {kind:?}");
            }
        }
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_plain()) {
            let name = kind.name();
            let at = format!("event_{name}");
            let mut expected = described(kind);
            for field in COMMON {
                assert!(!expected.contains_key(field), "{name}: `{field}` is every event's");
            }
            let all: Vec<&str> =
                COMMON.into_iter().chain(expected.keys().map(String::as_str)).collect();
            let all: Vec<&str> = all.into_iter().filter(|field| !KNOWN.contains(field)).collect();
            let required = json!(all);
            for (field, of) in [
                ("time", "time"),
                ("mono_ns", "ns"),
                ("cpu", "cpu"),
                ("tid", "id"),
                ("pid", "id"),
                ("comm", "comm"),
                ("container", "container"),
                ("container_name", "container_name"),
                ("pod", "pod"),
                ("pod_uid", "pod_uid"),
                ("namespace", "namespace"),
                ("image", "image"),
                ("trace_id", "trace_id"),
                ("span_id", "span_id"),
            ] {
                expected.insert(field.to_owned(), json!({"$ref": format!("#/$defs/{of}")}));
            }
            expected.insert("event".to_owned(), json!({"const": name}));
            let about = kind.row().about.trim();
            let expected = json!({"type": "object", "description": about, "properties": expected,
                "required": required, "additionalProperties": false});
            let found = &schema["$defs"][&at];
            assert_eq!(found, &expected, "write into the schema:\n\"{at}\": {expected:#}");
            let chosen = json!({"if": {"properties": {"event": {"const": name}}},
                "then": {"$ref": format!("#/$defs/{at}")}});
            assert!(schema["allOf"].as_array().unwrap().contains(&chosen), "{chosen}");
        }
    }
}
