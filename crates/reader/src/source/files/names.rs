//! What names need of the time before a window: of the task lane, the last that was said of each
//! thread.
//!
//! A process that renames itself in a loop fills gigabytes with it; read whole, they are not to be
//! held.

use std::path::PathBuf;

use flightrec_format::decode::{Body, Page, Summary};
use flightrec_store::columns::Contents;
use flightrec_store::{Damage, FileReader, PagesReader};
use rustc_hash::{FxHashMap, FxHashSet};

use super::load::Job;
use crate::memory;

/// Most that is remembered to have been said: by thread and kind of event.
const SAID_MAX: usize = 1 << 20;

/// Bytes of pages up to which all are held as they are.
pub(super) fn whole_max() -> u64 {
    memory::pages_max() / 16
}

/// Blocks that were read for names, of which no page was needed: what they say was said again
/// after them. So later windows need none either, and the stretches of a window do not all read
/// what is before it.
#[derive(Debug, Default)]
pub(super) struct Superseded {
    /// By file and offset: from which moment on a window may begin that does without.
    blocks: FxHashMap<PathBuf, FxHashMap<u64, u64>>,
}

impl Superseded {
    fn has(&self, job: &Job<'_>, from: u64) -> bool {
        let since = self.blocks.get(job.reader.path()).and_then(|of| of.get(&job.block.offset));
        since.is_some_and(|since| *since <= from)
    }

    fn add(&mut self, job: &Job<'_>, from: u64) {
        let of_file = self.blocks.entry(job.reader.path().to_owned()).or_default();
        let since = of_file.entry(job.block.offset).or_insert(from);
        *since = from.min(*since);
    }
}

/// Reads blocks of the task lane, all of which end before a window that begins at `from`. Of their
/// pages come those without which a thread would have another name, process or control group in the
/// window, each ring's last, and those with what the recorder did. `None`: they are more than
/// `most`.
#[expect(clippy::type_complexity, reason = "pages, and what is damaged")]
pub(super) fn last_said<'a>(
    mut jobs: Vec<Job<'a>>,
    from: u64,
    most: usize,
    superseded: &mut Superseded,
) -> Option<(Vec<(Page, Summary)>, Vec<(&'a FileReader, Damage)>)> {
    jobs.retain(|job| !superseded.has(job, from));
    jobs.sort_by_key(|job| job.block.header.last);
    let (mut said, mut rings) = (FxHashSet::default(), FxHashSet::default());
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    let mut reader = PagesReader::default();
    for job in jobs.into_iter().rev() {
        let mut pages = match job.pages(&mut reader, Contents::All) {
            Ok(pages) => pages,
            Err(damage) => {
                lost.push((job.reader, damage));
                continue;
            }
        };
        pages.sort_by_key(|(page, _)| (page.header().base_mono, page.header().seq));
        let before = kept.len();
        for (page, summary) in pages.into_iter().rev() {
            let mut tells = rings.insert(page.header().cpu);
            for event in page.events() {
                let (kind, thread) = match &event.body {
                    Body::Fork(fork) => (0u8, fork.tid),
                    Body::Exec { exec, .. } => (1, exec.tid),
                    Body::Rename(rename) => (2, rename.tid),
                    Body::TaskExit(exit) => (3, exit.tid),
                    Body::Act(..) => {
                        tells = true;
                        continue;
                    }
                    _ => continue,
                };
                tells |= said.len() < SAID_MAX && said.insert((thread, kind));
            }
            if tells {
                kept.push((page, summary));
            }
            if kept.len() > most {
                return None;
            }
        }
        if kept.len() == before {
            superseded.add(&job, from);
        }
    }
    Some((kept, lost))
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::page::Lane;
    use flightrec_format::abi::record::Rename;
    use flightrec_format::decode::Event;
    use flightrec_format::encode::PageWriter;
    use flightrec_store::{FileHeader, FileWriter, Kind};

    use super::*;
    use crate::source::files::load::jobs;

    /// A file of blocks of two pages: each event is of one of 100 threads in turn, and each 5000th
    /// of a thread of which nothing else is said.
    fn file(path: &std::path::Path) -> FileReader {
        let header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: [1; 16],
            session: 7,
            number: 1,
            created_wall: 0,
            created_mono: 0,
            begins: 0,
        };
        let mut ring = PageWriter::new(7, Lane::Task, 0, 0);
        for i in 0..20_000 {
            let tid = if i % 5000 == 7 { 1000 + i } else { 1 + i % 100 };
            let rename = Rename { tid, tgid: tid, old: [b'a'; 16], new: [b'b'; 16] };
            let event = Event { time: u64::from(i), cpu: 0, tid, body: Body::Rename(rename) };
            ring.push(&event).unwrap();
        }
        let pages: Vec<Page> =
            ring.finish().into_iter().map(|page| Page::new(page).unwrap()).collect();
        let mut file = FileWriter::new(Vec::new(), &header, 1).unwrap();
        pages.chunks(2).for_each(|pages| file.pages(pages).unwrap());
        std::fs::write(path, file.finish().unwrap()).unwrap();
        FileReader::open(path).unwrap()
    }

    #[test]
    fn what_was_said_again_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let reader = file(&dir.path().join("x.flight"));
        let opened = [&reader];
        let early = |from: u64| -> Vec<Job<'_>> {
            jobs(&opened)
                .filter(|job| job.block.header.kind == Kind::Pages)
                .filter(|job| job.block.header.last < from)
                .collect()
        };
        let mut superseded = Superseded::default();
        // Also where a later window was read before.
        for from in [4_000, 9_000, 8_000, 14_000, 20_000, 3_000] {
            let (alone, _) =
                last_said(early(from), from, usize::MAX, &mut Superseded::default()).unwrap();
            let (shared, lost) = last_said(early(from), from, usize::MAX, &mut superseded).unwrap();
            assert!(!alone.is_empty() && lost.is_empty());
            assert_eq!(shared, alone, "{from}");
        }
        let left = early(20_000).iter().filter(|job| !superseded.has(job, 20_000)).count();
        let all = early(20_000).len();
        assert!(left <= 6 && all > 60, "{left} of {all} blocks");
    }
}
