//! What names need of the time before a window: of the task lane, the last that was said of each
//! thread.
//!
//! A process that renames itself in a loop fills gigabytes with it; read whole, they are not to be
//! held.

use flightrec_format::decode::{Body, Page, Summary};
use flightrec_store::{Damage, FileReader};
use rustc_hash::FxHashSet;

use super::load::Job;
use crate::memory;

/// Most that is remembered to have been said: by thread and kind of event.
const SAID_MAX: usize = 1 << 20;

/// Bytes of pages up to which all are held as they are.
pub(super) fn whole_max() -> u64 {
    memory::pages_max() / 8
}

/// Reads blocks of the task lane, all of which end before the window. Of their pages come those
/// without which a thread would have another name, process or control group in the window, each
/// ring's last, and those with what the recorder did. `None`: they are more than `most`.
#[expect(clippy::type_complexity, reason = "pages, and what is damaged")]
pub(super) fn last_said(
    mut jobs: Vec<Job<'_>>,
    most: usize,
) -> Option<(Vec<(Page, Summary)>, Vec<(&FileReader, Damage)>)> {
    jobs.sort_by_key(|job| job.block.header.last);
    let (mut said, mut rings) = (FxHashSet::default(), FxHashSet::default());
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for job in jobs.into_iter().rev() {
        let mut pages = match job.reader.pages(job.block) {
            Ok(pages) => pages,
            Err(damage) => {
                lost.push((job.reader, damage));
                continue;
            }
        };
        pages.sort_by_key(|(page, _)| (page.header().base_mono, page.header().seq));
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
    }
    Some((kept, lost))
}
