//! One file, written and read.

use flightrec_format::abi::page::Lane;
use flightrec_store::{Checkpoint, Content, FileHeader, FileReader, FileWriter, Kind, RingMark};

use crate::support::{BOOT, SESSION, enter, meta, pages, ring};

pub(crate) fn header() -> FileHeader {
    FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: BOOT,
        session: SESSION,
        number: 7,
        created_wall: 1_795_262_703_000_000_000,
        created_mono: 40,
    }
}

#[test]
fn what_was_written_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.flight");
    let mut ring = ring(1);
    for i in 0..1000 {
        ring.push(&enter(100 + i * 1000, 5, i)).unwrap();
    }
    let closed = ring.take();
    let pages = pages(&ring, closed);
    let checkpoint = Checkpoint { time: 99, rings: vec![RingMark::new(Lane::Sched, 1)] };
    let mut writer = FileWriter::new(std::fs::File::create(&path).unwrap(), &header(), 1).unwrap();
    writer.meta(&meta(), 60).unwrap();
    writer.descriptors(70, b"descriptors").unwrap();
    writer.pages(&pages).unwrap();
    writer.checkpoint(&checkpoint).unwrap();
    writer.finish().unwrap();
    for reader in [FileReader::open(&path).unwrap(), FileReader::walk(&path).unwrap()] {
        assert_eq!((reader.header(), reader.complete(), reader.damage()), (&header(), true, &[][..]));
        let content: Vec<Content> = reader.blocks().iter().map(|block| reader.read(block).unwrap()).collect();
        let expected = [
            Content::Meta(Box::new(meta())),
            Content::Descriptors(b"descriptors".to_vec()),
            Content::Pages(pages.clone()),
            Content::Checkpoint(checkpoint.clone()),
        ];
        assert!(content == expected);
        let block = reader.of(Kind::Pages).next().unwrap().header;
        assert_eq!((block.first, block.last, block.events), (100, 100 + 999 * 1000, 1000));
    }
}
