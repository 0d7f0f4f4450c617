//! What the system calls of a recording are called, and what they take.

use flightrec_format::abi::record::Abi;
use flightrec_format::meta::{Argument, Meta, Syscall};

/// Numbers above these are not in an event (12 bits).
pub const NUMBERS: usize = 1 << 12;

/// A system call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'m> {
    /// Its name, as the recording has it: any text.
    pub name: &'m str,
    /// What it takes; `None`: not known.
    pub arguments: Option<&'m [Argument]>,
}

/// The system calls of a recording, by table and number.
#[derive(Debug, Clone)]
pub struct Calls<'m> {
    native: Vec<Option<Call<'m>>>,
    compat: Vec<Option<Call<'m>>>,
}

impl<'m> Calls<'m> {
    /// Of a recording.
    pub fn new(meta: &'m Meta) -> Self {
        // Where a recording lacks its metadata (a dump that lost those pages), x86_64's numbers
        // still have their names; what takes which arguments is then not known.
        let native = syscalls::x86_64::Sysno::iter().map(|call| (call.id() as usize, call.name()));
        let compat = syscalls::x86::Sysno::iter().map(|call| (call.id() as usize, call.name()));
        Self {
            native: table(native, &meta.native, |call| call.args.as_deref()),
            compat: table(compat, &meta.compat, |call| {
                call.args.as_deref().or_else(|| borrowed(call, meta))
            }),
        }
    }

    /// The call of a number.
    pub fn get(&self, abi: Abi, nr: u16) -> Option<&Call<'m>> {
        self.table(abi).get(usize::from(nr))?.as_ref()
    }

    /// All numbers of a table, in order.
    pub fn table(&self, abi: Abi) -> &[Option<Call<'m>>] {
        match abi {
            Abi::Native | Abi::X32 => &self.native,
            Abi::Compat => &self.compat,
        }
    }
}

fn table<'m>(
    known: impl Iterator<Item = (usize, &'m str)>,
    recorded: &'m [Syscall],
    arguments: impl Fn(&'m Syscall) -> Option<&'m [Argument]>,
) -> Vec<Option<Call<'m>>> {
    let mut calls = vec![None; NUMBERS];
    for (nr, name) in known {
        if let Some(slot) = calls.get_mut(nr) {
            *slot = Some(Call { name, arguments: None });
        }
    }
    for call in recorded {
        if let Some(slot) = calls.get_mut(usize::from(call.nr)) {
            *slot = Some(Call { name: &call.name, arguments: arguments(call) });
        }
    }
    calls
}

/// The arguments of the native call of the same name, for a 32-bit call of which the kernel
/// publishes none; but not where the 32-bit form takes others.
fn borrowed<'m>(call: &Syscall, meta: &'m Meta) -> Option<&'m [Argument]> {
    match call.name.as_str() {
        // One structure, another order, or 64 bits in two registers.
        "mmap" | "select" | "clone" | "pread64" | "pwrite64" | "readahead" | "fadvise64"
        | "fallocate" | "sync_file_range" | "fanotify_mark" | "truncate64" | "ftruncate64" => None,
        name => meta.native.iter().find(|native| native.name == name)?.args.as_deref(),
    }
}
