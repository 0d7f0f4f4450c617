//! What a running recording takes on disk, and what writing it costs: one round of `cargo xtask
//! bench disk`.
//!
//! `bench_disk BPFFS_DIR OUT [LEVEL]` copies all pages of the rings that are pinned below
//! BPFFS_DIR, writes them to the file OUT as `flightd` does, reads that again, and prints a line
//! `NAME=VALUE` for each figure. Times are CPU time of the one thread that does it all. Pages saved
//! before do as well: a folder of files `LANE-CPU.pages` in place of BPFFS_DIR.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::decode::Page;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_store::block::PAGES_MAX;
use flightrec_store::{Content, FileHeader, FileReader, FileWriter, Kind, columns};
use nix::time::{ClockId, clock_gettime};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// CPU time of this thread, ns.
fn cpu_time() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

/// Runs `work`, and adds what it took to `sum`.
fn timed<T>(sum: &mut f64, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = cpu_time()?;
    let value = work()?;
    *sum += cpu_time()? - start;
    Ok(value)
}

/// Where pages come from.
enum Source {
    Live(Box<LiveRings>),
    Saved(Vec<(Lane, Vec<u8>)>),
}

impl Source {
    fn open(dir: &Path) -> Result<Self> {
        if let Ok(generation) = Generation::find(dir) {
            return Ok(Self::Live(Box::new(LiveRings::open(&generation, false)?)));
        }
        let mut saved = Vec::new();
        for lane in Lane::RINGS {
            for cpu in 0..1024 {
                let path = dir.join(format!("{}-{cpu}.pages", lane.name()));
                if path.exists() {
                    saved.push((lane, fs::read(path)?));
                }
            }
        }
        Ok(Self::Saved(saved))
    }

    /// Each ring's pages, in runs as long as a block; handed out one by one, so that copying them
    /// is part of what is measured.
    fn each(
        &self,
        mut take: impl FnMut(Lane, Vec<Page>) -> Result<()>,
        copying: &mut f64,
    ) -> Result<()> {
        let mut ring =
            |lane: Lane, pages: &mut dyn Iterator<Item = [u8; PAGE_SIZE]>| -> Result<()> {
                loop {
                    let run = timed(copying, || {
                        Ok(pages
                            .take(PAGES_MAX)
                            .map(|page| Page::new(Box::new(page)))
                            .collect::<std::result::Result<Vec<_>, _>>()?)
                    })?;
                    if run.is_empty() {
                        return Ok(());
                    }
                    take(lane, run)?;
                }
            };
        match self {
            Self::Live(recording) => {
                for lane in Lane::RINGS {
                    for cpu in recording.cpus() {
                        ring(lane, &mut recording.pages(lane, cpu, 0, u64::MAX))?;
                    }
                }
            }
            Self::Saved(rings) => {
                for (lane, bytes) in rings {
                    ring(*lane, &mut bytes.as_chunks::<PAGE_SIZE>().0.iter().copied())?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Sums {
    events: f64,
    raw: f64,
    naive: f64,
    columns: f64,
    stored: f64,
}

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let (Some(dir), Some(out)) = (args.next(), args.next()) else {
        return Err("bench_disk BPFFS_DIR OUT [LEVEL]".into());
    };
    let level: i32 = args.next().and_then(|level| level.to_str()?.parse().ok()).unwrap_or(1);
    let (dir, out) = (Path::new(&dir), Path::new(&out));
    let source = Source::open(dir)?;

    let mut sums: [Sums; 4] = Default::default();
    let mut session = 0;
    let (mut copying, mut encoding, mut decoding, mut unpacking) = (0.0, 0.0, 0.0, 0.0);
    // What a block takes, and whether it comes out again.
    source.each(
        |lane, pages| {
            let sum = &mut sums[lane as usize];
            session = pages.first().map_or(0, |page| page.header().session);
            let mut encoded = Vec::new();
            timed(&mut encoding, || {
                columns::encode(&pages, &mut encoded);
                Ok(())
            })?;
            let again = timed(&mut decoding, || Ok(columns::decode(&encoded)?))?;
            let same = |(a, b): (&Page, &Page)| {
                let used = a.header().used_bytes();
                a.bytes().get(..used) == b.bytes().get(..used)
            };
            if again.len() != pages.len() || !pages.iter().zip(&again).all(same) {
                return Err("pages did not come out as they went in".into());
            }
            let raw: Vec<u8> = pages.iter().flat_map(Page::bytes).copied().collect();
            sum.naive += zstd::bulk::compress(&raw, 1)?.len() as f64;
            sum.events += pages.iter().flat_map(|page| page.summary().counts).sum::<u64>() as f64;
            sum.raw += raw.len() as f64;
            sum.columns += encoded.len() as f64;
            Ok(())
        },
        &mut 0.0,
    )?;
    // As the daemon writes it.
    let mut writing = 0.0;
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: [0; 16],
        session,
        number: 1,
        created_wall: 0,
        created_mono: 0,
        begins: 0,
    };
    let mut writer = FileWriter::new(File::create(out)?, &header, level)?;
    source.each(
        |lane, pages| {
            let before = writer.written();
            timed(&mut writing, || Ok(writer.pages(&pages)?))?;
            sums[lane as usize].stored += (writer.written() - before) as f64;
            Ok(())
        },
        &mut copying,
    )?;
    writer.finish()?;
    // As flightctl reads it.
    let reader = FileReader::open(out)?;
    for block in reader.blocks().iter().filter(|block| block.header.kind == Kind::Pages) {
        match timed(&mut unpacking, || Ok(reader.read(block)))? {
            Ok(Content::Pages(pages)) => drop(std::hint::black_box(pages)),
            other => return Err(format!("a block of pages reads as {other:?}").into()),
        }
    }

    let events: f64 = sums.iter().map(|sum| sum.events).sum();
    for (lane, sum) in Lane::RINGS.iter().zip(&sums) {
        let name = lane.name();
        println!("{name}_events={}", sum.events);
        for (what, bytes) in [
            ("raw", sum.raw),
            ("naive", sum.naive),
            ("columns", sum.columns),
            ("stored", sum.stored),
        ] {
            println!("{name}_{what}_bytes={bytes}");
        }
    }
    for (what, ns) in [
        ("copy", copying),
        ("encode", encoding),
        ("write", writing),
        ("decode", decoding),
        ("read", unpacking),
    ] {
        println!("{what}_ns={:.2}", ns / events);
    }
    Ok(())
}
