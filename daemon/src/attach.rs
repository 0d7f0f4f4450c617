//! Rows of the table into the kernel: load, attach and pin them; detach and attach again; whether
//! they are attached.
//!
//! A program is pinned under `progs/` of a generation's directory, its link under `links/`, by the
//! row's [`Attachment::pin`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::num::NonZero;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::{
    BtfTracePoint, FEntry, FExit, Iter, PerfEvent, Program, ProgramError, RawTracePoint,
    TracePoint, UProbe,
};
use flightrec_format::live::sys;
use flightrec_format::meta::Lacking;
use tracing::debug;

use crate::attachments::{Attachment, Hook, Place, ProgramForm, Tracepoint};
use crate::load::LoadError;
use crate::tracefs::Tracepoints;
use crate::{configured_tracepoints, samplers, tracepoint_link};

/// Threads that load programs at most: a few programs are most of the work.
const MAX_LOADERS: usize = 4;

/// Loads rows, and attaches and pins them in their order. Tells which optional ones this kernel
/// refused; a required one that is refused is the error.
pub fn attach(
    ebpf: &mut Ebpf,
    rows: &[Attachment],
    tracepoints: &Tracepoints,
    btf: &aya::Btf,
    dir: &Path,
) -> Result<Vec<Lacking>, LoadError> {
    let refusals = load(ebpf, rows, btf);
    let mut attacher = Attacher { ebpf, refusals, tracepoints, dir };
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
    // CPUs come and go, and so do their clocks; and what the configuration names besides.
    links.retain(|name| !samplers::is_pin(name) && !configured_tracepoints::is_pin(name));
    let stand_in = |of: &Attachment| rows.iter().find(|row| row.in_place_of == Some(of.program));
    let stood_in: BTreeSet<&str> = rows
        .iter()
        .filter(|row| stand_in(row).is_some_and(|other| links.contains(other.pin())))
        .map(|row| row.program)
        .collect();
    let mut gone = Vec::new();
    for row in rows.iter().filter(|row| row.has_link() && !row.is_among(lacking)) {
        // Of two names of a tracepoint a kernel has one; where it has neither, the first is
        // lacking.
        if links.remove(row.pin()) || row.in_place_of.is_some() || stood_in.contains(row.program) {
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
            tracepoint_link::attach(program.as_fd(), tracepoint.name, number, 0, &link)
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

/// Loads the programs of rows, those of different rows at the same time: nearly all of a start's
/// time is the kernel's verification, which takes no lock for whoever may load any program
/// (`bpf_check`, kernel/bpf/verifier.c, Linux 6.1 and 6.18). Returns what was refused, by program.
fn load(
    ebpf: &mut Ebpf,
    rows: &[Attachment],
    btf: &aya::Btf,
) -> BTreeMap<&'static str, ProgramError> {
    let mut programs: BTreeMap<&str, &mut Program> = ebpf.programs_mut().collect();
    let jobs: Vec<_> =
        rows.iter().filter_map(|row| Some((row, programs.remove(row.program)?))).collect();
    // The last rows are those of system calls, which take longest: they are begun first.
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        let mut refused = Vec::new();
        while let Some((row, program)) = next() {
            if let Err(e) = load_program(row.hook, program, btf) {
                refused.push((row.program, e));
            }
        }
        refused
    };
    let workers = available_parallelism().map_or(1, NonZero::get).min(MAX_LOADERS);
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().name("load".into()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..workers).filter_map(spawn).collect();
        let mut refusals = BTreeMap::from_iter(work());
        for other in others {
            refusals.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        refusals
    })
}

fn load_program(hook: Hook, program: &mut Program, btf: &aya::Btf) -> Result<(), ProgramError> {
    match hook {
        Hook::Tracepoint(tracepoint, ProgramForm::TpBtf) => {
            <&mut BtfTracePoint>::try_from(program)?.load(tracepoint.name, btf)
        }
        Hook::Tracepoint(_, ProgramForm::Tracepoint) | Hook::Configured => {
            <&mut TracePoint>::try_from(program)?.load()
        }
        Hook::Function(function, Place::Entry) => {
            <&mut FEntry>::try_from(program)?.load(function, btf)
        }
        Hook::Function(function, Place::Return) => {
            <&mut FExit>::try_from(program)?.load(function, btf)
        }
        Hook::Once(objects) | Hook::File(objects) | Hook::Process(objects) => {
            <&mut Iter>::try_from(program)?.load(objects, btf)
        }
        Hook::Clock => <&mut PerfEvent>::try_from(program)?.load(),
        Hook::Probe => <&mut UProbe>::try_from(program)?.load(),
        Hook::Daemon => <&mut RawTracePoint>::try_from(program)?.load(),
    }
}

