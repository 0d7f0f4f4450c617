//! Where the recorder is: the options that all commands have.

use std::path::PathBuf;

use clap::Args;
use flightrec_reader::source::{FilesPlan, Origin, STATE_DIR};

use super::kernel_dump::KernelDump;
use crate::ssh::SshArgs;
use crate::value::memory;

/// The daemon's runtime directory unless it is told another one.
pub const RUNTIME_DIR: &str = "/run/flightrec";

/// Where the recorder is.
#[derive(Debug, Args)]
pub struct RecorderArgs {
    /// Directory of the daemon's control socket.
    #[arg(
        long,
        global = true,
        display_order = 900,
        value_name = "DIR",
        env = "FLIGHTREC_RUNTIME_DIR",
        hide_env_values = true,
        default_value = RUNTIME_DIR
    )]
    pub runtime_dir: PathBuf,
    /// Read the rings pinned in this bpffs directory instead of asking the daemon (as root).
    ///
    /// By default, RUNTIME_DIR/bpf is read when no daemon answers.
    #[arg(long, global = true, display_order = 901, value_name = "DIR")]
    pub bpffs_dir: Option<PathBuf>,
    /// The daemon's state directory. Its files hold what is older than the rings, and identify the
    /// recording in a kernel dump [default: the daemon's, else /var/lib/flightrec].
    #[arg(long, global = true, display_order = 902, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Use at most this much memory for reading recordings, for example 2GiB. More makes long
    /// windows faster [default: 256MiB, or FLIGHTREC_MEMORY].
    #[arg(long, global = true, display_order = 903, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
    /// Say on standard error how much was read for the answer, and how long that took.
    #[arg(long, global = true, display_order = 904)]
    pub explain: bool,
    /// On which host.
    #[command(flatten)]
    pub ssh: SshArgs,
}

impl RecorderArgs {
    /// Where the recording is read from.
    pub fn origin(&self) -> Origin {
        match &self.bpffs_dir {
            Some(bpffs_dir) => Origin::Pinned { bpffs_dir: bpffs_dir.clone() },
            None => Origin::Daemon {
                bpffs_dir: self.runtime_dir.join("bpf"),
                runtime_dir: self.runtime_dir.clone(),
            },
        }
    }

    /// A recording in a kernel dump, which the files in `store`, else in the state directory, may
    /// identify.
    pub fn kernel_dump(
        &self,
        file: PathBuf,
        session: Option<u64>,
        store: Option<PathBuf>,
    ) -> KernelDump {
        let state_dir = store.as_ref().or(self.state_dir.as_ref()).cloned();
        let state_dir = state_dir.unwrap_or_else(|| STATE_DIR.into());
        KernelDump { file, session, store, state_dir }
    }

    /// The files that were typed; without any, those of the state directory.
    pub fn files(self, paths: Vec<PathBuf>) -> FilesPlan {
        FilesPlan { paths, runtime_dir: self.runtime_dir, state_dir: self.state_dir }
    }
}
