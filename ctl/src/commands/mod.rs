//! The commands.

pub mod boots;
pub mod dump;
pub mod follow;
pub mod ls;
pub mod mark;
pub mod metrics;
pub mod ps;
pub mod save;
pub mod snapshot;
pub mod snapshots;
pub mod status;
pub mod top;
pub mod verify;
pub mod vmcore;
