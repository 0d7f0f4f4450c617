//! Offsets of the kernel's members into the instructions that load them ([`MARK`]), as a loader of
//! C programs does by CO-RE; where the CPUs' states are ([`STATE`], [`LAST_CPU`]); how an address
//! becomes a pointer ([`CAST`]); and what of the machine stands in hot paths ([`STACK_BYTES`],
//! [`COMPAT_FLAG`], [`RELEASE`], [`BARRIER`]).
//!
//! # Order of stores
//!
//! x86_64 makes stores visible in the order of the program, so a store that publishes is a plain
//! one. aarch64 does not. There a [`RELEASE`] becomes `BPF_STORE_REL` where the kernel has it
//! (Linux 6.15; `stlr`), else, as a [`BARRIER`] does everywhere, `BPF_XCHG`: the kernel's memory
//! model has an atomic operation that gives back a value be a full barrier, and its JIT compiles it
//! so (`swpal`, or `ldxr`, `stlxr` and `dmb ish` on processors without LSE; `emit_lse_atomic`,
//! `emit_ll_sc_atomic`, arch/arm64/net/bpf_jit_comp.c, Linux 6.1). Plain stores and `BPF_ADD`
//! without a result order nothing.

use std::ops::Range;

use flightrec_format::abi::probe::{
    BARRIER, CAST, COMPAT_FLAG, LAST_CPU, MARK, Offsets, RELEASE, STACK_BYTES, STATE,
};
use flightrec_format::live::sys::Cast;
use object::{Object, ObjectSection, SectionKind};

/// Bytes of an instruction, and where its offset stands in it (`struct bpf_insn`,
/// include/uapi/linux/bpf.h).
const INSN: usize = 8;
const OFFSET: Range<usize> = 2..4;
/// The class of loads from memory (`BPF_LDX`), and an instruction whose next 8 bytes are the rest
/// of its constant.
const CLASS: u8 = 7;
const LDX: u8 = 1;
const LD_IMM64: u8 = 0x18;
/// The class of stores to memory (`BPF_STX`), and in an opcode its mode: a plain one (`BPF_MEM`),
/// or an atomic one (`BPF_ATOMIC`).
const STX: u8 = 3;
const MODE: u8 = 0xe0;
const MEM: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
/// What the atomic one does (`BPF_XCHG`, `BPF_STORE_REL`).
const EXCHANGE: i32 = 0xe1;
const STORE_RELEASE: i32 = 0x110;
/// An addition of a constant (`BPF_ALU64 | BPF_ADD | BPF_K`), and maskings by one (`BPF_ALU64` and
/// `BPF_ALU | BPF_AND | BPF_K`).
const ADD: u8 = 0x07;
const AND: [u8; 2] = [0x57, 0x54];
/// A jump where a register is at most the constant (`BPF_JMP | BPF_JLE | BPF_K`).
const JUMP_AT_MOST: u8 = 0xb5;
/// A constant into a register (`BPF_ALU64 | BPF_MOV | BPF_K`).
const MOVE: u8 = 0xb7;
/// A call of `bpf_get_current_task_btf`, and what its second byte is where it is one of a kernel's
/// function instead (`BPF_PSEUDO_KFUNC_CALL`).
const CURRENT: [u8; INSN] = [0x85, 0, 0, 0, 158, 0, 0, 0];
const KERNEL_FUNCTION: u8 = 2 << 4;
/// In the second byte of one that loads 64 bits: its constant is the descriptor of a map, for whose
/// first value's address it stands (`BPF_PSEUDO_MAP_VALUE`).
const MAP_VALUE: u8 = 2 << 4;
/// Where an instruction's constant stands, and where the rest of one of 64 bits.
const CONSTANT: Range<usize> = 4..8;
/// Members.
const MEMBERS: usize = size_of::<Offsets>() / size_of::<u32>();

/// What is put in.
#[derive(Debug, Clone, Copy)]
pub struct RelocationValues {
    /// Of this kernel's members.
    pub offsets: Offsets,
    /// Descriptor of the map `state`, which is to stay open until the programs are loaded.
    pub state: i32,
    /// The greatest number that a CPU can have.
    pub last_cpu: u32,
    /// How an address becomes a pointer, where the kernel can do that.
    pub cast: Option<Cast>,
    /// How a store publishes.
    pub order: StoreOrder,
    /// Bytes of a kernel stack.
    pub stack_bytes: u32,
    /// What [`COMPAT_FLAG`] stands for.
    pub compat_flag: u32,
}

