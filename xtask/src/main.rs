//! `cargo xtask …`: tasks that plain cargo cannot express.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::main()
}
