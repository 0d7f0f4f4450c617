//! Damage costs what was damaged, no more, and is told.

use std::path::Path;

use flightrec_format::abi::page::Lane;
use flightrec_format::encode::PageWriter;
use flightrec_store::{BlockRef, Content, FileReader, Kind, verify};
use proptest::prelude::*;

use crate::support::{SESSION, content, event, meta, pages, read, small, tidy, write};

/// A good file: its bytes, its blocks, what they hold.
struct Good {
    bytes: Vec<u8>,
    blocks: Vec<BlockRef>,
    content: Vec<Content>,
}

impl Good {
    fn new(path: &Path, content: Vec<Content>) -> Self {
        let reader = FileReader::open(path).unwrap();
        let good =
            Self { bytes: std::fs::read(path).unwrap(), blocks: reader.blocks().to_vec(), content };
        assert!(read(&reader) == good.content);
        good
    }

    /// The blocks that are whole in `bytes`, which a change of `range` made of the file's.
    fn outside(&self, range: std::ops::Range<u64>) -> Vec<Content> {
        // Nothing is lost by a summary.
        let untouched =
            |block: &BlockRef| block.summary() <= range.start || block.offset >= range.end;
        self.blocks
            .iter()
            .zip(&self.content)
            .filter(|(b, _)| untouched(b))
            .map(|(_, c)| c.clone())
            .collect()
    }

    fn is_boundary(&self, at: u64) -> bool {
        self.blocks.iter().any(|block| block.offset == at || block.end() == at)
    }
}

/// Holds what a reader makes of a damaged file against what is left of it. By a good index, even
/// blocks with damaged headers can be read.
fn check(path: &Path, good: &Good, left: &[Content], told: bool) {
    let opened = match FileReader::open(path) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(left.is_empty(), "{error}");
            return;
        }
    };
    let found = read(&opened);
    if opened.complete() {
        assert!(left.iter().all(|content| found.contains(content)));
        assert!(found.iter().all(|content| good.content.contains(content)));
    } else {
        assert!(found == left);
    }
    let report = verify(path).unwrap();
    assert_eq!(report.blocks, found.len());
    assert_eq!(!report.is_sound(), told);
    for damage in &report.damage {
        assert!(damage.offset + damage.bytes <= report.size, "{damage:?}");
    }
}

#[test]
fn cut_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (path, content) = small(dir.path());
    let good = Good::new(&path, content);
    let size = good.bytes.len() as u64;
    for cut in 0..size {
        std::fs::write(&path, &good.bytes[..cut as usize]).unwrap();
        check(&path, &good, &good.outside(cut..size), !good.is_boundary(cut));
    }
}

#[test]
fn every_byte_flipped() {
    let dir = tempfile::tempdir().unwrap();
    let (path, content) = small(dir.path());
    let good = Good::new(&path, content);
    for at in 0..good.bytes.len() {
        let mut bytes = good.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).unwrap();
        check(&path, &good, &good.outside(at as u64..at as u64 + 1), true);
    }
}

#[test]
fn a_large_file_cut_and_flipped_here_and_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.flight");
    let mut all = content(2000);
    for _ in 0..4 {
        all.extend(content(4000));
    }
    write(&path, &all);
    let good = Good::new(&path, all);
    let size = good.bytes.len() as u64;
    for i in 0..60 {
        let at = size * i / 60 + i;
        std::fs::write(&path, &good.bytes[..at as usize]).unwrap();
        check(&path, &good, &good.outside(at..size), !good.is_boundary(at));
        let mut bytes = good.bytes.clone();
        bytes[at as usize] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        check(&path, &good, &good.outside(at..at + 1), true);
    }
}

