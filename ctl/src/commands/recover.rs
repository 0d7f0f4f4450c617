//! `flightctl recover`: the rings out of a kernel dump, as a file like any other.
//!
//! It is written page by page: what is held in memory is the dump's index and one block, however
//! large the rings are, so that it also runs in a crash kernel.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::chunks::Chunks;
use flightrec_format::control::Totals;
use flightrec_format::decode::Page;
use flightrec_format::descriptors::Snapshot;
use flightrec_format::kept;
use flightrec_format::ring::Sequence;
use flightrec_reader::source::{Source, VmcoreSource, trust};
use flightrec_store::block::PAGES_MAX;
use flightrec_store::{Checkpoint, RingMark};
use flightrec_vmcore::{PageRef, Reader, Session};

use super::prelude::*;
use crate::announce::announce;
use crate::options::kernel_dump::KernelDump;
use crate::options::target::TargetArgs;
use crate::progress::Progress;
use crate::target::{self, Target};
use crate::value::session;
use flightrec_cli::note;
use flightrec_format::human::{bytes, counted};

/// Pages of the table of threads that are held at once.
const SLOT_PAGES: usize = 256;
/// Most pages of snapshots of descriptors that are read, the newest: a hundred times what a
/// recording has.
const DESCRIPTOR_PAGES_MAX: usize = 1 << 13;

/// Arguments of `recover`.
#[derive(Debug, clap::Args)]
pub struct RecoverArgs {
    /// The dump, in any form that `dump --vmcore` reads; /proc/vmcore in the crash kernel.
    #[arg(value_name = "VMCORE")]
    vmcore: PathBuf,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(long, value_name = "ID", value_parser = session)]
    session: Option<u64>,
    /// Where it is saved.
    #[command(flatten)]
    target: TargetArgs,
    /// Exit with status 3 if anything that the rings held is missing in the dump; the rest is
    /// recovered nevertheless.
    #[arg(long)]
    strict: bool,
}

/// The rings in a kernel dump, to save.
#[derive(Debug, PartialEq)]
pub struct RecoverPlan {
    dump: KernelDump,
    target: TargetArgs,
    /// Whether an incomplete recording is a failure.
    strict: bool,
}

