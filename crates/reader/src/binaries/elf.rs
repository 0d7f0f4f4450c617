//! The functions of an ELF file.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;

use object::elf::{
    FileHeader32, FileHeader64, NT_GNU_BUILD_ID, PT_LOAD, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB,
    STT_FUNC, STT_GNU_IFUNC,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind, ReadCache};

use super::bounded::{Bounded, FILE_MAX, open_regular};

/// Most bytes of a segment of notes: real ones have some hundred.
pub(super) const NOTES_MAX: u64 = 64 << 10;
/// Most program headers: real files have some ten. The format allows 2^32.
pub(super) const HEADERS_MAX: usize = 128;
/// Longest name of a function.
pub(super) const NAME_MAX: usize = 512;
/// Bytes of a build id, as recorded: after shorter ones are zeros.
const ID: usize = 20;

/// Functions by where they are.
#[derive(Debug)]
pub(super) struct Functions {
    /// What of the file is loaded where: bytes of the file, and the address of the first one.
    loads: Vec<(Range<u64>, u64)>,
    /// In order of their addresses.
    all: Vec<Function>,
    names: Vec<u8>,
}

/// A function. Names and sizes beyond 4 GiB are no names and sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    at: u64,
    /// Its bytes; 0: up to the next one.
    size: u32,
    name: u32,
}

impl Functions {
    /// Those of the file at `path`, if it has this build id; where it names only what it exports,
    /// those of its debug file, if that has it as well. At most `room` bytes.
    pub(super) fn read(path: &Path, debug: Option<&Path>, id: &[u8], room: usize) -> Option<Self> {
        let (functions, is_whole) = Self::of(path, id, room)?;
        if !is_whole && let Some((more, true)) = debug.and_then(|path| Self::of(path, id, room)) {
            return Some(Self { loads: functions.loads, ..more });
        }
        Some(functions)
    }

    /// The same of one file; with whether it has all of its functions.
    fn of(path: &Path, id: &[u8], room: usize) -> Option<(Self, bool)> {
        let file = open_regular(path).ok()?;
        let cache = ReadCache::new(file);
        let left = Cell::new(FILE_MAX);
        let data = Bounded { file: &cache, left: &left };
        match FileKind::parse(data).ok()? {
            FileKind::Elf64 => Self::parse::<FileHeader64<Endianness>>(data, id, room),
            FileKind::Elf32 => Self::parse::<FileHeader32<Endianness>>(data, id, room),
            _ => None,
        }
    }

    fn parse<H: FileHeader<Endian = Endianness>>(
        data: Bounded<'_>,
        id: &[u8],
        room: usize,
    ) -> Option<(Self, bool)> {
        let header = H::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if header.phnum(endian, data).ok()? > HEADERS_MAX {
            return None;
        }
        let segments = header.program_headers(endian, data).ok()?;
        let short = segments.iter().filter(|of| of.p_filesz(endian).into() <= NOTES_MAX);
        let mut notes = short.filter_map(|of| of.notes(endian, data).ok().flatten());
        let has_id = notes.any(|mut notes| {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                    return is_id(note.desc(), id);
                }
            }
            false
        });
        if !has_id {
            return None;
        }
        let loads = segments.iter().filter(|of| of.p_type(endian) == PT_LOAD).map(|of| {
            let begin: u64 = of.p_offset(endian).into();
            let size: u64 = of.p_filesz(endian).into();
            (begin..begin.saturating_add(size), of.p_vaddr(endian).into())
        });
        let sections = header.sections(endian, data).ok()?;
        let table = |kind| sections.iter().find(|of| of.sh_type(endian) == kind);
        let whole = table(SHT_SYMTAB);
        let (is_whole, table) = (whole.is_some(), whole.or_else(|| table(SHT_DYNSYM)));
        let mut functions = Self { loads: loads.collect(), all: Vec::new(), names: Vec::new() };
        let Some(table) = table else { return Some((functions, false)) };
        let strings = sections.section(table.link(endian)).ok()?;
        let symbols: &[H::Sym] = table.data_as_array(endian, data).ok()?;
        let names = strings.data(endian, data).ok()?;
        if size_of_val(symbols).saturating_add(names.len()) > room {
            return None;
        }
        functions.names = names.to_vec();
        functions.all = symbols
            .iter()
            .filter(|of| matches!(of.st_type(), STT_FUNC | STT_GNU_IFUNC))
            .filter(|of| of.st_shndx(endian) != SHN_UNDEF)
            .map(|of| {
                let size: u64 = of.st_size(endian).into();
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                Function { at: of.st_value(endian).into(), size, name: of.st_name(endian) }
            })
            .collect();
        // Of several names of one function, the one of the greatest size is told; of these, the
        // first in the file's table of names.
        functions.all.sort_unstable_by_key(|of| (of.at, u32::MAX - of.size, of.name));
        functions.all.dedup_by_key(|of| of.at);
        functions.all.shrink_to_fit();
        Some((functions, is_whole))
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.all) + size_of_val(&*self.loads) + self.names.len()
    }

    /// The function that a byte of the file is in, and the byte of it.
    pub(super) fn find(&self, byte: u64) -> Option<(&str, u64)> {
        let (load, base) = self.loads.iter().find(|(load, _)| load.contains(&byte))?;
        let at = base.wrapping_add(byte - load.start);
        let after = self.all.partition_point(|of| of.at <= at);
        let of = self.all.get(after.checked_sub(1)?)?;
        if of.size != 0 && at - of.at >= u64::from(of.size) {
            return None;
        }
        let name = self.names.get(of.name as usize..)?;
        let end = name.iter().take(NAME_MAX + 1).position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(name.get(..end)?).ok().filter(|name| !name.is_empty())?;
        Some((name, at - of.at))
    }
}

