//! How each system call reads, worked out once per recording.

use flightrec_format::abi::record::Abi;
use flightrec_format::architecture::Architecture;
use flightrec_format::meta::{Argument, Meta, is_descriptor, is_directory};
use flightrec_reader::fds::makes_descriptor;
use flightrec_reader::names::{Call, Calls, set_for};

use super::argument::Kind;
use super::devices::Devices;
use super::escape::escape;

/// Most bytes of a name that are shown; the kernel's longest has 23.
const NAME_MAX: usize = 64;
/// Arguments of a call.
const ARGUMENTS: usize = 6;

/// How one system call reads.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Its name, fit to print.
    pub(crate) name: Box<[u8]>,
    /// Its arguments; none known: whatever the event has.
    pub(crate) arguments: Option<Box<[Kind]>>,
    /// What the arguments are called; as many as there are kinds.
    pub(crate) labels: Box<[Label]>,
    /// What it returns.
    pub(crate) returns: Returns,
}

/// What an argument is called, and whether it is a signed 32-bit number.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    /// Its name, fit to print.
    pub(crate) name: Box<[u8]>,
    /// Whether its C type is `int`.
    pub(crate) signed: bool,
}

/// How a return value reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// A number.
    Number,
    /// An address.
    Address,
    /// Permissions.
    Mode,
    /// What the kernel imitated.
    Personality,
    /// A file descriptor.
    Descriptor,
    /// A file descriptor or a number, by the command.
    Fcntl,
    /// The register of the code that a signal had interrupted: never an error of this call.
    Restored,
}

/// Plans of all calls, by table and number.
#[derive(Debug)]
pub(crate) struct Plans {
    /// The machine.
    pub(crate) architecture: Architecture,
    native: Vec<Option<Plan>>,
    compat: Vec<Option<Plan>>,
    /// Names of block devices.
    pub(crate) devices: Devices,
}

impl Plans {
    pub(crate) fn new(meta: &Meta) -> Self {
        let calls = Calls::new(meta);
        Self {
            architecture: calls.architecture(),
            native: table(&calls, Abi::Native),
            compat: table(&calls, Abi::Compat),
            devices: Devices::new(meta),
        }
    }

    pub(crate) fn get(&self, abi: Abi, nr: u16) -> Option<&Plan> {
        let table = match abi {
            Abi::Native | Abi::X32 => &self.native,
            Abi::Compat => &self.compat,
        };
        table.get(usize::from(nr))?.as_ref()
    }
}

fn table(calls: &Calls<'_>, abi: Abi) -> Vec<Option<Plan>> {
    let (machine, narrow) = (calls.architecture(), abi == Abi::Compat);
    let plan = |call: &Call<'_>| plan(machine, call.name, call.arguments, narrow);
    calls.table(abi).iter().map(|call| call.as_ref().map(plan)).collect()
}

fn plan(machine: Architecture, name: &str, arguments: Option<&[Argument]>, narrow: bool) -> Plan {
    let kind = |a: &Argument| kind(machine, name, a, narrow);
    let kinds = |list: &[Argument]| list.iter().take(ARGUMENTS).map(kind).collect();
    let returns = match name {
        "mmap" | "mmap2" | "mremap" | "brk" | "shmat" => Returns::Address,
        "umask" => Returns::Mode,
        "personality" => Returns::Personality,
        "fcntl" | "fcntl64" => Returns::Fcntl,
        _ if makes_descriptor(name) => Returns::Descriptor,
        "rt_sigreturn" | "sigreturn" => Returns::Restored,
        _ => Returns::Number,
    };
    let label = |a: &Argument| Label {
        name: printable(&a.name),
        signed: Type::of(&a.ctype, narrow) == Type::Int,
    };
    let labels = arguments.unwrap_or_default().iter().take(ARGUMENTS).map(label).collect();
    let arguments: Option<Box<[Kind]>> = arguments.map(kinds);
    Plan { name: printable(name), arguments, labels, returns }
}

fn printable(name: &str) -> Box<[u8]> {
    let mut text = Vec::new();
    escape(name.as_bytes().get(..NAME_MAX).unwrap_or(name.as_bytes()), &mut text);
    text.into()
}

