//! The thread table, read: who lives, and what each blocked thread waits in.

use crate::abi::page::Lane;
use crate::abi::slot::TaskSlot;
use crate::decode::page::read_header;

/// Bytes of a slot.
const SLOT: usize = size_of::<TaskSlot>();

/// The threads of one slot page: every slot that is taken and not being written. Nothing, where
/// the bytes are no slot page.
pub fn read(page: &[u8]) -> impl Iterator<Item = TaskSlot> + '_ {
    let body = match read_header(page) {
        Ok(header) if header.lane == Lane::Slots as u8 => page.get(usize::from(header.header_len)..),
        _ => None,
    };
    let (slots, _) = body.unwrap_or_default().as_chunks::<SLOT>();
    slots.iter().map(parse).filter(|slot| slot.tid != 0 && slot.seq.is_multiple_of(2))
}

/// A slot's fields, whatever they hold.
pub fn parse(bytes: &[u8; SLOT]) -> TaskSlot {
    let (words, _) = bytes.as_chunks::<8>();
    let w = |i: usize| words.get(i).map_or(0, |b| u64::from_le_bytes(*b));
    let high = |i: usize| (w(i) >> 32) as u32;
    let mut comm = [0; 16];
    for (to, from) in comm.iter_mut().zip(words.iter().skip(4).flatten()) {
        *to = *from;
    }
    TaskSlot {
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
        reserved: high(15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::page::{HEADER_LEN, PAGE_SIZE};
    use crate::abi::slot::{BLOCKED, IN_SYSCALL};
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
            reserved: 0,
        }
    }

    /// A slot page: a header as the page writer gives it, and these slots.
    fn page(lane: Lane, slots: &[TaskSlot]) -> Vec<u8> {
        let mut bytes = crate::encode::write_header(&PageWriter::new(1, lane, 0, 0).header()).to_vec();
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
        let page = page(Lane::Slots, &[TaskSlot { tid: 0, ..slot() }, TaskSlot { seq: 7, ..slot() }, slot()]);
        assert_eq!(read(&page).collect::<Vec<_>>(), [slot()]);
    }

    #[test]
    fn other_pages_hold_no_slots() {
        assert_eq!(read(&page(Lane::Meta, &[slot()])).count(), 0);
        assert_eq!(read(&[0; PAGE_SIZE]).count(), 0);
        let whole = page(Lane::Slots, &[slot(), slot()]);
        assert_eq!(read(&whole[..HEADER_LEN + SLOT + 5]).count(), 1);
    }
}
