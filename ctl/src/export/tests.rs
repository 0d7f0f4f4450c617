//! Exports of anything at all are valid.

use std::io::Read as _;

use proptest::prelude::*;

use flightrec_export::Exporter;
use flightrec_export::chrome::Chrome;
use flightrec_export::ctf::Ctf;
use flightrec_export::parquet::{Parquet, Sums, Table};
use flightrec_export::perfetto::Perfetto;
use flightrec_export::profile::{Form, Profile};
use flightrec_export::redact::Redact;
use flightrec_export::trace_dat::TraceDat;
use flightrec_format::control::Totals;
use flightrec_format::meta::Meta;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::fds::Naming;
use flightrec_reader::pipeline::testing::event;
use flightrec_reader::source::{Collector, PageSet};
use flightrec_reader::window::Window;

use super::Export;
use crate::filter::FilterPlan;
use crate::print;
use crate::print::tests::page;
use crate::render::{Format as _, Start};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::StringStatus;
use flightrec_format::decode::{Body, Text};
use flightrec_format::encode::PageWriter;

/// All of a recording, exported.
fn exported(recording: &PageSet, exporter: Box<dyn Exporter>) -> Vec<u8> {
    let export = Export::new(exporter, Naming::Near);
    let mut wall = recording.wall_clock(0);
    let windows = Window { from: 0, until: u64::MAX }.into();
    let reports = [Coverage::new(recording, Window { from: 0, until: 1 << 40 }, 1 << 41)];
    let mut start =
        Start { recording, reports: &reports, coverage: &[], windows: &windows, wall: &mut wall };
    let mut out = export.begin(&mut start);
    let mut events = export.events(&recording.meta);
    events.expect(&mut start);
    let filter = FilterPlan::all().resolve(&recording.meta).unwrap();
    print::run(recording, Window::ALL, &filter, wall, events, &mut out).unwrap();
    assert!(export.error().is_none());
    let end = export.end(|bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    });
    end.unwrap();
    out
}

/// A field of a message of protocol buffers.
#[derive(Debug)]
enum Field {
    Number,
    Bytes(Vec<u8>),
}

/// The fields of a message; `None`: it is none.
fn message(mut bytes: &[u8]) -> Option<Vec<(u64, Field)>> {
    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let field = match tag & 7 {
            0 => {
                varint(&mut bytes)?;
                Field::Number
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Field::Bytes(value.to_vec())
            }
            _ => return None,
        };
        fields.push((tag >> 3, field));
    }
    Some(fields)
}

/// The messages in a field.
fn messages(of: &[u8], field: u64) -> Vec<Vec<u8>> {
    let fields = message(of).expect("a message");
    let bytes = fields.into_iter().filter(|(number, _)| *number == field);
    bytes
        .filter_map(|(_, field)| if let Field::Bytes(bytes) = field { Some(bytes) } else { None })
        .collect()
}

fn assert_texts(all: &[Vec<u8>]) {
    for text in all {
        assert_text(text);
    }
}

fn assert_text(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
}

/// Checks a trace of Perfetto, and returns all texts of its annotations.
fn check_perfetto(trace: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    for packet in messages(trace, 1) {
        for compressed in messages(&packet, 50) {
            let mut plain = Vec::new();
            flate2::read::ZlibDecoder::new(&compressed[..]).read_to_end(&mut plain).unwrap();
            for packet in messages(&plain, 1) {
                for interned in messages(&packet, 12) {
                    for of in [1, 2, 3, 5, 16, 17, 26] {
                        for text in messages(&interned, of) {
                            assert_texts(&messages(&text, 2));
                        }
                    }
                }
                for slice in messages(&packet, 11) {
                    for note in messages(&slice, 4) {
                        for text in messages(&note, 6) {
                            assert_text(&text);
                            texts.push(String::from_utf8(text).unwrap());
                        }
                    }
                }
                for tree in messages(&packet, 2) {
                    for thread in messages(&tree, 2) {
                        assert_texts(&messages(&thread, 2));
                    }
                }
                for bundle in messages(&packet, 1) {
                    assert!(messages(&bundle, 2).iter().all(|event| message(event).is_some()));
                    for compact in messages(&bundle, 4) {
                        assert_texts(&messages(&compact, 5));
                    }
                }
            }
        }
    }
    texts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_pages_are_exported(pages in prop::collection::vec(page(), 0..12)) {
        let meta = Meta { session: 1, cpus: vec![0, 1], ..Meta::default() };
        let mut collector = Collector::new(meta);
        for page in &pages {
            collector.add(page).unwrap();
        }
        let recording = collector.finish(Totals::default());
        check_perfetto(&exported(&recording, Box::new(Perfetto::new())));
    }
}

/// Marks, whose text anybody may choose.
fn marks(texts: &[&[u8]]) -> PageSet {
    let mut collector = Collector::new(Meta { session: 1, cpus: vec![0], ..Meta::default() });
    let mut pages = PageWriter::new(1, Lane::Task, 0, 0);
    for (time, bytes) in (1000..).zip(texts) {
        let text = Text { index: 0, status: StringStatus::Whole, bytes: (*bytes).into() };
        pages.push(&event(time, 0, 7, Body::Mark(text))).unwrap();
    }
    for page in pages.finish() {
        collector.add(page.as_slice()).unwrap();
    }
    collector.finish(Totals::default())
}

const HOSTILE: [&[u8]; 6] = [
    b"plain",
    b"\x1b[2J\"}],{\\",
    b"\xff\xfe;a b",
    "\u{202e}gnp.exe".as_bytes(),
    b"</script><b>",
    b"=cmd|'/c calc'!A0",
];

