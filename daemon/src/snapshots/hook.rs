//! The command that is run when a snapshot was taken.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flightrec_store::snapshot::About;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use thiserror::Error;
use tracing::debug;

/// How often it is seen whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// A hook that did not do its work.
#[derive(Debug, Error)]
pub enum HookError {
    /// It could not be begun.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// It failed.
    #[error("{program} ended with {status}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It took too long, and was killed with all that it had begun.
    #[error("{program} did not end within {} and was killed", humantime::format_duration(*.limit))]
    Slow {
        /// The program.
        program: String,
        /// How long it may take.
        limit: Duration,
    },
}

/// Runs it to its end: with the snapshot's file, its page if there is one, its id, cause, subject
/// and reason, and what was slow and why, in its environment, and nothing to read.
pub fn run(
    command: &[String],
    limit: Duration,
    file: &Path,
    page: Option<&Path>,
    id: &str,
    about: &About,
) -> Result<(), HookError> {
    let Some((program, args)) = command.split_first() else { return Ok(()) };
    let start = |source| HookError::Start { program: program.clone(), source };
    let mut child = Command::new(program)
        .args(args)
        .env("FLIGHTREC_SNAPSHOT", file)
        .env("FLIGHTREC_SNAPSHOT_ID", id)
        .env("FLIGHTREC_CAUSE", clean(&about.cause))
        .env("FLIGHTREC_SUBJECT", clean(&about.subject))
        .env("FLIGHTREC_REASON", clean(&about.reason))
        .env(
            "FLIGHTREC_WHY",
            super::clean(about.summary.why.as_ref().map_or("", |why| &*why.sentence)),
        )
        .env("FLIGHTREC_PAGE", page.unwrap_or_else(|| Path::new("")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // A group of its own, so that what it begins ends with it.
        .process_group(0)
        .spawn()
        .map_err(start)?;
    let ended = wait(&mut child, limit).map_err(start)?;
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(HookError::Failed { program: program.clone(), status }),
        None => Err(HookError::Slow { program: program.clone(), limit }),
    }
}

/// Without what an environment can't hold.
fn clean(text: &str) -> String {
    text.replace('\0', " ")
}

/// Waits for the end of a process that leads a group of its own; `None`: it took too long, and the
/// group was killed.
pub(super) fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            // It leads its group, and is not waited for yet: the number is nobody else's.
            if let Err(e) = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL) {
                debug!(error = %e, "the hook has ended by itself just now");
            }
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK.min(limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<(), HookError> {
        let about = About { cause: "oom_kill".into(), reason: "a\0b".into(), ..About::default() };
        let command = ["/bin/sh", "-c", script].map(str::to_owned);
        let (file, page) = (Path::new("/s/x.flight"), Path::new("/s/x.html"));
        run(&command, limit, file, Some(page), "x", &about)
    }

    #[test]
    fn it_is_told_what_happened() {
        let test = "test \"$FLIGHTREC_SNAPSHOT $FLIGHTREC_SNAPSHOT_ID $FLIGHTREC_CAUSE \
                    $FLIGHTREC_REASON $FLIGHTREC_PAGE\" = \
                    '/s/x.flight x oom_kill a b /s/x.html'";
        sh(test, Duration::from_mins(1)).unwrap();
    }

    #[test]
    fn what_fails_or_hangs_is_said() {
        assert!(matches!(sh("exit 3", Duration::from_mins(1)), Err(HookError::Failed { .. })));
        let error =
            sh("sleep 1000 & sleep 1000", Duration::from_millis(100)).unwrap_err().to_string();
        assert_eq!(error, "/bin/sh did not end within 100ms and was killed");
        let none = run(
            &["/nonexistent".into()],
            Duration::from_secs(1),
            Path::new("x"),
            None,
            "x",
            &About::default(),
        );
        assert!(none.unwrap_err().to_string().starts_with("/nonexistent: No such file"));
    }
}
