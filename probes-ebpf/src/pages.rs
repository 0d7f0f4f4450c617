//! The pages of the rings: what they are made of, and how a lane finds room in them.

use core::arch::asm;
use core::mem::offset_of;

use aya_ebpf::helpers::generated::bpf_ktime_get_tai_ns;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
// A record is aligned to the unit, and nothing in it to more.
pub(crate) use flightrec_format::abi::page::UNIT;
use flightrec_format::abi::page::{
    DETACHED_SHIFT, HEADER_KINDS, HEADER_LEN, Lane, MAGIC, PAGE_SIZE, RawHeader, VERSION,
    header_len,
};
use flightrec_format::abi::record::{self, kind};
use flightrec_format::abi::state::{LaneState, NO_THREAD};

use crate::atomic;
use crate::cpu::{cpu, now, state_of};
use crate::global::given;

/// `BPF_F_MMAPABLE`, include/uapi/linux/bpf.h.
const MMAPABLE: u32 = 1 << 10;

/// Bytes after the part of a page's header that every lane has. Where records are is counted from
/// there, so that it is the same in every lane; in one of more kinds they begin at [`further`].
pub(crate) const BODY: usize = PAGE_SIZE - HEADER_LEN;

/// Bytes of the counters of a lane's kinds that have no room in the first [`HEADER_LEN`] bytes.
#[inline(always)]
const fn further(lane: Lane) -> usize {
    header_len(lane) - HEADER_LEN
}

/// Stores 8 bytes `AT` bytes after any address, by one store. The BPF machine has no alignment of
/// its own here: the kernel takes such stores to map values where the machine does
/// (`check_ptr_alignment`, kernel/bpf/verifier.c, Linux 6.1).
///
/// # Safety
/// The bytes are inside a page; the verifier checks it.
#[inline(always)]
pub(crate) unsafe fn store<const AT: usize>(p: *mut u8, v: u64) {
    // SAFETY: one store of 8 bytes.
    unsafe {
        asm!("*(u64 *)({p} + {at}) = {v}", p = in(reg) p, v = in(reg) v, at = const AT,
            options(nostack))
    };
}

/// Loads what [`store`] stores.
///
/// # Safety
/// The bytes are inside a page or a map's value; the verifier checks it.
#[inline(always)]
pub(crate) unsafe fn load<const AT: usize>(p: *const u8) -> u64 {
    let v;
    // SAFETY: one load of 8 bytes.
    unsafe {
        asm!("{v} = *(u64 *)({p} + {at})", p = in(reg) p, v = out(reg) v, at = const AT,
            options(nostack, readonly))
    };
    v
}

/// The length of a record with a body of so many bytes, a multiple of [`UNIT`].
#[inline(always)]
pub(crate) const fn length(body: usize) -> u8 {
    ((8 + body) / UNIT) as u8
}

/// Byte of a page at which it stands how much is in use.
pub(crate) const USED: usize = offset_of!(RawHeader, used);

/// A page of a ring or table.
#[repr(C, align(8))]
pub(crate) struct Page([u8; PAGE_SIZE]);

impl Page {
    #[inline(always)]
    pub(crate) fn header(page: *mut Self) -> *mut RawHeader {
        page.cast()
    }

    #[inline(always)]
    pub(crate) fn body(page: *mut Self) -> *mut u8 {
        // SAFETY: the header lies inside the page.
        unsafe { page.cast::<u8>().add(HEADER_LEN) }
    }
}

#[map(name = "rings_syscall")]
pub(crate) static RINGS_SYSCALL: Array<Page> = Array::with_max_entries(1, MMAPABLE);
#[map(name = "rings_sched")]
static RINGS_SCHED: Array<Page> = Array::with_max_entries(1, MMAPABLE);
#[map(name = "rings_task")]
static RINGS_TASK: Array<Page> = Array::with_max_entries(1, MMAPABLE);
#[map(name = "rings_kernel")]
static RINGS_KERNEL: Array<Page> = Array::with_max_entries(1, MMAPABLE);
/// Written by the daemon alone; here so that it is made, pinned and found with the rest.
#[map(name = "meta")]
static META: Array<Page> = Array::with_max_entries(1, MMAPABLE);

/// The recording's secret, which its pages say (`flightrec_format`: `identity`). Filled by the
/// loader.
#[unsafe(no_mangle)]
static SESSION: u64 = 0;

/// `value`, which is at most `OF` less `ROOM`, so that the verifier knows it wherever the compiler
/// keeps it. Up to Linux 6.8 a number that was put on the stack before it was compared is another
/// one to the verifier than the one compared (seen on 6.1: `check_stack_write_fixed_off`,
/// kernel/bpf/verifier.c), so comparison and result must be one piece. And what is added to a
/// pointer before it is compared is not bounded by the comparison (seen on 6.1, where the compiler
/// had put it so): here it can't be.
#[inline(always)]
pub(crate) fn bounded<const ROOM: usize, const OF: usize>(value: usize) -> usize {
    let mut r = value;
    // SAFETY: arithmetic on one register.
    unsafe {
        asm!("if {r} <= {max} goto +1", "{r} = 0", r = inout(reg) r, max = const OF - ROOM,
            options(nomem, nostack));
    }
    r
}

