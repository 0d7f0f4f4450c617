//! End-to-end tests of flightrec: the harness that they share.
//!
//! A test that runs on the kernel starts with [`require_kernel`], starts a [`Recorder`] of its own
//! (private mounts, its own directories; any number of them side by side), makes something
//! happen, often by one of the C programs in `programs/` ([`c_program`]), and asks what the
//! recorder saw ([`Recorder::flightctl`], or [`Snapshot`] for what must be exact). Everything ends
//! and is removed when the fixture is dropped, also when the test fails. `cargo xtask demo` runs on
//! the same fixture.

pub mod azure_server;
mod bpf;
pub mod contexts;
mod control_group;
mod cpu_group;
pub mod documentation;
mod events;
mod fake_clock;
mod files;
pub mod fleet;
mod ftrace;
mod interrupt;
mod kernel;
mod kernel_dump;
mod memory_group;
mod needs;
mod perf_stat;
mod process;
mod programs;
mod recorder;
mod sandbox;
pub mod shipping;
mod tmpfs;
pub mod wakeups;
pub mod workload;

pub use bpf::{BpfObject, ObjectKind, bpf_objects, bpf_objects_left};
pub use control_group::ControlGroup;
pub use cpu_group::{CpuGroup, CpuStat};
pub use events::{MadeCall, NUMBERED_BASE, Snapshot, numbered_call};
pub use fake_clock::FakeClock;
pub use files::{Counts, Files, RingPieces, Tally};
pub use ftrace::{Ftrace, Traced, traced};
pub use interrupt::Interrupt;
pub use kernel::{monotonic_ns, online_cpus, parse_cpu_list, pin_to_cpu, require_kernel};
pub use kernel_dump::kernel_dump;
pub use memory_group::MemoryGroup;
pub use needs::{
    Judge, LEFT_OUT, LEFT_OUT_MARK, RUNNER, left_out, require_pressure, require_program,
};
pub use perf_stat::PerfStat;
pub use process::{
    PATIENCE, bin_dir, die_with_parent, pinned, use_programs, wait_limited, wait_peak, wait_until,
};
pub use programs::{c_dynamic, c_program, key_values};
pub use recorder::{Options, Recorder};
pub use sandbox::Sandbox;
pub use tmpfs::Tmpfs;
