//! Checking files: every byte that has a checksum, every page, and whether the pages follow one
//! another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, REFUSALS, RING_LANES};
use flightrec_format::decode::Page;
use flightrec_format::part;
use flightrec_format::ring::{Gap, Reason};

use crate::block::BlockRef;
use crate::checkpoint::Checkpoint;
use crate::content::Content;
use crate::damage::{Damage, What};
use crate::error::StoreError;
use crate::header::FileHeader;
use crate::reader::FileReader;
use crate::summary::Summarizer;

/// Most gaps of a file that are told one by one.
pub const GAPS_MAX: usize = 65_536;

/// What a file came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Its header.
    pub header: FileHeader,
    /// Whether it was closed by its index.
    pub complete: bool,
    /// Blocks that are whole.
    pub blocks: usize,
    /// Events by lane; those that files before it hold as well are not counted again.
    pub events: [u64; RING_LANES],
    /// Time of the earliest and the latest of its pages, ns of `CLOCK_MONOTONIC`.
    pub time: Option<(u64, u64)>,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Where events are missing that were recorded: overwritten in a ring before they could be
    /// stored, or lost by the damage. At most [`GAPS_MAX`].
    pub gaps: Vec<Gap>,
    /// Events missing in all.
    pub lost: u64,
}

impl Report {
    /// Whether all that was ever written to the file is there.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Checks one file by itself.
pub fn verify(path: impl AsRef<Path>) -> Result<Report, StoreError> {
    Verifier::default().file(path)
}

/// How far a ring is known.
#[derive(Debug, Clone, Copy)]
struct At {
    /// Events before.
    events: Counts,
    /// When that was, ns.
    time: u64,
}

/// Checks files one after the other, in the order in which they were written: what is missing
/// between two of one session is then found as well.
#[derive(Debug, Default)]
pub struct Verifier {
    session: u64,
    rings: BTreeMap<(Lane, u16), At>,
}

impl Verifier {
    /// Checks a file.
    pub fn file(&mut self, path: impl AsRef<Path>) -> Result<Report, StoreError> {
        let reader = FileReader::walk(&path)?;
        if self.session != reader.header().session {
            *self = Self { session: reader.header().session, rings: BTreeMap::new() };
        }
        let mut report = Report {
            path: reader.path().to_owned(),
            size: reader.size(),
            header: *reader.header(),
            complete: reader.complete(),
            blocks: 0,
            events: [0; RING_LANES],
            time: None,
            damage: reader.damage().to_vec(),
            gaps: Vec::new(),
            lost: 0,
        };
        let mut summaries = Summarizer::new(None);
        for block in reader.blocks() {
            let content = reader.read(block);
            match &content {
                Ok(Content::Meta(meta)) => summaries = Summarizer::new(Some(meta)),
                Ok(Content::Pages(pages)) if block.header.summary_len != 0 => {
                    // Of a call that began before the block, the summary may know more than this.
                    let made = summaries.least(pages, block.header.data_len as usize);
                    let of = reader.summary(block).zip(made);
                    if !of.is_some_and(|(of, made)| of.holds(&made)) {
                        let (offset, bytes) = (block.summary(), block.header.summary_len.into());
                        let what = What::Summary;
                        report.damage.push(Damage { offset, bytes, what, block: None });
                    }
                }
                _ => {}
            }
            match content.and_then(|content| self.content(block, content, &mut report)) {
                Ok(()) => report.blocks += 1,
                Err(damage) => report.damage.push(damage),
            }
        }
        if reader.complete()
            && FileReader::open(&path)?.blocks() != reader.blocks()
            && report.damage.is_empty()
        {
            let offset = reader.blocks().last().map_or(0, BlockRef::end);
            let bytes = reader.size().saturating_sub(offset);
            report.damage.push(Damage { offset, bytes, what: What::Index, block: None });
        }
        report.damage.sort_by_key(|damage| damage.offset);
        Ok(report)
    }

    /// Follows the content of a block.
    fn content(
        &mut self,
        block: &BlockRef,
        content: Content,
        report: &mut Report,
    ) -> Result<(), Damage> {
        match content {
            Content::Pages(pages) => {
                let events =
                    pages.iter().map(|page| self.page(page, report)).fold(0, u64::saturating_add);
                let header = &block.header;
                if events != header.events {
                    let what = What::Content(format!(
                        "it holds {events} events, its header says {}",
                        header.events
                    ));
                    let bytes = block.end() - block.offset;
                    return Err(Damage {
                        offset: block.offset,
                        bytes,
                        what,
                        block: Some(Box::new(*header)),
                    });
                }
                let (first, last) = report.time.unwrap_or((header.first, header.last));
                report.time = Some((first.min(header.first), last.max(header.last)));
            }
            Content::Checkpoint(checkpoint) => self.checkpoint(&checkpoint, report),
            Content::Meta(_)
            | Content::Slots(_)
            | Content::Descriptors(_)
            | Content::Snapshot(_) => {}
        }
        Ok(())
    }

    /// Follows a page, or part of one; returns its events.
    fn page(&mut self, page: &Page, report: &mut Report) -> u64 {
        let (header, summary) = (page.header(), page.summary());
        let key = (page.lane(), header.cpu);
        let end = header.events.plus(&summary.counts);
        if self.rings.get(&key).is_some_and(|at| at.events.total() < header.events.total()) {
            self.missing(key, &header.events, part::begins(page), report);
        }
        let at = self.rings.entry(key).or_insert(At { events: header.events, time: summary.last });
        let new = end.total().saturating_sub(at.events.total().max(header.events.total()));
        if end.total() >= at.events.total() {
            *at = At { events: end, time: at.time.max(summary.last) };
        }
        if let Some(lane) = report.events.get_mut(key.0 as usize) {
            *lane = lane.saturating_add(new);
        }
        summary.counts.total()
    }

    /// Holds what was read against what a checkpoint says is there; at the beginning, that is in
    /// files before.
    fn checkpoint(&mut self, checkpoint: &Checkpoint, report: &mut Report) {
        for ring in &checkpoint.rings {
            let key = (ring.lane, ring.cpu);
            match self.rings.get(&key) {
                None => {
                    self.rings.insert(key, At { events: ring.events, time: checkpoint.time });
                }
                Some(at) if at.events.total() < ring.events.total() => {
                    self.missing(key, &ring.events, checkpoint.time, report);
                    self.rings.insert(key, At { events: ring.events, time: checkpoint.time });
                }
                Some(_) => {}
            }
        }
    }

    /// Events are missing between the place where a ring is known, and these totals.
    fn missing(&self, (lane, cpu): (Lane, u16), events: &Counts, until: u64, report: &mut Report) {
        let Some(at) = self.rings.get(&(lane, cpu)) else { return };
        let lost = events.less(&at.events);
        report.lost = report.lost.saturating_add(lost.total());
        if report.gaps.len() < GAPS_MAX {
            let (from, until, lost) = (at.time, until.max(at.time), Some(lost));
            let gap = Gap {
                lane,
                cpu,
                from,
                until,
                lost,
                refused: [0; REFUSALS],
                reason: Reason::Missing,
            };
            report.gaps.push(gap);
        }
    }
}
