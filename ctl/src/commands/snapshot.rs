//! `flightctl snapshot`

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::control::Client;
use crate::exit::Exit;
use crate::output::Output;

/// Has a snapshot taken, and prints its id.
pub fn run(runtime_dir: &Path, last: u64, reason: String) -> Result<Exit> {
    let id = Client::connect(runtime_dir)?.snapshot(last, reason)?;
    let mut output = Output::standard();
    writeln!(output, "{id}").and_then(|()| output.flush()).map_err(|e| output.explain(e))?;
    Ok(Exit::Fine)
}
