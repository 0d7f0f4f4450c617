//! `flightctl mark`

use std::path::Path;

use anyhow::Result;

use crate::control::Client;
use crate::exit::Exit;

/// Writes a line into the recording.
pub fn run(runtime_dir: &Path, text: String) -> Result<Exit> {
    Client::connect(runtime_dir)?.mark(text)?;
    Ok(Exit::Fine)
}
