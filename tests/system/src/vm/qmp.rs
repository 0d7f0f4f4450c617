//! QEMU's own dump of a machine's memory, by its monitor's protocol (QMP).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Longest that an answer takes: all of the memory is written meanwhile.
const PATIENCE: Duration = Duration::from_mins(5);

/// Has the machine whose monitor listens on `socket` write its memory into files, each in a form of
/// QEMU's (none: ELF). The machine stands still meanwhile; `ends`: for ever.
///
/// # Errors
/// That it can't be asked, or what it answers.
pub(super) fn dump(socket: &Path, files: &[(PathBuf, Option<&str>)], ends: bool) -> Result<()> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("QEMU's monitor: {}", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut ask = |command: &Value| -> Result<()> {
        writeln!(stream, "{command}")?;
        for line in lines.by_ref() {
            let answer: Value = serde_json::from_str(&line?)?;
            ensure!(answer["error"].is_null(), "QEMU's monitor: {}", answer["error"]);
            if !answer["return"].is_null() {
                return Ok(());
            }
        }
        anyhow::bail!("QEMU's monitor ended")
    };
    ask(&json!({ "execute": "qmp_capabilities" }))?;
    // One that goes on between two dumps has more in the second.
    ask(&json!({ "execute": "stop" }))?;
    for (to, form) in files {
        let mut arguments =
            json!({ "paging": false, "protocol": format!("file:{}", to.display()) });
        if let Some(form) = form {
            arguments["format"] = json!(form);
        }
        ask(&json!({ "execute": "dump-guest-memory", "arguments": arguments }))?;
    }
    ask(&json!({ "execute": if ends { "quit" } else { "cont" } }))
}
