//! Strings from user and kernel memory into a page.

use aya_ebpf::helpers::generated::{
    bpf_probe_read_kernel, bpf_probe_read_kernel_str, bpf_probe_read_user, bpf_probe_read_user_str,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};
use flightrec_format::abi::probe::{CALL_STRINGS, NO_STRING};
use flightrec_format::abi::record::{
    self, MASK_START, MASK_TABLE, STRING_HEAD, STRING_MAX, STRING_REACH, STRING_ROOM, STRING_TAIL,
    StringStatus, kind,
};

use crate::global::{forget, given};
use crate::pages::{BODY, Page, UNIT, bounded, length, store};
use crate::values::Arguments;

/// Bytes that one STRING record may take.
pub(crate) const ROOM: usize = STRING_ROOM;

/// Bit of [`put_strings`]'s result: a string could not be read, or not to its end.
pub(crate) const COLD: u64 = 1 << 32;
/// From this bit on: how many times [`STRING_MAX`] bytes were read to find the end of a string; of
/// several strings, or'ed.
pub(crate) const SOUGHT: u32 = 33;

/// Where a string is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    User,
    Kernel,
}

/// Reads the string at `from` and writes it as a STRING record at `at` of the page's body; of one
/// that is too long its beginning and its end, for the middle may be padding. Returns the offset
/// after it; [`COLD`] added where it could not be read, and what was sought of its end.
#[inline(always)]
pub(crate) fn put(page: *mut Page, at: usize, index: u16, from: u64, source: Source) -> u64 {
    if at > BODY - ROOM {
        return at as u64; // never: the caller made room; the verifier wants to see it
    }
    let body = Page::body(page);
    let at = bounded::<ROOM, BODY>(at);
    // SAFETY: STRING_MAX bytes after the header word are inside the page by the check above.
    let got = unsafe {
        let to = body.add(at + 8).cast();
        match source {
            Source::User => bpf_probe_read_user_str(to, STRING_MAX as u32, from as *const _),
            Source::Kernel => bpf_probe_read_kernel_str(to, STRING_MAX as u32, from as *const _),
        }
    };
    // What is returned counts the NUL; a string cut at the limit counts the limit.
    let (len, status, cold) = if got <= 0 || got > STRING_MAX as i64 {
        (0, StringStatus::Unreadable, COLD)
    } else if got == STRING_MAX as i64 {
        let sought = match source {
            Source::User => put_end_of_user(page, at as u64, from),
            Source::Kernel => put_end_of_kernel(page, at as u64, from),
        };
        let status = if sought & ENDS != 0 { StringStatus::Ends } else { StringStatus::Cut };
        (got as u64 - 1, status, sought & !ENDS)
    } else {
        (got as u64 - 1, StringStatus::Whole, 0)
    };
    header(body, at, index, len, status) | cold
}

/// Of what [`end`] returns: the end was found.
const ENDS: u64 = 1;

/// Where the end of a string is looked for. What is put there tells nothing but its length, so that
/// whoever comes between does no harm.
#[map(name = "string_reach")]
static REACH: PerCpuArray<[u8; STRING_REACH]> = PerCpuArray::with_max_entries(1, 0);

/// Puts the end of the string at `from` after its head in the STRING record at `at` of the page's
/// body, whose text has [`STRING_MAX`] - 1 bytes. Returns [`ENDS`] where that is there now, [`COLD`]
/// where it could not be read, and what was sought. Apart, for such strings are rare.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_end_of_user(page: *mut Page, at: u64, from: u64) -> u64 {
    end(page, at as usize, from, Source::User)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_end_of_kernel(page: *mut Page, at: u64, from: u64) -> u64 {
    end(page, at as usize, from, Source::Kernel)
}

#[inline(always)]
fn end(page: *mut Page, at: usize, from: u64, source: Source) -> u64 {
    const TAIL: i64 = STRING_TAIL as i64;
    if page.is_null() || at > BODY - ROOM {
        return 0;
    }
    let body = Page::body(page);
    let at = bounded::<ROOM, BODY>(at);
    let Some(reach) = REACH.get_ptr_mut(0) else { return 0 };
    let rest = from.wrapping_add(STRING_HEAD as u64);
    // SAFETY: all of the map's value.
    let got = unsafe {
        match source {
            Source::User => {
                bpf_probe_read_user_str(reach.cast(), STRING_REACH as u32, rest as *const _)
            }
            Source::Kernel => {
                bpf_probe_read_kernel_str(reach.cast(), STRING_REACH as u32, rest as *const _)
            }
        }
    };
    if got <= 0 {
        return COLD;
    }
    let sought = (got as u64).div_ceil(STRING_MAX as u64) << SOUGHT;
    // Its NUL counts. It may have been changed meanwhile; and where it has no end here, the kernel
    // takes it for no path.
    if got <= TAIL || got >= STRING_REACH as i64 {
        return sought;
    }
    let tail = rest.wrapping_add((got - 1 - TAIL) as u64);
    // SAFETY: the tail's bytes are after the head, inside the record by the check above.
    let failed = unsafe {
        let to = body.add(at + 8 + STRING_HEAD).cast();
        match source {
            Source::User => bpf_probe_read_user(to, STRING_TAIL as u32, tail as *const _),
            Source::Kernel => bpf_probe_read_kernel(to, STRING_TAIL as u32, tail as *const _),
        }
    };
    if failed != 0 {
        // The helper has left zeros there: what stands before them is all.
        return sought | COLD;
    }
    sought | ENDS
}

