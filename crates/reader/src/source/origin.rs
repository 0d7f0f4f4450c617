//! Where what was recorded is to be looked for.

use std::path::PathBuf;

use crate::boots::BootArg;

/// Where the recording is read from.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// The daemon; where it does not run and the command can do without, the pinned rings.
    Daemon {
        /// Directory of the control socket.
        runtime_dir: PathBuf,
        /// Directory of the pinned rings.
        bpffs_dir: PathBuf,
    },
    /// The pinned rings, as asked for.
    Pinned {
        /// Their directory.
        bpffs_dir: PathBuf,
    },
}

/// State directory where neither the command line nor the daemon names one.
pub const STATE_DIR: &str = "/var/lib/flightrec";

/// What was recorded, over rings, files and boots.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPlan {
    /// Where it is.
    pub place: HistoryPlace,
    /// Which boot; `None`: all, as far as the window asks for them.
    pub boot: Option<BootArg>,
}

/// Where a history is.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryPlace {
    /// The recorder's own rings, and its files where those do not reach.
    Recorder {
        /// Where the rings are.
        origin: Origin,
        /// Where the files are; `None`: where the daemon says, else [`STATE_DIR`].
        state_dir: Option<PathBuf>,
    },
    /// The files of a directory.
    Store(PathBuf),
    /// These files.
    Files(Vec<PathBuf>),
    /// These files, on the windows that they were saved of where all of them were.
    OwnWindows(Vec<PathBuf>),
    /// A snapshot.
    Snapshot {
        /// Directory of the control socket: the daemon knows the state directory.
        runtime_dir: PathBuf,
        /// The state directory, as typed.
        state_dir: Option<PathBuf>,
        /// Its id, or `latest`.
        id: String,
        /// Whether its own window is wanted.
        own_window: bool,
    },
}

/// Files that are looked at as such.
#[derive(Debug, PartialEq)]
pub struct FilesPlan {
    /// Files and directories; none: the state directory.
    pub paths: Vec<PathBuf>,
    /// Directory of the control socket: the daemon knows the state directory.
    pub runtime_dir: PathBuf,
    /// The state directory, as typed.
    pub state_dir: Option<PathBuf>,
}