/// Whether a note's build id is the recorded one: of longer ones that has the beginning.
fn is_id(note: &[u8], id: &[u8]) -> bool {
    let mut padded = [0; ID];
    let length = note.len().min(ID);
    padded.iter_mut().zip(note).for_each(|(to, from)| *to = *from);
    length > 0 && padded == *id
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
    use proptest::prelude::*;

    use super::*;

    const ROOM: usize = 1 << 30;

    /// The program of this test, and its build id.
    fn own() -> (Vec<u8>, Vec<u8>) {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let id = file.build_id().unwrap().expect("linked with a build id").to_vec();
        (bytes, id)
    }

    #[test]
    fn a_byte_is_in_the_function_that_the_file_says() {
        let (bytes, id) = own();
        let file = object::File::parse(&*bytes).unwrap();
        let path = std::env::current_exe().unwrap();
        let functions = Functions::read(&path, None, &id, ROOM).expect("this program");
        let mut found = 0;
        let is_named = |of: &object::Symbol<'_, '_>| of.name().is_ok_and(|of| of.len() <= NAME_MAX);
        let of_text = file.symbols().filter(|of| of.kind() == SymbolKind::Text && of.size() > 3);
        for of in of_text.filter(is_named) {
            let holds = |segment: &object::Segment<'_, '_>| {
                (segment.address()..segment.address() + segment.size()).contains(&of.address())
            };
            let Some(segment) = file.segments().find(holds) else { continue };
            let byte = of.address() - segment.address() + segment.file_range().0;
            let (name, offset) = functions.find(byte + 2).expect("a function");
            // Two may have one name.
            let mut named = file.symbols().filter(|other| other.name() == Ok(name));
            assert!(named.any(|other| other.address() + offset == of.address() + 2), "{name}");
            found += 1;
            if found == 200 {
                break;
            }
        }
        assert_eq!(found, 200);
        assert_eq!(functions.find(0), None, "the file's header");
        assert_eq!(functions.find(u64::MAX), None);
        assert!(functions.bytes() > 0 && functions.bytes() < bytes.len());
    }

    #[test]
    fn another_file_or_none_has_no_functions() {
        let (_, mut id) = own();
        let path = std::env::current_exe().unwrap();
        assert!(Functions::read(&path, None, &id, 1000).is_none(), "no room");
        id[19] ^= 1;
        assert!(Functions::read(&path, None, &id, ROOM).is_none(), "another build id");
        for none in ["/dev/null", "/", "/nonexistent", "/etc/passwd", "/proc/self/mem"] {
            assert!(Functions::read(Path::new(none), None, &id, ROOM).is_none(), "{none}");
        }
    }

    #[test]
    fn build_ids_are_compared_as_recorded() {
        let id = [[7; 8].as_slice(), &[0; 12]].concat();
        assert!(is_id(&[7; 8], &id) && is_id(&[[7; 8].as_slice(), &[0; 24]].concat(), &id));
        assert!(!is_id(&[7; 9], &id) && !is_id(&[], &[0; 20]) && !is_id(&[7; 8], &[7; 8]));
    }

    /// A program's file of 64 bits, little-endian: 64 bytes of header, then what is given. It has
    /// the build id of twenty 7s in the first of `notes` segments, each of which has so many bytes.
    fn crafted(notes: usize, bytes: u64) -> (tempfile::NamedTempFile, Vec<u8>) {
        let at = 64 + notes * 56;
        let mut file = vec![0; 64];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[16..20].copy_from_slice(&[2, 0, 62, 0]);
        file[20] = 1;
        file[32] = 64; // e_phoff
        file[52] = 64; // e_ehsize
        file[54] = 56; // e_phentsize
        file[56..58].copy_from_slice(&(notes as u16).to_le_bytes());
        file[58] = 64; // e_shentsize
        for i in 0..notes as u64 {
            let offset = at as u64 + if i == 0 { 0 } else { 64 + i };
            let segment = [4 | 4 << 32, offset, 0, 0, bytes, bytes, 4u64];
            file.extend(segment.iter().flat_map(|word| word.to_le_bytes()));
        }
        let note = [4u32, 20, 3, u32::from_le_bytes(*b"GNU\0")];
        file.extend(note.iter().flat_map(|word| word.to_le_bytes()));
        file.extend([7; 20]);
        let mut named = tempfile::NamedTempFile::new().unwrap();
        named.write_all(&file).unwrap();
        named.as_file().set_len(1 << 30).unwrap();
        (named, vec![7; 20])
    }

    fn is_read((file, id): &(tempfile::NamedTempFile, Vec<u8>)) -> bool {
        Functions::read(file.path(), None, id, ROOM).is_some()
    }

    #[test]
    fn segments_of_notes_are_short_and_few() {
        assert!(is_read(&crafted(1, 36)) && is_read(&crafted(100, 36)));
        assert!(is_read(&crafted(1, NOTES_MAX)) && !is_read(&crafted(1, NOTES_MAX + 1)));
        assert!(is_read(&crafted(HEADERS_MAX, 36)) && !is_read(&crafted(HEADERS_MAX + 1, 36)));
        // More than 2^16: the number is in the first section's header.
        let many = crafted(1, 36);
        let mut bytes = std::fs::read(many.0.path()).unwrap();
        bytes.truncate(4096);
        bytes[56..58].copy_from_slice(&[0xff, 0xff]);
        bytes[40..48].copy_from_slice(&1024u64.to_le_bytes()); // e_shoff
        bytes[1024 + 44..1024 + 48].copy_from_slice(&(1u32 << 20).to_le_bytes()); // sh_info
        std::fs::write(many.0.path(), &bytes).unwrap();
        many.0.as_file().set_len(1 << 30).unwrap();
        assert!(!is_read(&many));
    }

    #[test]
    fn a_long_name_is_none() {
        let of = |length: usize| {
            let names = [vec![b'a'; length], vec![0]].concat();
            let all = vec![Function { at: 5, size: 0, name: 0 }];
            let functions = Functions { loads: vec![(0..10, 0)], all, names };
            assert_eq!(functions.bytes(), 16 + 24 + length + 1);
            functions.find(6).map(|(name, offset)| (name.len(), offset))
        };
        assert_eq!((of(NAME_MAX), of(NAME_MAX + 1)), (Some((NAME_MAX, 1)), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn damaged_files_do_no_harm(
            at in prop::collection::vec((0usize..4096, any::<u8>()), 1..20),
            end: bool,
            cut in 0usize..40_000,
            byte: u64,
        ) {
            thread_local! {
                static GOOD: (Vec<u8>, Vec<u8>) = {
                    let bytes = std::fs::read("/bin/true").unwrap();
                    let id = object::File::parse(&*bytes).unwrap().build_id().unwrap();
                    let id = id.unwrap_or(&[0; 20]).to_vec();
                    (bytes, id)
                };
            }
            let (mut bytes, id) = GOOD.with(Clone::clone);
            for (at, value) in at {
                // Headers are at the beginning, and those of sections at the end.
                let at = if end { bytes.len().saturating_sub(at + 1) } else { at };
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if cut < 20_000 {
                bytes.truncate(cut);
            }
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            if let Some(functions) = Functions::read(file.path(), None, &id, ROOM) {
                functions.find(byte);
                functions.find(byte % 100_000);
            }
        }
    }
}