impl Arguments for RecoverArgs {
    const HELP: Help = Help {
        about: "Extract the recording from a kernel dump into one file: megabytes instead of \
                gigabytes",
        examples: &[
            (
                "flightctl recover /var/crash/202603041200/dump.202603041200 -o panic.flight",
                "extract the recording from a dump",
            ),
            (
                "flightctl recover /proc/vmcore -o /mnt/panic.flight",
                "in the crash kernel, before the dump is taken",
            ),
            ("flightctl dump panic.flight --last 5s", "read it, on any machine"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    };
    type Plan = RecoverPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<RecoverPlan> {
        let Self { vmcore, session, target, strict } = self;
        Ok(RecoverPlan { dump: recorder.kernel_dump(vmcore, session, None), target, strict })
    }

    fn file(&self) -> Option<&Path> {
        self.target.file()
    }
}

impl Plan for RecoverPlan {
    fn run(&self) -> Result<Exit> {
        let TargetArgs { output, force } = &self.target;
        Target::check(&self.target)?;
        let source = self.dump.open()?;
        let session = source.session()?;
        announce(&source, &crate::zone::system());
        if session.newest().next().is_none() {
            note("no event of the recording is in the dump, and no file is written");
            return Ok(Exit::Nothing);
        }
        let mut held = Held::default();
        let target = if self.target.is_standard() {
            Target::standard()?
        } else {
            Target::make(output, *force)?
        };
        let size = target.fill(|out| write(out, &source, session, &mut held))?;
        let Held { events, pages, missing, left_out, is_exact, .. } = held;
        let (name, size) = if self.target.is_standard() {
            ("to standard output".into(), String::new())
        } else {
            (output.to_string_lossy(), format!("{}, ", bytes(size)))
        };
        note(&format!(
            "recovered {name} ({size}{} in {})",
            counted(events, "event"),
            counted(pages, "page")
        ));
        if left_out != 0 {
            let n = counted(left_out, "event");
            note(&format!(
                "the quiet ring reaches further back than the rings, for quiet processes; {n} of \
                 busy ones are not in it"
            ));
        }
        if !source.disputed_by().is_empty() {
            let others = trust::list(source.disputed_by());
            note(&format!(
                "INCOMPLETE: nothing decides between this recording and {others}, so its end is \
                 not certain"
            ));
        } else if missing != 0 || !is_exact {
            let at_least = if is_exact { "" } else { "at least " };
            note(&format!(
                "INCOMPLETE: {at_least}{} of the rings are not in the dump",
                counted(missing, "event")
            ));
        } else if source.totals().is_none() {
            note(
                "INCOMPLETE: the dump or a ring in it is incomplete, so the rings' ends are not \
             certain",
            );
        }
        let complete = missing == 0 && left_out == 0 && is_exact && source.totals().is_some();
        Ok(if self.strict && !complete { Exit::Incomplete } else { Exit::Fine })
    }
}

/// What has been written.
#[derive(Default)]
struct Held {
    events: u64,
    pages: u64,
    /// Events that are missing between pages.
    missing: u64,
    /// Events that the quiet ring left out.
    left_out: u64,
    /// Whether headers that contradict each other left none uncounted.
    is_exact: bool,
    /// Of each ring, by the end of its last page.
    rings: HashMap<(u8, u16), End>,
}

/// Where a page ends.
struct End {
    /// Events up to there.
    events: Counts,
    /// The page after it, where events were left out of it.
    thinned: Option<u64>,
}

impl Held {
    /// Counts a page; those of a ring come in order.
    fn add(&mut self, page: &Page) {
        let (header, summary) = (page.header(), page.summary());
        self.pages += 1;
        self.events = self.events.saturating_add(summary.counts.total());
        if let Some(before) = self.rings.get(&(header.lane, header.cpu)) {
            let is_left_out = before.thinned == Some(header.seq);
            let sum = if is_left_out { &mut self.left_out } else { &mut self.missing };
            for (now, then) in header.events.iter().zip(before.events) {
                match now.checked_sub(then) {
                    Some(missing) => *sum = sum.saturating_add(missing),
                    None => self.is_exact = false,
                }
            }
        }
        let end = header.events.plus(&summary.counts);
        let thinned = kept::is_thinned(header).then(|| kept::through(page).saturating_add(1));
        self.rings.insert((header.lane, header.cpu), End { events: end, thinned });
    }
}

fn write(
    out: impl Write,
    source: &VmcoreSource,
    session: &Session,
    held: &mut Held,
) -> io::Result<()> {
    held.is_exact = true;
    let clock = source.clock();
    let mut file = target::begin(out, source.meta(), source.clock())?;
    let mut reader = source.dump().reader();
    let of_lane =
        |lane: Lane| session.pages(0, u64::MAX).filter(move |page| page.lane == lane as u8);

    let slots: Vec<&PageRef> = of_lane(Lane::Slots).collect();
    for chunk in slots.chunks(SLOT_PAGES) {
        let pages: Vec<[u8; PAGE_SIZE]> =
            chunk.iter().filter_map(|page| reader.page(page).copied()).collect();
        file.slots(clock.now, &pages)?;
    }
    let mut chunks = Chunks::new(Lane::Descriptors);
    let descriptors: Vec<&PageRef> = of_lane(Lane::Descriptors).collect();
    for page in descriptors.iter().rev().take(DESCRIPTOR_PAGES_MAX) {
        if let Some(bytes) = reader.page(page) {
            chunks.add(bytes);
        }
    }
    for document in chunks.documents() {
        // One that can't be read names nothing.
        if let Ok(snapshot) = Snapshot::decode(&document.bytes) {
            file.descriptors(snapshot.end, &document.bytes)?;
        }
    }
    let progress = Progress::start("recovering the recording");
    for lane in Lane::RINGS {
        // By time, so that a window of the file is a few of its blocks; copies of a page stay
        // together.
        let mut pages: Vec<&PageRef> = of_lane(lane).collect();
        pages.sort_by_key(|page| (page.base_mono, page.cpu, page.seq));
        // Where each ring itself begins: what the quiet ring has of these pages is in them.
        let mut begins: HashMap<u16, (u64, u64)> = HashMap::new();
        for page in pages.iter().filter(|page| !page.kept) {
            begins.entry(page.cpu).or_insert((page.seq, page.base_mono));
        }
        let mut block: Vec<Page> = Vec::with_capacity(PAGES_MAX);
        for copies in pages.chunk_by(|a, b| a.identity() == b.identity()) {
            let Some(page) = best(copies, lane, &mut reader) else { continue };
            let ring =
                begins.get(&page.header().cpu).filter(|(seq, _)| *seq <= kept::through(&page));
            let page = match ring {
                Some((seq, opened)) if kept::is_thinned(page.header()) => {
                    match kept::before(&page, *seq, *opened) {
                        Some(cut) if cut.header().seq < *seq => cut,
                        _ => continue,
                    }
                }
                _ => page,
            };
            held.add(&page);
            block.push(page);
            progress.add(PAGE_SIZE as u64);
            if block.len() == PAGES_MAX {
                file.pages(&block)?;
                block.clear();
            }
        }
        if !block.is_empty() {
            file.pages(&block)?;
        }
    }
    // Without a checkpoint a reader vouches for no more than the pages themselves do.
    if let Some(totals) = source.totals() {
        file.checkpoint(&checkpoint(totals))?;
    }
    file.finish()?;
    Ok(())
}

/// The copy of a page that holds most.
fn best(copies: &[&PageRef], lane: Lane, reader: &mut Reader<'_>) -> Option<Page> {
    let mut read = |page: &PageRef| reader.page(page).and_then(|bytes| Page::copy_from(bytes).ok());
    let (first, others) = copies.split_first()?;
    if others.is_empty() {
        return read(first);
    }
    let mut sequence = Sequence::new(first.session, lane, first.cpu);
    for page in copies {
        if let Some(page) = read(page) {
            sequence.add(page);
        }
    }
    sequence.finish().into_pages().into_iter().next()
}

/// The rings' counters at death.
fn checkpoint(totals: &Totals) -> Checkpoint {
    let of_cpu = totals.cpus.iter().flat_map(|cpu| {
        Lane::RINGS.into_iter().zip(cpu.events).zip(cpu.refused).map(|((lane, events), refused)| {
            RingMark { events, refused, ..RingMark::new(lane, cpu.cpu) }
        })
    });
    Checkpoint { time: totals.now, rings: of_cpu.collect() }
}
