//! `flightd`: records what the kernel does, always.

use std::process::ExitCode;

use clap::Parser;
use flightd::args::{Args, Task};
use flightd::run;
use flightrec_settings::log;

/// Environment variable that says what is logged.
const LOG: &str = "FLIGHTD_LOG";

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(e) = log::init(LOG) {
        eprintln!("flightd: {e}");
        return ExitCode::from(2);
    }
    let (options, task) = args.resolve();
    let result = match task {
        Task::Run => run::run(&options),
        Task::Check => run::check(&options),
        Task::Prepare(user) => run::prepare(&options, &user),
        Task::OpenPerfFds => run::open_perf_fds(&options),
        Task::Remove => run::remove(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{}", explain(&e));
            ExitCode::from(2)
        }
    }
}

/// An error with its causes, but for those that its own words tell already.
fn explain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
