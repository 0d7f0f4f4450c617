//! The commands.

pub mod dump;
pub mod mark;
pub mod status;
