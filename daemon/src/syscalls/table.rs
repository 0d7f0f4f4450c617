//! What the probes need to know of each call, as numbers.

use flightrec_format::abi::probe::{CALLS, CallTable, HAS_POINTEES, IS_BIRTH, WRITES, call_entry};
use flightrec_format::meta::{Argument, Syscall};

use super::pointees::has_pointees;

/// Calls whose success replaces the saved registers: at their exit, no arguments are left.
const ARGS_LOST: &[&str] = &["execve", "execveat", "rt_sigreturn", "sigreturn"];

/// Calls that make a thread, of the 64-bit table.
const BIRTHS: &[&str] = &["clone", "fork", "vfork", "clone3"];
/// Calls that write to the descriptor that is their first argument.
const WRITERS: &[&str] = &["write", "writev", "pwrite64", "pwritev", "pwritev2"];

/// Strings that the kernel's sources declare without `const`, so that they look like buffers to
/// be written into. Call and argument.
const NOT_CONST: &[(&str, &str)] = &[
    ("mount", "dev_name"),
    ("mount", "dir_name"),
    ("mount", "type"),
    ("umount2", "name"),
    ("utime", "filename"),
    ("utimes", "filename"),
];

/// The table that is frozen into the probes. A number that is not in `calls`, or whose arguments
/// are not published, takes six arguments and no strings. `compat`: these are 32-bit calls.
pub fn call_table(calls: &[Syscall], compat: bool) -> CallTable {
    let mut table = [call_entry(6, false, 0); CALLS];
    for call in calls {
        if let Some(entry) = table.get_mut(usize::from(call.nr)) {
            let nargs = call.args.as_ref().map_or(6, |args| args.len().min(6)) as u32;
            *entry =
                call_entry(nargs, ARGS_LOST.contains(&call.name.as_str()), string_arguments(call));
            if has_pointees(&call.name, compat) {
                *entry |= HAS_POINTEES;
            }
            if !compat && BIRTHS.contains(&call.name.as_str()) {
                *entry |= IS_BIRTH;
            }
            if WRITERS.contains(&call.name.as_str()) {
                *entry |= WRITES;
            }
        }
    }
    table
}

/// Bit `i` is set where argument `i` is a string that ends with a NUL.
pub fn string_arguments(call: &Syscall) -> u8 {
    let args = call.args.as_deref().unwrap_or_default();
    let mut bits = 0;
    for (i, arg) in args.iter().enumerate().take(6) {
        if is_string(&call.name, arg, args.get(i + 1)) {
            bits |= 1 << i;
        }
    }
    bits
}

fn is_string(call: &str, arg: &Argument, next: Option<&Argument>) -> bool {
    match arg.ctype.as_str() {
        // A length after it makes it a buffer: write, pwrite64, mq_timedsend.
        "const char *" => next.is_none_or(|n| n.ctype != "size_t"),
        "char *" => NOT_CONST.contains(&(call, arg.name.as_str())),
        _ => false,
    }
}
