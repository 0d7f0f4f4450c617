//! The command line: one definition for parsing, help, manual page and completions.

use std::path::PathBuf;

use clap::Parser;

use crate::run::Options;

/// Behind the options; the manual page has each paragraph as a section.
const AFTER: &str = "\
Examples:
  flightd
        record this machine, with /etc/flightrec/flightd.toml or the defaults
  flightd --check --config ./flightd.toml
        is this configuration good for this machine, and what does it come to
  flightd --runtime-dir /tmp/fr/run --state-dir /tmp/fr/state --bpffs-dir /tmp/fr/bpf
        a second recorder, beside the system's; /tmp/fr/bpf is a mounted bpffs
  FLIGHTD_LOG=debug flightd --keep-recording
        tell more; the kernel goes on recording behind this daemon's end

Signals:
  SIGTERM, SIGINT
        end the recording, unless --keep-recording, and remove it from the kernel
  SIGHUP
        read the configuration again, change what can change with no gap, and name the keys that \
                     wait for a restart; where
        flightd was started on a terminal: end, as with SIGTERM
  SIGKILL
        the kernel goes on recording, and the next flightd takes the recording over

Environment:
  FLIGHTD_LOG
        what is logged: error, warn, info, debug or trace, or module=level, by commas

Files:
  /etc/flightrec/flightd.toml
        configuration
  /run/flightrec/control.sock
        where flightctl asks
  /run/flightrec/bpf
        a mounted bpffs that holds the recording, so that it outlives flightd

Exit status:
  0  ended as asked, or a good configuration
  2  it could not start or go on; the last line says why, and what to do";

/// Records what the kernel does, always.
///
/// The flight recorder's daemon: records system calls, context switches and wakeups of the whole
/// machine into rings in kernel memory, for flightctl to read. It needs root (or CAP_BPF and
/// CAP_PERFMON), Linux 6.1 or later with BTF, tracefs, and a mounted bpffs.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
#[command(name = "flightd", version, after_help = AFTER)]
pub struct Args {
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
    #[arg(long, group = "task")]
    check: bool,
    /// As root, make ready for a flightd that runs as USER with CAP_BPF and CAP_PERFMON alone, and
    /// end: mount a BPF file system on BPFFS_DIR for it, and leave it a copy of what tracefs
    /// shows only to root
    #[arg(long, value_name = "USER", group = "task")]
    prepare: Option<String>,
    /// As root, from ExecStartPre= of the unit of such a flightd: where kernel.perf_event_paranoid
    /// is above 2, open the perf events that it needs, and leave them with systemd for it
    #[arg(long, group = "task")]
    hand_on: bool,
    /// End the recording that runs without a daemon, and take back what --prepare gave
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
    HandOn,
    /// End what is left.
    Remove,
}

impl Args {
    /// What they mean, and what is to be done.
    pub fn resolve(self) -> (Options, Task) {
        let task = match self.prepare {
            Some(user) => Task::Prepare(user),
            None if self.remove => Task::Remove,
            None if self.hand_on => Task::HandOn,
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
        assert_eq!(task(&["--hand-on"]).unwrap(), Task::HandOn);
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
