//! Files in which recordings are saved.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flightrec_format::meta::Meta;
use flightrec_reader::boots;
use flightrec_reader::source::Clock;
use flightrec_store::{FileHeader, FileWriter};

use crate::options::target::TargetArgs;
use crate::output::{OutputError, replaceable};

/// zstd's level: a saved file is written once, and kept and sent about.
const LEVEL: i32 = 9;

/// Begins a file of a recording.
pub fn begin<W: Write>(out: W, meta: &Meta, clock: Clock) -> io::Result<FileWriter<W>> {
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: boots::of_meta(meta),
        session: meta.session,
        number: 0,
        created_wall: clock.wall_offset.saturating_add_unsigned(clock.now),
        created_mono: clock.now,
        begins: 0,
    };
    let mut file = FileWriter::new(out, &header, LEVEL)?;
    file.meta(meta, clock.now)?;
    Ok(file)
}

/// A file in the making, under another name; removed unless it gets its own.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    /// `None`: it is standard output, which has no name to get.
    making: Option<PathBuf>,
    file: File,
    force: bool,
}

impl Target {
    /// Refuses, before anything is read for it, a file that is there.
    pub fn check(target: &TargetArgs) -> Result<(), OutputError> {
        if target.is_standard() { Ok(()) } else { replaceable(&target.output, target.force) }
    }

    /// Begins it, beside `path`; one that is there is replaced with `force` only.
    pub fn make(path: &Path, force: bool) -> Result<Self, OutputError> {
        replaceable(path, force)?;
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().ok_or_else(|| OutputError::Name(path.into()))?);
        name.push(format!(".{}", std::process::id()));
        let making = path.with_file_name(name);
        // What is recorded is sensitive: for its owner and group only.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&making);
        let file = file.map_err(|source| OutputError::Io { path: path.into(), source })?;
        Ok(Self { path: path.into(), making: Some(making), file, force })
    }

    /// Begins what goes to standard output.
    pub fn standard() -> Result<Self, OutputError> {
        let path = PathBuf::from("standard output");
        if io::stdout().is_terminal() {
            return Err(OutputError::Terminal);
        }
        match io::stdout().as_fd().try_clone_to_owned() {
            Ok(file) => Ok(Self { path, making: None, file: file.into(), force: false }),
            Err(source) => Err(OutputError::Io { path, source }),
        }
    }

    /// Writes it, to the disk, and gives it its name; its size.
    pub fn fill(
        self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<u64, OutputError> {
        let mut out = self.out()?;
        write(&mut out).map_err(|source| self.failed(source))?;
        self.keep(out)
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is until it gets that.
    pub fn now(&self) -> &Path {
        self.making.as_deref().unwrap_or(&self.path)
    }

    /// What writes into it.
    pub fn out(&self) -> Result<BufWriter<File>, OutputError> {
        let file = self.file.try_clone().map_err(|source| self.failed(source))?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    }

    /// What went wrong with it.
    pub fn failed(&self, source: io::Error) -> OutputError {
        OutputError::Io { path: self.path.clone(), source }
    }

    /// Gives it its name, with all that `out` has, on the disk; its size.
    pub fn keep(self, mut out: BufWriter<File>) -> Result<u64, OutputError> {
        out.flush().map_err(|source| self.failed(source))?;
        drop(out);
        self.name()
    }

    /// The same of a file that is written already. Of standard output there is nothing to do, and
    /// no size.
    pub fn name(self) -> Result<u64, OutputError> {
        let failed = |source| self.failed(source);
        let Some(making) = &self.making else { return Ok(0) };
        self.file.sync_all().map_err(failed)?;
        let size = self.file.metadata().map_err(failed)?.len();
        if self.force {
            fs::rename(making, &self.path).map_err(failed)?;
        } else {
            // Unlike a renaming, a link never replaces what has come there meanwhile.
            match fs::hard_link(making, &self.path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(OutputError::Exists(self.path.clone()));
                }
                // A file system without links.
                Err(_) if self.path.symlink_metadata().is_err() => {
                    fs::rename(making, &self.path).map_err(failed)?;
                }
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(size)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It is gone where it was renamed; nothing else can be done about a failure.
        self.making.as_ref().map(fs::remove_file);
    }
}
