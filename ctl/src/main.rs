//! `flightctl`, the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    flightctl::cli::run()
}
