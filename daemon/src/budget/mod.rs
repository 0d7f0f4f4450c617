//! What recording may cost, kept in three layers.
//!
//! - The probes draw what each event costs from token buckets ([`crate::buckets`]) and refuse what
//!   is beyond; that holds with no daemon alive.
//! - A thread ([`keeper`]) reckons what was spent on what ([`account`]), and degrades the recording
//!   or restores it ([`ladder`]), by bits in the probes' state that stay when the daemon dies.
//! - Where the probe overhead alone exceeds the total, it detaches the programs on system calls for
//!   part of the time ([`crate::recording::Recording::detach`]).
//!
//! What events cost comes from [`crate::calibrate`]; how much more it is where system calls come
//! and go, from [`crowding`].

pub mod account;
pub mod crowding;
pub mod keeper;
pub mod ladder;

pub use keeper::{Keeper, Settings};
