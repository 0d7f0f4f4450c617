//! Where the running kernel keeps the members that the probes read, from its BTF.
//!
//! A reader of the format in Documentation/bpf/btf.rst (Linux 6.18) for a few questions: the offset
//! of a member, the parameters of a function type, whether a struct, a tracepoint or an iterator
//! exists. It takes any bytes: all access is checked, chains and searches are bounded, and nothing
//! is allocated beyond a copy of the input and four bytes a type. Relocating programs and matching
//! types is left to others.

mod io_uring;
mod offsets;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use offsets::{
    COMPACTION, CONTEXT, DISK, FILES, Group, HANDLER, IO_WAIT, MAPPINGS, RECLAIM, RING, SOCKET,
    SOFTIRQS, STACKS, THREAD_POINTER, THROTTLED, VICTIM, read_offsets,
};

/// Most bytes of BTF that are read: ten times what a distribution's kernel has.
const SIZE_MAX: u64 = 64 << 20;
/// `struct btf_header`, as far as it is used.
const HEADER_LEN: usize = 24;
/// `BTF_MAGIC`.
const MAGIC: u16 = 0xeb9f;
/// `struct btf_type`: name, info, size or type.
const TYPE_LEN: usize = 12;
/// Longest chain of typedefs and qualifiers that is followed; real ones are below ten.
const CHAIN_MAX: usize = 64;
/// Deepest nesting of unnamed structs that is searched; the kernel's own limit is 32
/// (MAX_RESOLVE_DEPTH).
const DEPTH_MAX: usize = 32;
/// Most members that one search looks at: `task_struct` and all it nests have about 600.
const MEMBERS_MAX: usize = 1 << 16;

/// Kinds of type, `BTF_KIND_…`.
mod kind {
    pub(super) const PTR: u32 = 2;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const TYPE_TAG: u32 = 18;
}

/// The kernel's type information can't be used.
#[derive(Debug, Error)]
pub enum BtfError {
    /// There is no such file: the kernel was built without BTF.
    #[error(
        "{path}: not found. This kernel has no type information (BTF); flightd needs a kernel \
         built with CONFIG_DEBUG_INFO_BTF=y, as the distributions' kernels are, or the path to it \
         in [kernel] btf"
    )]
    None {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file exists, but reading it failed.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The bytes are not BTF of this machine.
    #[error(
        "not usable as BTF: {0}; is [kernel] btf the running kernel's own, \
         /sys/kernel/btf/vmlinux?"
    )]
    Malformed(String),
    /// The kernel lacks what the probes read; of what is optional, [`Self::reason`] says it.
    #[error(
        "this kernel's BTF has no {what}: flightd {version} does not know this kernel, please \
         report its `uname -r`",
        version = env!("CARGO_PKG_VERSION")
    )]
    Missing {
        /// `struct` or `struct.member`.
        what: String,
    },
    /// The member exists in a form that a program can't load.
    #[error(
        "this kernel's BTF has {what} as a bit field, which the probes can't read; please report \
         its `uname -r`"
    )]
    BitField {
        /// `struct.member`.
        what: String,
    },
    /// A tracepoint has another shape than the programs know.
    #[error(
        "this kernel's tracepoint {tracepoint} has {found} parameters, which flightd {version} \
         does not know; please report its `uname -r`",
        version = env!("CARGO_PKG_VERSION")
    )]
    Shape {
        /// Its name.
        tracepoint: &'static str,
        /// Parameters, the hidden first one not included.
        found: usize,
    },
    /// Softirqs don't run to their end once they have begun.
    #[error("this kernel is PREEMPT_RT: threads run softirqs, and others in their middle")]
    Preempted,
}

impl BtfError {
    /// What is wrong, without what to do: for what a kernel may lack.
    pub fn reason(&self) -> String {
        match self {
            Self::Missing { what } => format!("this kernel's BTF has no {what}"),
            Self::BitField { what } => format!("this kernel has {what} as a bit field"),
            Self::Shape { tracepoint, found } => {
                format!("this kernel's tracepoint {tracepoint} has {found} parameters")
            }
            other => other.to_string(),
        }
    }
}

/// One `struct btf_type`.
#[derive(Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    vlen: usize,
    flag: bool,
    /// Its size, or the type that it refers to.
    reference: u32,
    /// Where what follows it begins.
    tail: usize,
}

/// A member found: the type, and the offset in bits from the start of the outermost struct.
struct FoundMember {
    type_id: u32,
    bits: u64,
    bit_field: bool,
}

/// A kernel's type information.
#[derive(Debug)]
pub struct Btf {
    data: Vec<u8>,
    /// Offset in `data` of each type, the first being id 1 (0 is `void`).
    types: Vec<u32>,
    /// Where the names stand in `data`.
    strings: std::ops::Range<usize>,
}

