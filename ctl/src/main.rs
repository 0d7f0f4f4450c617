//! `flightctl`, the program.

use std::process::ExitCode;

use clap::Parser;
use jiff::Zoned;

use flightctl::args::Cli;
use flightctl::commands::{dump, mark, status};
use flightctl::exit::Exit;
use flightctl::output::is_broken_pipe;
use flightctl::plan::Plan;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match Plan::new(cli, &Zoned::now()) {
        Ok(Plan::Dump(plan)) => dump::run(&plan),
        Ok(Plan::Mark { runtime_dir, text }) => mark::run(&runtime_dir, text),
        Ok(Plan::Status(origin)) => status::run(&origin),
        Err(wrong) => Err(wrong.into()),
    };
    match result {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Fine,
        Err(error) => {
            flightctl::output::note(&format!("flightctl: {error:#}"));
            Exit::Error
        }
    }
    .into()
}
