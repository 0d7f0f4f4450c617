//! What arguments of system calls point to, strings aside, into a page.

use core::arch::asm;

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use flightrec_format::abi::file::{SOCKET_BYTES, SocketRecord};
use flightrec_format::abi::pointee::{
    self, BUFFERS, Extent, HEAD, INDEX, ITEMS, MAX, PointeeTable, ROOM, Shape, head, packed,
};
use flightrec_format::abi::probe::CALLS;
use flightrec_format::abi::record::{Abi, StringStatus, errno};
use flightrec_format::abi::state::ENABLE_STRINGS;

use crate::cpu::this_cpu;
use crate::lane::Writer;
use crate::pages::{BODY, Page, bounded};
use crate::strings::{self, COLD};
use crate::values::Arguments;
use crate::{files, global};

/// What is read of each native call. Filled by the loader.
#[unsafe(no_mangle)]
static NATIVE_POINTEES: PointeeTable = [0; CALLS];
/// What is read of each 32-bit call.
#[unsafe(no_mangle)]
static COMPAT_POINTEES: PointeeTable = [0; CALLS];

/// Above a call's items, in place of their room: those that the program gives are read.
pub(crate) const GIVEN: u64 = 1 << 60;
/// Those that the kernel tells are.
pub(crate) const TOLD: u64 = 1 << 61;

/// The items of a call; none of those whose table entry says that it has none.
#[inline(always)]
pub(crate) fn items(abi: Abi, nr: u16) -> u64 {
    let table = match abi {
        Abi::Native => &raw const NATIVE_POINTEES,
        Abi::Compat => &raw const COMPAT_POINTEES,
        Abi::X32 => return 0,
    };
    let index = usize::from(nr) & (CALLS - 1);
    // SAFETY: inside the table by the mask; volatile because the loader replaces it.
    unsafe { table.cast::<u64>().add(index).read_volatile() }
}

/// Argument `i`.
#[inline(always)]
fn argument(args: &Arguments, i: u32) -> u64 {
    // SAFETY: inside by the mask.
    unsafe { args.as_ptr().add((i & 7) as usize).read_volatile() }
}

/// 1 if `v` is not 0. Without a branch, each of which would double what the verifier follows.
#[inline(always)]
fn is_set(v: u64) -> u64 {
    let mut r = v;
    // SAFETY: arithmetic on two registers. Written out since LLVM would make a branch of it.
    unsafe {
        asm!("{n} = -{n}", "{r} |= {n}", "{r} >>= 63",
            r = inout(reg) r, n = inout(reg) v => _, options(nomem, nostack))
    };
    r
}

/// Which items of a call have a pointer: a bit each.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Those that the program gives.
    pub(crate) given: u32,
    /// Those that the kernel tells.
    pub(crate) told: u32,
}

impl Wanted {
    /// Of a call with these arguments.
    #[inline(always)]
    pub(crate) fn of(args: &Arguments, items: u64) -> Self {
        let both = wanted(args, items);
        Self { given: both as u32 & 7, told: (both >> 32) as u32 & 7 }
    }
}

#[inline(never)]
fn wanted(args: &Arguments, items: u64) -> u64 {
    let of = |k: u32| {
        let item = pointee::item(items, k);
        let pointer = argument(args, packed::index(item));
        let side = u64::from(item >> 19 & 1) << 5;
        (is_set(pointer) & is_set(u64::from(packed::shape(item)))) << k << side
    };
    of(0) | of(1) | of(2)
}

/// [`global::forget`], by an argument of a call.
#[inline(always)]
pub(crate) fn forget(value: u64, args: &Arguments) -> u64 {
    global::forget(value, argument(args, 5))
}

/// Writes what `items` has ([`GIVEN`], [`TOLD`] or both) after `body + at`, `ret` being what the
/// call returned. Returns the offset after them; with [`COLD`] where one that the program gives
/// could not be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_pointees(
    page: *mut Page,
    at: u64,
    args: *const Arguments,
    items: u64,
    ret: u64,
) -> u64 {
    if page.is_null() || args.is_null() {
        return at; // never; the verifier wants to see it
    }
    // SAFETY: the kernel's verifier holds both against their types at each call.
    let (body, args, ret) = (Page::body(page), unsafe { &*args }, ret as i64);
    let wanted = wanted(args, items);
    let given = if items & GIVEN != 0 { wanted & 7 } else { 0 };
    let told = if items & TOLD != 0 { wanted >> 32 & 7 } else { 0 };
    let which = given | told;
    let mut at = at;
    let mut cold = 0;
    for k in 0..ITEMS as u32 {
        if which >> k & 1 == 0 {
            continue;
        }
        let end = put_item(body, at as usize & 0xffff, args, pointee::item(items, k), ret);
        let end = forget(end, args);
        at = end & 0xffff;
        cold |= end & COLD & (given >> k & 1) << COLD.trailing_zeros();
    }
    at | cold
}

/// [`put_pointees`], for the page that a writer has open.
#[inline(always)]
pub(crate) fn put_call(w: &Writer<'_>, at: u64, args: &Arguments, items: u64, ret: u64) -> u64 {
    put_pointees(w.page(), at, args, items, ret)
}

