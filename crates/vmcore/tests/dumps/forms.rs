//! All forms give the same pages.

use std::sync::atomic::{AtomicU64, Ordering};

use flightrec_format::decode::Page;
use flightrec_vmcore::synthetic::{self, Codec};
use flightrec_vmcore::{Dump, Form, Shortfall};

use crate::support::{Bytes, copied, file, forms, open, recording, scan, scattered};

/// The pages that a dump gives of its newest session but for the metadata, in order.
fn pages(dump: &Dump) -> Vec<Bytes> {
    let scan = scan(dump).unwrap();
    let mut reader = dump.reader();
    scan.sessions[0].pages(0, u64::MAX).map(|page| Box::new(*reader.page(page).unwrap())).collect()
}

#[test]
fn every_form_holds_the_same() {
    let recording = recording(7);
    let mut expected: Vec<Bytes> = recording.clone();
    expected.retain(|page| Page::copy_from(page.as_slice()).unwrap().header().lane == 1);
    let expected: Vec<Bytes> = expected.iter().map(|page| copied(page, 7)).collect();
    for (name, bytes) in forms(&scattered(&recording)) {
        let file = file(&bytes);
        let dump = Dump::open(file.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let done = AtomicU64::new(0);
        let scan = dump.scan(None, &|bytes| _ = done.fetch_add(bytes, Ordering::Relaxed)).unwrap();
        assert_eq!(scan.sessions.len(), 1, "{name}");
        assert_eq!(scan.shortfall, Shortfall::default(), "{name}");
        assert_eq!(scan.rejected, flightrec_vmcore::Rejected::default(), "{name}");
        assert_eq!(done.into_inner(), dump.bytes(), "{name}: progress ends where it should");
        assert_eq!(scan.sessions[0].meta(&dump).unwrap().boot_id, "boot", "{name}");
        assert!(scan.sessions[0].is_whole(&[0, 1 << 20, 0]), "{name}");
        assert!(pages(&dump) == expected, "{name}: other pages");
        assert_eq!(dump.is_flattened(), name.starts_with("flattened"), "{name}");
        let form = match name.trim_start_matches("flattened ") {
            "raw" => Form::Raw,
            name if name.starts_with("elf") => Form::Elf,
            _ => Form::Kdump,
        };
        assert_eq!(dump.form(), form, "{name}");
        assert_eq!(dump.machine(), (form != Form::Raw).then_some("x86_64"), "{name}");
    }
}

/// As on aarch64: the pages of a recording are found inside of a machine's larger ones.
#[test]
fn a_machine_of_larger_pages_holds_the_same() {
    let recording = recording(7);
    let image = scattered(&recording);
    let small = file(&synthetic::kdump(&image, Codec::None));
    let expected = pages(&Dump::open(small.path()).unwrap());
    for bytes in [16 << 10, 64 << 10] {
        for codec in Codec::ALL {
            let large = file(&synthetic::kdump_of_large_pages(&image, codec, bytes));
            let dump = Dump::open(large.path()).unwrap();
            let scan = scan(&dump).unwrap();
            assert_eq!(scan.shortfall, Shortfall::default(), "{bytes} {codec:?}");
            assert_eq!(dump.machine(), Some("aarch64"));
            assert!(pages(&dump) == expected, "{bytes} {codec:?}: other pages");
        }
    }
}

#[test]
fn pages_left_out_are_missing_and_the_rest_is_there() {
    let recording = recording(7);
    let mut image = scattered(&recording);
    let victim = *image.iter().find(|(_, page)| **page == recording[10]).unwrap().0;
    image.remove(&victim);
    for bytes in [synthetic::elf(&image, 0), synthetic::kdump(&image, Codec::Lzo)] {
        let file = file(&bytes);
        let dump = Dump::open(file.path()).unwrap();
        let scan = scan(&dump).unwrap();
        assert!(scan.shortfall.is_none());
        assert!(!scan.sessions[0].is_whole(&[0, 1 << 20, 0]));
        assert_eq!(
            scan.sessions[0].pages(0, u64::MAX).count(),
            recording.len() - 4,
            "3 of metadata, 1 left out"
        );
    }
}

#[test]
fn a_cut_dump_gives_what_is_there() {
    let recording = recording(7);
    for (name, bytes) in forms(&scattered(&recording)) {
        let short = file(&bytes[..bytes.len() * 9 / 10]);
        let dump = Dump::open(short.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let scan = scan(&dump).unwrap();
        let pages: u64 =
            scan.sessions.iter().flat_map(|session| &session.lanes).map(|lane| lane.pages).sum();
        assert!(pages > 0 && pages < recording.len() as u64, "{name}: {pages}");
        assert!(name == "raw" || scan.shortfall.cut > 0, "{name}: {:?}", scan.shortfall);
    }
}

#[test]
fn one_part_of_a_split_dump_is_refused() {
    let mut bytes = synthetic::kdump(&scattered(&recording(7)), Codec::Zlib);
    bytes[4096 + 12] = 1;
    let error = open(&bytes).err().unwrap().to_string();
    assert!(error.contains("--reassemble"), "{error}");
}

#[test]
fn a_writer_without_space_says_so() {
    let mut bytes = synthetic::kdump(&scattered(&recording(7)), Codec::Zlib);
    bytes[424] |= 8;
    let file = file(&bytes);
    assert!(scan(&Dump::open(file.path()).unwrap()).unwrap().shortfall.incomplete);
}
