//! Options that several commands have: each group as it is typed, in a file of its own, with what
//! it means. A command flattens the groups into its arguments.

pub mod around;
pub mod color;
pub mod epoch;
pub mod format;
pub mod kernel_dump;
pub mod past;
pub mod recorder;
#[cfg(feature = "export")]
pub mod redact;
pub mod shown;
pub mod store;
pub mod target;
pub mod time;
pub mod traces;
pub mod window;
