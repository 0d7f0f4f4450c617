//! Where text goes.

#[cfg(feature = "export")]
pub(crate) mod place;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::options::color::ColorArg;
use crate::progress::Progress;

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
    /// The path is a symbolic link, or neither a file nor a directory.
    #[error("{} is a link or no file: name a new file", .0.display())]
    NotFile(PathBuf),
    /// It is a directory, or has no name.
    #[error("{} is not a file name", .0.display())]
    Name(PathBuf),
}

/// Checks an output path before the command reads anything: accepts a pipe or a device
/// ([`is_stream`]), and otherwise applies [`replaceable`].
pub fn refuse(path: &Path, force: bool) -> Result<(), OutputError> {
    if is_stream(path) { Ok(()) } else { replaceable(path, force) }
}

/// Returns an error if something exists at `path` that must not be replaced: a file or a directory
/// without `force`, and any link, pipe or device. Another user may have made a link, and it may lead
/// anywhere; `/dev/stdout` is a link, too.
pub fn replaceable(path: &Path, force: bool) -> Result<(), OutputError> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    match metadata.file_type() {
        kind if !kind.is_file() && !kind.is_dir() => Err(OutputError::NotFile(path.into())),
        _ if force => Ok(()),
        _ => Err(OutputError::Exists(path.into())),
    }
}

/// Whether nothing can be lost there, nor replaced: a pipe or a device, perhaps by a link.
pub fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| is_of_stream(&metadata))
}

fn is_of_stream(metadata: &Metadata) -> bool {
    let kind = metadata.file_type();
    kind.is_fifo() || kind.is_char_device() || kind.is_socket()
}

/// Opens such a one.
pub fn stream(path: &Path) -> Result<File, OutputError> {
    let failed = |source: io::Error| OutputError::Io { path: path.into(), source };
    let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    // A link may lead elsewhere by now.
    let metadata = file.metadata().map_err(failed)?;
    if is_of_stream(&metadata) { Ok(file) } else { Err(OutputError::NotFile(path.into())) }
}

/// A new file under this name, for its owner and group only, as what is recorded is sensitive. One
/// that is there is removed with `force`, and never written to: it may be somebody else's.
fn create(path: &Path, force: bool) -> Result<File, OutputError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => OutputError::Exists(path.into()),
        _ => OutputError::Io { path: path.into(), source },
    };
    replaceable(path, force)?;
    if force
        && let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed(error));
    }
    OpenOptions::new().write(true).create_new(true).mode(0o640).open(path).map_err(failed)
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

    /// Opens the file, or else standard output. A file that is there is replaced by a new one, with
    /// `force` only.
    pub fn to(path: Option<&Path>, force: bool) -> Result<Self, OutputError> {
        let Some(path) = path else { return Ok(Self::standard()) };
        let file = if is_stream(path) { stream(path)? } else { create(path, force)? };
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
    fn only_a_broken_pipe_is_one() {
        assert!(is_broken_pipe(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
        assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::StorageFull).into()));
    }
}
