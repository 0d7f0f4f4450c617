//! The metadata's pages: double-buffered, in any order, damaged.

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::meta::{
    self, Argument, CPUS_MAX, HALF_PAGES, Lacking, Lanes, Meta, MetaError, Syscall, TaiOffset,
};

/// Metadata of a few pages.
fn sample(session: u64, started: u64) -> Meta {
    let args = Some(vec![Argument { name: "filename".into(), ctype: "const char *".into() }]);
    let native =
        (0..400).map(|nr| Syscall { nr, name: format!("call_{nr}"), args: args.clone() }).collect();
    Meta {
        session,
        started,
        host: "näme\n".into(),
        tai_offsets: vec![TaiOffset { since: 0, seconds: -3 }],
        cpus: vec![0, 2],
        native,
        ..Meta::default()
    }
}

fn pack(meta: &Meta, generation: u64) -> Vec<[u8; PAGE_SIZE]> {
    meta::pack(meta, generation, HALF_PAGES).unwrap()
}

#[test]
fn any_order_with_copies_and_strangers() {
    let meta = sample(u64::MAX, 5);
    let mut pages = pack(&meta, 1);
    assert!(pages.len() > 3);
    pages.reverse();
    pages.extend(pages.clone());
    pages.push([0; PAGE_SIZE]);
    pages.push([0xff; PAGE_SIZE]);
    assert_eq!(meta::unpack_generation(&pages).unwrap(), (1, meta));
}

/// As builds before lanes were listed wrote it, and as this one does.
#[test]
fn lanes_are_read_in_either_form() {
    let earlier =
        r#"{"session": 5, "ring_bytes": [8192, 4096, 12288], "off": [false, true, false]}"#;
    let meta = meta::from_json(earlier).unwrap();
    let names: Vec<&str> = meta.lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(names, ["syscall", "sched", "task"]);
    assert_eq!(
        (meta.lanes.ring_bytes(), meta.lanes.off()),
        ([8192, 4096, 12288, 0], [false, true, false, true])
    );
    assert!(!meta.lanes.has_unknown());
    let again = meta::from_json(&meta::to_json(&meta).unwrap()).unwrap();
    assert_eq!(again, meta);
    assert_eq!(meta::from_json(r#"{"session": 5}"#).unwrap().lanes, Lanes::default());
}

/// A lane more, a kind more in a known lane, fields more in either.
#[test]
fn lanes_and_kinds_of_a_later_release_have_names() {
    let later = r#"{"session": 5, "lanes": [
        {"name": "task", "number": 2, "ring_bytes": 4096, "off": false, "of_the_future": {},
         "kinds": [{"number": 48, "name": "fork"}, {"number": 63, "name": "later", "more": 1}]},
        {"name": "net", "number": 4, "ring_bytes": 8192,
         "kinds": [{"number": 80, "name": "drop"}]}]}"#;
    let lanes = meta::from_json(later).unwrap().lanes;
    assert_eq!(lanes.ring_bytes(), [0, 0, 4096, 0]);
    assert_eq!(
        (lanes.kind(63), lanes.kind(80), lanes.kind(64)),
        (Some("later"), Some("drop"), None)
    );
    assert_eq!(lanes.get(4).map(|lane| (lane.name.as_str(), lane.ring_bytes)), Some(("net", 8192)));
    assert!(lanes.has_unknown());
}

#[test]
fn the_greatest_complete_generation_counts() {
    let (old, new) = (sample(7, 5), Meta { strings: true, ..sample(7, 5) });
    let mut pages = pack(&old, 9);
    let newer = pack(&new, 10);
    pages.extend(&newer[1..]);
    assert_eq!(meta::unpack(&pages).unwrap(), old);
    pages.push(newer[0]);
    assert_eq!(meta::unpack(&pages).unwrap(), new);
    // A flipped bit is found by the CRC.
    for page in &mut pages {
        if page[..] == newer[2][..] {
            page[1000] ^= 1;
        }
    }
    assert_eq!(meta::unpack(&pages).unwrap(), old);
}

#[test]
fn what_a_kernel_lacks_is_told_and_no_older_recording_suffers() {
    let lacking = Lacking {
        program: "signal_generate".into(),
        what: "signals".into(),
        kinds: vec!["signal".into()],
        why: "this kernel has no tracepoint signal:signal_generate".into(),
    };
    let meta = Meta { lacking: vec![lacking], ..sample(7, 5) };
    assert_eq!(meta::unpack(pack(&meta, 1)).unwrap(), meta);
    // A document of before has no such field, and neither has one of a kernel that lacks nothing.
    let text = meta::to_json(&sample(7, 5)).unwrap();
    assert!(!text.contains("lacking"), "{text}");
    assert_eq!(meta::from_json(&text).unwrap(), sample(7, 5));
    // One of a later release has more fields.
    let text = meta::to_json(&meta).unwrap().replace("\"why\"", "\"since\":7,\"why\"");
    assert_eq!(meta::from_json(&text).unwrap(), meta);
}

#[test]
fn of_several_sessions_the_last_counts() {
    let (first, second) = (sample(9, 5), sample(3, 6));
    let pages: Vec<_> = pack(&first, 50).into_iter().chain(pack(&second, 1)).collect();
    assert_eq!(meta::unpack(&pages).unwrap(), second);
}

#[test]
fn incomplete_is_an_error() {
    assert!(matches!(meta::unpack::<&[u8]>([]), Err(MetaError::Incomplete { pages: 0 })));
    let pages = pack(&sample(7, 5), 1);
    let missing = pages.len() - 1;
    let rest = meta::unpack(&pages[1..]);
    assert!(matches!(rest, Err(MetaError::Incomplete { pages }) if pages == missing));
}

#[test]
fn too_large_is_an_error() {
    let meta = Meta { config: "x".repeat(HALF_PAGES * 4096), ..sample(7, 5) };
    let error = meta::pack(&meta, 1, HALF_PAGES).unwrap_err();
    assert!(matches!(error, MetaError::TooLarge { .. }), "{error}");
}

#[test]
fn generations_alternate_between_the_halves() {
    assert_eq!([1, 2, 3].map(|g| meta::first_page(g, HALF_PAGES)), [256, 0, 256]);
}

#[test]
fn unknown_fields_are_ignored_and_absent_ones_default() {
    let meta = meta::from_json(r#"{"session": 5, "of_the_future": [1]}"#).unwrap();
    assert_eq!(meta, Meta { session: 5, ..Meta::default() });
    assert!(matches!(meta::from_json("{"), Err(MetaError::Document(_))));
    let sample = sample(u64::MAX - 1, 1);
    assert_eq!(meta::from_json(&meta::to_json(&sample).unwrap()).unwrap(), sample);
}

#[test]
fn more_cpus_than_linux_has_are_an_error() {
    let of = |count: usize| Meta { cpus: (0..count as u16).collect(), ..sample(7, 5) };
    let read = |count| meta::from_json(&meta::to_json(&of(count)).unwrap());
    assert_eq!(read(CPUS_MAX).unwrap(), of(CPUS_MAX));
    let error = read(CPUS_MAX + 1).unwrap_err();
    assert!(matches!(error, MetaError::Document(_)), "{error}");
    assert!(error.to_string().contains("8193 CPUs"), "{error}");
}
