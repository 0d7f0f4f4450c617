//! What of a program or library of this machine can be probed: its functions and the marks in it,
//! each by the byte of its file.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use flightrec_format::architecture::Architecture;
use flightrec_format::control::NewOperand;
use object::elf::{
    ET_REL, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_LOAD, SHN_UNDEF, SHT_DYNSYM, SHT_NOTE,
    SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::{Endianness, ReadCache};
use thiserror::Error;

use super::bounded::{Bounded, FILE_MAX, open_regular};
use super::elf::{HEADERS_MAX, NAME_MAX, NOTES_MAX};
use super::operand::operands;

/// The type of a mark's note, and its owner (<sys/sdt.h>).
const NT_STAPSDT: u32 = 3;
const STAPSDT: &[u8] = b"stapsdt";
/// Most marks that are taken of a file.
const MARKS_MAX: usize = 65_536;

/// Why nothing of a file can be probed.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// It can't be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no program.
    #[error(
        "{} is no program or library of {} (an ELF file of 64 bits): scripts and 32-bit programs \
         can't be probed; give the interpreter, or the library that is called",
        .0.display(),
        Architecture::HERE.name()
    )]
    NoProgram(PathBuf),
    /// Its tables make no sense, or are too large.
    #[error(
        "{}: its tables of symbols can't be read: they are damaged, or larger than 64 MiB",
        .0.display()
    )]
    Damaged(PathBuf),
}

/// From where a program's functions are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// From its own table of all.
    Whole,
    /// From its separate debug file.
    Debug,
    /// The file was stripped: from the table of those that it exports.
    Exported,
}

/// A mark in a program (USDT, `DTRACE_PROBE` of <sys/sdt.h>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// The byte of the file at which it is.
    pub at: u64,
    /// The byte of the file at which its counter of listeners is; 0: it has none.
    pub semaphore: u64,
    /// Where its arguments are; the error is the one that is not understood.
    pub operands: Result<Vec<NewOperand>, String>,
}

/// A program or library.
#[derive(Debug)]
pub struct Program {
    /// The open file.
    pub file: File,
    /// Its build id, 40 hexadecimal digits; empty: it has none.
    pub build_id: String,
    /// From where its functions are known.
    pub table: Table,
    /// The byte of the file at which each begins, and its name in `names`.
    functions: Vec<(u64, u32)>,
    names: Vec<u8>,
    /// In the order of the file.
    pub marks: Vec<Mark>,
}

type Header = FileHeader64<Endianness>;

/// What of the file is loaded where.
struct Load {
    address: u64,
    bytes: u64,
    at: u64,
    runs: bool,
}

