//! Rows of the table into the kernel: load, attach and pin them; detach and attach again; whether
//! they are attached.
//!
//! A program is pinned under `progs/` of a generation's directory, its link under `links/`, by the
//! row's [`Attachment::pin`].

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::{
    BtfTracePoint, FEntry, FExit, Iter, PerfEvent, Program, ProgramError, RawTracePoint, TracePoint,
};
use flightrec_format::live::sys;
use flightrec_format::meta::Lacking;
use tracing::debug;

use crate::attachments::{Attachment, Hook, Place, ProgramForm, Tracepoint};
use crate::load::LoadError;
use crate::tracepoints::Tracepoints;
use crate::{clocks, tracepoint};

/// Loads, attaches and pins rows, in their order. Tells which optional ones this kernel refused; a
/// required one that is refused is the error.
pub fn attach(
    ebpf: &mut Ebpf,
    rows: &[Attachment],
    tracepoints: &Tracepoints,
    btf: &aya::Btf,
    dir: &Path,
) -> Result<Vec<Lacking>, LoadError> {
    let mut attacher = Attacher { ebpf, tracepoints, btf, dir };
    let mut lacking = Vec::new();
    for row in rows {
        match attacher.attach(row) {
            Err(e) if row.optional => {
                lacking.push(row.lacking(e.reason()));
                debug!("{:#}", anyhow::Error::new(e));
                // What is pinned counts as what runs.
                for pin in [program_pin(dir, row), link_pin(dir, row)] {
                    remove(&pin).map_err(pinning(pin))?;
                }
            }
            other => other?,
        }
    }
    Ok(lacking)
}

