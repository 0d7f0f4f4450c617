//! The thread table, read: who lives, and what each blocked thread waits in.

use crate::abi::args;
use crate::abi::page::{Lane, UNIT};
use crate::abi::record::{fold, kind};
use crate::abi::slot::{ARGS_BYTES, IN_SYSCALL, PACKED, TaskSlot};
use crate::decode::page::read_header;

/// Bytes of a slot.
const SLOT: usize = size_of::<TaskSlot>();

/// The threads of one slot page: every slot that is taken and not being written. Nothing, where
/// the bytes are no slot page.
pub fn read(page: &[u8]) -> impl Iterator<Item = TaskSlot> + '_ {
    let body = match read_header(page) {
        Ok(header) if header.lane == Lane::Slots as u8 => {
            page.get(usize::from(header.header_len)..)
        }
        _ => None,
    };
    let (slots, _) = body.unwrap_or_default().as_chunks::<SLOT>();
    slots.iter().map(parse).filter(|slot| slot.tid != 0 && slot.seq.is_multiple_of(2))
}

/// A slot's fields, whatever they hold; of a call that stands there as its entry's record has it
/// ([`PACKED`]), what it says.
pub fn parse(bytes: &[u8; SLOT]) -> TaskSlot {
    let (words, _) = bytes.as_chunks::<8>();
    let w = |i: usize| words.get(i).map_or(0, |b| u64::from_le_bytes(*b));
    let high = |i: usize| (w(i) >> 32) as u32;
    let mut comm = [0; 16];
    for (to, from) in comm.iter_mut().zip(words.iter().skip(4).flatten()) {
        *to = *from;
    }
    let slot = TaskSlot {
        seq: w(0) as u32,
        tid: high(0),
        tgid: w(1) as u32,
        flags: high(1),
        start_time: w(2),
        cgroup: w(3),
        comm,
        since: w(6),
        state: w(7) as u32,
        nr: high(7) as i32,
        args: [w(8), w(9), w(10), w(11), w(12), w(13)],
        ppid: w(14) as u32,
        prio: high(14) as i32,
        abi: w(15) as u32,
        known: high(15),
    };
    if slot.flags & PACKED != 0 { unfold(slot) } else { slot }
}

