//! ELF core files: each `PT_LOAD` segment is a stretch of physical memory.
//!
//! Nothing but the program headers is used, and of them only type, offset, physical address and
//! size in the file: real dumps are odd in the rest (QEMU 7.2 writes an `e_ehsize` of 8, and
//! segments that begin anywhere within 4 KiB).

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::architecture::Architecture;
use object::elf::{ELFCLASS64, ELFDATA2LSB, ET_CORE, FileHeader64, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, elf};

use crate::error::{MACHINES, VmcoreError};
use crate::extents::Extent;
use crate::file::{Cursor, ReadAt, exact};

/// Most segments that are taken; a machine's memory is in some dozens, after filtering in some
/// hundred thousand.
pub const SEGMENTS_MAX: usize = 1 << 20;

/// What this form is called.
pub(crate) const FORM: &str = "ELF core file";

/// Where the memory is, and the machine that it is of.
pub(crate) fn read(file: &dyn ReadAt) -> Result<(Vec<Extent>, String), VmcoreError> {
    let ident: [u8; 20] = exact(file, 0)?.ok_or_else(|| damaged("cut inside its header"))?;
    let [_, _, _, _, class, data, ..] = ident;
    if class != ELFCLASS64 || data != ELFDATA2LSB {
        let what = "an ELF file of a 32-bit or big-endian machine";
        return Err(VmcoreError::unsupported(what, MACHINES));
    }
    let cache = ReadCache::new(Cursor { file, at: 0 });
    let header = FileHeader64::<LittleEndian>::parse(&cache).map_err(|e| damaged(e.to_string()))?;
    if header.e_type(LittleEndian) != ET_CORE {
        let what = "an ELF program or library, no core file";
        return Err(VmcoreError::unsupported(what, "give the dump itself; no vmlinux is needed"));
    }
    let count = header.phnum(LittleEndian, &cache).map_err(|e| damaged(e.to_string()))?;
    if count > SEGMENTS_MAX {
        let remedy = "the file is damaged; take the dump again";
        return Err(VmcoreError::TooMany {
            what: "segments in an ELF file",
            limit: SEGMENTS_MAX,
            remedy,
        });
    }
    let segments =
        header.program_headers(LittleEndian, &cache).map_err(|e| damaged(e.to_string()))?;
    let extents = segments.iter().filter_map(extent).collect();
    Ok((extents, machine(header.e_machine(LittleEndian))))
}

fn damaged(reason: impl Into<String>) -> VmcoreError {
    VmcoreError::damaged(FORM, reason)
}

/// The whole pages of a segment, by physical address.
fn extent(segment: &elf::ProgramHeader64<LittleEndian>) -> Option<Extent> {
    const PAGE: u64 = PAGE_SIZE as u64;
    let physical = segment.p_paddr(LittleEndian);
    // A segment without memory after it has no address (fs/proc/kcore.c).
    if segment.p_type(LittleEndian) != PT_LOAD || physical == u64::MAX {
        return None;
    }
    let skipped = physical.wrapping_neg() % PAGE;
    let pages = segment.p_filesz(LittleEndian).checked_sub(skipped)? / PAGE;
    Some(Extent { offset: segment.p_offset(LittleEndian).checked_add(skipped)?, pages })
}

/// As `uname -m` has it.
fn machine(number: u16) -> String {
    if let Some(architecture) = Architecture::of_elf(number) {
        return architecture.name().to_owned();
    }
    match number {
        elf::EM_RISCV => "riscv64".to_owned(),
        elf::EM_PPC64 => "ppc64le".to_owned(),
        elf::EM_LOONGARCH => "loongarch64".to_owned(),
        other => format!("ELF machine {other}"),
    }
}