impl Program {
    /// Reads the file at a path.
    ///
    /// # Errors
    /// It can't be read, or is no program.
    pub fn open(path: &Path) -> Result<Self, ProgramError> {
        let failed = |source| ProgramError::Io { path: path.into(), source };
        let file = open_regular(path).map_err(failed)?;
        let cache = ReadCache::new(file.try_clone().map_err(failed)?);
        let left = Cell::new(FILE_MAX);
        let data = Bounded { file: &cache, left: &left };
        let no_program = || ProgramError::NoProgram(path.into());
        let damaged = || ProgramError::Damaged(path.into());
        let header = Header::parse(data).map_err(|_| no_program())?;
        let endian = header.endian().map_err(|_| no_program())?;
        if header.e_machine(endian) != Architecture::HERE.elf_machine()
            || header.e_type(endian) == ET_REL
        {
            return Err(no_program());
        }
        if header.phnum(endian, data).map_err(|_| damaged())? > HEADERS_MAX {
            return Err(damaged());
        }
        let segments = header.program_headers(endian, data).map_err(|_| damaged())?;
        let short = segments.iter().filter(|of| of.p_filesz(endian) <= NOTES_MAX);
        let notes = short.filter_map(|of| of.notes(endian, data).ok().flatten());
        let mut build_id = String::new();
        for mut notes in notes {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                    build_id = hex(note.desc());
                }
            }
        }
        let loads: Vec<Load> = segments
            .iter()
            .filter(|of| of.p_type(endian) == PT_LOAD)
            .map(|of| Load {
                address: of.p_vaddr(endian),
                bytes: of.p_filesz(endian),
                at: of.p_offset(endian),
                runs: of.p_flags(endian) & PF_X != 0,
            })
            .collect();
        let sections = header.sections(endian, data).map_err(|_| damaged())?;
        let mut program = Self {
            file,
            build_id,
            table: Table::Whole,
            functions: Vec::new(),
            names: Vec::new(),
            marks: marks(&sections, endian, data, &loads).ok_or_else(damaged)?,
        };
        let has_all = sections.iter().any(|of| of.sh_type(endian) == SHT_SYMTAB);
        if !has_all
            && let Some(debug) = super::debug_file(&program.build_id)
            && program.of_debug_file(&debug, &loads).is_some()
        {
            return Ok(program);
        }
        program.table = if has_all { Table::Whole } else { Table::Exported };
        let kind = if has_all { SHT_SYMTAB } else { SHT_DYNSYM };
        program.of_table(&sections, endian, data, kind, &loads).ok_or_else(damaged)?;
        Ok(program)
    }

    /// Takes the functions of its debug file.
    fn of_debug_file(&mut self, path: &Path, loads: &[Load]) -> Option<()> {
        let cache = ReadCache::new(open_regular(path).ok()?);
        let left = Cell::new(FILE_MAX);
        let data = Bounded { file: &cache, left: &left };
        let header = Header::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, data).ok()?;
        sections.iter().find(|of| of.sh_type(endian) == SHT_SYMTAB)?;
        self.of_table(&sections, endian, data, SHT_SYMTAB, loads)?;
        self.table = Table::Debug;
        Some(())
    }

    /// Takes the functions of a table; `None`: it can't be read. None are no error.
    fn of_table<'a>(
        &mut self,
        sections: &SectionTable<'a, Header, Bounded<'a>>,
        endian: Endianness,
        data: Bounded<'a>,
        kind: u32,
        loads: &[Load],
    ) -> Option<()> {
        let Some(table) = sections.iter().find(|of| of.sh_type(endian) == kind) else {
            return Some(());
        };
        let strings = sections.section(table.link(endian)).ok()?;
        let symbols: &[<Header as FileHeader>::Sym] = table.data_as_array(endian, data).ok()?;
        self.names = strings.data(endian, data).ok()?.to_vec();
        self.functions = symbols
            .iter()
            // Of the other kind, the symbol is that of what chooses the function.
            .filter(|of| of.st_type() == STT_FUNC && of.st_type() != STT_GNU_IFUNC)
            .filter(|of| of.st_shndx(endian) != SHN_UNDEF)
            .filter_map(|of| Some((byte(loads, of.st_value(endian), true)?, of.st_name(endian))))
            .collect();
        self.functions.sort_unstable();
        self.functions.dedup();
        Some(())
    }

    /// Name of each function, and the byte of the file at which it begins; in the file's order. A
    /// function may have several names.
    pub fn functions(&self) -> impl Iterator<Item = (&str, u64)> + '_ {
        self.functions.iter().filter_map(|(at, name)| {
            let name = self.names.get(*name as usize..)?;
            let end = name.iter().take(NAME_MAX + 1).position(|byte| *byte == 0)?;
            let name = std::str::from_utf8(name.get(..end)?).ok()?;
            let is_name = !name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_control());
            is_name.then_some((name, *at))
        })
    }
}

/// The byte of the file that is loaded at an address; of code, if it is to run.
fn byte(loads: &[Load], address: u64, runs: bool) -> Option<u64> {
    let has = |of: &&Load| address.checked_sub(of.address).is_some_and(|by| by < of.bytes);
    let load = loads.iter().filter(|of| of.runs || !runs).find(has)?;
    load.at.checked_add(address - load.address)
}

