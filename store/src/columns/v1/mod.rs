//! Version 1 of the columns: read for ever, and never written again.
//!
//! Pages, scheduling events, strings and other records are as in later versions; calls are taken
//! apart into their arguments ([`record`]), each predicted by what it was ([`call`]) or read by
//! itself ([`value`]).

mod call;
mod record;
mod value;

use flightrec_format::abi::layout::Layout;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::kind;
use flightrec_format::decode::{Page, Summary};

use super::ColumnsError;
use super::column::Column;
use super::header::{Ring, Rings};
use super::item::{At, EVENT, LEAD, Lead, PLAIN, TAIL, TEXT, is_fine};
use super::out::Out;
use super::page::{raw, read_page};
use super::plain::{LONGEST, Plain, is_event};
use super::record::{Sched, Text};
use super::sched::Scheduling;
use super::stream::{Reading, Stream};
use super::text::Texts;
use super::threads::Threads;
use call::{Calls, History};
use record::{Call, form};

/// What is known at some point of a block.
pub(super) struct Block {
    rings: Rings,
    models: Models,
}

impl Block {
    pub(super) fn new() -> Self {
        Self { rings: Rings::new(), models: Models::new() }
    }

    /// Reads a page.
    pub(super) fn decode(&mut self, s: &mut Reading<'_>) -> Result<(Page, Summary), ColumnsError> {
        let models = &mut self.models;
        read_page(&mut self.rings, s, |s, at, ring, out, first| {
            models.read(s, at, ring, out, first)
        })
    }
}

/// What is known of the records so far in a block.
struct Models {
    threads: Threads<History>,
    calls: Calls,
    scheduling: Scheduling,
    texts: Texts,
    plain: Plain,
}

impl Models {
    fn new() -> Self {
        Self {
            threads: Threads::new(),
            calls: Calls::new(),
            scheduling: Scheduling::new(),
            texts: Texts::new(),
            plain: Plain::new(),
        }
    }

    /// Reads an item, and puts it into the page; whether it counts with every reader as it does
    /// here. `first`: of its page.
    fn read(
        &mut self,
        s: &mut Reading<'_>,
        at: &mut At,
        ring: &mut Ring,
        out: &mut Out<'_>,
        first: bool,
    ) -> bool {
        if at.layout != Layout::V1 {
            s.fail();
            return false;
        }
        let op = s.byte(Column::Op, 0);
        let mut lead = Lead::default();
        lead.code(s, op, at, ring, &mut self.threads);
        lead.put(op, out);
        let known = lead.is_counted(op, first);
        // The time field that an event at once would have.
        let now = ring.now.wrapping_sub(at.base) as u32;
        match (op & !LEAD, Lane::from_u8(at.lane)) {
            (EVENT, Some(Lane::Syscall)) => known & self.call(s, at, ring, out, now),
            (EVENT, Some(Lane::Sched)) => {
                let mut event = Sched::default();
                self.scheduling.code(
                    s,
                    &mut event,
                    &mut ring.current,
                    &mut self.threads,
                    (now, at.cpu),
                );
                out.bytes(event.put(at.layout).as_flattened());
                ring.count(event.kind);
                ring.reach(at.base.wrapping_add(u64::from(event.upper)));
                known
            }
            (PLAIN, _) => {
                let mut record = [[0; 8]; LONGEST];
                self.plain.code(s, &mut record, at.layout, at.lane, now);
                let head = u64::from_le_bytes(record[0]);
                out.record(&record);
                if is_event(head as u8, at.lane) {
                    ring.count(head as u8);
                    ring.reach(at.base.wrapping_add(head >> 32));
                }
                false
            }
            (TEXT, _) => self.string(s, ring, out) && op & LEAD == 0 && !first,
            (TAIL, _) => {
                raw(s, std::mem::take(&mut out.left));
                false
            }
            _ => {
                s.fail();
                false
            }
        }
    }

    /// Reads a call and its strings.
    fn call(
        &mut self,
        s: &mut Reading<'_>,
        at: &At,
        ring: &mut Ring,
        out: &mut Out<'_>,
        now: u32,
    ) -> bool {
        let mut call = Call::default();
        self.calls.read(s, &mut self.threads.of(ring.current.tid).calls, &mut call, now);
        let (record, length) = call.put();
        out.some(&record, length);
        if call.form == form::FOLDED {
            ring.count(kind::EXIT);
        }
        ring.count(if call.form < form::EXITED { kind::ENTER } else { kind::EXIT });
        ring.reach(
            at.base.wrapping_add(u64::from(call.upper)).wrapping_add(u64::from(call.ticks) << 4),
        );
        let mut counts = call.aux >> 12 & 3 != 3 && call.ticks < 0xffff;
        for _ in 0..call.strings {
            counts &= self.string(s, ring, out);
            if s.failed() {
                break;
            }
        }
        counts
    }

    /// Reads a string; whether its status is one that there is.
    fn string(&mut self, s: &mut Reading<'_>, ring: &Ring, out: &mut Out<'_>) -> bool {
        let mut text = Text::EMPTY;
        self.texts.code(s, &mut text, &mut self.threads.of(ring.current.tid).strings);
        out.text(&text);
        is_fine(text.aux)
    }
}