/// Writes one item.
#[inline(never)]
fn put_item(body: *mut u8, at: usize, args: &Arguments, item: u32, ret: i64) -> u64 {
    if at > BODY - ROOM {
        return at as u64; // never: the caller made room; the verifier wants to see it
    }
    let at = bounded::<ROOM, BODY>(at);
    let from = argument(args, packed::index(item));
    let extent = packed::extent(item);
    if extent == Extent::Message as u32 {
        return put_message(body, at, item, from);
    }
    if extent >= Extent::OfArgument as u32 {
        let fd = if extent == Extent::OfResult as u32 { ret as u64 } else { from };
        return put_socket(body, at, item, fd as u32);
    }
    let len = forget(count(args, item, ret) * u64::from(packed::element(item)), args);
    // `msg_namelen` (include/linux/socket.h).
    let from = if extent == Extent::MessageRoom as u32 { from.wrapping_add(8) } else { from };
    let mut end = at as u64;
    if len != 0 {
        end = put(body, at, item, from, len);
    }
    if extent == Extent::NextPoints as u32 {
        let length = packed::index(item) + 1;
        let from = argument(args, length);
        let item = as_shape(item + 1, Shape::Int);
        return put(body, end as usize & 0xffff, item, from, size_of::<u32>() as u64);
    }
    end
}

/// How many elements an item has; at most 0xffff. A greater count is one that the call refuses.
#[inline(always)]
fn count(args: &Arguments, item: u32, ret: i64) -> u64 {
    let index = packed::index(item);
    let count = match packed::extent(item) {
        1 => argument(args, index + 1),
        2 => length_at(argument(args, index + 1)),
        3 => ret as u64 & !(ret >> 63) as u64,
        4 => ((args[0] & 0xffff_ffff) + 63) >> 6,
        5 => argument(args, index.wrapping_sub(1)),
        6 => is_set(ret as u64 & !(ret >> 63) as u64),
        7 => FUTEX_WAITS >> (args[1] & 63) & 1,
        8 => {
            if args[1] < 64 {
                FILE_LOCKS >> (args[1] & 63) & 1
            } else {
                0
            }
        }
        10 => number(args, argument(args, index + 1)),
        11 => number(args, length_at(argument(args, index + 1))),
        _ => 1,
    };
    if count > 0xffff { 0xffff } else { count }
}

const _: () = assert!(
    Extent::NextCounts as u8 == 1
        && Extent::NextPoints as u8 == 2
        && Extent::Returned as u8 == 3
        && Extent::FirstBits as u8 == 4
        && Extent::BeforeCounts as u8 == 5
        && Extent::IfPositive as u8 == 6
        && Extent::IfFutexWaits as u8 == 7
        && Extent::IfLocks as u8 == 8
        && Extent::NextCountsNumber as u8 == 10
        && Extent::NextPointsNumber as u8 == 11
);
const _: () =
    assert!(Shape::Room as u8 & 1 == 0 && Shape::MessageRoom as u8 == Shape::Room as u8 + 1);

/// FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2
/// (include/uapi/linux/futex.h), whatever their flags (from 128 on): those with a timeout
/// (`futex_cmd_has_timeout`, kernel/futex/syscalls.c, Linux 6.1).
const FUTEX_WAITS: u64 = 1 | 1 << 6 | 1 << 9 | 1 << 11 | 1 << 13;
/// F_GETLK, F_SETLK, F_SETLKW and F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
/// (include/uapi/asm-generic/fcntl.h).
const FILE_LOCKS: u64 = 7 << 5 | 7 << 36;

/// The length of an option's value, if that is a number: 0 else. Levels from 256 on are no
/// protocol's; `SOL_ALG` and `SOL_TLS` (include/linux/socket.h) are among them, which take keys.
#[inline(always)]
fn number(args: &Arguments, length: u64) -> u64 {
    if args[1] < 256 && (length == 4 || length == 8) { length } else { 0 }
}

/// The length that an `int` of the program's has; 0 where it can't be read.
#[inline(never)]
fn length_at(from: u64) -> u64 {
    let mut length = 0u32;
    // SAFETY: a local of that size.
    unsafe { bpf_probe_read_user((&raw mut length).cast(), 4, from as *const _) };
    u64::from(length)
}

/// Writes an item of `len` bytes at `from`; of what is longer than [`MAX`], the beginning.
#[inline(never)]
fn put(body: *mut u8, at: usize, item: u32, from: u64, len: u64) -> u64 {
    if at > BODY - ROOM {
        return at as u64;
    }
    let at = bounded::<ROOM, BODY>(at);
    let index = u16::from(INDEX) + packed::index(item) as u16;
    let mut status = StringStatus::Whole;
    let mut len = len;
    if len > MAX as u64 {
        (len, status) = (MAX as u64, StringStatus::Cut);
    }
    // SAFETY: the head and MAX bytes after the header word are inside the page by the check above.
    let got = unsafe {
        let to = body.add(at + 8);
        to.cast::<u32>().write_volatile(head(packed::shape(item), packed::told(item)));
        bpf_probe_read_user(to.add(HEAD).cast(), len as u32, from as *const _)
    };
    if got != 0 {
        let end = strings::header(body, at, index, HEAD as u64, StringStatus::Unreadable);
        // The kernel writes over the room when the call returns: that would be another value.
        let is_room = packed::shape(item) & !1 == Shape::Room as u32;
        return if is_room { end } else { end | COLD };
    }
    if packed::shape(item) == Shape::Iovec as u32 {
        // SAFETY: the same bytes.
        unsafe { shorten(body.add(at + 8 + HEAD)) };
        len >>= 2;
    }
    strings::header(body, at, index, HEAD as u64 + len, status)
}