/// The marks of a file; `None`: its notes can't be read.
fn marks<'a>(
    sections: &SectionTable<'a, Header, Bounded<'a>>,
    endian: Endianness,
    data: Bounded<'a>,
    loads: &[Load],
) -> Option<Vec<Mark>> {
    let named = |wanted: &[u8]| {
        let is_it = |of: &&<Header as FileHeader>::SectionHeader| {
            sections.section_name(endian, *of).is_ok_and(|name| name == wanted)
        };
        sections.iter().find(is_it)
    };
    let mut found = Vec::new();
    let Some(section) = named(b".note.stapsdt").filter(|of| of.sh_type(endian) == SHT_NOTE) else {
        return Some(found);
    };
    // Where the base is now: prelink moves it, and with it all that a note tells.
    let base = named(b".stapsdt.base").map(|of| of.sh_addr(endian));
    let mut notes = section.notes(endian, data).ok()??;
    while let Some(note) = notes.next().ok()? {
        if note.name() != STAPSDT || note.n_type(endian) != NT_STAPSDT {
            continue;
        }
        let (words, texts) = note.desc().split_at_checked(24)?;
        let [at, told, semaphore] = *words.as_chunks::<8>().0 else { return None };
        let [at, told, semaphore] = [at, told, semaphore].map(u64::from_le_bytes);
        let moved = base.map_or(0, |base| base.wrapping_sub(told));
        let mut texts = texts
            .split(|byte| *byte == 0)
            .map(|text| std::str::from_utf8(text).ok().filter(|text| text.len() <= NAME_MAX));
        let (provider, name, arguments) = (texts.next()??, texts.next()??, texts.next()??);
        let Some(at) = byte(loads, at.wrapping_add(moved), true) else { continue };
        let semaphore = match semaphore {
            0 => 0,
            address => byte(loads, address.wrapping_add(moved), false).unwrap_or(0),
        };
        found.push(Mark {
            provider: provider.into(),
            name: name.into(),
            at,
            semaphore,
            operands: operands(Architecture::HERE, arguments).map_err(str::to_owned),
        });
        if found.len() == MARKS_MAX {
            break;
        }
    }
    Some(found)
}

/// A build id as it is recorded: 20 bytes, after shorter ones zeros.
fn hex(id: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16);
    let padded = id.iter().copied().chain(std::iter::repeat(0)).take(20);
    padded.flat_map(|byte| [byte >> 4, byte & 0xf]).filter_map(digit).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_function_is_where_the_file_says() {
        let path = std::env::current_exe().unwrap();
        let program = Program::open(&path).unwrap();
        assert_eq!((program.table, program.build_id.len()), (Table::Whole, 40));
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let symbols = file.symbols().filter(|of| of.kind() == SymbolKind::Text && of.size() > 0);
        let mut compared = 0;
        for of in symbols.filter(ObjectSymbol::is_definition).take(100) {
            let holds = |segment: &object::Segment<'_, '_>| {
                (segment.address()..segment.address() + segment.size()).contains(&of.address())
            };
            let segment = file.segments().find(holds).unwrap();
            let byte = of.address() - segment.address() + segment.file_range().0;
            let name = of.name().unwrap();
            assert!(program.functions().any(|found| found == (name, byte)), "{name}");
            compared += 1;
        }
        assert_eq!(compared, 100);
    }

    #[test]
    fn what_is_no_program_is_told() {
        let told = |path: &str| Program::open(Path::new(path)).unwrap_err().to_string();
        assert!(told("/nonexistent").contains("No such file"), "{}", told("/nonexistent"));
        assert!(told("/etc/passwd").contains("is no program"));
        assert!(told("/dev/null").contains("not a regular file"));
        assert!(told("/").contains("not a regular file"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn damaged_files_do_no_harm(
            at in prop::collection::vec((0usize..4096, any::<u8>()), 1..20),
            end: bool,
            cut in 0usize..40_000,
        ) {
            thread_local! {
                static GOOD: Vec<u8> = std::fs::read("/bin/true").unwrap();
            }
            let mut bytes = GOOD.with(Clone::clone);
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
            if let Ok(program) = Program::open(file.path()) {
                prop_assert!(program.functions().count() <= bytes.len());
            }
        }
    }
}
