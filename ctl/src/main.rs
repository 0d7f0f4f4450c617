//! `flightctl`, the program.

use std::process::ExitCode;

use jiff::Timestamp;

use flightctl::cli::Cli;
use flightctl::commands::Command;
use flightctl::descriptors;
use flightctl::exit::Exit;
use flightctl::forward;
use flightctl::output::is_broken_pipe;
use flightctl::progress::Terminal;
use flightctl::ssh::{SshArgs, SshError, typed};
use flightctl::zone;
use flightrec_cli::{arguments, note, told};
use flightrec_reader::{memory, observe};

fn main() -> ExitCode {
    descriptors::raise_limit();
    observe::listen(&Terminal);
    let Cli { recorder, command } = match arguments("flightctl") {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Some(bytes) = recorder.memory {
        memory::allow(bytes);
    } else if let Some(wrong) = memory::wrong() {
        note(&format!("flightctl: {wrong}"));
        return Exit::Error.into();
    }
    if let Some(host) = &recorder.ssh.ssh {
        return match remote(&recorder.ssh, host, &command) {
            Ok(code) => code.into(),
            Err(error) => {
                note(&format!("flightctl: {error}"));
                Exit::Error.into()
            }
        };
    }
    let now = Timestamp::now().to_zoned(zone::system());
    let remarks = command.window().map(|window| window.remarks(&now));
    let result = command.plan(recorder, &now).and_then(|plan| {
        remarks.iter().flatten().for_each(|line| note(line));
        plan.run()
    });
    match result {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Fine,
        Err(error) => {
            note(&format!("flightctl: {}", told(&error)));
            Exit::Error
        }
    }
    .into()
}

/// Runs the command on another host; its exit status.
fn remote(ssh: &SshArgs, host: &str, command: &Command) -> Result<u8, SshError> {
    if let Some(path) = command.file() {
        return Err(SshError::File { path: path.into(), host: host.to_owned() });
    }
    forward::run(ssh, host, &typed::without_ours(std::env::args_os().skip(1))?)
}
