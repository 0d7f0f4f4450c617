//! Whatever a file holds: an answer in plain words, no panic, bounded memory.

use std::os::unix::fs::FileExt;

use flightrec_format::identity::public_id;
use flightrec_vmcore::synthetic::{self, Codec};
use proptest::prelude::*;

use crate::support::{description, file, forms, open, recording, ring, scan, scattered};

/// Reads as far as it goes.
fn try_all(bytes: &[u8]) {
    let file = file(bytes);
    let Ok(dump) = flightrec_vmcore::Dump::open(file.path()) else { return };
    let scan = scan(&dump).unwrap();
    let mut reader = dump.reader();
    for session in &scan.sessions {
        let _ = session.meta(&dump);
        let pages: Vec<_> = session.pages(0, u64::MAX).chain(session.newest()).collect();
        assert!(pages.iter().all(|page| reader.page(page).is_some()));
    }
}

/// Small enough to be tried a thousand times over.
fn small() -> Vec<(String, Vec<u8>)> {
    forms(&scattered(&[description(7, "b", 1), ring(7, 0, 10, 60)].concat()))
}

#[test]
fn cut_anywhere() {
    for (_, bytes) in small() {
        // Every byte of the headers, and some of the rest.
        let heads = (0..200).chain(4090..4400).chain(8180..8400);
        for cut in heads.chain((0..bytes.len()).step_by(4999)) {
            try_all(&bytes[..cut.min(bytes.len())]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn flipped_bytes(
        flips in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 0usize..3),
            1..6,
        ),
    ) {
        for (_, mut bytes) in small() {
            for (place, value, region) in &flips {
                // Headers are a small part of a file, and the part that matters.
                let within = [128, 9000, bytes.len()][*region].min(bytes.len());
                let place = place.index(within);
                bytes[place] = *value;
            }
            try_all(&bytes);
        }
    }

    #[test]
    fn noise_after_a_signature(
        noise in prop::collection::vec(any::<u8>(), 0..9000),
        which in 0usize..4,
    ) {
        let signatures =
            [&b"\x7fELF\x02\x01\x01"[..], b"KDUMP   \x06\0\0\0", b"makedumpfile\0\0\0\0", b""];
        let signature: &[u8] = signatures[which];
        try_all(&[signature, &noise].concat());
    }
}

#[test]
fn numbers_that_would_take_all_memory_are_refused() {
    // 2^32 - 1 segments, as the first section says.
    let mut elf = synthetic::elf(&scattered(&recording(7)), 4096);
    elf[56..58].copy_from_slice(&0xffffu16.to_le_bytes());
    elf[40..48].copy_from_slice(&128u64.to_le_bytes());
    elf[58..60].copy_from_slice(&64u16.to_le_bytes());
    elf[60..62].copy_from_slice(&1u16.to_le_bytes());
    elf[128 + 44..128 + 48].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(open(&elf).err().unwrap().to_string().contains("segments"));
    // Bitmaps of a petabyte's pages, in a file of some pages.
    let mut kdump = synthetic::kdump(&scattered(&recording(7)), Codec::Zlib);
    kdump[436..440].copy_from_slice(&u32::MAX.to_le_bytes());
    kdump[4096 + 96..4096 + 104].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(open(&kdump).is_err());
    // A block that ends beyond all files.
    let mut flat = synthetic::flatten(&kdump, 5000);
    flat[4096 + 8..4096 + 16].copy_from_slice(&i64::MAX.to_be_bytes());
    flat[4096..4096 + 8].copy_from_slice(&i64::MAX.to_be_bytes());
    assert!(open(&flat).err().unwrap().to_string().contains("block at byte 4096"));
}

#[test]
fn a_file_that_stands_for_exabytes_of_nothing_takes_no_time() {
    // Found by `cargo xtask fuzz flattened`: an ELF file of one segment of 2^60 bytes, of which the
    // flattened file has two pages.
    let mut elf = synthetic::elf(&scattered(&[]), 4096);
    elf[56..58].copy_from_slice(&1u16.to_le_bytes());
    elf[64 + 32..64 + 40].copy_from_slice(&(1u64 << 60).to_le_bytes());
    let mut flat = synthetic::flatten(&elf[..8192], 4096);
    flat.truncate(flat.len() - 16);
    flat.extend([1u64 << 61, 4096].map(u64::to_be_bytes).concat());
    flat.extend([0x5a; 4096]);
    flat.extend([0xff; 16]);
    let file = file(&flat);
    let dump = flightrec_vmcore::Dump::open(file.path()).unwrap();
    assert!(dump.bytes() >= 1 << 59, "{}", dump.bytes());
    assert!(scan(&dump).unwrap().sessions.is_empty());
}

#[test]
fn other_files_are_named() {
    let mut program = synthetic::elf(&scattered(&recording(7)), 0);
    program[16] = 2;
    let mut other_version = synthetic::kdump(&scattered(&recording(7)), Codec::Zlib);
    other_version[8] = 9;
    let mut pages_128k = synthetic::kdump(&scattered(&recording(7)), Codec::Zlib);
    pages_128k[428..432].copy_from_slice(&(1u32 << 17).to_le_bytes());
    let expected: [(&[u8], &str); 9] = [
        (b"", "empty"),
        (b"\x1f\x8b\x08", "gunzip"),
        (b"\x7fELF\x01\x01\x01", "cut"),
        (b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x03\0", "32-bit"),
        (b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x04\0\x16", "big-endian"),
        (&program, "no core file"),
        (&other_version, "version 9"),
        (&pages_128k, "131072 bytes"),
        (b"KDUMP   ", "cut inside its headers"),
    ];
    for (bytes, words) in expected {
        let error = open(bytes).err().unwrap().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let error =
        flightrec_vmcore::Dump::open(std::path::Path::new("/dev/null")).err().unwrap().to_string();
    assert!(error.contains("a character device: name a file"), "{error}");
}

#[test]
fn a_machine_without_a_recorder_has_no_sessions() {
    for (name, bytes) in forms(&scattered(&[])) {
        let file = file(&bytes);
        let dump = flightrec_vmcore::Dump::open(file.path()).unwrap();
        assert!(scan(&dump).unwrap().sessions.is_empty(), "{name}");
    }
}

/// A file of 1 TiB that is all holes but for a recording: as long as that takes, not as a read of
/// all of it.
#[test]
fn a_sparse_dump_takes_the_time_of_what_is_in_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 40).unwrap();
    let pages = recording(7);
    for (place, page) in (900u64 << 18..).zip(&pages) {
        file.as_file().write_all_at(&page[..], place << 12).unwrap();
    }
    let path = file.path().to_owned();
    let (send, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let scan = flightrec_vmcore::Dump::open(&path).unwrap().scan(None, &|_| ()).unwrap();
        send.send((scan.sessions.len(), scan.sessions[0].id, scan.shortfall.is_none()))
    });
    let found =
        answer.recv_timeout(std::time::Duration::from_secs(20)).expect("it reads the holes");
    assert_eq!(found, (1, public_id(7), true));
}