fn kind(machine: Architecture, call: &str, argument: &Argument, narrow: bool) -> Kind {
    let ctype = Type::of(&argument.ctype, narrow);
    let name = argument.name.as_str();
    match (call, name) {
        (_, "sig") if set_for(machine, call, name).is_some() => return Kind::Signal,
        ("personality", _) => return Kind::Personality,
        ("ioctl", "cmd") => return Kind::Request,
        ("fcntl" | "fcntl64", "arg") => return Kind::Fcntl,
        ("socket" | "socketpair", "protocol") => return Kind::Protocol,
        ("setsockopt" | "getsockopt", "optname") => return Kind::SocketOption,
        ("open" | "openat" | "mq_open", "mode") => return Kind::CreateMode,
        ("umask", "mask") => return Kind::Mode,
        _ if is_directory(call, name) => return Kind::Directory,
        ("prctl" | "arch_prctl" | "keyctl", "arg2" | "arg3" | "arg4" | "arg5") => {
            return Kind::Unknown;
        }
        _ if is_descriptor(call, argument) => return Kind::Descriptor,
        _ => {}
    }
    if let Some(set) = set_for(machine, call, name) {
        return if ctype.is_long() { Kind::LongSet(set) } else { Kind::Set(set) };
    }
    match ctype {
        Type::Pointer => Kind::Pointer,
        Type::Mode => Kind::Mode,
        Type::Id => Kind::Id,
        Type::Int | Type::Unsigned if flag_like(name) => Kind::Hex,
        Type::Long | Type::UnsignedLong if flag_like(name) => Kind::LongHex,
        Type::Int => Kind::Int,
        Type::Unsigned | Type::UnsignedLong if address_like(name) => Kind::Pointer,
        Type::Unsigned => Kind::Unsigned,
        Type::Long => Kind::Long,
        Type::UnsignedLong => Kind::UnsignedLong,
        Type::Unknown => Kind::Unknown,
    }
}

/// Whether a number by this name is bits, or opaque.
fn flag_like(name: &str) -> bool {
    matches!(
        name,
        "flags"
            | "flag"
            | "cmd"
            | "arg"
            | "mask"
            | "dev"
            | "off"
            | "data"
            | "personality"
            | "attr_flags"
    ) || name.starts_with("magic")
}

/// Whether an `unsigned long` by this name is an address.
fn address_like(name: &str) -> bool {
    matches!(name, "addr" | "start" | "brk" | "newsp" | "tls" | "new_addr")
}

/// What a C type says about reading an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Unsigned,
    Long,
    UnsignedLong,
    Pointer,
    Mode,
    Id,
    Unknown,
}

impl Type {
    /// The type as the kernel writes it; `narrow`: `long` has 32 bits.
    fn of(ctype: &str, narrow: bool) -> Self {
        if ctype.contains('*') {
            return Self::Pointer;
        }
        let bare = ctype.trim().trim_start_matches("const ").trim();
        match bare {
            "int" | "s32" | "__s32" | "pid_t" | "clockid_t" | "timer_t" | "mqd_t"
            | "key_serial_t" | "key_t" | "rwf_t" => Self::Int,
            "unsigned int" | "unsigned" | "u32" | "__u32" | "qid_t" => Self::Unsigned,
            "umode_t" | "mode_t" | "compat_mode_t" => Self::Mode,
            "uid_t" | "gid_t" | "old_uid_t" | "old_gid_t" => Self::Id,
            "long" | "off_t" | "compat_long_t" | "compat_off_t" | "ssize_t" if narrow => Self::Int,
            "unsigned long" | "size_t" | "compat_size_t" | "compat_ulong_t" if narrow => {
                Self::Unsigned
            }
            "long" | "off_t" | "loff_t" | "s64" | "__s64" | "ssize_t" => Self::Long,
            "unsigned long" | "size_t" | "u64" | "__u64" => Self::UnsignedLong,
            "cap_user_header_t" | "cap_user_data_t" | "aio_context_t" | "compat_uptr_t" => {
                Self::Pointer
            }
            _ if bare.starts_with("enum ") => Self::Int,
            _ => Self::Unknown,
        }
    }

    fn is_long(self) -> bool {
        matches!(self, Self::Long | Self::UnsignedLong)
    }
}