/// What makes stores visible in the order of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOrder {
    /// The machine itself.
    Strong,
    /// An exchange.
    Exchange,
    /// A store that says so where that suffices, else an exchange.
    StoreRelease,
}

/// The programs with every marked load at the member's offset, and all else that is marked; in the
/// memory of a vector, from an address that is a multiple of 8 on, at which the second value says
/// it begins. `Err`: what can't be.
pub fn put_in(programs: &[u8], known: &RelocationValues) -> Result<(Vec<u8>, usize), String> {
    let file = object::File::parse(programs).map_err(|e| e.to_string())?;
    let mut bytes = vec![0; programs.len() + INSN];
    let begin = bytes.as_ptr().align_offset(INSN).min(INSN);
    let copy = bytes.get_mut(begin..begin + programs.len()).ok_or("no room")?;
    copy.copy_from_slice(programs);
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let (at, size) = section.file_range().ok_or("a section without content")?;
        let code = usize::try_from(at).ok().zip(usize::try_from(at.saturating_add(size)).ok());
        let code =
            code.and_then(|(at, end)| copy.get_mut(at..end)).ok_or("a section beyond the file")?;
        let mut insns = code.chunks_exact_mut(INSN);
        while let Some(insn) = insns.next() {
            let opcode = insn.first().copied().unwrap_or(0);
            if opcode == LD_IMM64 {
                let rest = insns.next().ok_or("half an instruction at a section's end")?;
                address(insn, rest, known.state);
            } else if opcode == JUMP_AT_MOST && constant(insn) == Some(&mut LAST_CPU.to_le_bytes())
            {
                set(insn, known.last_cpu as i32);
            } else if opcode == MOVE && constant(insn) == Some(&mut CAST.to_le_bytes()) {
                let call = insns.next().ok_or("a cast at a section's end")?;
                cast(insn, call, known.cast)?;
            } else if opcode == ADD && constant(insn) == Some(&mut STACK_BYTES.to_le_bytes()) {
                set(insn, known.stack_bytes as i32);
            } else if AND.contains(&opcode)
                && constant(insn) == Some(&mut COMPAT_FLAG.to_le_bytes())
            {
                set(insn, known.compat_flag as i32);
            } else if opcode & CLASS == LDX {
                place(insn, &known.offsets)?;
            } else if opcode & (CLASS | MODE) == STX | MEM {
                order(insn, known.order);
            }
        }
    }
    Ok((bytes, begin))
}

/// An instruction's constant.
fn constant(insn: &mut [u8]) -> Option<&mut [u8; 4]> {
    insn.get_mut(CONSTANT)?.try_into().ok()
}

fn set(insn: &mut [u8], value: i32) {
    if let Some(constant) = constant(insn) {
        *constant = value.to_le_bytes();
    }
}

/// One constant of 64 bits: the state's address, where it is [`STATE`] and nothing else yet.
fn address(insn: &mut [u8], rest: &mut [u8], state: i32) {
    let word = |insn: &mut [u8]| constant(insn).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let value = u64::from(word(insn)) | u64::from(word(rest)) << 32;
    if value == STATE
        && let Some(registers @ 0..16) = insn.get_mut(1)
    {
        *registers |= MAP_VALUE;
        set(insn, state);
        set(rest, 0);
    }
}

/// One cast: the type's number, and the call.
fn cast(insn: &mut [u8], call: &mut [u8], cast: Option<Cast>) -> Result<(), String> {
    if call != CURRENT {
        return Err("a cast without a call".into());
    }
    let Some(Cast { function, structure }) = cast else {
        set(insn, 0);
        return Ok(());
    };
    set(insn, structure as i32);
    set(call, function as i32);
    if let Some(registers) = call.get_mut(1) {
        *registers = KERNEL_FUNCTION;
    }
    Ok(())
}

