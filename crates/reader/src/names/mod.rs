//! Names of numbers: flag sets, enumerations, errors and signals.
//!
//! The names come from crates ([`nix`]'s flag types, [`syscalls`]'s errors, [`libc`]'s constants,
//! each spelled once in `names!`), which follow the user-space ABI of Linux; that ABI never changes
//! under a recording, so a reader may know it. Where machines differ, a set is one for each
//! (`ByArchitecture`), with numbers of our own: the crates have those of the machine that
//! reads. What depends on the recorded kernel (numbers, names and arguments of system calls) is not
//! here: the recording carries it.

mod calls;
mod errno;
mod files;
mod io_op;
pub mod ioctl;
mod net;
mod pointed;
mod process;
mod set;
mod table;
mod task;

pub use calls::set_for;
pub use errno::errno;
pub use files::{FILE_TYPE, FcntlArgument, fcntl_argument, may_create, open_flags};
pub use io_op::{io_op, may_be_of_file, takes_path};
pub use net::{protocol, socket_option};
pub use pointed::Member;
pub use process::PERSONALITY;
pub use process::signal;
pub use set::Set;
pub use table::{Call, Calls, NUMBERS};
pub use task::{Priority, TASK_STATE};
