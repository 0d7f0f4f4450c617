//! The commands.

pub mod dump;
pub mod follow;
pub mod mark;
pub mod metrics;
pub mod ps;
pub mod status;
pub mod top;