/// One load.
fn place(insn: &mut [u8], offsets: &Offsets) -> Result<(), String> {
    let Some(Ok(field)) = insn.get_mut(OFFSET).map(<&mut [u8; 2]>::try_from) else { return Ok(()) };
    let mark = i16::from_le_bytes(*field);
    let Some(member) = u16::try_from(mark).ok().and_then(|mark| mark.checked_sub(MARK)) else {
        return Ok(());
    };
    let offset = words(offsets)
        .get(usize::from(member))
        .copied()
        .ok_or(format!("no member has the mark {mark:#x}"))?;
    // An instruction has 15 bits for it; a greater `task_struct` has not been seen, and would need
    // another way.
    let offset = i16::try_from(offset)
        .map_err(|_| format!("a member at {offset} is beyond an instruction's reach"))?;
    *field = offset.to_le_bytes();
    Ok(())
}

/// One store.
fn order(insn: &mut [u8], how: StoreOrder) {
    let Some(Ok(field)) = insn.get_mut(OFFSET).map(<&mut [u8; 2]>::try_from) else { return };
    let at = u16::from_le_bytes(*field);
    let (at, separates) = match at {
        RELEASE..MARK => (at - RELEASE, false),
        BARRIER..RELEASE => (at - BARRIER, true),
        _ => return,
    };
    *field = at.to_le_bytes();
    let operation = match how {
        StoreOrder::Strong => return,
        StoreOrder::StoreRelease if !separates => STORE_RELEASE,
        StoreOrder::StoreRelease | StoreOrder::Exchange => EXCHANGE,
    };
    if let Some(opcode) = insn.first_mut() {
        *opcode = *opcode & !MODE | ATOMIC;
    }
    set(insn, operation);
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

    const fn known(offsets: Offsets) -> RelocationValues {
        RelocationValues {
            offsets,
            state: 77,
            last_cpu: 5,
            cast: Some(Cast { function: 1234, structure: 56 }),
            order: StoreOrder::Strong,
            stack_bytes: 65_536,
            compat_flag: 0x40,
        }
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
    fn a_store_publishes_as_the_machine_does() {
        let store = |opcode: u8, at: u16, operation: i32| {
            let [low, high] = at.to_le_bytes();
            let mut insn = [opcode, 0x21, low, high, 0, 0, 0, 0];
            set(&mut insn, operation);
            insn
        };
        // Of 32 bits and of 64.
        for (plain, atomic) in [(0x63, 0xc3), (0x7b, 0xdb)] {
            for (how, publishing, separating) in [
                (StoreOrder::Strong, store(plain, 48, 0), store(plain, 48, 0)),
                (StoreOrder::Exchange, store(atomic, 48, 0xe1), store(atomic, 48, 0xe1)),
                (StoreOrder::StoreRelease, store(atomic, 48, 0x110), store(atomic, 48, 0xe1)),
            ] {
                for (mark, wanted) in [(RELEASE, publishing), (BARRIER, separating)] {
                    let mut insn = store(plain, mark + 48, 0);
                    order(&mut insn, how);
                    assert_eq!(insn, wanted, "{how:?}");
                }
                let mut other = store(plain, 48, 0);
                order(&mut other, how);
                assert_eq!(other, store(plain, 48, 0), "{how:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(
            place(&mut load(MARK as i16 + MEMBERS as i16), &offsets())
                .unwrap_err()
                .contains("no member")
        );
        let far = Offsets { pid: 40_000, ..offsets() };
        assert!(place(&mut load(MARK as i16 + 3), &far).unwrap_err().contains("beyond"));
        assert!(put_in(b"no programs", &known(offsets())).is_err());
    }

    #[test]
    fn the_state_is_at_its_maps_value() {
        let insn = |registers: u8, constant: i32| {
            let mut insn = [0x18, registers, 0, 0, 0, 0, 0, 0];
            set(&mut insn, constant);
            insn
        };
        let (low, high) = (STATE as i32, (STATE >> 32) as i32);
        let half =
            [0, 0, 0, 0, high as u8, (high >> 8) as u8, (high >> 16) as u8, (high >> 24) as u8];
        let (mut first, mut rest) = (insn(3, low), half);
        address(&mut first, &mut rest, 77);
        assert_eq!((first, rest), (insn(0x23, 77), [0; 8]));
        // A map's descriptor, and another constant.
        for other in [insn(0x13, low), insn(3, low + 1)] {
            let (mut first, mut rest) = (other, half);
            address(&mut first, &mut rest, 77);
            assert_eq!((first, rest), (other, half));
        }
    }

    #[test]
    fn a_kernel_without_casts_is_asked_for_the_running_thread() {
        let mark = [MOVE, 2, 0, 0, 0xc2, 0x7e, 0x74, 0x51];
        let (mut insn, mut call) = (mark, CURRENT);
        cast(&mut insn, &mut call, None).unwrap();
        assert_eq!((insn, call), ([MOVE, 2, 0, 0, 0, 0, 0, 0], CURRENT));
        assert!(cast(&mut insn, &mut mark.clone(), None).unwrap_err().contains("without a call"));
    }

    #[test]
    fn no_mark_is_left_in_the_programs() {
        let (bytes, begin) = put_in(PROBES, &known(offsets())).unwrap();
        let copy = &bytes[begin..begin + PROBES.len()];
        assert_eq!(copy.as_ptr().align_offset(INSN), 0);
        let mut members = Vec::new();
        let (mut states, mut bounds, mut casts, mut calls) = (0, 0, 0, 0);
        let (mut stacks, mut flags, mut stores) = (0, 0, 0);
        for (new, old) in copy.chunks(INSN).zip(PROBES.chunks(INSN)).filter(|(new, old)| new != old)
        {
            match (old[0], new[0]) {
                (LD_IMM64, LD_IMM64) => {
                    states +=
                        usize::from(new[1] == old[1] | MAP_VALUE && new[4..] == [77, 0, 0, 0]);
                }
                (0, 0) => assert_eq!(new, [0; INSN], "the rest of a state's address"),
                (JUMP_AT_MOST, JUMP_AT_MOST) => {
                    bounds += usize::from(new[..4] == old[..4] && new[4..] == [5, 0, 0, 0]);
                }
                (MOVE, MOVE) => {
                    casts += usize::from(new[..4] == old[..4] && new[4..] == [56, 0, 0, 0]);
                }
                (0x85, 0x85) => {
                    calls += usize::from(new == [0x85, KERNEL_FUNCTION, 0, 0, 210, 4, 0, 0]);
                }
                (ADD, ADD) => stacks += usize::from(new[4..] == 65_536u32.to_le_bytes()),
                (0x57 | 0x54, 0x57 | 0x54) => flags += usize::from(new[4..] == [0x40, 0, 0, 0]),
                (0x63 | 0x7b, 0x63 | 0x7b) => {
                    stores += 1;
                    assert!(u16::from_le_bytes([new[2], new[3]]) < 64, "{new:?}");
                }
                _ => members.push(u16::from_le_bytes([new[2], new[3]])),
            }
        }
        members.sort_unstable();
        members.dedup();
        // Every event reads these: flags of a 32-bit call, state, prio, pid, tgid, flags,
        // start_time, cpu, stack; and the registers after them.
        let every = [1000, 1001, 1002, 1003, 1004, 1006, 1007, 1015, 1023];
        assert!(members.iter().copied().eq(every.into_iter().chain(1024..1000 + MEMBERS as u16)));
        // Where a program looks who runs; at the beginning and the end of a call, of a thread that
        // stops, and of a line of the log; where something is published.
        assert!(stacks > 0 && flags > 0 && stores > 0, "{stacks} {flags} {stores}");
        // At an entry, in either form; where a bucket that runs short looks at who draws, three
        // times; and for the context of the two kinds of wakeup, of the three of requests to disks,
        // of waits for locks, of the two of connections, of results of io_uring and of configured
        // tracepoints, and where its address is found. For members that are pointers: there once
        // more, a new thread's parent and group and those of one that was there before, what a new
        // thread and its creator have, a process's signals where a thread ends, a new program's
        // memory, a sample's and a mapping's, and that of a thread whose context is read.
        assert_eq!((casts, calls), (28, 28));
        // Each program of an event, and no other compares with a number like that but the one that
        // goes through all CPUs.
        assert!(states >= 12 && bounds == states + 1, "{states} {bounds}");
        assert_eq!(put_in(copy, &known(offsets())).unwrap().0.len(), bytes.len());
    }
}
