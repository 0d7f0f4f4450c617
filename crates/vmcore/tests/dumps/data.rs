//! Small dumps of every form that are kept as files: what was readable once stays so. They are made
//! by `FLIGHTREC_BLESS=1 cargo test -p flightrec-vmcore data`, and then never again: a form that
//! changes gets another file.

use std::fs;
use std::path::{Path, PathBuf};

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::decode::{Event, Page};
use flightrec_format::identity::public_id;
use flightrec_format::meta::Meta;
use flightrec_vmcore::synthetic::Image;
use flightrec_vmcore::{Dump, Form};

use crate::support::{Bytes, copied, described, forms, meta_of, ring, scan};

const SECRET: u64 = 0xf11e;

fn rings() -> Vec<Bytes> {
    [ring(SECRET, 0, 1000, 150), ring(SECRET, 1, 1500, 100)].concat()
}

/// Eight pages of memory, out of order, one of zeros, one of something else.
fn image() -> Image {
    let meta = Meta { config: "[rings]".into(), ..meta_of(SECRET, "boot", 5) };
    let mut image = Image::new();
    for (number, page) in
        [5, 1, 3, 2, 7].into_iter().zip([described(&meta, SECRET), rings()].concat())
    {
        image.insert(number, page);
    }
    image.insert(4, Box::new([0; PAGE_SIZE]));
    image.insert(6, Box::new([0xa5; PAGE_SIZE]));
    image
}

/// What a page tells. Its bytes may be others: the writer of a later release may count more kinds
/// in its header.
fn told(page: &Bytes) -> (u8, u16, u64, u64, Vec<u64>, Vec<Event>) {
    let page = Page::new(page.clone()).unwrap();
    let header = page.header();
    let events = header.events.iter().copied().collect();
    (header.lane, header.cpu, header.seq, header.base_mono, events, page.events().collect())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

#[test]
fn dumps_that_were_written_before_are_read() {
    let image = image();
    if std::env::var_os("FLIGHTREC_BLESS").is_some() {
        fs::create_dir_all(folder()).unwrap();
        // Each form once; flattened is the same around either.
        let kept = |name: &str| {
            !name.contains("aligned")
                && (!name.starts_with("flattened kdump") || name.ends_with("Lzo"))
        };
        for (name, bytes) in forms(&image).into_iter().filter(|(name, _)| kept(name)) {
            let path = folder()
                .join(name.to_lowercase().replace([' ', ','], "-").replace("--", "-") + ".vmcore");
            fs::write(path, bytes).unwrap();
        }
    }
    let mut seen = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let dump = Dump::open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let scan = scan(&dump).unwrap();
        assert!(scan.shortfall.is_none(), "{name}: {:?}", scan.shortfall);
        assert_eq!(scan.sessions.len(), 1, "{name}");
        let session = &scan.sessions[0];
        assert_eq!(
            (session.id, session.meta(&dump).unwrap().boot_id.as_str()),
            (public_id(SECRET), "boot"),
            "{name}"
        );
        let mut reader = dump.reader();
        let pages: Vec<Bytes> =
            session.pages(0, u64::MAX).map(|page| Box::new(*reader.page(page).unwrap())).collect();
        let rings: Vec<Bytes> = rings().iter().map(|page| copied(page, SECRET)).collect();
        assert!(pages.iter().map(told).eq(rings.iter().map(told)), "{name}: other pages");
        seen.push((dump.form(), dump.is_flattened()));
    }
    for form in [Form::Elf, Form::Kdump, Form::Raw] {
        assert!(seen.contains(&(form, false)), "no file of {form:?}");
    }
    assert!(
        seen.contains(&(Form::Elf, true)) && seen.contains(&(Form::Kdump, true)),
        "no flattened file"
    );
}
