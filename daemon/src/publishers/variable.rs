//! Where a program, or a library of it, has the thread-local variable [`SYMBOL`].
//!
//! It is looked up in the process's memory, as the dynamic linker has laid it out, and not in
//! files: a process may be in another mount namespace, and its file gone or another one by now. All
//! that is read is the process's word. Bounded are the tables that are read, and the steps through
//! them.

mod layout;

use flightrec_format::abi::publisher::{MODULES_MAX, SYMBOL};

pub(super) use self::layout::Layout;

/// Memory of a process.
pub(super) trait Memory {
    /// So many bytes from an address on; `None`: they are not all there.
    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>>;
}

/// Where a thread's variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variable {
    /// Index of the module in a thread's vector of dynamic storage; 0: it is in the static part.
    pub(super) module: u32,
    /// Bytes from the thread pointer on, or from the module's part on.
    pub(super) offset: i64,
}

/// What a file has of it, wherever it is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defined {
    /// No such variable.
    No,
    /// In the program: its place in the static part is known when it is linked.
    Program(Variable),
    /// In a library: the dynamic linker writes its place into memory.
    Library(Slot),
}

/// Where the dynamic linker writes the place of a library's variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// In what form.
    form: SlotForm,
    /// The address, as the file has it.
    at: u64,
    /// Where the variable is in the module's part.
    value: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotForm {
    /// A function and its argument.
    Descriptor,
    /// A module and an offset.
    Index,
    /// Bytes from the thread pointer on.
    Static,
}

/// `ELFMAG`, `ELFCLASS64`, `ELFDATA2LSB`, `EV_CURRENT`.
const IDENT: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];
const HEADER: usize = 64;
/// `ET_EXEC`, `ET_DYN`.
const TYPES: [u16; 2] = [2, 3];
const SEGMENT: usize = 56;
/// Most segments of a file.
const SEGMENTS_MAX: usize = 64;
/// `PT_LOAD`, `PT_DYNAMIC`, `PT_TLS`.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const TLS: u32 = 7;
/// Most entries of the dynamic section.
const DYNAMIC_MAX: usize = 512;
/// `DF_1_PIE` of `DT_FLAGS_1`.
const PIE: u64 = 0x0800_0000;
const SYMBOL_ENTRY: usize = 24;
/// `STT_TLS`.
const TLS_SYMBOL: u8 = 6;
/// Most symbols that are gone through to find one: those of one bucket.
const CHAIN_MAX: usize = 4096;
const RELOCATION: usize = 24;
/// Most bytes of relocations of a file.
const RELOCATIONS_MAX: u64 = 4 << 20;
/// What is read of them at once: whole ones.
const RELOCATIONS_STEP: usize = RELOCATION * 170;

/// A file as it is mapped.
struct Image<'a, M> {
    memory: &'a M,
    layout: &'static Layout,
    /// What addresses of the file are less of those in memory.
    bias: u64,
    /// `PT_TLS`: address, size in memory, alignment.
    tls: (u64, u64, u64),
    dynamic: Vec<(u64, u64)>,
    is_program: bool,
}

/// What a file whose first byte is mapped at `base` has of the variable. `None`: it can't be told,
/// as its memory is not all there.
pub(super) fn look_up(memory: &impl Memory, layout: &'static Layout, base: u64) -> Option<Defined> {
    let Some(image) = Image::read(memory, layout, base)? else { return Some(Defined::No) };
    let Some(symbol) = image.symbol()? else { return Some(Defined::No) };
    if image.is_program {
        let offset = layout.program(image.tls).wrapping_add(symbol.value);
        return Some(Defined::Program(Variable { module: 0, offset: offset as i64 }));
    }
    Some(image.slot(&symbol)?.map_or(Defined::No, Defined::Library))
}

/// Where the variable of a library is that is mapped from `base` on. `None`: the dynamic linker has
/// not written it yet.
pub(super) fn resolve(
    memory: &impl Memory,
    layout: &Layout,
    base: u64,
    slot: &Slot,
) -> Option<Variable> {
    let bias = base.wrapping_sub(first(memory, base)?);
    let pair = |address| {
        let pair = words(memory.read(address, 16)?.as_slice());
        Some((*pair.first()?, *pair.get(1)?))
    };
    let (one, other) = pair(bias.wrapping_add(slot.at))?;
    let dynamic = |(module, offset): (u64, u64)| {
        let is_good = (1..u64::from(MODULES_MAX)).contains(&module) && offset == slot.value;
        is_good.then_some(Variable { module: module as u32, offset: offset as i64 })
    };
    match slot.form {
        SlotForm::Static => layout.place(one),
        SlotForm::Index => dynamic((one, other)),
        SlotForm::Descriptor if one == 0 => None,
        // The argument is where module and offset are (`struct tlsdesc_dynamic_arg`,
        // sysdeps/x86/dl-tlsdesc.h, sysdeps/aarch64/dl-tlsdesc.h, glibc 2.36), or an offset, which
        // as an address is in the first pages or the kernel's.
        SlotForm::Descriptor => match pair(other) {
            Some(pair) => dynamic(pair),
            None => layout.place(other),
        },
    }
}

