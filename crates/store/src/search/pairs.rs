//! How long the calls of a file took that end in records of their own, by block.
//!
//! The pages of a block are of all CPUs, and a thread's call may begin in a later block than it ends
//! in. So the records wait until all blocks are through that may have earlier ones.

use std::collections::HashMap;

use super::maker::Missing;
use super::{BlockEntry, CallKey};

/// Most records that wait: more are taken as they come, and more of them have no beginning then.
const WAITING_MAX: usize = 1 << 20;
/// Most threads of which a call is open.
const OPEN_MAX: usize = 1 << 18;

/// A record of a call's beginning or end alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lone {
    pub(super) time: u64,
    pub(super) tid: u32,
    /// The end of this call, which lacks so much; `None`: a beginning.
    pub(super) end: Option<(CallKey, Missing)>,
}

/// The calls of a file, block by block.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Records, each with the number of its block, until their turn.
    waiting: Vec<(Lone, usize)>,
    /// By thread: when its call began that is open.
    open: HashMap<u32, u64>,
}

impl Pairs {
    pub(super) fn add(&mut self, block: usize, records: impl IntoIterator<Item = Lone>) {
        self.waiting.extend(records.into_iter().map(|record| (record, block)));
    }

    /// Nothing from before a moment comes any more.
    pub(super) fn pass(&mut self, moment: u64, blocks: &mut [BlockEntry]) {
        // Of one moment in the order in which they are recorded.
        self.waiting.sort_by_key(|(record, _)| record.time);
        let due = if self.waiting.len() > WAITING_MAX {
            self.waiting.len()
        } else {
            self.waiting.partition_point(|(record, _)| record.time < moment)
        };
        for (Lone { time, tid, end }, block) in self.waiting.drain(..due) {
            let Some((call, missing)) = end else {
                if self.open.len() >= OPEN_MAX {
                    self.open.clear();
                }
                self.open.insert(tid, time);
                continue;
            };
            let began = self.open.remove(&tid).filter(|began| *began <= time);
            let Some(block) = blocks.get_mut(block) else { continue };
            if let Some(began) = began {
                block.took(time - began);
            } else {
                block.longest = None;
                block.unbegun(call, missing);
            }
        }
    }
}