#[test]
fn what_is_lost_is_told_by_lane_time_and_number() {
    let dir = tempfile::tempdir().unwrap();
    let (path, content) = small(dir.path());
    let good = Good::new(&path, content);
    // The first pages of system calls.
    let block = good.blocks[4];
    let mut bytes = good.bytes.clone();
    bytes[block.data() as usize + 9] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let report = verify(&path).unwrap();
    let expected = format!(
        "at {}: {} bytes of data are damaged (wrong checksum); lost: 7 events of lane syscall",
        block.offset,
        block.end() - block.offset
    );
    assert_eq!(report.damage.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    assert_eq!(report.damage[0].block.as_deref(), Some(&block.header));
    assert_eq!((block.header.first, block.header.last), (100, 6100));
    assert_eq!(report.events, [5, 12, 12, 12]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_taken_out_put_in_or_overwritten(
        at in any::<prop::sample::Index>(),
        gone in 0..2000usize,
        new in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (path, content) = small(dir.path());
        let good = Good::new(&path, content);
        let at = at.index(good.bytes.len());
        let end = (at + gone).min(good.bytes.len());
        let mut bytes = good.bytes.clone();
        bytes.splice(at..end, new.iter().copied());
        std::fs::write(&path, &bytes).unwrap();
        let left = good.outside(at as u64..end as u64);
        match FileReader::open(&path) {
            Ok(reader) => {
                // Bytes that were put in between two blocks cost none of them.
                let found = read(&reader);
                prop_assert!(left.iter().all(|content| found.contains(content)));
                prop_assert!(found.iter().all(|content| good.content.contains(content)));
                let is_sound =
                    bytes == good.bytes || end == bytes.len() && good.is_boundary(at as u64);
                prop_assert_eq!(verify(&path).unwrap().is_sound(), is_sound);
            }
            Err(error) => prop_assert!(left.is_empty(), "{}", error),
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.flight");
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(FileReader::open(&path).is_err());
    }
}

/// A block's header tells how many pages it holds: whoever says less, to be read as if it were
/// small, is not read at all.
#[test]
fn a_block_holds_as_many_pages_as_its_header_tells() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.flight");
    let mut ring = PageWriter::new(SESSION, Lane::Sched, 1, 0);
    (0..600).for_each(|i| ring.push(&event(Lane::Sched, 1000 + i * 500, 70, i)).unwrap());
    let content = vec![Content::Meta(Box::new(meta())), Content::Pages(tidy(&pages(&mut ring)))];
    write(&path, &content);
    let reader = FileReader::open(&path).unwrap();
    let told: Vec<usize> = reader.of(Kind::Pages).map(|block| block.header.pages.into()).collect();
    let held = content.iter().filter_map(|content| {
        if let Content::Pages(pages) = content { Some(pages.len()) } else { None }
    });
    assert_eq!(told, held.collect::<Vec<_>>());
    let block = *reader.of(Kind::Pages).find(|block| block.header.pages > 1).unwrap();
    let walked = FileReader::walk(&path).unwrap();
    assert_eq!(walked.blocks(), reader.blocks(), "the index says the same");
    let bytes = std::fs::read(&path).unwrap();
    // Of its frame: after 8 bytes, the header, which ends in its checksum.
    let header = block.offset as usize + 8..block.data() as usize;
    for (pages, is_read) in
        [(1, false), (block.header.pages + 1, false), (0, false), (block.header.pages, true)]
    {
        let mut forged = bytes.clone();
        let head = &mut forged[header.clone()];
        head[14..16].copy_from_slice(&pages.to_le_bytes());
        let (head, crc) = head.split_at_mut(92);
        crc.copy_from_slice(&crc32fast::hash(head).to_le_bytes());
        std::fs::write(&path, &forged[..forged.len() - 56]).unwrap();
        let reader = FileReader::open(&path).unwrap();
        let block = reader.blocks().iter().find(|found| found.offset == block.offset).unwrap();
        assert_eq!(block.header.pages, pages);
        let read = reader.read(block);
        assert_eq!(read.is_ok(), is_read, "{pages}: {read:?}");
    }
}
