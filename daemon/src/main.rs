//! `flightd`: records what the kernel does, always.

use std::process::ExitCode;

use flightd::args::{Args, Task};
use flightd::run;
use flightrec_cli::{arguments, note, told};
use flightrec_settings::log;

/// Environment variable that says what is logged.
const LOG: &str = "FLIGHTD_LOG";

fn main() -> ExitCode {
    let args: Args = match arguments("flightd") {
        Ok(args) => args,
        Err(code) => return code,
    };
    if let Err(e) = log::init(LOG) {
        note(&format!("flightd: {e}"));
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
            tracing::error!("{}", told(&e));
            ExitCode::from(2)
        }
    }
}
