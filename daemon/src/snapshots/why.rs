//! The cause of a snapshot, as `flightctl why` finds it in the snapshot's file.

use std::path::Path;
use std::time::Duration;

use flightrec_store::snapshot::Why;
use thiserror::Error;

use super::tool::{self, ToolError};

/// Longest that it may take.
const LIMIT: Duration = Duration::from_secs(15);
/// Longest answer, bytes: what is kept of it must fit beside the rest that explains a file.
const ANSWER_MAX: u64 = 64 << 10;
/// Exit status of flightctl where nothing matched.
const NOTHING: i32 = 2;

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum WhyError {
    /// It did not do its work.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// It answered what can't be read.
    #[error("the answer of flightctl why: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Asks about the cause of the snapshot in `file`, which says what it was.
///
/// # Errors
/// See [`WhyError`]; the snapshot is complete without.
pub(super) fn ask(file: &Path) -> Result<Why, WhyError> {
    answer(&tool::installed()?, file, LIMIT)
}

fn answer(program: &Path, file: &Path, limit: Duration) -> Result<Why, WhyError> {
    let start = |source| ToolError::Start { program: program.into(), source };
    let mut out = tool::memory("answer").map_err(start)?;
    let args = ["why", "--format", "json", "--file"];
    let ended = tool::run(program, &args, file, &out, (limit, 2 * ANSWER_MAX))?;
    let text = tool::text(&mut out).map_err(start)?;
    match ended.code() {
        Some(0) => Ok(serde_json::from_str(&text)?),
        // Nothing stands out: it says so where it has anything to say.
        Some(NOTHING) if !text.is_empty() => Ok(serde_json::from_str(&text)?),
        _ => Err(ended.failed().into()),
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
