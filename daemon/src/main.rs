//! `flightd`: records what the kernel does, always.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use flightd::{journal, run};

/// The flight recorder's daemon: records system calls, context switches and wakeups into rings in
/// kernel memory, for flightctl to read.
#[derive(Debug, Parser)]
#[command(
    name = "flightd",
    version,
    after_help = "Exit status: 0 ended as asked, 2 it could not start or go on (the last line says why).\n\n\
    Examples:\n  \
    flightd --check --config ./flightd.toml    is this configuration good for this machine?\n  \
    flightd --runtime-dir /tmp/fr/run --state-dir /tmp/fr/state --bpffs-dir /tmp/fr/bpf\n                                             \
    a second recorder, beside the system's"
)]
struct Args {
    /// Configuration [default: /etc/flightrec/flightd.toml, or the built-in one if there is none]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the control socket is made
    #[arg(long, value_name = "DIR", default_value = "/run/flightrec")]
    runtime_dir: PathBuf,
    /// Where recordings are stored
    #[arg(long, value_name = "DIR", default_value = "/var/lib/flightrec")]
    state_dir: PathBuf,
    /// Where the recording is pinned; on a BPF file system [default: RUNTIME_DIR/bpf]
    #[arg(long, value_name = "DIR")]
    bpffs_dir: Option<PathBuf>,
    /// On SIGTERM, leave the recording running in the kernel for the next flightd
    #[arg(long)]
    keep_recording: bool,
    /// Only check the configuration
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(e) = journal::init() {
        eprintln!("flightd: {e}");
        return ExitCode::from(2);
    }
    let options = run::Options {
        bpffs_dir: args.bpffs_dir.unwrap_or_else(|| args.runtime_dir.join("bpf")),
        config: args.config,
        runtime_dir: args.runtime_dir,
        state_dir: args.state_dir,
        keep_recording: args.keep_recording,
    };
    let result = if args.check { run::check(&options) } else { run::run(&options) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e:#}");
            ExitCode::from(2)
        }
    }
}
