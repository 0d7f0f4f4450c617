//! The commands.

pub mod boots;
pub mod budget;
pub mod doctor;
pub mod dump;
pub mod follow;
pub mod ls;
pub mod mark;
pub mod metrics;
pub mod ps;
pub mod recover;
pub mod save;
pub mod status;
pub mod top;
pub mod verify;
pub mod vmcore;
