//! One published format: `events/syscalls/sys_enter_…/format`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flightrec_format::meta::Argument;

/// Most bytes of a file of tracefs that are read; formats have a few hundred.
const FILE_MAX: u64 = 64 << 10;
/// Where the arguments begin in the record of an entry, and the bytes of each: after the common
/// fields and the number (`struct syscall_trace_enter`, kernel/trace/trace.h, Linux 6.18).
const FIRST: usize = 16;
const WORD: usize = 8;

/// Reads a small file whole.
pub(crate) fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The arguments in their order; `None` when the text is not such a format.
pub(super) fn arguments(text: &str) -> Option<Vec<Argument>> {
    let mut args: Vec<Argument> = Vec::new();
    let mut is_entry = false;
    for line in text.lines() {
        let Some(field) = line.trim_start().strip_prefix("field:") else { continue };
        let mut parts = field.split(';').map(str::trim);
        let declaration = parts.next()?;
        let (mut offset, mut size) = (None, None);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", v)) => offset = v.parse::<usize>().ok(),
                Some(("size", v)) => size = v.parse::<usize>().ok(),
                _ => {}
            }
        }
        let (offset, size) = (offset?, size?);
        is_entry |= declaration.ends_with("__syscall_nr");
        // From Linux 6.19 on, captured strings follow the arguments, as __data_loc of 4 bytes.
        if offset != FIRST + WORD * args.len()
            || size != WORD
            || declaration.starts_with("__data_loc")
        {
            continue;
        }
        let (ctype, name) = declaration.rsplit_once(' ')?;
        args.push(Argument { name: name.into(), ctype: ctype.into() });
    }
    (is_entry && args.len() <= 6).then_some(args)
}
