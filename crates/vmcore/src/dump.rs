//! The dump: what form its file has, by its content.

use std::path::Path;

use flightrec_format::abi::page::{COPY_MAGIC, PAGE_SIZE};

use crate::error::VmcoreError;
use crate::extents::{Extent, Extents};
use crate::file::{PlainFile, ReadAt};
use crate::flattened::{self, Flattened};
use crate::kdump::Kdump;
use crate::layout::{Layout, Memory, Scanner, Shortfall};
use crate::page_ref::PageRef;
use crate::{elf, kdump};

/// The form of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An ELF core file.
    Elf,
    /// A kdump-compressed file.
    Kdump,
    /// Memory without a header.
    Raw,
}

impl Form {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Elf => elf::FORM,
            Self::Kdump => kdump::FORM,
            Self::Raw => "memory image without a header",
        }
    }
}

/// A dump, opened.
pub struct Dump {
    form: Form,
    flattened: bool,
    machine: Option<String>,
    pub(crate) layout: Box<dyn Layout>,
    /// What the container of the dump lacks.
    cut: bool,
}

/// Files that are something else, by their first bytes: what they are, and what to do.
const OTHERS: &[(&[u8], &str, &str)] = &[
    (b"\x1f\x8b", "a gzip file", "unpack it first, by `gunzip`"),
    (b"\xfd7zXZ\0", "an xz file", "unpack it first, by `unxz`"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it first, by `unzstd`"),
    (b"BZh", "a bzip2 file", "unpack it first, by `bunzip2`"),
    (b"\x04\x22\x4d\x18", "an lz4 file", "unpack it first, by `unlz4`"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"DISKDUMP", "a dump by diskdump", "Linux kernels of the last 15 years don't write these"),
    (b"PAGEDU64", "a dump of Windows", "flightrec records on Linux"),
    (b"PAGEDUMP", "a dump of Windows", "flightrec records on Linux"),
    (b"QEVM", "a saved state of QEMU", "take a dump instead, by dump-guest-memory"),
    (
        b"LibvirtQemudSave",
        "a saved state of libvirt",
        "take a dump instead, by `virsh dump --memory-only`",
    ),
    (b"QFI\xfb", "a qcow2 disk image", "take a dump of the memory, by dump-guest-memory"),
];

impl Dump {
    /// Opens a dump.
    pub fn open(path: &Path) -> Result<Self, VmcoreError> {
        let file = PlainFile::open(path)?;
        if file.size() == 0 {
            return Err(VmcoreError::Empty);
        }
        if !head(&file)?.starts_with(flattened::SIGNATURE) {
            return Self::recognise(Box::new(file), true);
        }
        let file = Flattened::new(file)?;
        let cut = file.cut;
        Ok(Self { flattened: true, cut, ..Self::recognise(Box::new(file), false)? })
    }

    fn recognise(file: Box<dyn ReadAt>, or_raw: bool) -> Result<Self, VmcoreError> {
        let head = head(file.as_ref())?;
        let dump =
            |form, machine, layout| Self { form, flattened: false, machine, layout, cut: false };
        if head.starts_with(b"\x7fELF") {
            let (extents, machine) = elf::read(file.as_ref())?;
            Ok(dump(Form::Elf, Some(machine), Box::new(Extents::new(file, extents))))
        } else if head.starts_with(kdump::SIGNATURE) {
            let (kdump, machine) = Kdump::read(file)?;
            Ok(dump(Form::Kdump, Some(machine), Box::new(kdump)))
        } else if let Some((_, what, remedy)) =
            OTHERS.iter().find(|(first, ..)| head.starts_with(first))
        {
            Err(VmcoreError::unsupported(*what, remedy))
        } else if or_raw {
            let pages = file.size() / PAGE_SIZE as u64;
            Ok(dump(
                Form::Raw,
                None,
                Box::new(Extents::new(file, vec![Extent { offset: 0, pages }])),
            ))
        } else {
            Err(VmcoreError::damaged(
                "flattened dump",
                "neither an ELF nor a kdump-compressed file is in it",
            ))
        }
    }

    /// Its form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Whether it is in the flattened form.
    pub fn is_flattened(&self) -> bool {
        self.flattened
    }

    /// The machine that it is of, as `uname -m` has it; `None` where the form doesn't tell.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// Bytes of memory in it.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes()
    }

    /// Whether its container ends before its end mark.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// What its headers alone show to be missing; [`crate::Scan::shortfall`] tells all.
    pub fn shortfall(&self) -> Shortfall {
        self.layout.shortfall()
    }

    /// A reader of its pages, for one thread.
    pub fn reader(&self) -> Reader<'_> {
        Reader { scanner: self.layout.scanner(), page: Box::new([0; PAGE_SIZE]) }
    }
}

/// Reads pages again that a scan has found.
pub struct Reader<'a> {
    scanner: Box<dyn Scanner + 'a>,
    page: Box<Memory>,
}

impl Reader<'_> {
    /// A copy of the page, which says the session's public id; `None` where it can't be read any
    /// more.
    pub fn page(&mut self, page: &PageRef) -> Option<&Memory> {
        self.page.copy_from_slice(self.scanner.page(page.place)?);
        let head = (u128::from(COPY_MAGIC) | u128::from(page.session) << 64).to_le_bytes();
        *self.page.first_chunk_mut()? = head;
        Some(&self.page)
    }
}

/// The file's first bytes.
fn head(file: &dyn ReadAt) -> Result<[u8; 16], VmcoreError> {
    let mut head = [0; 16];
    file.read_at(&mut head, 0)?;
    Ok(head)
}