/// Whether the rows are attached under a generation's directory, but for those that `lacking`
/// names, and no others: all that record events. Of the optional ones that record none, which are
/// no part of the recording, those that are gone. `None`: the recording is not what it was.
pub fn gone(
    rows: &[Attachment],
    lacking: &[Lacking],
    dir: &Path,
) -> io::Result<Option<Vec<Lacking>>> {
    let links: io::Result<BTreeSet<String>> = fs::read_dir(dir.join("links"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect();
    let mut links = links?;
    // CPUs come and go, and so do their clocks.
    links.retain(|name| !clocks::is_pin(name));
    let mut gone = Vec::new();
    for row in rows.iter().filter(|row| row.has_link() && !row.is_among(lacking)) {
        if links.remove(row.pin()) {
            continue;
        }
        if !row.optional || row.topic.is_some() {
            return Ok(None);
        }
        gone.push(row.lacking(format!("{} was removed", link_pin(dir, row).display())));
    }
    Ok(links.is_empty().then_some(gone))
}

/// Detaches a row whose program stays pinned.
pub fn detach(row: &Attachment, dir: &Path) -> io::Result<()> {
    remove(&link_pin(dir, row))
}

/// Attaches a pinned program again, where it is not attached; `number` is its tracepoint's. For a
/// daemon that may load nothing any more ([`crate::seccomp`]).
pub fn attach_again(row: &Attachment, number: Option<u32>, dir: &Path) -> io::Result<()> {
    let link = link_pin(dir, row);
    let Some((tracepoint, form)) = row.tracepoint().filter(|_| !link.exists()) else {
        return Ok(());
    };
    let program = sys::obj_get(&program_pin(dir, row))?;
    match form {
        ProgramForm::TpBtf => sys::obj_pin(sys::attach_tracing(program.as_fd())?.as_fd(), &link),
        ProgramForm::Tracepoint => {
            let number =
                number.ok_or_else(|| io::Error::other("the tracepoint's number is not known"))?;
            tracepoint::attach(program.as_fd(), tracepoint.name, number, &link)
        }
    }
}

/// Where a row's program is pinned.
fn program_pin(dir: &Path, row: &Attachment) -> PathBuf {
    dir.join("progs").join(row.pin())
}

/// Where the link that keeps it attached is pinned.
pub fn link_pin(dir: &Path, row: &Attachment) -> PathBuf {
    dir.join("links").join(row.pin())
}

/// Removes a pin, if there is one.
fn remove(pin: &Path) -> io::Result<()> {
    match fs::remove_file(pin) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

struct Attacher<'a> {
    ebpf: &'a mut Ebpf,
    tracepoints: &'a Tracepoints,
    btf: &'a aya::Btf,
    dir: &'a Path,
}

fn refused(name: &'static str) -> impl Fn(ProgramError) -> LoadError {
    move |e| LoadError::Program { name, source: Box::new(e) }
}

fn pinning<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    path: PathBuf,
) -> impl FnOnce(E) -> LoadError {
    move |e| LoadError::Pin { path, source: io::Error::other(e) }
}

impl Attacher<'_> {
    fn attach(&mut self, row: &Attachment) -> Result<(), LoadError> {
        match row.hook {
            Hook::Tracepoint(tracepoint, ProgramForm::TpBtf) => self.tp_btf(row, tracepoint),
            Hook::Tracepoint(tracepoint, ProgramForm::Tracepoint) => self.classic(row, tracepoint),
            Hook::Function(name, place) => self.function(row, name, place),
            Hook::Once(objects) => self.run_once(row, objects),
            Hook::File(objects) => self.file(row, objects),
            Hook::Process(objects) => self.for_process(row, objects),
            Hook::Clock => self.clock(row),
            Hook::Daemon => self.for_daemon(row),
        }
    }

    fn program(&mut self, name: &'static str) -> Result<&mut Program, LoadError> {
        self.ebpf.program_mut(name).ok_or(LoadError::Missing(name))
    }

    fn tp_btf(&mut self, row: &Attachment, tracepoint: Tracepoint) -> Result<(), LoadError> {
        let (name, btf) = (row.program, self.btf);
        let (prog, link) = (program_pin(self.dir, row), link_pin(self.dir, row));
        let program: &mut BtfTracePoint = self.program(name)?.try_into().map_err(refused(name))?;
        program.load(tracepoint.name, btf).map_err(refused(name))?;
        program.pin(&prog).map_err(pinning(prog))?;
        let id = program.attach().map_err(refused(name))?;
        let fd: FdLink = program.take_link(id).map_err(refused(name))?.into();
        fd.pin(&link).map_err(pinning(link))?;
        Ok(())
    }

    fn function(&mut self, row: &Attachment, function: &str, at: Place) -> Result<(), LoadError> {
        let (name, btf) = (row.program, self.btf);
        let (prog, link) = (program_pin(self.dir, row), link_pin(self.dir, row));
        let program = self.program(name)?;
        let loaded = match at {
            Place::Entry => <&mut FEntry>::try_from(&mut *program)
                .and_then(|program| program.load(function, btf)),
            Place::Return => <&mut FExit>::try_from(&mut *program)
                .and_then(|program| program.load(function, btf)),
        };
        loaded.map_err(refused(name))?;
        program.pin(&prog).map_err(pinning(prog))?;
        let fd = program.fd().map_err(refused(name))?;
        let attached = sys::attach_tracing(fd.as_fd())
            .map_err(|source| LoadError::Function { function: function.into(), source })?;
        sys::obj_pin(attached.as_fd(), &link).map_err(pinning(link))
    }

    fn classic(&mut self, row: &Attachment, tracepoint: Tracepoint) -> Result<(), LoadError> {
        let (name, number) = (row.program, self.tracepoints.number(tracepoint));
        let (prog, link) = (program_pin(self.dir, row), link_pin(self.dir, row));
        let program: &mut TracePoint = self.program(name)?.try_into().map_err(refused(name))?;
        program.load().map_err(refused(name))?;
        program.pin(&prog).map_err(pinning(prog))?;
        let number = number.ok_or(LoadError::Tracepoint { tracepoint })?;
        let fd = program.fd().map_err(refused(name))?;
        tracepoint::attach(fd.as_fd(), tracepoint.name, number, &link).map_err(|e| {
            match tracepoint::paranoid() {
                Some(level) if level > 2 && e.kind() == io::ErrorKind::PermissionDenied => {
                    LoadError::Paranoid { tracepoint, level }
                }
                _ => pinning(link)(e),
            }
        })
    }

    fn for_daemon(&mut self, row: &Attachment) -> Result<(), LoadError> {
        let (name, prog) = (row.program, program_pin(self.dir, row));
        let program: &mut RawTracePoint = self.program(name)?.try_into().map_err(refused(name))?;
        program.load().map_err(refused(name))?;
        program.pin(&prog).map_err(pinning(prog))
    }

    fn for_process(&mut self, row: &Attachment, objects: &str) -> Result<(), LoadError> {
        let (name, btf, prog) = (row.program, self.btf, program_pin(self.dir, row));
        let program: &mut Iter = self.program(name)?.try_into().map_err(refused(name))?;
        program.load(objects, btf).map_err(refused(name))?;
        program.pin(&prog).map_err(pinning(prog))
    }

    /// Loaded, and made sure that there are clocks. They are set when the recording is complete
    /// ([`clocks::set`]).
    fn clock(&mut self, row: &Attachment) -> Result<(), LoadError> {
        let (name, prog) = (row.program, program_pin(self.dir, row));
        let program: &mut PerfEvent = self.program(name)?.try_into().map_err(refused(name))?;
        program.load().map_err(refused(name))?;
        program.pin(&prog).map_err(pinning(prog))?;
        clocks::check().map_err(|source| {
            let is_refused = source.kind() == io::ErrorKind::PermissionDenied;
            let level = tracepoint::paranoid().filter(|level| is_refused && *level > 2);
            LoadError::Clock { source, level }
        })
    }

    fn run_once(&mut self, row: &Attachment, objects: &str) -> Result<(), LoadError> {
        let (name, btf) = (row.program, self.btf);
        let program: &mut Iter = self.program(name)?.try_into().map_err(refused(name))?;
        program.load(objects, btf).map_err(refused(name))?;
        let id = program.attach().map_err(refused(name))?;
        let link = program.take_link(id).map_err(refused(name))?;
        let walked =
            link.into_file().map_err(|e| io::Error::other(e.to_string())).and_then(|mut file| {
                // Reading runs the program once for each object; it prints nothing.
                io::copy(&mut file, &mut io::sink())
            });
        let walk = || format!("the walk over {}", row.what);
        walked.map(drop).map_err(|source| LoadError::Pin { path: walk().into(), source })
    }

    fn file(&mut self, row: &Attachment, objects: &str) -> Result<(), LoadError> {
        let (name, btf, link) = (row.program, self.btf, link_pin(self.dir, row));
        let program: &mut Iter = self.program(name)?.try_into().map_err(refused(name))?;
        program.load(objects, btf).map_err(refused(name))?;
        let id = program.attach().map_err(refused(name))?;
        let fd: FdLink = program
            .take_link(id)
            .map_err(refused(name))?
            .try_into()
            .map_err(pinning(link.clone()))?;
        fd.pin(&link).map_err(pinning(link))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachments::{ATTACHMENTS, Wanted, tp_btf, wanted};
    use crate::config::Topic;

    /// The table, and an optional row that records events.
    fn rows() -> Vec<Attachment> {
        let mut rows = wanted(ATTACHMENTS, &Wanted::all(ProgramForm::Tracepoint));
        rows.push(tp_btf(Topic::Tasks, "oom", "wake_reaper", &[], "victims").optional(&[]));
        rows
    }

    /// Links as they are pinned when all rows are attached.
    fn attached() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("links")).unwrap();
        for row in rows().iter().filter(|row| row.has_link()) {
            fs::write(link_pin(dir.path(), row), "").unwrap();
        }
        dir
    }

    fn row(name: &str) -> Attachment {
        *rows().iter().find(|row| row.pin() == name).unwrap()
    }

    #[test]
    fn a_recording_that_is_as_it_was_is_adopted() {
        let dir = attached();
        assert!(dir.path().join("links/sys_enter").exists(), "by its tracepoint's name");
        assert!(
            !dir.path().join("links/note").exists()
                && !dir.path().join("links/walk_tasks").exists()
        );
        assert_eq!(gone(&rows(), &[], dir.path()).unwrap(), Some(Vec::new()));
    }

    #[test]
    fn what_records_must_be_attached_unless_the_kernel_lacks_it() {
        for pin in ["sched_switch", "sys_enter", "wake_reaper"] {
            let dir = attached();
            detach(&row(pin), dir.path()).unwrap();
            detach(&row(pin), dir.path()).expect("twice does no harm");
            assert_eq!(gone(&rows(), &[], dir.path()).unwrap(), None, "{pin}");
        }
        let dir = attached();
        detach(&row("wake_reaper"), dir.path()).unwrap();
        let lacking = [row("wake_reaper").lacking("no tracepoint".into())];
        assert_eq!(gone(&rows(), &lacking, dir.path()).unwrap(), Some(Vec::new()));
        // What somebody else put there is not this recording.
        fs::write(dir.path().join("links/strange"), "").unwrap();
        assert_eq!(gone(&rows(), &lacking, dir.path()).unwrap(), None);
    }

    #[test]
    fn what_records_nothing_may_go_and_is_told() {
        let dir = attached();
        detach(&row("walk_files"), dir.path()).unwrap();
        let told = gone(&rows(), &[], dir.path()).unwrap().expect("adopted all the same");
        let [lacking] = &told[..] else { panic!("{told:?}") };
        assert_eq!((&*lacking.program, lacking.kinds.len()), ("walk_files", 0));
        assert!(lacking.why.ends_with("links/walk_files was removed"), "{}", lacking.why);
        assert_eq!(gone(&rows(), &told, dir.path()).unwrap(), Some(Vec::new()), "told once");
    }
}
