//! What the model of causes asks of who knows the recording's names.

use flightrec_format::abi::record::sample::UserFrame;

/// Names of what numbers in a recording stand for. Every text is fit to print: escaped, one line.
pub trait Names {
    /// A name, such as a thread's, or a path.
    fn text(&self, bytes: &[u8]) -> String;
    /// An error number, as in `EAGAIN`.
    fn error(&self, number: i32) -> String;
    /// A frame of the kernel: its function.
    fn kernel(&self, frame: u32) -> String;
    /// A frame of a program: its function and its binary. `ran`: the instruction that ran; else one
    /// that is returned to.
    fn user(&self, frame: UserFrame, ran: bool) -> String;
    /// The binary of a program's frame, without its folder; `None`: not known.
    fn binary(&self, _: UserFrame) -> Option<String> {
        None
    }
    /// A block device.
    fn device(&self, device: u32) -> String;
    /// A signal.
    fn signal(&self, number: u32) -> String;
    /// Path of a control group; `None`: the recording has no name of it.
    fn group(&self, cgroup: u64) -> Option<String>;
    /// Whether a control group is in a container, by its name or id.
    fn is_in_container(&self, _cgroup: u64, _wanted: &str) -> bool {
        false
    }
    /// Whether a control group is in a pod, by its name or uid.
    fn is_in_pod(&self, _cgroup: u64, _wanted: &str) -> bool {
        false
    }
    /// What an operation of io_uring does.
    fn operation(&self, op: u32) -> String;
}

/// A system call, or an operation of io_uring, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Name and arguments, as in `fsync(3</srv/journal>)`.
    pub text: Box<str>,
    /// What it is about: the path or the socket that its descriptor stands for, or its path.
    pub object: Option<Box<str>>,
    /// The address of a socket that it was given, as in `127.0.0.1:53`.
    pub peer: Option<Box<str>>,
    /// Flags of a call that opens a file; else 0.
    pub open_flags: u64,
}