#[test]
fn perfetto_takes_hostile_texts() {
    let texts = check_perfetto(&exported(&marks(&HOSTILE), Box::new(Perfetto::new())));
    for expected in ["plain", "\\33[2J\"}],{\\\\", "\\377\\376;a b", "</script><b>"] {
        assert!(texts.iter().any(|text| text == expected), "{expected}: {texts:?}");
    }
}

/// Chrome's and speedscope's JSON, and folded stacks, are what they say, whatever is recorded.
fn check_texts(recording: &PageSet) -> Vec<String> {
    let chrome = exported(recording, Box::new(Chrome::new()));
    let document: serde_json::Value = serde_json::from_slice(&chrome).expect("JSON");
    let events = document["traceEvents"].as_array().expect("a list");
    let mut depth = std::collections::BTreeMap::<(u64, u64), i64>::new();
    for event in events {
        let number = |key: &str| event[key].as_u64().expect("a number");
        let of = (number("pid"), number("tid"));
        let by = match event["ph"].as_str().expect("a phase") {
            "B" => 1,
            "E" => -1,
            "X" => i64::from(!event["dur"].is_number()) * 99,
            _ => 0,
        };
        *depth.entry(of).or_default() += by;
    }
    assert!(depth.values().all(|depth| *depth < 99), "each slice has its length");
    let scope = exported(recording, Box::new(Profile::new(Form::Speedscope)));
    let scope: serde_json::Value = serde_json::from_slice(&scope).expect("JSON");
    let schema = serde_json::from_str(include_str!(
        "../../../tests/judges/speedscope/file-format-schema.json"
    ))
    .expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(&scope).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let folded = exported(recording, Box::new(Profile::new(Form::Folded)));
    let folded = String::from_utf8(folded).expect("UTF-8");
    for line in folded.lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        assert!(!stack.is_empty() && weight.parse::<u64>().is_ok(), "{line:?}");
    }
    events.iter().filter_map(|event| event["args"]["text"].as_str().map(str::to_owned)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_pages_are_exported_as_text(pages in prop::collection::vec(page(), 0..12)) {
        let meta = Meta { session: 1, cpus: vec![0, 1], ..Meta::default() };
        let mut collector = Collector::new(meta);
        for page in &pages {
            collector.add(page).unwrap();
        }
        check_texts(&collector.finish(Totals::default()));
    }
}

#[test]
fn texts_take_hostile_texts() {
    let texts = check_texts(&marks(&HOSTILE));
    for expected in ["plain", "\\33[2J\"}],{\\\\", "\\377\\376;a b", "</script><b>"] {
        assert!(texts.iter().any(|text| text == expected), "{expected}: {texts:?}");
    }
}

/// The formats of several files, and those that wait in one, are whole, whatever is recorded.
/// Returns CTF's metadata and its events, and the bytes of trace.dat.
fn check_files(recording: &PageSet) -> (String, Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let tables = dir.path().join("tables");
    std::fs::create_dir(&tables).unwrap();
    let sums = Sums::None("there are none");
    assert!(
        exported(recording, Box::new(Parquet::new(&tables, sums, Redact::default()))).is_empty()
    );
    for table in Table::ALL {
        let bytes = std::fs::read(tables.join(format!("{}.parquet", table.name()))).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{}", table.name());
    }
    let trace = dir.path().join("ctf");
    std::fs::create_dir(&trace).unwrap();
    assert!(exported(recording, Box::new(Ctf::new(&trace))).is_empty());
    let mut events = Vec::new();
    let mut metadata = String::new();
    for entry in std::fs::read_dir(trace.join("kernel")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if path.ends_with("metadata") {
            metadata = String::from_utf8(bytes).expect("UTF-8");
            continue;
        }
        // Packet after packet, to the end.
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            assert_eq!(rest[..4], 0xc1fc_1fc1_u32.to_le_bytes());
            let bits = u64::from_le_bytes(rest[56..64].try_into().unwrap());
            rest = &rest[usize::try_from(bits / 8).unwrap()..];
        }
        events.extend(bytes);
    }
    assert!(metadata.chars().all(|c| !c.is_control() || c == '\n'), "{metadata:?}");
    assert_eq!(metadata.matches('{').count(), metadata.matches('}').count(), "{metadata}");
    let dat = exported(recording, Box::new(TraceDat::new(dir.path()).unwrap()));
    assert!(dat.starts_with(b"\x17\x08\x44tracing6\0") && dat.len().is_multiple_of(4096));
    (metadata, events, dat)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn any_pages_are_exported_as_files(pages in prop::collection::vec(page(), 0..12)) {
        let meta = Meta { session: 1, cpus: vec![0, 1], ..Meta::default() };
        let mut collector = Collector::new(meta);
        for page in &pages {
            collector.add(page).unwrap();
        }
        check_files(&collector.finish(Totals::default()));
    }
}

#[test]
fn files_take_hostile_texts() {
    let (_, events, dat) = check_files(&marks(&HOSTILE));
    let holds = |all: &[u8], text: &[u8]| all.windows(text.len()).any(|part| part == text);
    for expected in ["plain", "\\33[2J\"}],{\\\\", "\\377\\376;a b", "</script><b>"] {
        let text = [expected.as_bytes(), b"\0"].concat();
        // In trace.dat a text that may look like several fields is quoted.
        let quoted = format!("text=\"{}\"\0", expected.replace('"', "\\\""));
        let bare = format!("text={expected}\0");
        let is_in_dat = [quoted, bare].iter().any(|text| holds(&dat, text.as_bytes()));
        assert!(holds(&events, &text) && is_in_dat, "{expected}");
    }
}
