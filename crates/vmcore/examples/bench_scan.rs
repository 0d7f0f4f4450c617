//! How fast dumps are looked through: each form beside reading the file alone, or beside what its
//! codec alone takes to decompress the same pages out of memory.
//!
//! `cargo xtask bench vmcore`, or `cargo run --release -p flightrec-vmcore --features synthetic
//! --example bench_scan` with real dumps as arguments: those are looked through instead.

use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::decode::{Body, Event};
use flightrec_format::encode::PageWriter;
use flightrec_vmcore::Dump;
use flightrec_vmcore::synthetic::{self, Codec, Image};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 9;
/// Pages of the machine: 256 MiB.
const PAGES: u64 = 1 << 16;

fn main() -> Result<()> {
    let given: Vec<_> = std::env::args_os().skip(1).collect();
    println!(
        "Memory looked through, GB/s, median of {ROUNDS} interleaved rounds (least to greatest):"
    );
    println!("{:<28} {:>24} {:>24}   {:<24}", "", "one thread", "all CPUs", "beside");
    if !given.is_empty() {
        return given.iter().try_for_each(|path| measure(Path::new(path), Path::new(path), None));
    }
    let image = image()?;
    let dir = tempfile::tempdir()?;
    for (name, bytes) in [("raw", synthetic::raw(&image)), ("elf", synthetic::elf(&image, 0x7c8))] {
        let path = dir.path().join(name);
        File::create(&path)?.write_all(&bytes)?;
        measure(Path::new(name), &path, None)?;
    }
    for codec in Codec::ALL {
        let bytes = synthetic::kdump(&image, codec);
        // What is looked through: zeros are in the file once.
        let zeros = [0; PAGE_SIZE];
        let pages: Vec<_> = image
            .values()
            .filter(|page| ***page != zeros)
            .map(|page| codec.compress(page.as_slice()))
            .collect();
        for (form, bytes) in
            [("kdump", bytes.clone()), ("flattened kdump", synthetic::flatten(&bytes, 1 << 20))]
        {
            let name = format!("{form}, {codec:?}");
            let path = dir.path().join(&name);
            File::create(&path)?.write_all(&bytes)?;
            // Without a codec, reading is all there is to do.
            measure(Path::new(&name), &path, Some(&*pages).filter(|_| codec != Codec::None))?;
        }
    }
    Ok(())
}

/// Measures one dump; `pages`: its compressed pages.
fn measure(name: &Path, path: &Path, pages: Option<&[(Vec<u8>, u32)]>) -> Result<()> {
    let dump = Dump::open(path)?;
    let memory = dump.bytes() as f64;
    let (mut one, mut all, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        found = dump
            .scan(NonZero::new(1), &|_| {})?
            .sessions
            .iter()
            .map(|session| session.lanes.len())
            .sum();
        one.push(memory / 1e9 / start.elapsed().as_secs_f64());
        let start = Instant::now();
        dump.scan(None, &|_| {})?;
        all.push(memory / 1e9 / start.elapsed().as_secs_f64());
        let start = Instant::now();
        match pages {
            Some(pages) => _ = Codec::decompress(pages),
            None => read(path)?,
        }
        peer.push(memory / 1e9 / start.elapsed().as_secs_f64());
    }
    let what = if pages.is_some() { "the codec alone" } else { "reading alone" };
    let ratio = median(&one) / median(&peer);
    let (one, all, peer) = (shown(&one), shown(&all), shown(&peer));
    println!(
        "{:<28} {one:>24} {all:>24}   {what}: {peer}, one thread is {ratio:.2} of it",
        name.display()
    );
    if found == 0 {
        println!("{:<28} no recording in it", "");
    }
    Ok(())
}

/// Reads a file from end to end.
fn read(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    let mut buffer = vec![0; flightrec_vmcore::UNIT_BYTES];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return Ok(()),
            n => at += n as u64,
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// `4.11 (3.90 to 4.20)`
fn shown(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2} to {greatest:.2})", median(values))
}

/// Memory as machines have it: this program's own code and data over and over, one page in three
/// zeros, and a recording of 4 MiB.
fn image() -> Result<Image> {
    let program = std::fs::read("/proc/self/exe")?;
    let (pages, _) = program.as_chunks::<PAGE_SIZE>();
    let mut image: Image = (0..PAGES)
        .zip(pages.iter().cycle())
        .map(|(i, page)| {
            let mut page = if i % 3 == 0 { [0; PAGE_SIZE] } else { *page };
            // No two alike, as memory has it, but for the zeros.
            if i % 3 != 0 {
                page[PAGE_SIZE / 2..PAGE_SIZE / 2 + 8].copy_from_slice(&i.to_le_bytes());
            }
            (i, Box::new(page))
        })
        .collect();
    let mut ring = PageWriter::new(7, Lane::Sched, 0, 0);
    let mut taken = 0;
    for i in 0..u32::MAX {
        let body = Body::Switch {
            prev_state: 1,
            next: i + 1,
            preempted: false,
            io_wait: false,
            prev_prio: 120,
            next_prio: 120,
        };
        ring.push(&Event { time: u64::from(i) * 1000, cpu: 0, tid: i, body })?;
        for page in ring.take() {
            taken += 1;
            image.insert(taken * 61 % PAGES, page);
        }
        if taken == 1024 {
            break;
        }
    }
    Ok(image)
}