/// Of [`MAX`] bytes of buffers' addresses and lengths, leaves the lengths.
///
/// # Safety
/// So many bytes of a page.
#[inline(always)]
unsafe fn shorten(first: *mut u8) {
    for i in 0..BUFFERS {
        // SAFETY: by the contract; each is read before it is written over.
        unsafe {
            let low = first.add(16 * i + 8).cast::<u32>().read_volatile();
            let high = first.add(16 * i + 12).cast::<u32>().read_volatile();
            // All ones where it is too long for 32 bits.
            let too_long = 0u32.wrapping_sub(is_set(u64::from(high)) as u32);
            first.add(4 * i).cast::<u32>().write_volatile(low | too_long);
        }
    }
}

const _: () = assert!(BUFFERS * 16 == MAX);

/// Writes a message: its numbers, its address, its buffers.
#[inline(never)]
fn put_message(body: *mut u8, at: usize, item: u32, from: u64) -> u64 {
    const NUMBERS: usize = 16;
    if at > BODY - ROOM {
        return at as u64;
    }
    let at = bounded::<ROOM, BODY>(at);
    let index = u16::from(INDEX) + packed::index(item) as u16;
    // struct user_msghdr (include/linux/socket.h): msg_name, msg_namelen, msg_iov, msg_iovlen,
    // msg_control, msg_controllen, msg_flags.
    let mut message = [0u64; 7];
    // SAFETY: a local of that size.
    let got = unsafe { bpf_probe_read_user((&raw mut message).cast(), 7 * 8, from as *const _) };
    // SAFETY: inside the page by the check above.
    unsafe {
        let to = body.add(at + 8).cast::<u32>();
        to.write_volatile(head(Shape::Message as u32, packed::told(item)));
        if got != 0 {
            return strings::header(body, at, index, HEAD as u64, StringStatus::Unreadable) | COLD;
        }
        to.add(1).write_volatile(message[1] as u32);
        to.add(2).write_volatile(message[3] as u32);
        to.add(3).write_volatile(message[5] as u32);
        to.add(4).write_volatile(message[6] as u32);
    }
    let len = (HEAD + NUMBERS) as u64;
    let mut end = strings::header(body, at, index, len, StringStatus::Whole);
    let named = message[1] & 0xffff_ffff;
    if message[0] != 0 && named != 0 {
        end = put(
            body,
            end as usize & 0xffff,
            as_shape(item, Shape::SocketAddress),
            message[0],
            named,
        );
    }
    let count = if message[3] > 0xffff { 0xffff } else { message[3] };
    if message[2] != 0 && count != 0 {
        let at = end as usize & 0xffff;
        end = put(body, at, as_shape(item, Shape::Iovec), message[2], 16 * count);
    }
    // What is part of it is no reason to read it again.
    end & 0xffff
}

/// Writes what the socket is that a descriptor stands for.
#[inline(never)]
fn put_socket(body: *mut u8, at: usize, item: u32, fd: u32) -> u64 {
    const NAME: usize = MAX - SOCKET_BYTES;
    // Its name is a path, which a call before may have given, and one that is not recorded.
    let is_named = this_cpu().enabled & ENABLE_STRINGS != 0;
    if at > BODY - ROOM {
        return at as u64;
    }
    let at = bounded::<ROOM, BODY>(at);
    // SAFETY: the head and MAX bytes after the header word are inside the page by the check above;
    // they begin at a multiple of 4.
    let name = unsafe {
        let to = body.add(at + 8);
        to.cast::<u32>().write_volatile(head(Shape::Socket as u32, true));
        let record = to.add(HEAD).cast::<SocketRecord>();
        record.write(SocketRecord::default());
        files::socket::<NAME>(fd, &mut *record, to.add(HEAD + SOCKET_BYTES), is_named)
    };
    let Some(name) = name else { return at as u64 };
    let index = u16::from(INDEX) + packed::index(item) as u16;
    let len = (HEAD + SOCKET_BYTES + name) as u64;
    strings::header(body, at, index, len, StringStatus::Whole)
}

/// An item of the same argument, of another shape.
#[inline(always)]
fn as_shape(item: u32, shape: Shape) -> u32 {
    item & !(31 << 3) | (shape as u32) << 3
}

/// Whether a call that returned this has told anything: a socket that is not connected yet has an
/// address.
#[inline(always)]
pub(crate) fn tells(ret: i64) -> bool {
    const EINPROGRESS: i64 = 115;
    errno(ret).is_none() || ret == -EINPROGRESS
}