/// Bytes of a THREAD and of a TIME record, which may stand before an event's own.
pub(crate) const THREAD: usize = 8;
pub(crate) const TIME: usize = 16;
/// Bytes of both.
pub(crate) const NAMES: usize = THREAD + TIME;

#[inline(always)]
pub(crate) fn thread_header(tid: u32) -> u64 {
    record::header(kind::THREAD, length(0), 0, tid)
}

/// [`LaneState::off`], of which the verifier then knows nothing.
#[inline(always)]
pub(crate) fn off(lane: &LaneState) -> usize {
    // SAFETY: a field of our own; volatile so that it is loaded here.
    unsafe { (&raw const lane.off).read_volatile() as usize }
}

/// Makes room for `need` bytes in the current page, where that has less, or a new time base, where
/// the last one is more than 2^32 ns (4.3 s) ago; 0: this CPU has no ring. Rare.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn make_room(lane: *mut LaneState, name: u32, need: u32, now: u64) -> u32 {
    let Some(lane) = given(lane) else { return 0 };
    let at = off(lane);
    if at as u64 + u64::from(need) > BODY as u64 {
        return next_page(lane, name, now);
    }
    let Some(page) = page(name, lane.ring_base + lane.page) else { return 0 };
    let at = bounded::<TIME, BODY>(at);
    // SAFETY: inside the page by the bound.
    unsafe {
        let place = page.cast::<u8>().add(at);
        store::<HEADER_LEN>(place, record::header(kind::TIME, length(8), 0, 0));
        store::<{ HEADER_LEN + 8 }>(place, now);
    }
    lane.base = now;
    lane.off = (at + TIME) as u32;
    1
}

const SYSCALL: u32 = Lane::Syscall as u32;
const SCHED: u32 = Lane::Sched as u32;
const TASK: u32 = Lane::Task as u32;

/// A page of a lane's rings.
#[inline(always)]
pub(crate) fn page(name: u32, index: u32) -> Option<*mut Page> {
    match name {
        SYSCALL => RINGS_SYSCALL.get_ptr_mut(index),
        SCHED => RINGS_SCHED.get_ptr_mut(index),
        TASK => RINGS_TASK.get_ptr_mut(index),
        _ => RINGS_KERNEL.get_ptr_mut(index),
    }
}

/// Opens the ring's next page, in the order that readers rely on: used = 0, seq, the rest.
#[inline(always)]
pub(crate) fn next_page(lane: &mut LaneState, name: u32, time: u64) -> u32 {
    // Here and not before: what has no ring has never had a page open.
    if lane.ring_pages == 0 {
        return 0;
    }
    let next = if lane.seq == 0 || lane.page + 1 >= lane.ring_pages { 0 } else { lane.page + 1 };
    let Some(page) = page(name, lane.ring_base + next) else { return 0 };
    let further = match name {
        SYSCALL => further(Lane::Syscall),
        SCHED => further(Lane::Sched),
        TASK => further(Lane::Task),
        _ => further(Lane::Kernel),
    };
    let header = Page::header(page);
    let seq = lane.seq + 1;
    // SAFETY: `page` is a whole page, and this lane's programs are its only writers. Volatile
    // keeps the order.
    unsafe {
        (&raw mut (*header).used).write_volatile(0);
        // A reader that sees this sees `used`, and one that sees what follows sees this.
        atomic::separate_long::<{ offset_of!(RawHeader, seq) }>(page.cast(), seq);
        (&raw mut (*header).magic).write_volatile(MAGIC);
        (&raw mut (*header).session).write_volatile((&raw const SESSION).read_volatile());
        (&raw mut (*header).version).write_volatile(VERSION);
        (&raw mut (*header).lane).write_volatile(name as u8);
        (&raw mut (*header).flags).write_volatile(0);
        (&raw mut (*header).cpu).write_volatile(cpu() as u16);
        (&raw mut (*header).header_len).write_volatile((HEADER_LEN + further) as u16);
        (&raw mut (*header).base_mono).write_volatile(time);
        // The two clocks are read side by side, and the one is carried back to the page's base.
        let tai = bpf_ktime_get_tai_ns();
        let since = now().wrapping_sub(time);
        (&raw mut (*header).base_tai).write_volatile(tai.wrapping_sub(since));
        let detached = (&raw const (*state_of(cpu())).detached_time).read_volatile();
        (&raw mut (*header).detached).write_volatile((detached >> DETACHED_SHIFT) as u32);
        let events = (&raw mut (*header).events).cast::<u64>();
        for (i, n) in lane.events.iter().enumerate().take(HEADER_KINDS) {
            events.add(i).write_volatile(*n);
        }
        let others = header.add(1).cast::<u64>();
        for (i, n) in lane.events.iter().skip(HEADER_KINDS).enumerate() {
            if 8 * i < further {
                others.add(i).write_volatile(*n);
            }
        }
        let refused = (&raw mut (*header).refused).cast::<u64>();
        for (i, n) in lane.refused.iter().enumerate() {
            refused.add(i).write_volatile(*n);
        }
    }
    lane.page = next;
    lane.seq = seq;
    lane.base = time;
    lane.off = further as u32;
    // The page names none yet.
    lane.tid = NO_THREAD;
    1
}
