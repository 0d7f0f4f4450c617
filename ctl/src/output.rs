//! Where text goes.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::options::color::ColorArg;
use crate::progress::Progress;
pub use crate::stderr::note;

/// A file that can't be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The system refuses.
    #[error("can't write {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is there.
    #[error("{} exists: --force replaces it", .0.display())]
    Exists(PathBuf),
    /// What is there is not what it would be replaced by.
    #[error(
        "{} has something that no export has ({}): name another directory, or remove it",
        .path.display(), .name.escape_debug()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What is in it.
        name: String,
    },
    /// A recording would be written to a terminal.
    #[error("a recording is not for a terminal: name a file with -o, or pipe it")]
    Terminal,
    /// It is a directory, or has no name.
    #[error("{} is not a file name", .0.display())]
    Name(PathBuf),
}

/// Refuses a file that is there, before anything is read for it. A device or a pipe holds nothing
/// that could be lost.
pub fn refuse(path: &Path, force: bool) -> Result<(), OutputError> {
    let is_lost = !force && path.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_lost { Err(OutputError::Exists(path.into())) } else { Ok(()) }
}

/// Standard output, or a file.
pub struct Output {
    sink: Box<dyn Write>,
    path: Option<PathBuf>,
    terminal: bool,
    progress: Option<Progress>,
}

impl Output {
    /// Opens standard output.
    pub fn standard() -> Self {
        let stdout = io::stdout();
        Self {
            terminal: stdout.is_terminal(),
            sink: Box::new(stdout.lock()),
            path: None,
            progress: None,
        }
    }

    /// Opens the file, or else standard output. A file that is there is replaced with `force` only;
    /// a new one is for its owner and group only, as what is recorded is sensitive.
    pub fn to(path: Option<&Path>, force: bool) -> Result<Self, OutputError> {
        let Some(path) = path else { return Ok(Self::standard()) };
        refuse(path, force)?;
        let mut options = OpenOptions::new();
        options.write(true).mode(0o640);
        let failed = |source| OutputError::Io { path: path.into(), source };
        let file = if path.exists() {
            options.truncate(true).open(path).map_err(failed)?
        } else {
            // What has come there meanwhile stays as well.
            options.create_new(!force).create(true).truncate(force).open(path).map_err(
                |source| match source.kind() {
                    io::ErrorKind::AlreadyExists => OutputError::Exists(path.into()),
                    _ => failed(source),
                },
            )?
        };
        Ok(Self { terminal: false, sink: Box::new(file), path: Some(path.into()), progress: None })
    }

    /// What writes to `sink`; `path`: the file that errors are about.
    pub fn over(sink: Box<dyn Write>, path: Option<&Path>) -> Self {
        Self { terminal: false, sink, path: path.map(Into::into), progress: None }
    }

    /// Shows `progress` while this is written. On a terminal the first line ends it: the lines tell
    /// enough.
    pub fn show(&mut self, progress: Progress) {
        self.progress = Some(progress);
    }

    /// Whether a person reads it at once.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether to colour, `no_color` being the value of `NO_COLOR`.
    pub fn colours(&self, when: ColorArg, no_color: Option<&std::ffi::OsStr>) -> bool {
        match when {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => self.terminal && no_color.is_none_or(std::ffi::OsStr::is_empty),
        }
    }

    /// Writes a text to the end.
    pub fn print(&mut self, text: &[u8]) -> anyhow::Result<()> {
        self.write_all(text).and_then(|()| self.flush()).map_err(|e| self.explain(e))
    }

    /// An error of writing, with the file's name; a broken pipe stays what it is.
    pub fn explain(&self, error: io::Error) -> anyhow::Error {
        match &self.path {
            Some(path) => OutputError::Io { path: path.clone(), source: error }.into(),
            None => error.into(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.progress {
            Some(_) if self.terminal => self.progress = None,
            Some(progress) => progress.add(bytes.len() as u64),
            None => {}
        }
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Whether an error is that the reader of our output has gone: it has read enough.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
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
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn colour_on_a_terminal_only() {
        let output =
            |terminal| Output { sink: Box::new(io::sink()), path: None, terminal, progress: None };
        assert!(output(true).colours(ColorArg::Auto, None));
        assert!(output(true).colours(ColorArg::Auto, Some(OsStr::new(""))));
        assert!(!output(true).colours(ColorArg::Auto, Some(OsStr::new("1"))));
        assert!(!output(false).colours(ColorArg::Auto, None));
        assert!(output(false).colours(ColorArg::Always, Some(OsStr::new("1"))));
        assert!(!output(true).colours(ColorArg::Never, None));
    }

    #[test]
    fn causes_are_told_once() {
        let source = || io::Error::from(io::ErrorKind::StorageFull);
        let error = anyhow::Error::new(OutputError::Io { path: "/x".into(), source: source() })
            .context("dump");
        assert_eq!(told(&error), format!("dump: can't write /x: {}", source()));
    }

    #[test]
    fn only_a_broken_pipe_is_one() {
        assert!(is_broken_pipe(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
        assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::StorageFull).into()));
    }
}
