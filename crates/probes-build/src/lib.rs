//! The probes: how they are compiled for the kernel's BPF machine, and the compiled object in the
//! repository.
//!
//! `probes-ebpf/prebuilt/probes.o` is what [`fn@compile`] makes, without DWARF: the kernel and aya
//! read BTF alone. [`Record`], beside it, has a hash of its sources. So a machine without the
//! probes' toolchain (another rustc, LLVM, bpf-linker) can build flightd: `daemon/build.rs` takes
//! the object if [`prebuilt`] says that it is of these sources. `cargo xtask probes` makes it anew, and
//! with `--check` says whether it is what this machine makes.

mod compile;
mod record;
mod toolchain;

pub use compile::{as_rustc_wrapper, compile};
pub use record::{OBJECT, RECORD, Record, prebuilt, watched};
pub use toolchain::{TARGET, Toolchain, pinned_nightly};
