//! Where a service's own messages go: to the journal under systemd, else to standard error.
//!
//! A message is whole without its fields, as `journalctl` shows it; fields are for programs, and go
//! to the journal alone. Those that people may rely on are in docs/status.md.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use nix::sys::stat::fstat;
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// What is logged unless the environment says otherwise.
const DEFAULT: &str = "info";

/// Logging can't be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter makes no sense.
    #[error(
        "{variable}={value}: {reason}; give a level (error, warn, info, debug, trace), or \
         module=level, separated by commas"
    )]
    Filter {
        /// The environment variable.
        variable: &'static str,
        /// What it is set to.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is set up already.
    #[error("logging is set up twice")]
    Twice(#[from] TryInitError),
}

/// Sets up logging for the process, once. `variable`: the environment variable that says what is
/// logged, as in `debug` or `flightd::control=debug,info`.
///
/// # Errors
/// See [`LogError`].
pub fn init(variable: &'static str) -> Result<(), LogError> {
    let filter = filter(variable, std::env::var(variable).ok().as_deref())?;
    let to_journal =
        std::env::var("JOURNAL_STREAM").is_ok_and(|stream| is_stream(&stream, io::stderr()));
    let registry = tracing_subscriber::registry().with(filter);
    // A journal that can't be reached after all still takes standard error, only without levels.
    if let Some(journal) = to_journal.then(tracing_journald::layer).and_then(Result::ok) {
        // Fields by their own names: MESSAGE_ID means something to the journal.
        let journal = journal.with_field_prefix(None);
        return Ok(registry.with(journal).try_init()?);
    }
    let colour = wants_colour(io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    let message =
        debug_fn(
            |to, field, value| {
                if field.name() == "message" { write!(to, "{value:?}") } else { Ok(()) }
            },
        );
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(colour)
        .with_target(false);
    let stderr = stderr.fmt_fields(message);
    Ok(registry.with(stderr).try_init()?)
}

fn filter(variable: &'static str, value: Option<&str>) -> Result<EnvFilter, LogError> {
    let value = value.filter(|v| !v.is_empty()).unwrap_or(DEFAULT);
    EnvFilter::try_new(value).map_err(|e| LogError::Filter {
        variable,
        value: value.into(),
        reason: e.to_string(),
    })
}

/// Whether `stream` (`device:inode`, from `JOURNAL_STREAM`, systemd.exec(5)) is this descriptor: a
/// program that was started by hand inherits the variable, but not the descriptor.
fn is_stream(stream: &str, fd: impl AsFd) -> bool {
    fstat(fd).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

fn wants_colour(terminal: bool, no_color: Option<&std::ffi::OsStr>) -> bool {
    terminal && no_color.is_none_or(std::ffi::OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_journal_is_recognized_by_its_descriptor() {
        let file = tempfile::tempfile().unwrap();
        let meta = file.metadata().unwrap();
        assert!(is_stream(&format!("{}:{}", meta.dev(), meta.ino()), &file));
        for other in [
            String::new(),
            "8:1".into(),
            format!("{}:{}", meta.dev(), meta.ino() + 1),
            "x:y".into(),
        ] {
            assert!(!is_stream(&other, &file), "{other}");
        }
    }

    #[test]
    fn colour_only_on_a_terminal_and_unless_refused() {
        assert!(wants_colour(true, None) && wants_colour(true, Some(OsStr::new(""))));
        assert!(!wants_colour(false, None) && !wants_colour(true, Some(OsStr::new("1"))));
    }

    #[test]
    fn filters() {
        let of = |value| filter("FLIGHTD_LOG", value);
        assert_eq!(of(None).unwrap().to_string(), "info");
        assert_eq!(of(Some("")).unwrap().to_string(), "info");
        assert_eq!(of(Some("flightd=debug")).unwrap().to_string(), "flightd=debug");
        let error = of(Some("flightd=loud")).unwrap_err().to_string();
        assert!(
            error.starts_with("FLIGHTD_LOG=flightd=loud: ") && error.contains("give a level"),
            "{error}"
        );
    }
}
