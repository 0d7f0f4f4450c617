//! The cause of a snapshot, as `flightctl why` finds it in the snapshot's file.
//!
//! It is a process of its own: it decodes everything that the file holds, which takes memory and
//! may fail, and neither is to happen to the recorder.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use flightrec_store::snapshot::Why;
use nix::sys::memfd::{MFdFlags, memfd_create};
use thiserror::Error;

use super::hook;

/// Longest that it may take.
const LIMIT: Duration = Duration::from_secs(15);
/// Longest answer, bytes: what is kept of it must fit beside the rest that explains a file.
const ANSWER_MAX: u64 = 64 << 10;
/// Exit status of flightctl where nothing matched.
const NOTHING: i32 = 2;

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum WhyError {
    /// It could not be run.
    #[error("{}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It took too long.
    #[error("flightctl why did not end within {}", humantime::format_duration(*.0))]
    Slow(Duration),
    /// It failed.
    #[error("flightctl why failed: {0}")]
    Failed(String),
    /// It answered what can't be read.
    #[error("the answer of flightctl why: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Asks about the cause of the snapshot in `file`, which says what it was.
///
/// # Errors
/// See [`WhyError`]; the snapshot is complete without.
pub(super) fn ask(file: &Path) -> Result<Why, WhyError> {
    let own = std::env::current_exe()
        .map_err(|source| WhyError::Start { program: "flightctl".into(), source })?;
    // The one that is installed beside this program.
    answer(&own.with_file_name("flightctl"), file, LIMIT)
}

fn answer(program: &Path, file: &Path, limit: Duration) -> Result<Why, WhyError> {
    let start = |source| WhyError::Start { program: program.into(), source };
    let (mut out, mut err) = (memory("answer").map_err(start)?, memory("error").map_err(start)?);
    let mut command = Command::new(program);
    command
        .args(["why", "--format", "json", "--file"])
        .arg(file)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(out.try_clone().map_err(start)?)
        .stderr(err.try_clone().map_err(start)?)
        // A group of its own, so that it can be killed as a hook is.
        .process_group(0);
    // SAFETY: between fork and exec, they make system calls alone, and allocate nothing.
    unsafe {
        command.pre_exec(|| {
            die_first();
            drop_capabilities()
        })
    };
    let mut child = command.spawn().map_err(start)?;
    let status = hook::wait(&mut child, limit).map_err(start)?.ok_or(WhyError::Slow(limit))?;
    let text = text(&mut out).map_err(start)?;
    match status.code() {
        Some(0) => Ok(serde_json::from_str(&text)?),
        // Nothing stands out: it says so where it has anything to say.
        Some(NOTHING) if !text.is_empty() => Ok(serde_json::from_str(&text)?),
        _ => {
            let said = self::text(&mut err).map_err(start)?;
            let said = said.lines().next().unwrap_or_default().to_owned();
            Err(WhyError::Failed(if said.is_empty() { status.to_string() } else { said }))
        }
    }
}

/// A file in memory, which takes whatever is written: a pipe would have to be read meanwhile.
fn memory(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into())
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(ANSWER_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// It needs none of what the recorder may do (capabilities(7), "Ambient").
fn drop_capabilities() -> io::Result<()> {
    // SAFETY: no memory is involved.
    let done =
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// If memory runs out, it ends before anything else does, the recorder above all
/// (`oom_badness`, mm/oom_kill.c).
fn die_first() {
    // SAFETY: both strings live for ever, and the length is that of the second one.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
        // Without /proc it has the recorder's own score.
        if file >= 0 {
            libc::write(file, c"1000".as_ptr().cast(), 4);
            libc::close(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What is made of what a program prints.
    fn of(script: &str, limit: Duration) -> Result<Why, String> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("flightctl");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        answer(&program, Path::new("/s/x.flight"), limit).map_err(|e| e.to_string())
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn the_answer_is_kept() {
        let told = r#"test "$(cat /proc/self/oom_score_adj)" = 1000 || exit 1
            test "$*" = "why --format json --file /s/x.flight" || exit 1
            echo '{"sentence":"s","complete":true,"shares":[],"culprits":[{"thread":{"tid":5,
            "pid":null,"name":"db"},"mechanism":"on CPU","call":null,"object":null,"ns":7}]}'"#;
        let why = of(told, MINUTE).unwrap();
        assert_eq!((&*why.sentence, why.complete, why.culprits[0].ns), ("s", true, 7));
        let who = why.culprits[0].thread.as_ref().map(|of| (of.tid, of.pid, &*of.name));
        assert_eq!(who, Some((5, None, "db")));
        assert_eq!(of("echo '{\"sentence\":\"nothing\"}'; exit 2", MINUTE).unwrap().culprits, []);
    }

    #[test]
    fn what_fails_says_why() {
        let failed = |script| of(script, MINUTE).unwrap_err();
        assert_eq!(failed("echo bad file >&2; exit 1"), "flightctl why failed: bad file");
        assert_eq!(failed("exit 2"), "flightctl why failed: exit status: 2");
        assert!(failed("echo nonsense").starts_with("the answer of flightctl why: "));
        assert!(failed("head -c 100000 /dev/zero").starts_with("the answer of flightctl why: "));
        let slow = of("sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert_eq!(slow, "flightctl why did not end within 50ms");
        let none = answer(Path::new("/nonexistent"), Path::new("x"), MINUTE).unwrap_err();
        assert!(none.to_string().starts_with("/nonexistent: No such file"));
    }
}