/// The address that the file has for its first byte.
fn first(memory: &impl Memory, base: u64) -> Option<u64> {
    let header = memory.read(base, HEADER)?;
    segments(memory, base, &header)?.iter().find_map(first_of)
}

/// A segment's kind, place in the file, address, size in memory, alignment.
type Segment = (u32, u64, u64, u64, u64);

/// The address of a file's first byte, if this segment has it.
fn first_of(&(kind, offset, address, ..): &Segment) -> Option<u64> {
    (kind == LOAD).then(|| address.checked_sub(offset).filter(|_| offset < 0x1000)).flatten()
}

fn segments(memory: &impl Memory, base: u64, header: &[u8]) -> Option<Vec<Segment>> {
    let at = u64_at(header, 32)?;
    let (size, count) = (usize::from(u16_at(header, 54)?), usize::from(u16_at(header, 56)?));
    if size != SEGMENT || count > SEGMENTS_MAX {
        return Some(Vec::new());
    }
    let bytes = memory.read(base.wrapping_add(at), count * SEGMENT)?;
    let segment = |of: &[u8]| {
        let word = |at| u64_at(of, at);
        Some((u32_at(of, 0)?, word(8)?, word(16)?, word(40)?, word(48)?))
    };
    bytes.chunks_exact(SEGMENT).map(segment).collect()
}

/// A symbol of the dynamic symbol table.
struct Symbol {
    number: u32,
    value: u64,
}

impl<'a, M: Memory> Image<'a, M> {
    /// `None` inside: no such file, or one without thread-local variables.
    #[expect(clippy::option_option, reason = "outside: whether it could be read; inside: if any")]
    fn read(memory: &'a M, layout: &'static Layout, base: u64) -> Option<Option<Self>> {
        let header = memory.read(base, HEADER)?;
        let kind = u16_at(&header, 16)?;
        let machine = u16_at(&header, 18)?;
        if !header.starts_with(&IDENT)
            || !TYPES.contains(&kind)
            || machine != layout.machine.elf_machine()
        {
            return Some(None);
        }
        let segments = segments(memory, base, &header)?;
        let find = |kind| segments.iter().find(|of| of.0 == kind);
        let (Some(first), Some(tls), Some(dynamic)) =
            (segments.iter().find_map(first_of), find(TLS), find(DYNAMIC))
        else {
            return Some(None);
        };
        let bias = base.wrapping_sub(first);
        let entries = (dynamic.3 as usize / 16).min(DYNAMIC_MAX);
        let bytes = memory.read(bias.wrapping_add(dynamic.2), entries * 16)?;
        let pairs = bytes.chunks_exact(16).map(|of| Some((u64_at(of, 0)?, u64_at(of, 8)?)));
        let pairs: Vec<_> = pairs.collect::<Option<_>>()?;
        let dynamic: Vec<_> = pairs.into_iter().take_while(|(tag, _)| *tag != 0).collect();
        let mut image =
            Self { memory, layout, bias, tls: (tls.2, tls.3, tls.4), dynamic, is_program: false };
        image.is_program = kind == TYPES[0] || image.number(0x6fff_fffb).unwrap_or(0) & PIE != 0;
        Some(Some(image))
    }

    /// A number of the dynamic section.
    fn number(&self, tag: u64) -> Option<u64> {
        self.dynamic.iter().find(|(of, _)| *of == tag).map(|(_, value)| *value)
    }

    /// An address there. glibc adds the bias in place (`elf_get_dynamic_info`,
    /// elf/get-dynamic-info.h, 2.36), other linkers do not.
    fn address(&self, tag: u64) -> Option<u64> {
        let value = self.number(tag)?;
        Some(if value < self.bias { value.wrapping_add(self.bias) } else { value })
    }

