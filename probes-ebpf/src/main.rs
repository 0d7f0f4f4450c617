//! The programs that run in the kernel. They do nothing but fill pages.
//!
//! One module per lane: [`syscalls`], [`sched`], [`task`]; and for [`kernel_lane`] one per topic:
//! [`disk`], [`memory`], [`interrupts`], [`locks`], [`network`], [`samples`], [`quota`],
//! [`ring`], [`functions`], [`tracepoints`]. [`waits`] is what of these has begun and not ended.
//! [`lane`] is how a record gets into a page, [`budget`]
//! which events may, [`share`] whose, [`slots`] is the table of live threads, [`files`] tells what
//! descriptors stand for, [`console`] hands on what the kernel logs, [`context`] tells whether an
//! interrupt has the CPU, [`contexts`] for which span of a trace a thread works, [`stacks`] where
//! in the kernel a thread waited, [`stack_walk`] where it waits now, [`sched_lane`] makes room in
//! the lane of scheduling, [`mappings`] in which file an address is, [`global`]
//! keeps short what the verifier has to follow, [`kernel`] reads the kernel's own
//! structures.
//!
//! Reading order for a newcomer: `lane`, then `syscalls`.

#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod args;
mod aside;
mod atomic;
mod budget;
mod console;
mod context;
mod contexts;
mod cpu;
mod disk;
mod files;
mod functions;
mod global;
mod interrupts;
mod io_uring;
mod kernel;
mod kernel_lane;
mod lane;
mod locks;
mod mappings;
mod memory;
mod network;
mod pages;
mod pointees;
mod pseudonym;
mod quota;
mod running;
mod samples;
mod sched;
mod sched_lane;
mod share;
mod slots;
mod stack_walk;
mod stacks;
mod strings;
mod syscalls;
mod task;
mod tracepoints;
mod values;
mod waits;

/// Some helpers (`bpf_probe_read_kernel` among them) are for programs under the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