/// Reads `len` bytes of user memory (cut at the limit) and writes them as a STRING record.
#[inline(always)]
pub(crate) fn put_bytes(body: *mut u8, at: usize, index: u16, from: u64, len: u64) -> u64 {
    if at > BODY - ROOM {
        return at as u64;
    }
    let at = bounded::<ROOM, BODY>(at);
    let (len, status) = if len > STRING_MAX as u64 {
        (STRING_MAX as u64, StringStatus::Cut)
    } else {
        (len, StringStatus::Whole)
    };
    // SAFETY: at most STRING_MAX bytes, inside the page by the check above.
    let got = unsafe { bpf_probe_read_user(body.add(at + 8).cast(), len as u32, from as *const _) };
    if got != 0 {
        return header(body, at, index, 0, StringStatus::Unreadable) | COLD;
    }
    header(body, at, index, len, status)
}

/// What becomes of each byte of an argument list, by what stood before ([`MASK_STATES`]). Written
/// by the daemon.
///
/// [`MASK_STATES`]: flightrec_format::abi::record::MASK_STATES
#[map(name = "exec_masks")]
static EXEC_MASKS: Array<[u16; MASK_TABLE / 2]> =
    Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);

/// Masks the text of the STRING record that is to stand at `at` of the page's body, in place: all
/// that it may be long. One walk of a table, a load and two stores a byte and no branch, so that the
/// verifier follows it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn mask_arguments(page: *mut Page, at: u64) -> u32 {
    if page.is_null() || at > (BODY - ROOM) as u64 {
        return 1;
    }
    let (body, at) = (Page::body(page), bounded::<ROOM, BODY>(at as usize));
    let Some(table) = EXEC_MASKS.get_ptr(0) else { return 1 };
    let table = table.cast::<u16>();
    let mut state = usize::from(MASK_START);
    for i in 0..STRING_MAX {
        // SAFETY: STRING_MAX bytes after the header word are inside the page by the check above;
        // state and byte are below 256 each, so that the table has their entry.
        unsafe {
            let byte = body.add(at + 8 + i);
            let entry =
                table.add((state << 8 | usize::from(byte.read_volatile())) & (MASK_TABLE / 2 - 1));
            let entry = entry.read_volatile();
            byte.write_volatile((entry >> 8) as u8);
            state = usize::from(entry & 0xff);
        }
    }
    0
}

/// Writes the first word of the STRING record at `body + at`, whose `len` bytes are there, and the
/// zeros after them. Returns the offset after it.
#[inline(always)]
pub(crate) fn header(body: *mut u8, at: usize, index: u16, len: u64, status: StringStatus) -> u64 {
    let aux = index | (status as u16) << 4;
    let padded = (len + UNIT as u64 - 1) & !(UNIT as u64 - 1);
    // SAFETY: inside the page by the caller's check, and so is the string's last unit.
    unsafe {
        if len & 3 != 0 {
            // The helpers leave old bytes after the end.
            let last = body.add(at + 8 + (len & 0xfc) as usize).cast::<u32>();
            last.write_volatile(last.read_volatile() & ((1 << (8 * (len & 3))) - 1));
        }
        store::<0>(
            body.add(at),
            record::header(kind::STRING, length(padded as usize), aux, len as u32),
        );
    }
    at as u64 + 8 + padded
}

const _: () = assert!(UNIT == 4);

/// Writes the strings that a call's arguments point to, as its table entry lists them
/// (`format::abi::probe::CallTable`). Returns the offset after them, [`COLD`] where one could
/// not be read, and what was sought. A function of its own: it is off the path of most calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn put_strings(
    page: *mut Page,
    at: u64,
    args: *const Arguments,
    entry: u32,
) -> u64 {
    let mut at = at;
    let Some(args) = given(args.cast_mut()).filter(|_| !page.is_null()) else { return at };
    let mut rare = 0;
    for k in 0..CALL_STRINGS {
        let index = entry >> (8 + 3 * k) & NO_STRING;
        if index > 5 {
            break;
        }
        let from = args[index as usize];
        if from == 0 || at > (BODY - ROOM) as u64 {
            continue;
        }
        let end = forget(put(page, at as usize, index as u16, from, Source::User), from);
        at = end & (COLD - 1);
        rare |= end >> 32;
    }
    at | rare << 32
}
