//! What the system calls of a recording are called, and what they take.

use flightrec_format::abi::record::Abi;
use flightrec_format::architecture::Architecture;
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
    architecture: Architecture,
    native: Vec<Option<Call<'m>>>,
    compat: Vec<Option<Call<'m>>>,
}

/// Numbers and names of calls.
type Known = Vec<(usize, &'static str)>;

/// A machine's calls, and its 32-bit ones.
fn known(architecture: Architecture) -> (Known, Known) {
    macro_rules! calls {
        ($of:ident) => {
            syscalls::$of::Sysno::iter()
                .map(|call| (call.id() as usize, architecture.call_name(call.name())))
                .collect()
        };
    }
    match architecture {
        Architecture::X86_64 => (calls!(x86_64), calls!(x86)),
        Architecture::Aarch64 => (calls!(aarch64), calls!(arm)),
    }
}

impl<'m> Calls<'m> {
    /// Of a recording.
    pub fn new(meta: &'m Meta) -> Self {
        // Where a recording lacks its tables (a dump that lost those pages), the machine's numbers
        // still have their names, x86_64's if it is not known; what takes which arguments is then
        // not known.
        let architecture = Architecture::of_machine(&meta.machine);
        let (native, compat) = known(architecture);
        Self {
            architecture,
            native: table(native, &meta.native, |call| call.args.as_deref()),
            compat: table(compat, &meta.compat, |call| {
                call.args.as_deref().or_else(|| borrowed(call, meta))
            }),
        }
    }

    /// The machine.
    pub fn architecture(&self) -> Architecture {
        self.architecture
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
    known: Known,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of include/uapi/asm-generic/unistd.h and arch/arm/tools/syscall.tbl, Linux 6.18.
    #[test]
    fn without_tables_calls_have_the_machines_names() {
        for (machine, native, compat) in [
            (
                "aarch64",
                [(63, "read"), (221, "execve"), (56, "openat")],
                [(3, "read"), (322, "openat")],
            ),
            (
                "x86_64",
                [(0, "read"), (59, "execve"), (257, "openat")],
                [(3, "read"), (295, "openat")],
            ),
            ("", [(0, "read"), (59, "execve"), (257, "openat")], [(3, "read"), (295, "openat")]),
        ] {
            let meta = Meta { machine: machine.into(), ..Meta::default() };
            let calls = Calls::new(&meta);
            let name = |abi, nr| calls.get(abi, nr).map(|call| call.name);
            for (nr, wanted) in native {
                assert_eq!(name(Abi::Native, nr), Some(wanted), "{machine} {nr}");
            }
            for (nr, wanted) in compat {
                assert_eq!(name(Abi::Compat, nr), Some(wanted), "{machine} {nr}");
            }
        }
    }
}