impl Btf {
    /// Reads and parses a file, of the running kernel: `/sys/kernel/btf/vmlinux`.
    pub fn read(path: &Path) -> Result<Self, BtfError> {
        let read = |source| BtfError::Read { path: path.into(), source };
        let file = File::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => BtfError::None { path: path.into() },
            _ => read(e),
        })?;
        let mut data = Vec::new();
        file.take(SIZE_MAX + 1).read_to_end(&mut data).map_err(read)?;
        Self::from_vec(data)
    }

    /// Parses a copy of `data`.
    pub fn parse(data: &[u8]) -> Result<Self, BtfError> {
        if data.len() as u64 > SIZE_MAX {
            return Err(too_long());
        }
        Self::from_vec(data.to_vec())
    }

    fn from_vec(data: Vec<u8>) -> Result<Self, BtfError> {
        if data.len() as u64 > SIZE_MAX {
            return Err(too_long());
        }
        if data.len() < HEADER_LEN {
            return Err(BtfError::Malformed(format!(
                "it has {} bytes, less than a header",
                data.len()
            )));
        }
        let magic = [data[0], data[1]];
        if u16::from_le_bytes(magic) != MAGIC {
            let what = if u16::from_be_bytes(magic) == MAGIC {
                "it is of a big-endian machine"
            } else {
                "wrong magic"
            };
            return Err(BtfError::Malformed(what.into()));
        }
        if data[2] != 1 {
            return Err(BtfError::Malformed(format!("its version is {}, not 1", data[2])));
        }
        // Within the header: checked above.
        let word = |at| u32_at(&data, at).map_or(0, |v| v as usize);
        let section = |name: &str, at: usize| {
            let start = word(4).saturating_add(word(at));
            let range = start..start.saturating_add(word(at + 4));
            if word(4) < HEADER_LEN || range.end > data.len() {
                return Err(BtfError::Malformed(format!("its {name} are cut off")));
            }
            Ok(range)
        };
        let types = index_types(&data, section("types", 8)?)?;
        let strings = section("names", 16)?;
        Ok(Self { data, types, strings })
    }

    /// Number of the function of this name.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.named(kind::FUNC, name).next()
    }

    /// Whether the kernel describes the arguments of a tracepoint, which `tp_btf` programs need.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.named(kind::TYPEDEF, &format!("btf_trace_{name}")).next().is_some()
    }

    /// Whether the kernel has an iterator over these objects.
    pub fn has_iterator(&self, objects: &str) -> bool {
        self.function(&format!("bpf_iter_{objects}")).is_some()
    }

    /// Number of the struct of this name.
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.named(kind::STRUCT, name).next()
    }

    /// Whether there is a struct of this name.
    pub fn has_struct(&self, name: &str) -> bool {
        self.structure(name).is_some()
    }

    /// Offset in bytes of a member, also within unnamed structs and unions; a dot goes into a named
    /// one (`"thread_info.status"`).
    pub fn member_offset(&self, structure: &str, path: &str) -> Result<u32, BtfError> {
        let mut known = false;
        // A name can stand for several structs; the kernel's is the one that has the member.
        for id in self.named(kind::STRUCT, structure) {
            known = true;
            if let Some((bits, bit_field)) = self.walk(id, path) {
                if bit_field || bits % 8 != 0 {
                    return Err(BtfError::BitField { what: format!("{structure}.{path}") });
                }
                return u32::try_from(bits / 8).map_err(|_| {
                    BtfError::Malformed(format!("{structure}.{path} lies {} bytes in", bits / 8))
                });
            }
        }
        let what =
            if known { format!("{structure}.{path}") } else { format!("struct {structure}") };
        Err(BtfError::Missing { what })
    }

    /// A bit field of one bit in a struct: byte offset of the `u32` that holds it, and its mask.
    pub fn bit(&self, structure: &str, path: &str) -> Result<(u32, u32), BtfError> {
        let missing = || BtfError::Missing { what: format!("{structure}.{path}") };
        let found = self.named(kind::STRUCT, structure).find_map(|id| self.walk(id, path));
        let (bits, _) = found.filter(|(_, bit_field)| *bit_field).ok_or_else(missing)?;
        let word = u32::try_from(bits / 32 * 4).map_err(|_| missing())?;
        Ok((word, 1 << (bits % 32)))
    }

    /// Byte of the section of each CPU's variables at which one begins.
    pub fn per_cpu_variable(&self, name: &str) -> Result<u32, BtfError> {
        let missing = || BtfError::Missing { what: format!("variable {name} of each CPU") };
        let variables: Vec<u32> = self.named(kind::VAR, name).collect();
        let section = self.named(kind::DATASEC, ".data..percpu").next().ok_or_else(missing)?;
        let section = self.get(section).ok_or_else(missing)?;
        // `struct btf_var_secinfo`: type, offset, size.
        let entry = |i: usize| {
            let at = section.tail + i * TYPE_LEN;
            Some((u32_at(&self.data, at)?, u32_at(&self.data, at + 4)?))
        };
        let mut entries = (0..section.vlen).filter_map(entry);
        entries.find(|(id, _)| variables.contains(id)).map(|(_, at)| at).ok_or_else(missing)
    }

    /// Number of parameters of the function that a typedef points to, as `btf_trace_…` do for
    /// tracepoints (their first parameter is `void *__data`).
    pub fn func_proto_params(&self, typedef: &str) -> Option<usize> {
        let pointer = self.named(kind::TYPEDEF, typedef).find_map(|id| self.skip(id, kind::PTR))?;
        self.skip(pointer.reference, kind::FUNC_PROTO).map(|t| t.vlen)
    }

    /// Follows a dotted path from a struct; the offset in bits, and whether it ends at a bit field.
    fn walk(&self, id: u32, path: &str) -> Option<(u64, bool)> {
        let mut at = FoundMember { type_id: id, bits: 0, bit_field: false };
        let mut budget = MEMBERS_MAX;
        for name in path.split('.') {
            let found = self.find(at.type_id, name, DEPTH_MAX, &mut budget)?;
            at = FoundMember { bits: at.bits.checked_add(found.bits)?, ..found };
        }
        Some((at.bits, at.bit_field))
    }

    /// Looks for a member by name in a struct or union and in its unnamed members.
    fn find(&self, id: u32, name: &str, depth: usize, budget: &mut usize) -> Option<FoundMember> {
        if name.is_empty() {
            return None;
        }
        let t = self.composite(id)?;
        for i in 0..t.vlen {
            *budget = budget.checked_sub(1)?;
            let at = t.tail + i * TYPE_LEN;
            let (member, type_id) = (u32_at(&self.data, at)?, u32_at(&self.data, at + 4)?);
            let offset = u32_at(&self.data, at + 8)?;
            let (bits, width) =
                if t.flag { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
            let bits = u64::from(bits);
            if self.is_name(member, name) {
                return Some(FoundMember { type_id, bits, bit_field: width != 0 });
            }
            if self.is_name(member, "")
                && depth > 0
                && let Some(found) = self.find(type_id, name, depth - 1, budget)
            {
                return Some(FoundMember { bits: bits.checked_add(found.bits)?, ..found });
            }
        }
        None
    }

    /// The struct or union after typedefs and qualifiers.
    fn composite(&self, id: u32) -> Option<Type> {
        self.skip(id, kind::STRUCT).or_else(|| self.skip(id, kind::UNION))
    }

    /// The type after typedefs and qualifiers, if it is of this kind.
    fn skip(&self, mut id: u32, wanted: u32) -> Option<Type> {
        for _ in 0..CHAIN_MAX {
            let t = self.get(id)?;
            match t.kind {
                k if k == wanted => return Some(t),
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = t.reference;
                }
                _ => return None,
            }
        }
        None
    }

    /// Ids of the types of this kind and name.
    fn named<'a>(&'a self, wanted: u32, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        (1..=self.types.len() as u32).filter(move |id| {
            self.get(*id).is_some_and(|t| t.kind == wanted && self.is_name(t.name, name))
        })
    }

    fn get(&self, id: u32) -> Option<Type> {
        let at = *self.types.get((id as usize).checked_sub(1)?)?;
        type_at(&self.data, at as usize)
    }

    fn is_name(&self, offset: u32, name: &str) -> bool {
        let strings = self.data.get(self.strings.clone()).unwrap_or_default();
        let rest = strings.get(offset as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes()).is_some_and(|end| end.first() == Some(&0))
    }
}