/// The same slot with its call's number, table and arguments in their places; in no call, where
/// they can't be.
fn unfold(mut slot: TaskSlot) -> TaskSlot {
    let head = slot.nr as u32;
    let (kind, units, aux) = (head as u8, (head >> 8) as u8, (head >> 16) as u16);
    let mut packed = [0; ARGS_BYTES];
    let bytes = slot.args.iter().flat_map(|word| word.to_le_bytes()).chain(slot.abi.to_le_bytes());
    for (to, from) in packed.iter_mut().zip(bytes) {
        *to = from;
    }
    let length = (UNIT * usize::from(units)).checked_sub(8 + fold::SLOT);
    let group = match length.and_then(|length| packed.get(..length)) {
        Some([]) => Some((0, [0; 6])),
        Some(bytes) => args::decode(bytes),
        None => None,
    };
    slot.flags &= !PACKED;
    match group {
        Some((known, args)) if kind == kind::ENTER => {
            slot.nr = i32::from(aux & 0xfff);
            slot.abi = u32::from(aux >> 12 & 3);
            (slot.args, slot.known) = (args, known as u32);
        }
        _ => {
            slot.flags &= !IN_SYSCALL;
            (slot.nr, slot.abi, slot.args, slot.known) = (0, 0, [0; 6], 0);
        }
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::page::{HEADER_LEN, PAGE_SIZE};
    use crate::abi::record::Abi;
    use crate::abi::slot::BLOCKED;
    use crate::decode::{Body, Call, Event};
    use crate::encode::{PageWriter, write_slot};

    fn slot() -> TaskSlot {
        TaskSlot {
            seq: 6,
            tid: 8883,
            tgid: 8880,
            flags: BLOCKED | IN_SYSCALL,
            start_time: 0x1111_2222_3333_4444,
            cgroup: 55,
            comm: *b"TP09\0\0\0\0\0\0\0\0\0\0\0\0",
            since: 77,
            state: 2,
            nr: -1,
            args: [1, 2, 3, u64::MAX, 5, 6],
            ppid: 1,
            prio: -3,
            abi: 1,
            known: 0,
        }
    }

    /// A slot page: a header as the page writer gives it, and these slots.
    fn page(lane: Lane, slots: &[TaskSlot]) -> Vec<u8> {
        let mut bytes =
            crate::encode::write_header(&PageWriter::new(1, lane, 0, 0).header()).to_vec();
        bytes.resize(PAGE_SIZE, 0);
        for (i, slot) in slots.iter().enumerate() {
            bytes[HEADER_LEN + i * SLOT..][..SLOT].copy_from_slice(&write_slot(slot));
        }
        bytes[24] = 1; // seq
        bytes
    }

    #[test]
    fn slots_come_back_as_written() {
        let page = page(Lane::Slots, &[slot(), TaskSlot { tid: 9, ..slot() }]);
        assert_eq!(read(&page).collect::<Vec<_>>(), [slot(), TaskSlot { tid: 9, ..slot() }]);
    }

    #[test]
    fn free_and_torn_slots_are_left_out() {
        let page = page(
            Lane::Slots,
            &[TaskSlot { tid: 0, ..slot() }, TaskSlot { seq: 7, ..slot() }, slot()],
        );
        assert_eq!(read(&page).collect::<Vec<_>>(), [slot()]);
    }

    #[test]
    fn other_pages_hold_no_slots() {
        assert_eq!(read(&page(Lane::Meta, &[slot()])).count(), 0);
        assert_eq!(read(&[0; PAGE_SIZE]).count(), 0);
        let whole = page(Lane::Slots, &[slot(), slot()]);
        assert_eq!(read(&whole[..HEADER_LEN + SLOT + 5]).count(), 1);
    }
    /// A slot into which the probes copied the beginning of the call's ENTER record, as the page
    /// writer makes it.
    fn packed(call: &Call) -> TaskSlot {
        let mut writer = PageWriter::new(1, Lane::Syscall, 0, 0);
        writer
            .push(&Event { time: 9, cpu: 0, tid: 8883, body: Body::Enter(call.clone()) })
            .unwrap();
        let mut page = writer.finish().remove(0);
        let used = read_header(&page[..]).unwrap().used_bytes();
        // What stood in the page before is copied as well.
        page[used..].fill(0xee);
        let record = &page[HEADER_LEN + 8..];
        let word = |at: usize| u64::from_le_bytes(*record[at..].first_chunk().unwrap());
        let (nr, abi) = (word(0) as i32, word(12 + 48) as u32);
        TaskSlot {
            flags: BLOCKED | IN_SYSCALL | PACKED,
            nr,
            args: [12, 20, 28, 36, 44, 52].map(word),
            abi,
            ..slot()
        }
    }

    #[test]
    fn a_packed_call_comes_back_as_it_was_entered() {
        for args in [
            [3, u64::MAX, 0x7fff_1234_5678, 40_000, 0, 9],
            [u64::MAX / 3, 0, 1 << 47, 7, 8, u64::MAX - 5],
        ] {
            for nargs in 0..=6 {
                let mut known = [0; 6];
                known[..nargs].copy_from_slice(&args[..nargs]);
                let call = Call {
                    nr: 257,
                    abi: Abi::X32,
                    nargs: nargs as u8,
                    args: known,
                    strings: Vec::new(),
                };
                let expected = TaskSlot {
                    nr: 257,
                    abi: Abi::X32 as u32,
                    args: known,
                    known: nargs as u32,
                    ..slot()
                };
                assert_eq!(parse(&write_slot(&packed(&call))), expected, "{nargs} arguments");
            }
        }
    }

    #[test]
    fn a_packed_call_that_can_not_be_is_none() {
        let call = Call {
            nr: 0,
            abi: Abi::Native,
            nargs: 2,
            args: [1, 2, 0, 0, 0, 0],
            strings: Vec::new(),
        };
        let whole = packed(&call);
        let damaged = [
            TaskSlot { nr: whole.nr ^ 1, ..whole },       // no ENTER
            TaskSlot { nr: whole.nr & !0xff00, ..whole }, // no length
            TaskSlot { nr: whole.nr | 0xff00, ..whole },  // a length beyond the slot
            TaskSlot { args: [0x7000, 0, 0, 0, 0, 0], ..whole }, // seven arguments
            TaskSlot { args: [0x6fff, 0, 0, 0, 0, 0], ..whole }, // more than the length holds
        ];
        for slot in damaged {
            let read = parse(&write_slot(&slot));
            assert_eq!(
                (read.flags, read.nr, read.known, read.args),
                (BLOCKED, 0, 0, [0; 6]),
                "{slot:?}"
            );
        }
    }
}