    /// The variable's symbol, if it is defined here.
    #[expect(clippy::option_option, reason = "outside: whether it could be read; inside: if any")]
    fn symbol(&self) -> Option<Option<Symbol>> {
        let (Some(symbols), Some(names)) = (self.address(6), self.address(5)) else {
            return Some(None);
        };
        let candidates = if let Some(table) = self.address(0x6fff_fef5) {
            self.by_gnu_hash(table)?
        } else if let Some(table) = self.address(4) {
            self.by_hash(table)?
        } else {
            Vec::new()
        };
        for number in candidates {
            let at = symbols.wrapping_add(u64::from(number) * SYMBOL_ENTRY as u64);
            let entry = self.memory.read(at, SYMBOL_ENTRY)?;
            let (name, section) = (u32_at(&entry, 0)?, u16_at(&entry, 6)?);
            let is_tls = entry.get(4).is_some_and(|info| info & 0xf == TLS_SYMBOL);
            if !is_tls || section == 0 {
                continue;
            }
            // A name at the end of the memory may be shorter.
            let text = self.memory.read(names.wrapping_add(u64::from(name)), SYMBOL.len() + 1);
            if text.is_some_and(|text| text.strip_suffix(&[0]) == Some(SYMBOL.as_bytes())) {
                return Some(Some(Symbol { number, value: u64_at(&entry, 8)? }));
            }
        }
        Some(None)
    }

    /// Symbols that may have the name, by `DT_GNU_HASH`.
    fn by_gnu_hash(&self, table: u64) -> Option<Vec<u32>> {
        let hash = SYMBOL
            .bytes()
            .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let head = self.memory.read(table, 16)?;
        let (buckets, first) = (u32_at(&head, 0)?, u32_at(&head, 4)?);
        let bloom = u64::from(u32_at(&head, 8)?) * 8;
        if buckets == 0 {
            return Some(Vec::new());
        }
        let table = table.wrapping_add(16).wrapping_add(bloom);
        let bucket = table.wrapping_add(u64::from(hash % buckets) * 4);
        let mut number = u32_at(&self.memory.read(bucket, 4)?, 0)?;
        let chains = table.wrapping_add(u64::from(buckets) * 4);
        let mut found = Vec::new();
        for _ in 0..CHAIN_MAX {
            let Some(at) = number.checked_sub(first) else { break };
            let entry = u32_at(&self.memory.read(chains.wrapping_add(u64::from(at) * 4), 4)?, 0)?;
            if entry | 1 == hash | 1 {
                found.push(number);
            }
            if entry & 1 != 0 {
                break;
            }
            number = number.wrapping_add(1);
        }
        Some(found)
    }

    /// The same by `DT_HASH`.
    fn by_hash(&self, table: u64) -> Option<Vec<u32>> {
        let hash = SYMBOL.bytes().fold(0u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(byte));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        });
        let buckets = u32_at(&self.memory.read(table, 8)?, 0)?;
        if buckets == 0 {
            return Some(Vec::new());
        }
        let word = |at: u64| u32_at(&self.memory.read(table.wrapping_add(8 + at * 4), 4)?, 0);
        let mut number = word(u64::from(hash % buckets))?;
        let mut found = Vec::new();
        for _ in 0..CHAIN_MAX {
            if number == 0 {
                break;
            }
            found.push(number);
            number = word(u64::from(buckets) + u64::from(number))?;
        }
        Some(found)
    }

    /// Where the dynamic linker writes the variable's place.
    #[expect(clippy::option_option, reason = "outside: whether it could be read; inside: if any")]
    fn slot(&self, symbol: &Symbol) -> Option<Option<Slot>> {
        for (table, size) in [(7, 8), (23, 2)] {
            let (Some(at), Some(size)) = (self.address(table), self.number(size)) else {
                continue;
            };
            let mut left = size.min(RELOCATIONS_MAX) as usize / RELOCATION * RELOCATION;
            let mut at = at;
            while left > 0 {
                let step = left.min(RELOCATIONS_STEP);
                for entry in self.memory.read(at, step)?.chunks_exact(RELOCATION) {
                    if let Some(slot) = relocation(self.layout, entry, symbol) {
                        return Some(Some(slot));
                    }
                }
                at = at.wrapping_add(step as u64);
                left -= step;
            }
        }
        Some(None)
    }
}

/// What a relocation says of the variable. One of no symbol has the variable's place in the module
/// as its addend: such are made where nobody else's variable of that name counts.
fn relocation(layout: &Layout, entry: &[u8], symbol: &Symbol) -> Option<Slot> {
    let (at, info, addend) = (u64_at(entry, 0)?, u64_at(entry, 8)?, u64_at(entry, 16)?);
    let (number, kind) = ((info >> 32) as u32, info as u32);
    let is_ours = if number == 0 { addend == symbol.value } else { number == symbol.number };
    let form = match kind {
        kind if kind == layout.descriptor && is_ours => SlotForm::Descriptor,
        kind if kind == layout.fixed && is_ours => SlotForm::Static,
        // Without a symbol it is of all variables of the module.
        kind if kind == layout.index && number == symbol.number => SlotForm::Index,
        _ => return None,
    };
    Some(Slot { form, at, value: symbol.value })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|of| u16::from_le_bytes(*of))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|of| u32::from_le_bytes(*of))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|of| u64::from_le_bytes(*of))
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|of| u64::from_le_bytes(*of)).collect()
}

#[cfg(test)]
mod tests;
