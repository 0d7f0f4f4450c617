//! What the kernel probes, `flightd` and `flightctl` agree on, and nothing else.
//!
//! [`abi`] is the layout of everything that the probes write: it needs no standard library, and
//! is compiled into the BPF programs as well. The rest, for user space, decodes those pages,
//! carries the recording's metadata, and defines the control protocol (feature `control`) and the
//! access to the rings of a running recorder (feature `live`). `FORMAT.md` is the
//! specification; a change here is a change there.

#![cfg_attr(not(feature = "std"), no_std)]

pub mod abi;

#[cfg(feature = "std")]
pub mod architecture;
#[cfg(feature = "std")]
pub mod chunks;
#[cfg(feature = "std")]
pub mod containers;
#[cfg(feature = "control")]
pub mod control;
#[cfg(feature = "std")]
pub mod decode;
#[cfg(feature = "std")]
pub mod descriptors;
#[cfg(feature = "std")]
pub mod encode;
#[cfg(feature = "std")]
pub mod excerpt;
#[cfg(feature = "std")]
pub mod failure;
#[cfg(feature = "std")]
pub mod file;
#[cfg(feature = "std")]
pub mod human;
#[cfg(feature = "std")]
pub mod identity;
#[cfg(feature = "std")]
pub mod kept;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "std")]
pub mod merge;
#[cfg(feature = "std")]
pub mod meta;
#[cfg(feature = "std")]
pub mod part;
#[cfg(feature = "std")]
pub mod published;
#[cfg(feature = "std")]
pub mod ring;
#[cfg(feature = "std")]
pub mod slots;
#[cfg(feature = "std")]
pub mod symbols;
#[cfg(feature = "std")]
pub mod thread_stack;
#[cfg(feature = "std")]
pub mod totals;
#[cfg(feature = "std")]
pub mod trace_context;
#[cfg(feature = "std")]
pub mod units;
#[cfg(feature = "std")]
pub mod unseen;
