//! Recordings in memory, and dumps of that memory.

use std::io::Write;
use std::num::NonZero;

use flightrec_format::abi::page::{COPY_MAGIC, Lane, PAGE_SIZE};
use flightrec_format::decode::{Body, Event};
use flightrec_format::encode::{PageWriter, in_kernel};
use flightrec_format::identity::public_id;
use flightrec_format::meta::{self, Lanes, Meta};
use flightrec_vmcore::synthetic::{self, Codec, Image};
use flightrec_vmcore::{Dump, Scan, VmcoreError};
use tempfile::NamedTempFile;

pub(crate) type Bytes = Box<[u8; PAGE_SIZE]>;

/// A ring's pages as the kernel has them, with the secret of their session: switches, one every
/// microsecond from `start` on.
pub(crate) fn ring(secret: u64, cpu: u16, start: u64, events: u32) -> Vec<Bytes> {
    let mut writer = PageWriter::new(secret, Lane::Sched, cpu, 1 << 60);
    for i in 0..events {
        let body = Body::Switch {
            prev_state: 0,
            next: i + 1,
            preempted: false,
            io_wait: false,
            prev_prio: 120,
            next_prio: 120,
        };
        writer.push(&Event { time: start + u64::from(i) * 1000, cpu, tid: i, body }).unwrap();
    }
    writer.finish()
}

/// The pages of the description of the session with this secret.
pub(crate) fn description(secret: u64, boot: &str, started: u64) -> Vec<Bytes> {
    described(&meta_of(secret, boot, started), secret)
}

/// The pages of these metadata, of the session with this secret.
pub(crate) fn described(meta: &Meta, secret: u64) -> Vec<Bytes> {
    let pages = meta::pack(meta, 1, meta::HALF_PAGES).unwrap();
    pages.iter().map(|page| in_kernel(page, secret)).collect()
}

/// What a reader makes of a page of the session with this secret.
pub(crate) fn copied(page: &Bytes, secret: u64) -> Bytes {
    let mut page = page.clone();
    page[..8].copy_from_slice(&COPY_MAGIC.to_le_bytes());
    page[8..16].copy_from_slice(&public_id(secret).to_le_bytes());
    page
}

/// What the session with this secret tells of itself.
pub(crate) fn meta_of(secret: u64, boot: &str, started: u64) -> Meta {
    // More than one page of it, as in real recordings.
    let config = "x".repeat(9000);
    let (session, boot_id) = (public_id(secret), boot.to_owned());
    Meta {
        session,
        boot_id,
        started,
        cpus: vec![0, 1],
        lanes: Lanes::new([1 << 20; 4], [false; 4]),
        config,
        ..Meta::default()
    }
}

/// Memory in which these pages lie scattered among noise and zeros.
pub(crate) fn scattered(pages: &[Bytes]) -> Image {
    let mut image = Image::new();
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    for (i, page) in (0u64..).zip(pages) {
        // 7 is prime to 16: descending runs, with holes between.
        let place = 40 + (i / 16) * 48 + (i * 7 % 16) * 3;
        image.insert(place, page.clone());
        let mut other = Box::new([0; PAGE_SIZE]);
        if i % 3 != 0 {
            for byte in other.iter_mut().take(2000) {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (noise >> 56) as u8;
            }
        }
        image.insert(place + 1, other);
    }
    // A page whose text has the magic where no page begins.
    let mut trap = Box::new([0; PAGE_SIZE]);
    trap[8..16].copy_from_slice(b"FLTRECPG");
    image.insert(3, trap);
    image
}

/// A recording on two CPUs.
pub(crate) fn recording(secret: u64) -> Vec<Bytes> {
    [description(secret, "boot", 5), ring(secret, 0, 1000, 4000), ring(secret, 1, 1500, 3000)]
        .concat()
}

/// Every form of a dump of an image, by name.
pub(crate) fn forms(image: &Image) -> Vec<(String, Vec<u8>)> {
    let mut forms = vec![
        ("raw".to_owned(), synthetic::raw(image)),
        ("elf".to_owned(), synthetic::elf(image, 0x7c8)),
        ("elf, aligned".to_owned(), synthetic::elf(image, 1 << 16)),
    ];
    for codec in Codec::ALL {
        forms.push((format!("kdump {codec:?}"), synthetic::kdump(image, codec)));
    }
    forms.push(("kdump version 1".to_owned(), synthetic::kdump_of_version(image, Codec::Zlib, 1)));
    for i in 1..forms.len() {
        let (name, bytes) = forms[i].clone();
        forms.push((format!("flattened {name}"), synthetic::flatten(&bytes, 5000)));
    }
    forms
}

pub(crate) fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

pub(crate) fn open(bytes: &[u8]) -> Result<Dump, VmcoreError> {
    Dump::open(file(bytes).path())
}

pub(crate) fn scan(dump: &Dump) -> Result<Scan, VmcoreError> {
    dump.scan(NonZero::new(2), &|_| {})
}
