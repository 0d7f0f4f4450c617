//! How flightrec's programs read their command line, and how they tell errors.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use flightrec_format::unseen::visible;

/// The arguments that the program `name` was given. Where it shall not go on, as they are wrong, or
/// help or the version was asked for, that has been printed.
///
/// # Errors
/// The program's exit status: 0 where what was asked for could be printed, or its reader has gone;
/// else 2.
pub fn arguments<T: Parser>(name: &str) -> Result<T, ExitCode> {
    T::try_parse().map_err(|answer| {
        let printed = answer.print().and_then(|()| io::stdout().flush());
        match printed {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                note(&format!("{name}: can't write to standard output: {error}"));
                ExitCode::from(2)
            }
            _ => match answer.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(2),
            },
        }
    })
}

/// Prints a text on standard output. A reader that has gone wants no more of it.
///
/// # Errors
/// It can't be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("can't write to standard output"))
        }
        _ => Ok(()),
    }
}

/// A line on standard error: errors and remarks have paths and names in them, so nothing of it
/// reaches the terminal that is not seen. Where that is closed there is nobody to tell.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", visible(line));
}

/// An error with its causes, but for those that its own words tell already.
pub fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn causes_are_told_once() {
        let source = || io::Error::from(io::ErrorKind::StorageFull);
        let error = anyhow::Error::new(source()).context(anyhow!("can't write /x: {}", source()));
        assert_eq!(told(&error.context("dump")), format!("dump: can't write /x: {}", source()));
    }
}
