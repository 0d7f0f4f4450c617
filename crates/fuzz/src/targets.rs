//! The parsers of what comes from outside.

use std::fs;
use std::num::NonZero;
use std::path::Path;

use anyhow::Result;
use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::containers::Containers;
use flightrec_format::control::{self, Request, Response};
use flightrec_format::decode::Page;
use flightrec_format::descriptors::Snapshot;
use flightrec_format::{meta, part, slots};
use flightrec_store::{FileReader, columns, verify};
use flightrec_sums::codec;
use flightrec_sums::file::SumsFile;
use flightrec_vmcore::Dump;

use flightrec_fuzz::{seal, seeds};

/// A parser.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Inputs that are whole.
    pub(crate) seeds: fn() -> Result<Vec<Vec<u8>>>,
    /// Goes as far with an input as the product does.
    pub(crate) run: fn(&[u8]) -> Result<()>,
    /// Makes checksums right again, so that what is after them is reached.
    pub(crate) seal: Option<fn(&mut [u8])>,
}

/// All there are.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "page", seeds: seeds::pages, run: page, seal: None },
    Target { name: "meta", seeds: seeds::meta_pages, run: metadata, seal: Some(seal_chunks) },
    Target { name: "descriptors", seeds: seeds::descriptors, run: descriptors, seal: None },
    Target { name: "control", seeds: seeds::messages, run: message, seal: None },
    Target { name: "columns", seeds: seeds::columns, run: decode_columns, seal: None },
    Target { name: "file", seeds: seeds::files, run: file, seal: Some(seal_of_file) },
    Target { name: "sums", seeds: seeds::sums, run: sums, seal: Some(seal_of_sums) },
    Target { name: "sums-data", seeds: seeds::sums_data, run: sums_data, seal: None },
    Target { name: "elf", seeds: seeds::elf, run: dump, seal: None },
    Target { name: "kdump", seeds: seeds::kdump, run: dump, seal: None },
    Target { name: "flattened", seeds: seeds::flattened, run: dump, seal: None },
];

fn page(bytes: &[u8]) -> Result<()> {
    let _ = slots::read(bytes).count();
    let page = Page::copy_from(bytes)?;
    let summary = page.summary();
    let events = page.events().count();
    assert!(events <= PAGE_SIZE / 6, "{events} events in a page");
    assert!(
        summary.counts.iter().sum::<u64>() <= PAGE_SIZE as u64 / 6,
        "more counted than a page holds"
    );
    let first = part::start(page.header());
    for at in [first, first.midpoint(page.header().used)] {
        let head = part::head(&page, at);
        if let Some(tail) = part::tail(&page, at) {
            let _ = part::join(&head, &tail);
        }
    }
    Ok(())
}

fn metadata(bytes: &[u8]) -> Result<()> {
    let meta = meta::unpack(bytes.chunks(PAGE_SIZE))?;
    Containers::new(&meta).iter().for_each(|(_, of)| drop(of.label()));
    Ok(())
}

fn descriptors(bytes: &[u8]) -> Result<()> {
    let snapshot = Snapshot::decode(bytes)?;
    // What was understood can be said again.
    assert_eq!(
        Snapshot::decode(&snapshot.encode()).as_ref().ok(),
        Some(&snapshot),
        "not the same again"
    );
    Ok(())
}

fn message(bytes: &[u8]) -> Result<()> {
    let request = control::decode::<Request>(bytes).map(drop);
    control::decode::<Response>(bytes).map(drop).or(request)?;
    Ok(())
}

fn decode_columns(bytes: &[u8]) -> Result<()> {
    let pages = columns::decode(bytes)?;
    for page in pages {
        page.summary();
    }
    Ok(())
}

/// Runs with the input as a file, in memory.
fn with_file(bytes: &[u8], run: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let dir = if Path::new("/dev/shm").is_dir() {
        Path::new("/dev/shm").to_owned()
    } else {
        std::env::temp_dir()
    };
    let file = tempfile::NamedTempFile::new_in(dir)?;
    fs::write(file.path(), bytes)?;
    run(file.path())
}

fn file(bytes: &[u8]) -> Result<()> {
    with_file(bytes, |path| {
        let _ = verify(path);
        let reader = FileReader::open(path)?;
        for block in reader.blocks() {
            let _ = reader.read(block);
        }
        Ok(())
    })
}

fn sums(bytes: &[u8]) -> Result<()> {
    with_file(bytes, |path| {
        let file = SumsFile::open(path)?;
        let blocks = file.blocks().len();
        assert!(blocks <= bytes.len() / 96, "{blocks} blocks in {} bytes", bytes.len());
        for block in 0..blocks {
            let _ = file.periods(block);
        }
        Ok(())
    })
}

fn sums_data(bytes: &[u8]) -> Result<()> {
    let periods = codec::decode(bytes)?;
    // What was understood can be said again.
    assert_eq!(codec::decode(&codec::encode(&periods)), Ok(periods), "not the same again");
    Ok(())
}

fn dump(bytes: &[u8]) -> Result<()> {
    with_file(bytes, |path| {
        let dump = Dump::open(path)?;
        let scan = dump.scan(NonZero::new(1), &|_| {})?;
        let mut reader = dump.reader();
        for session in &scan.sessions {
            let _ = session.meta(&dump);
            for page in session.pages(0, u64::MAX).chain(session.newest()) {
                if let Some(Ok(page)) = reader.page(page).map(|bytes| Page::copy_from(bytes)) {
                    page.summary();
                }
            }
        }
        Ok(())
    })
}

/// Each page's document checksum, as its first page has it, over what is there.
fn seal_chunks(bytes: &mut [u8]) {
    /// Where the header has the document's length and its checksum (FORMAT.md, section 6).
    const LENGTH: usize = 56 + 3 * 8;
    const CRC: usize = 56 + 4 * 8;
    const HEAD: usize = 128;
    let mut document: Vec<u8> = bytes
        .chunks(PAGE_SIZE)
        .flat_map(|page| page.get(HEAD..).unwrap_or_default())
        .copied()
        .collect();
    let length = bytes
        .get(LENGTH..LENGTH + 8)
        .and_then(|field| field.try_into().ok())
        .map_or(0, u64::from_le_bytes);
    document.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    let crc = u64::from(crc32fast::hash(&document)).to_le_bytes();
    for page in bytes.chunks_mut(PAGE_SIZE) {
        if let Some(field) = page.get_mut(CRC..CRC + 8) {
            field.copy_from_slice(&crc);
        }
    }
}

fn seal_of_sums(bytes: &mut [u8]) {
    seal::sums(bytes);
}

fn seal_of_file(bytes: &mut [u8]) {
    seal::file(bytes);
}
