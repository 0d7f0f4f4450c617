//! One file, written and read.

use std::fs::File;

use flightrec_format::abi::page::Lane;
use flightrec_store::{Content, FileReader, FileWriter, Kind, StoreError, What, verify};

use crate::support::{content, header, read, small, write};

#[test]
fn what_was_written_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.flight");
    let content = content(2000);
    write(&path, &content);
    let header = header();
    for reader in [FileReader::open(&path).unwrap(), FileReader::walk(&path).unwrap()] {
        assert_eq!((reader.header(), reader.complete(), reader.damage()), (&header, true, &[][..]));
        assert!(read(&reader) == content);
        let of_lane =
            |lane| reader.of(Kind::Pages).filter(move |block| block.header.lane == Some(lane));
        for lane in Lane::RINGS {
            let blocks: Vec<_> = of_lane(lane).map(|block| block.header).collect();
            assert_eq!((blocks[0].first, blocks[0].last), (100, 100 + 1000 * 1000));
            assert_eq!((blocks[1].first, blocks[1].last), (100 + 1001 * 1000, 100 + 1999 * 1000));
            assert_eq!(blocks.iter().map(|block| block.events).sum::<u64>(), 2000);
        }
    }
    let report = verify(&path).unwrap();
    assert_eq!((report.events, report.lost, report.is_sound()), ([2000; 4], 0, true));
    assert_eq!((report.time, report.complete), (Some((100, 100 + 1999 * 1000)), true));
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.flight");
    for bytes in [&b""[..], b"FLTRECBK", &[0; 5000]] {
        std::fs::write(&path, bytes).unwrap();
        let error = FileReader::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::NoRecording { .. }), "{error}");
    }
    let error = FileReader::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("a directory: name a file"), "{error}");
    let error = FileReader::open(dir.path().join("none.flight")).unwrap_err();
    assert!(error.to_string().contains("none.flight: No such file"), "{error}");
}

#[test]
fn unknown_features_are_refused_by_name_only_where_they_matter() {
    let dir = tempfile::tempdir().unwrap();
    let (path, content) = small(dir.path());
    let bytes = std::fs::read(&path).unwrap();
    let with = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[8 + at] = 12;
        let crc = crc32fast::hash(&bytes[8..8 + 92]);
        bytes[8 + 92..8 + 96].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        FileReader::open(&path)
    };
    assert!(read(&with(16).unwrap()) == content);
    let error = with(24).unwrap_err();
    assert!(error.to_string().contains("incompatible bits 2, 3"), "{error}");
}

#[test]
fn blocks_copied_as_they_are_hold_the_same_in_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("a.flight"), dir.path().join("b.flight"));
    let content = content(400);
    write(&first, &content);
    let reader = FileReader::open(&first).unwrap();
    let mut writer = FileWriter::new(File::create(&second).unwrap(), &header(), 1).unwrap();
    for block in reader.blocks().iter().skip(2) {
        writer.push(reader.block(block).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let copy = FileReader::open(&second).unwrap();
    let held: Vec<Content> = copy.blocks().iter().map(|block| copy.read(block).unwrap()).collect();
    assert_eq!(held, content[2..]);
    assert_eq!(
        copy.blocks().iter().map(|block| block.header.number).collect::<Vec<_>>(),
        (0..held.len() as u32).collect::<Vec<_>>()
    );
    // One with a wrong byte is not copied.
    let mut bytes = std::fs::read(&first).unwrap();
    let at = reader.blocks()[0].data() as usize + 20;
    bytes[at] ^= 1;
    std::fs::write(&first, bytes).unwrap();
    let reader = FileReader::open(&first).unwrap();
    assert_eq!(reader.block(&reader.blocks()[0]).unwrap_err().what, What::Checksum);
}
