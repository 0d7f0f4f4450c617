//! The command line: one definition for parsing, help, manual page and completions.

use std::path::PathBuf;

use clap::Parser;

use crate::run::Options;

/// After the options; the manual page has each paragraph as a section.
const AFTER: &str = "\
Examples:
  flightd
        record this machine, with /etc/flightrec/flightd.toml or the defaults
  flightd --check --config ./flightd.toml
        check this configuration for this machine, and print what it amounts to
  flightd --runtime-dir /tmp/fr/run --state-dir /tmp/fr/state --bpffs-dir /tmp/fr/bpf
        run a second recorder beside the system's; /tmp/fr/bpf is a mounted bpffs
  FLIGHTD_LOG=debug flightd --keep-recording
        log more; keep recording in the kernel after this daemon exits

Signals:
  SIGTERM, SIGINT
        end the recording, unless --keep-recording, and remove it from the kernel
  SIGHUP
        read the configuration again, apply what can change without a gap, and log the keys that
        need a restart; if flightd was started on a terminal: end, as with SIGTERM
  SIGKILL
        the kernel keeps recording, and the next flightd takes over the recording

Environment:
  FLIGHTD_HOST
        name of the machine in recordings, if the host name is not its own, as in a container
  FLIGHTD_LOG
        log levels: error, warn, info, debug or trace, or module=level, separated by commas

Files:
  /etc/flightrec/flightd.toml
        configuration
  /run/flightrec/control.sock
        the control socket for flightctl
  /run/flightrec/bpf
        a mounted bpffs that pins the recording, so that it outlives flightd

Exit status:
  0  ended as requested, or the configuration is valid
  2  could not start or continue; the last line says why, and what to do";

/// Continuously record what the kernel does.
///
/// The flight recorder's daemon. It records system calls, context switches and wakeups of the whole
/// machine into rings in kernel memory, for flightctl to read. It needs root (or CAP_BPF and
/// CAP_PERFMON), Linux 6.1 or later with BTF, tracefs, and a mounted bpffs.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
#[command(name = "flightd", version, after_help = AFTER)]
pub struct Args {
    /// Configuration file [default: /etc/flightrec/flightd.toml, else built-in defaults]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory for the control socket
    #[arg(long, value_name = "DIR", default_value = "/run/flightrec")]
    runtime_dir: PathBuf,
    /// Directory for the recording's files
    #[arg(long, value_name = "DIR", default_value = "/var/lib/flightrec")]
    state_dir: PathBuf,
    /// Directory on a BPF file system to pin the recording in [default: RUNTIME_DIR/bpf]
    #[arg(long, value_name = "DIR")]
    bpffs_dir: Option<PathBuf>,
    /// On SIGTERM, leave the recording running in the kernel for the next flightd
    #[arg(long)]
    keep_recording: bool,
    /// Check the configuration and exit
    #[arg(long, group = "task")]
    check: bool,
    /// As root, prepare for a flightd that runs as USER with only CAP_BPF and CAP_PERFMON, and
    /// exit: mount a BPF file system on BPFFS_DIR for it, and copy for it what tracefs shows only
    /// to root
    #[arg(long, value_name = "USER", group = "task")]
    prepare: Option<String>,
    /// As root, in ExecStartPre= of the unit of such a flightd: if kernel.perf_event_paranoid is
    /// above 2, open the perf events that flightd needs, and pass them to it through systemd
    #[arg(long, group = "task")]
    open_perf_fds: bool,
    /// End a recording that runs without a daemon, and undo --prepare
    #[arg(long, group = "task")]
    remove: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Record.
    Run,
    /// Check the configuration.
    Check,
    /// Make ready for a daemon of this user.
    Prepare(String),
    /// Open what a daemon of another user may not.
    OpenPerfFds,
    /// End what is left.
    Remove,
}

impl Args {
    /// What they mean, and what is to be done.
    pub fn resolve(self) -> (Options, Task) {
        let task = match self.prepare {
            Some(user) => Task::Prepare(user),
            None if self.remove => Task::Remove,
            None if self.open_perf_fds => Task::OpenPerfFds,
            None if self.check => Task::Check,
            None => Task::Run,
        };
        let options = Options {
            bpffs_dir: self.bpffs_dir.unwrap_or_else(|| self.runtime_dir.join("bpf")),
            config: self.config,
            runtime_dir: self.runtime_dir,
            state_dir: self.state_dir,
            keep_recording: self.keep_recording,
        };
        (options, task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_recording_is_pinned_beside_the_socket() {
        let (options, task) =
            Args::parse_from(["flightd", "--runtime-dir", "/r", "--check"]).resolve();
        assert_eq!(options.bpffs_dir, PathBuf::from("/r/bpf"));
        assert_eq!((task, options.keep_recording), (Task::Check, false));
    }

    #[test]
    fn one_task_at_a_time() {
        let task = |args: &[&str]| {
            Args::try_parse_from(["flightd"].iter().chain(args)).map(|args| args.resolve().1)
        };
        assert_eq!(task(&[]).unwrap(), Task::Run);
        assert_eq!(task(&["--prepare", "u"]).unwrap(), Task::Prepare("u".into()));
        assert_eq!(task(&["--remove"]).unwrap(), Task::Remove);
        assert_eq!(task(&["--open-perf-fds"]).unwrap(), Task::OpenPerfFds);
        assert!(task(&["--remove", "--check"]).is_err());
    }

    #[test]
    fn every_example_is_right() {
        let examples = AFTER.split("\n\n").next().unwrap_or_default().lines();
        let lines: Vec<&str> = examples
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|l| !l.starts_with(' '))
            .collect();
        assert_eq!(lines.len(), 4);
        for line in lines {
            let words = line.split_whitespace().skip_while(|word| word.contains('='));
            assert!(Args::try_parse_from(words).is_ok(), "{line}");
        }
    }
}
