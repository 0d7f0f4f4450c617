//! Other hosts, over the system's `ssh`: what runs there is `flightctl`, and nothing of ours
//! listens.

pub mod host;
mod quote;
pub mod typed;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use thiserror::Error;

use self::quote::quoted;

/// What a shell answers if there is no such program, and if there is one that can't be run.
pub const NOT_FOUND: i32 = 127;
/// The same of one that can't be run.
pub const NOT_RUN: i32 = 126;
/// What ssh answers if it has no connection.
pub const NO_CONNECTION: i32 = 255;

/// Where to run.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SshArgs {
    /// Run flightctl on HOST, over ssh, and show what it prints. HOST is anything that ssh accepts:
    /// a name, user@name, an alias of ~/.ssh/config; with a port, as in user@name:2222 or
    /// `[::1]:2222`. Files, times of day and directories are those of HOST.
    #[arg(long, global = true, display_order = 910, value_name = "HOST")]
    pub ssh: Option<String>,
    /// The ssh program to run.
    #[arg(
        long,
        global = true,
        display_order = 911,
        value_name = "PROGRAM",
        env = "FLIGHTCTL_SSH",
        hide_env_values = true,
        default_value = "ssh"
    )]
    pub ssh_program: OsString,
    /// The command that runs flightctl on the other host, for example `sudo -n flightctl`.
    #[arg(
        long,
        global = true,
        display_order = 912,
        value_name = "COMMAND",
        env = "FLIGHTCTL_REMOTE",
        hide_env_values = true,
        default_value = "flightctl"
    )]
    pub remote_flightctl: String,
}

/// What can't be run on another host.
#[derive(Debug, Error)]
pub enum SshError {
    /// No ssh.
    #[error(
        "there is no program {}: install OpenSSH's client, or name another with --ssh-program",
        .0.display()
    )]
    NoProgram(OsString),
    /// It can't be started.
    #[error("can't run {}: {source}", .program.display())]
    Start {
        /// Which program.
        program: OsString,
        /// Why.
        source: std::io::Error,
    },
    /// No text.
    #[error("{0:?} is not UTF-8, and can't be sent to another host")]
    NotText(OsString),
    /// An empty name, or one that no shell would take for words.
    #[error("the name of a host, and of flightctl there, must not be empty")]
    Empty,
    /// A host that would be an option.
    #[error("{0:?} is no name of a host: it begins with a dash")]
    Dash(String),
    /// What stands after a colon is none.
    #[error("{0:?} has no port after its colon: write HOST:PORT, or [ADDRESS]:PORT of IPv6")]
    Port(String),
    /// `--ssh` is where it can't be told from something else.
    #[error("write --ssh HOST once, before the command")]
    Place,
    /// It would write a file there.
    #[error(
        "-o {} would be written on {host}: use -o - (dump and follow: leave -o out), and > FILE \
         for what arrives here; of a format of several files, save the window, and export it here",
        .path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The host.
        host: String,
    },
    /// No connection.
    #[error("there is no answer from {0}: ssh failed, for the reason above")]
    NoConnection(String),
    /// No flightctl there.
    #[error(
        "{host} has no {program}: install flightrec there; if it is not in the PATH of ssh's \
         commands, name it by --remote-flightctl /usr/bin/flightctl"
    )]
    NoFlightctl {
        /// The host.
        host: String,
        /// What was to be run there.
        program: String,
    },
    /// It can't be run there.
    #[error("{program} can't be run on {host}, for the reason above")]
    NotRun {
        /// The host.
        host: String,
        /// What was to be run there.
        program: String,
    },
    /// ssh was killed.
    #[error("ssh to {0} was killed")]
    Killed(String),
}

impl SshArgs {
    /// ssh to `host`, to run flightctl there with these arguments. `options`: of ssh.
    pub fn command(
        &self,
        host: &str,
        options: &[&str],
        args: &[String],
    ) -> Result<Command, SshError> {
        if host.is_empty() || self.remote_flightctl.trim().is_empty() {
            return Err(SshError::Empty);
        }
        // ssh's own `--` keeps it from being an option; other programs may know no `--`.
        if host.starts_with('-') {
            return Err(SshError::Dash(host.to_owned()));
        }
        let place = host::parse(host).ok_or_else(|| SshError::Port(host.to_owned()))?;
        if place.name.starts_with('-') {
            return Err(SshError::Dash(host.to_owned()));
        }
        let words = self.remote_flightctl.split_whitespace();
        let line =
            words.chain(args.iter().map(String::as_str)).map(quoted).collect::<Vec<_>>().join(" ");
        let mut command = Command::new(&self.ssh_program);
        command.args(options);
        if let Some(port) = place.port {
            command.args(["-p", port]);
        }
        command.arg("--").arg(place.name).arg(line).stdin(Stdio::null());
        Ok(command)
    }

    /// Why ssh can't be started.
    pub fn not_started(&self, source: std::io::Error) -> SshError {
        let program = self.ssh_program.clone();
        if source.kind() == std::io::ErrorKind::NotFound {
            SshError::NoProgram(program)
        } else {
            SshError::Start { program, source }
        }
    }

    /// What the status of ssh says of a run that is none of flightctl's own.
    pub fn failure(&self, host: &str, code: i32) -> Option<SshError> {
        let (host, program) = (host.to_owned(), self.remote_flightctl.clone());
        match code {
            NO_CONNECTION => Some(SshError::NoConnection(host)),
            NOT_FOUND => Some(SshError::NoFlightctl { host, program }),
            NOT_RUN => Some(SshError::NotRun { host, program }),
            _ => None,
        }
    }
}

/// An argument as text.
fn text(arg: &OsStr) -> Result<&str, SshError> {
    arg.to_str().ok_or_else(|| SshError::NotText(arg.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> SshArgs {
        SshArgs {
            ssh: None,
            ssh_program: "ssh".into(),
            remote_flightctl: "sudo -n flightctl".into(),
        }
    }

    #[test]
    fn the_command_is_one_word_for_ssh() {
        let typed = ["dump", "--comm", "a b"].map(str::to_owned);
        let command = args().command("root@web1", &["-t"], &typed).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words, ["-t", "--", "root@web1", "sudo -n flightctl dump --comm 'a b'"]);
        let command = args().command("root@[::1]:2222", &[], &["ls".to_owned()]).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words, ["-p", "2222", "--", "root@::1", "sudo -n flightctl ls"]);
    }

    #[test]
    fn no_host_is_an_option() {
        for host in ["-oProxyCommand=id", "-", "", "[-oProxyCommand=id]:22"] {
            assert!(args().command(host, &[], &[]).is_err(), "{host:?}");
        }
    }
}