/// Attaches and pins programs that are loaded.
struct Attacher<'a> {
    ebpf: &'a mut Ebpf,
    /// Why programs are not loaded.
    refusals: BTreeMap<&'static str, ProgramError>,
    tracepoints: &'a Tracepoints,
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
            Hook::Tracepoint(_, ProgramForm::TpBtf) => self.tp_btf(row),
            Hook::Tracepoint(tracepoint, ProgramForm::Tracepoint) => self.classic(row, tracepoint),
            Hook::Function(name, _) => self.function(row, name),
            Hook::Once(_) => self.run_once(row),
            Hook::File(_) => self.file(row),
            Hook::Clock => self.clock(row),
            // Others link or run these: [`crate::uprobes`], the daemon, and
            // [`crate::recording::Recording`] when it is complete.
            Hook::Process(_) | Hook::Probe | Hook::Daemon | Hook::Configured => self.pin(row),
        }
    }

    /// A program, if it was loaded.
    fn program(&mut self, name: &'static str) -> Result<&mut Program, LoadError> {
        if let Some(e) = self.refusals.remove(name) {
            return Err(refused(name)(e));
        }
        self.ebpf.program_mut(name).ok_or(LoadError::Missing(name))
    }

    fn tp_btf(&mut self, row: &Attachment) -> Result<(), LoadError> {
        let name = row.program;
        let (prog, link) = (program_pin(self.dir, row), link_pin(self.dir, row));
        let program: &mut BtfTracePoint = self.program(name)?.try_into().map_err(refused(name))?;
        program.pin(&prog).map_err(pinning(prog))?;
        let id = program.attach().map_err(refused(name))?;
        let fd: FdLink = program.take_link(id).map_err(refused(name))?.into();
        fd.pin(&link).map_err(pinning(link))?;
        Ok(())
    }

    fn function(&mut self, row: &Attachment, function: &str) -> Result<(), LoadError> {
        let name = row.program;
        let (prog, link) = (program_pin(self.dir, row), link_pin(self.dir, row));
        let program = self.program(name)?;
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
        program.pin(&prog).map_err(pinning(prog))?;
        let number = number.ok_or(LoadError::Tracepoint { tracepoint })?;
        let fd = program.fd().map_err(refused(name))?;
        tracepoint_link::attach(fd.as_fd(), tracepoint.name, number, 0, &link).map_err(|e| {
            match tracepoint_link::paranoid() {
                Some(level) if level > 2 && e.kind() == io::ErrorKind::PermissionDenied => {
                    LoadError::Paranoid { tracepoint, level }
                }
                _ => pinning(link)(e),
            }
        })
    }

    fn pin(&mut self, row: &Attachment) -> Result<(), LoadError> {
        let prog = program_pin(self.dir, row);
        self.program(row.program)?.pin(&prog).map_err(pinning(prog))
    }

    /// Pinned, and made sure that there are clocks. They are set when the recording is complete
    /// ([`samplers`]).
    fn clock(&mut self, row: &Attachment) -> Result<(), LoadError> {
        self.pin(row)?;
        samplers::check().map_err(|source| {
            let is_refused = source.kind() == io::ErrorKind::PermissionDenied;
            let level = tracepoint_link::paranoid().filter(|level| is_refused && *level > 2);
            LoadError::Clock { source, level }
        })
    }

    fn run_once(&mut self, row: &Attachment) -> Result<(), LoadError> {
        let name = row.program;
        let program: &mut Iter = self.program(name)?.try_into().map_err(refused(name))?;
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

    fn file(&mut self, row: &Attachment) -> Result<(), LoadError> {
        let (name, link) = (row.program, link_pin(self.dir, row));
        let program: &mut Iter = self.program(name)?.try_into().map_err(refused(name))?;
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
    fn of_two_names_of_a_tracepoint_one_is_attached() {
        let (new, old) = (row("io_uring_submit_req"), row("io_uring_submit_sqe"));
        for other in [&new, &old] {
            let dir = attached();
            detach(other, dir.path()).unwrap();
            assert_eq!(gone(&rows(), &[], dir.path()).unwrap(), Some(Vec::new()));
        }
        let dir = attached();
        detach(&new, dir.path()).unwrap();
        detach(&old, dir.path()).unwrap();
        assert_eq!(gone(&rows(), &[], dir.path()).unwrap(), None);
        let lacking = [new.lacking("no tracepoint".into())];
        assert_eq!(gone(&rows(), &lacking, dir.path()).unwrap(), Some(Vec::new()));
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
