//! `flight-ship`, the program.

use std::process::ExitCode;

use flightrec_cli::{arguments, note};
use flightrec_settings::log;
use flightrec_ship::args::Args;
use flightrec_ship::run::{Exit, run};

/// Environment variable that says what is logged.
const LOG: &str = "FLIGHT_SHIP_LOG";

fn main() -> ExitCode {
    let args: Args = match arguments("flight-ship") {
        Ok(args) => args,
        Err(code) => return code,
    };
    if let Err(e) = log::init(LOG) {
        note(&format!("flight-ship: {e}"));
        return ExitCode::from(Exit::Error.code());
    }
    match run(&args) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(e) => {
            tracing::error!("{e:#}");
            ExitCode::from(Exit::Error.code())
        }
    }
}