fn too_long() -> BtfError {
    BtfError::Malformed(format!("it is longer than {} MiB", SIZE_MAX >> 20))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

fn type_at(data: &[u8], at: usize) -> Option<Type> {
    let info = u32_at(data, at + 4)?;
    Some(Type {
        name: u32_at(data, at)?,
        kind: info >> 24 & 0x1f,
        vlen: (info & 0xffff) as usize,
        flag: info >> 31 != 0,
        reference: u32_at(data, at + 8)?,
        tail: at + TYPE_LEN,
    })
}

/// Finds where each type begins.
fn index_types(data: &[u8], section: std::ops::Range<usize>) -> Result<Vec<u32>, BtfError> {
    let mut types = Vec::new();
    let mut at = section.start;
    while at < section.end {
        let cut = || BtfError::Malformed(format!("type {} is cut off", types.len() + 1));
        let t = type_at(data, at).ok_or_else(cut)?;
        // What follows a type of each kind: include/uapi/linux/btf.h, Linux 6.18.
        let tail = match t.kind {
            // INT, VAR, DECL_TAG
            1 | kind::VAR | 17 => 4,
            // PTR, FWD, TYPEDEF to FUNC, FLOAT, TYPE_TAG
            2 | 7..=12 | 16 | 18 => 0,
            // ARRAY
            3 => TYPE_LEN,
            // Members, DATASEC, ENUM64
            kind::STRUCT | kind::UNION | kind::DATASEC | 19 => t.vlen * 12,
            // ENUM, FUNC_PROTO
            6 | kind::FUNC_PROTO => t.vlen * 8,
            unknown => {
                let id = types.len() + 1;
                return Err(BtfError::Malformed(format!(
                    "type {id} is of kind {unknown}, which is not known"
                )));
            }
        };
        let end = t.tail + tail;
        if end > section.end {
            return Err(cut());
        }
        types.push(at as u32); // SIZE_MAX fits
        at = end;
    }
    Ok(types)
}
