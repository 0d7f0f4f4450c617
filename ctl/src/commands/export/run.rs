//! Makes an export.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use flightrec_export::Exporter;
use flightrec_export::chrome::Chrome;
use flightrec_export::ctf::Ctf;
use flightrec_export::parquet::{Parquet, Table};
use flightrec_export::perfetto::Perfetto;
use flightrec_export::profile::{Form, Profile};
use flightrec_export::trace_dat::TraceDat;
use flightrec_reader::memory;
use flightrec_reader::source::history;

use super::args::ExportFormat;
use super::plan::ExportPlan;
use super::sums;
use crate::announce::announce;
use crate::events::{Dump, Target, question};
use crate::exit::Exit;
use crate::export::Export;
use crate::output::place::{self, Partial};
use crate::output::{Output, is_stream, refuse, stream};
use crate::render::Format;
use flightrec_cli::note;

/// Exports what was asked for.
pub(super) fn run(plan: &ExportPlan) -> Result<Exit> {
    plan.redact.begin();
    let zone = crate::zone::system();
    let target = Exported::new(plan)?;
    let mut dump = Dump::new(&plan.events, &target, &zone);
    let read = match &plan.dump {
        None => history::read(&plan.events.past.history, question(&plan.events), &mut dump),
        Some(kernel) => kernel.open().map_err(Into::into).and_then(|mut source| {
            announce(&source, &zone);
            kernel.read(&mut source, question(&plan.events), &mut dump)
        }),
    };
    let done = read.and_then(|()| dump.finish());
    match target.export.error() {
        // It is why nothing could be written.
        Some(error) => Err(error.into()),
        None => done,
    }
}

/// The export, and where it goes.
struct Exported<'a> {
    plan: &'a ExportPlan,
    export: Export,
    partial: RefCell<Option<Partial>>,
}

impl<'a> Exported<'a> {
    fn new(plan: &'a ExportPlan) -> Result<Self> {
        match &plan.output {
            None if is_binary(plan.format) && io::stdout().is_terminal() => {
                bail!("this format is not for a terminal: name a file with -o, or pipe it");
            }
            None if files(plan.format).is_some() => {
                bail!("this format has several files: name a directory with -o");
            }
            Some(path) if files(plan.format).is_some() && is_stream(path) => {
                bail!("{} is no directory, and this format has several files", path.display());
            }
            Some(path) => refuse(path, plan.force)?,
            None => {}
        }
        let exporter: Box<dyn Exporter> = match plan.format {
            ExportFormat::Perfetto => Box::new(Perfetto::new()),
            ExportFormat::Chrome => Box::new(Chrome::new()),
            ExportFormat::Folded => Box::new(Profile::new(Form::Folded)),
            ExportFormat::Speedscope => Box::new(Profile::new(Form::Speedscope)),
            ExportFormat::TraceDat => Box::new(TraceDat::new(&beside(plan))?),
            ExportFormat::Ctf => Box::new(Ctf::new(&part(plan)?)),
            ExportFormat::Parquet => {
                // Groups of rows of several tables are there at once.
                memory::reserve(memory::beside() / 2);
                Box::new(Parquet::new(&part(plan)?, sums::of(plan), plan.redact.redact.clone()))
            }
        };
        let shown = &plan.events.shown;
        let export = Export::new(exporter, shown.fds).with_traces(shown.traces);
        Ok(Self { plan, export, partial: RefCell::default() })
    }
}

impl Target for Exported<'_> {
    const DOING: &'static str = "exporting the events";

    fn open(&self) -> Result<Output> {
        let Some(path) = &self.plan.output else {
            return Ok(checked(Box::new(io::stdout()), &self.export, None));
        };
        if is_stream(path) {
            return Ok(checked(Box::new(stream(path)?), &self.export, Some(path)));
        }
        if let Some(files) = files(self.plan.format) {
            self.partial.replace(Some(Partial::directory(path, self.plan.force, files)?));
            return Ok(checked(Box::new(io::sink()), &self.export, Some(path)));
        }
        let (partial, file) = Partial::file(path, self.plan.force)?;
        self.partial.replace(Some(partial));
        Ok(checked(Box::new(file), &self.export, Some(path)))
    }

    fn format(&self, _output: &Output) -> Box<dyn Format> {
        Box::new(self.export.clone())
    }

    fn close(&self, output: Option<Output>) -> Result<()> {
        let Some(mut output) = output else { return Ok(()) };
        let remarks =
            self.export.end(|bytes| output.write_all(bytes).map_err(|e| output.explain(e)))?;
        output.flush().map_err(|e| output.explain(e))?;
        drop(output);
        if let Some(partial) = self.partial.take() {
            partial.keep()?;
        }
        for line in &remarks {
            note(line);
        }
        Ok(())
    }
}

/// Whether a format is nothing for people's eyes.
fn is_binary(format: ExportFormat) -> bool {
    matches!(format, ExportFormat::Perfetto | ExportFormat::TraceDat)
}

/// Where there is room for what waits to be written: the output's directory.
fn beside(plan: &ExportPlan) -> PathBuf {
    let path = plan.output.as_deref().filter(|path| !is_stream(path));
    match path.and_then(Path::parent) {
        None => std::env::temp_dir(),
        Some(dir) if dir.as_os_str().is_empty() => PathBuf::from("."),
        Some(dir) => dir.into(),
    }
}

/// Which files a format has; `None`: one.
fn files(format: ExportFormat) -> Option<fn(&str) -> bool> {
    match format {
        ExportFormat::Parquet => Some(|name| {
            let table = name.strip_suffix(".parquet");
            table.is_some_and(|name| Table::ALL.iter().any(|table| table.name() == name))
        }),
        ExportFormat::Ctf => {
            Some(|name| matches!(name, "kernel/" | "metadata") || name.starts_with("channel0_"))
        }
        _ => None,
    }
}

/// Where the files of a format of several are until they are whole.
fn part(plan: &ExportPlan) -> Result<PathBuf> {
    let path = plan.output.as_deref().unwrap_or(Path::new("-"));
    Ok(place::part(path)?)
}

/// An output that takes nothing once the export can't go on.
fn checked(sink: Box<dyn Write>, export: &Export, path: Option<&PathBuf>) -> Output {
    let checked = Checked { sink, export: export.clone() };
    Output::over(Box::new(checked), path.map(PathBuf::as_path))
}

struct Checked {
    sink: Box<dyn Write>,
    export: Export,
}

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.export.has_failed() {
            return Err(io::Error::other("the export has failed"));
        }
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
