//! What is known of each thread, and which thread comes next.

use super::column::Column;
use super::stream::Stream;

/// Threads that are known at a time; two of one remainder take turns.
const SLOTS: usize = 1024;
/// Up to so many, ids are held as they come.
const IDS: usize = 1 << 14;
/// Threads that are found again by how recently they were named.
const RECENT: usize = 32;

/// Symbols of [`Column::Thread`]: the expected thread, the present one, one named by its id, then
/// the recent ones.
const EXPECTED: u8 = 0;
const PRESENT: u8 = 1;
const NEW: u8 = 2;
const AGAIN: u8 = 3;

/// A thread, as far as the pages before tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub(super) tid: u32,
    /// The thread whose records followed its own the last time.
    pub(super) next: u32,
    /// What its last calls were, 16 bits each, the last one lowest.
    pub(super) calls: u64,
    /// Its last two strings, by number; 0: none.
    pub(super) strings: [u16; 2],
    /// Scheduling: its priority; the CPU that it was seen on last; how it left it (state, and bit
    /// 0: preempted); whom it woke.
    pub(super) priority: u8,
    pub(super) cpu: u16,
    pub(super) left: u32,
    pub(super) wakee: u32,
}

/// The threads of a block.
pub(super) struct Threads {
    /// By the id's remainder: the place in `known`, plus one.
    slots: Box<[u16; SLOTS]>,
    known: Vec<Thread>,
    recent: [u32; RECENT],
    newest: u32,
    /// Those that were forgotten for another one of their remainder; some more than once.
    forgotten: Ids,
}

impl Threads {
    pub(super) fn new() -> Self {
        Self {
            slots: Box::new([0; SLOTS]),
            known: Vec::new(),
            recent: [0; RECENT],
            newest: 0,
            forgotten: Ids::default(),
        }
    }

    /// Forgets all, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
        self.known.clear();
        self.recent = [0; RECENT];
        self.newest = 0;
        self.forgotten.clear();
    }

    /// The ids of all threads that there were, some more than once.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.known.iter().map(|thread| thread.tid).chain(self.forgotten.0.iter().copied())
    }

    /// The thread of this id; forgets another one of its remainder.
    #[inline(always)]
    pub(super) fn of(&mut self, tid: u32) -> &mut Thread {
        let slot = &mut self.slots[tid as usize % SLOTS];
        let mut place = usize::from(*slot).wrapping_sub(1);
        if place >= self.known.len() {
            place = self.known.len();
            *slot = place as u16 + 1;
            self.known.push(Thread { tid, ..Thread::default() });
        }
        let thread = &mut self.known[place];
        if thread.tid != tid {
            let before = std::mem::replace(thread, Thread { tid, ..Thread::default() });
            self.forgotten.push(before.tid);
        }
        thread
    }

    /// Codes a thread's id: `expected`, `present`, a recent one, or any.
    pub(super) fn code<S: Stream>(
        &mut self,
        s: &mut S,
        tid: u32,
        expected: u32,
        present: u32,
    ) -> u32 {
        let symbol = if !S::WRITES {
            0
        } else if tid == expected {
            EXPECTED
        } else if tid == present {
            PRESENT
        } else {
            self.recent
                .iter()
                .position(|recent| *recent == tid)
                .map_or(NEW, |rank| AGAIN + rank as u8)
        };
        let tid = match s.byte(Column::Thread, symbol) {
            EXPECTED => expected,
            PRESENT => present,
            NEW => {
                self.newest =
                    s.near(Column::NewThread, u64::from(tid), u64::from(self.newest)) as u32;
                self.newest
            }
            symbol => self.recent.get(usize::from(symbol - AGAIN)).copied().unwrap_or_else(|| {
                s.fail();
                0
            }),
        };
        let rank = self.recent.iter().position(|recent| *recent == tid).unwrap_or(RECENT - 1);
        self.recent.copy_within(..rank, 1);
        self.recent[0] = tid;
        tid
    }
}

/// Ids of threads, some more than once.
#[derive(Debug, Default)]
pub(super) struct Ids(pub(super) Vec<u32>, usize);

impl Ids {
    /// Adds one. Once there are many, each is kept once, and as many may come again before that is
    /// done again.
    #[inline]
    pub(super) fn push(&mut self, id: u32) {
        if self.0.len() >= self.1.max(IDS) {
            self.0.sort_unstable();
            self.0.dedup();
            self.1 = 2 * self.0.len();
        }
        self.0.push(id);
    }

    /// Adds one that is mostly the last one.
    #[inline]
    pub(super) fn name(&mut self, id: u32) {
        if self.0.last() != Some(&id) {
            self.push(id);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
        self.1 = 0;
    }
}
