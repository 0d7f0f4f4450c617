//! Summaries of blocks, from what the encoder saw in them.

use flightrec_format::decode::{Page, Summary};
use flightrec_format::meta::Meta;

use super::{BlockSummary, CallKey, CallSummary, CpuEntry, in_steps};
use crate::columns::{Encoder, Ends, Open, Sight};
use crate::components::Components;

/// What is in a block whose data take so many bytes, by what its pages come to and what was seen in
/// them.
pub(crate) fn summary(pages: &[Summary], sight: Sight<'_>, data_len: usize) -> BlockSummary {
    made(pages, sight, data_len, Ends::longest)
}

fn made(
    pages: &[Summary],
    sight: Sight<'_>,
    data_len: usize,
    longest: impl Fn(&Ends) -> Option<u64>,
) -> BlockSummary {
    let Sight { calls, errors, vague, names, kinds, mut threads, mut cpus } = sight;
    let kinds = pages.iter().fold(kinds, |kinds, page| {
        page.counts.present().fold(kinds, |kinds, (index, _)| kinds | 1 << index)
    });
    let mut errors: Vec<u32> = errors.iter().copied().collect();
    errors.sort_unstable();
    let call = |(aux, seen): (u16, Ends)| {
        let from = |aux: u32| errors.partition_point(|error| error >> 16 < aux);
        let of_call = from(aux.into())..from(u32::from(aux) + 1);
        let of_call = errors.get(of_call).unwrap_or_default().iter();
        let (ended, missing, unbegun) = (seen.ended, seen.missing, seen.unbegun);
        CallSummary {
            call: key(aux),
            ended,
            errors: of_call.map(|error| *error as u16).collect(),
            longest: longest(&seen).map(in_steps),
            missing,
            unbegun,
        }
    };
    let mut calls: Vec<CallSummary> = calls.into_iter().map(call).collect();
    calls.sort_by_key(|of| of.call);
    threads.sort_unstable();
    threads.dedup();
    cpus.sort_unstable();
    let cpu = |(cpu, idles, ends_idle)| CpuEntry { cpu, idles, ends_idle };
    let cpus = cpus.into_iter().map(cpu).collect();
    BlockSummary {
        kinds,
        threads,
        calls,
        cpus,
        components: Components::new(names, data_len, vague),
    }
}

/// Makes summaries of pages that are in no block of a file that is written.
#[derive(Debug)]
pub struct Summarizer {
    encoder: Encoder,
}

impl Summarizer {
    /// Of the recording that this describes; `None`: nothing is known of it, and no argument is
    /// taken for a path.
    pub fn new(meta: Option<&Meta>) -> Self {
        let mut encoder = Encoder::new();
        encoder.know(meta);
        Self { encoder }
    }

    /// What is in the pages of a lane, as if they were a block whose data take so many bytes;
    /// `None`: that is not known.
    pub fn of<'p>(
        &mut self,
        pages: impl IntoIterator<Item = &'p Page>,
        data_len: usize,
    ) -> Option<BlockSummary> {
        let summaries = self.encoder.see(pages);
        Some(summary(&summaries, self.encoder.sight(&mut Open::default())?, data_len))
    }

    /// The same of a block, with the longest duration of those calls of which the block alone tells
    /// it.
    pub(crate) fn least(&mut self, pages: &[Page], data_len: usize) -> Option<BlockSummary> {
        let summaries = self.encoder.see(pages);
        let sight = self.encoder.sight(&mut Open::default())?;
        Some(made(&summaries, sight, data_len, |seen| Some(seen.known())))
    }
}

/// Which call a record of this `aux` is of.
fn key(aux: u16) -> CallKey {
    ((aux >> 12 & 3) as u8, aux & 0xfff)
}
