//! Offsets of the kernel's members into the instructions that load them ([`MARK`]), as a loader of C programs does by CO-RE.

use std::ops::Range;

use flightrec_format::abi::probe::{MARK, Offsets};
use object::{Object, ObjectSection, SectionKind};

/// Bytes of an instruction, and where its offset stands in it (`struct bpf_insn`, include/uapi/linux/bpf.h).
const INSN: usize = 8;
const OFFSET: Range<usize> = 2..4;
/// The class of loads from memory (`BPF_LDX`), and an instruction whose next 8 bytes are the rest of its constant.
const CLASS: u8 = 7;
const LDX: u8 = 1;
const LD_IMM64: u8 = 0x18;
/// Members.
const MEMBERS: usize = size_of::<Offsets>() / size_of::<u32>();

/// The programs with every marked load at the member's offset; in the memory of a vector, from an address that is a
/// multiple of 8 on, at which the second value says it begins. `Err`: what can't be.
pub fn put_in(programs: &[u8], offsets: &Offsets) -> Result<(Vec<u8>, usize), String> {
    let file = object::File::parse(programs).map_err(|e| e.to_string())?;
    let mut bytes = vec![0; programs.len() + INSN];
    let begin = bytes.as_ptr().align_offset(INSN).min(INSN);
    let copy = bytes.get_mut(begin..begin + programs.len()).ok_or("no room")?;
    copy.copy_from_slice(programs);
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let (at, size) = section.file_range().ok_or("a section without content")?;
        let code = usize::try_from(at).ok().zip(usize::try_from(at.saturating_add(size)).ok());
        let code = code.and_then(|(at, end)| copy.get_mut(at..end)).ok_or("a section beyond the file")?;
        let mut insns = code.chunks_exact_mut(INSN);
        while let Some(insn) = insns.next() {
            let opcode = insn.first().copied().unwrap_or(0);
            if opcode == LD_IMM64 {
                insns.next();
            } else if opcode & CLASS == LDX {
                place(insn, offsets)?;
            }
        }
    }
    Ok((bytes, begin))
}

/// One load.
fn place(insn: &mut [u8], offsets: &Offsets) -> Result<(), String> {
    let Some(Ok(field)) = insn.get_mut(OFFSET).map(<&mut [u8; 2]>::try_from) else { return Ok(()) };
    let mark = i16::from_le_bytes(*field);
    let Some(member) = u16::try_from(mark).ok().and_then(|mark| mark.checked_sub(MARK)) else { return Ok(()) };
    let offset = words(offsets).get(usize::from(member)).copied().ok_or(format!("no member has the mark {mark:#x}"))?;
    // An instruction has 15 bits for it; a greater `task_struct` has not been seen, and would need another way.
    let offset = i16::try_from(offset).map_err(|_| format!("a member at {offset} is beyond an instruction's reach"))?;
    *field = offset.to_le_bytes();
    Ok(())
}

/// The offsets by number.
fn words(offsets: &Offsets) -> [u32; MEMBERS] {
    // SAFETY: `repr(C)` of so many u32s, as its size says.
    unsafe { std::mem::transmute(*offsets) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::PROBES;

    /// Offsets that tell themselves apart: 1000, 1001, …
    fn offsets() -> Offsets {
        let words: [u32; MEMBERS] = std::array::from_fn(|i| 1000 + i as u32);
        // SAFETY: as in `words`.
        unsafe { std::mem::transmute(words) }
    }

    fn load(mark: i16) -> [u8; INSN] {
        let [low, high] = mark.to_le_bytes();
        [0x61, 0x12, low, high, 0, 0, 0, 0]
    }

    #[test]
    fn a_marked_load_is_at_its_member() {
        let mut insn = load(MARK as i16 + 3);
        place(&mut insn, &offsets()).unwrap();
        assert_eq!(insn, load(1003), "pid is the fourth member");
        for plain in [load(0), load(-8), load(120), load(MARK as i16 - 1)] {
            let mut insn = plain;
            place(&mut insn, &offsets()).unwrap();
            assert_eq!(insn, plain);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(place(&mut load(MARK as i16 + MEMBERS as i16), &offsets()).unwrap_err().contains("no member"));
        let far = Offsets { pid: 40_000, ..offsets() };
        assert!(place(&mut load(MARK as i16 + 3), &far).unwrap_err().contains("beyond"));
        assert!(put_in(b"no programs", &offsets()).is_err());
    }

    #[test]
    fn no_mark_is_left_in_the_programs() {
        let (bytes, begin) = put_in(PROBES, &offsets()).unwrap();
        let copy = &bytes[begin..begin + PROBES.len()];
        assert_eq!(copy.as_ptr().align_offset(INSN), 0);
        let changed = copy.chunks(2).zip(PROBES.chunks(2)).filter(|(new, old)| new != old);
        let mut members: Vec<u16> = changed.map(|(new, _)| u16::from_le_bytes([new[0], new[1]])).collect();
        members.sort_unstable();
        members.dedup();
        // Every event reads these: status, state, prio, pid, tgid, flags, start_time, cpu.
        assert_eq!(members, [1000, 1001, 1002, 1003, 1004, 1006, 1007, 1011]);
        assert_eq!(put_in(copy, &offsets()).unwrap().0.len(), bytes.len());
    }
}
