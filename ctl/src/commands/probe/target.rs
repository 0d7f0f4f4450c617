//! From what was typed to points: finds functions and marks, and opens the file or the perf events
//! of each.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use flightrec_format::control::{NewMark, NewProbe, PROBED_MAX, PROBED_SINGLY_MAX};
use flightrec_reader::binaries::{Program, Table};

use super::events::Source;
use super::spec::{Pattern, Place, Spec};
use super::{kernel, library};
use crate::suggest::{hint, nearest};

/// The request, and what is sent with it: the file, where the daemon takes files; else the events
/// in order.
pub(super) fn find(
    spec: &Spec,
    lasts: u64,
    returns: bool,
    takes_files: bool,
) -> Result<(NewProbe, Vec<OwnedFd>)> {
    let most = if takes_files { PROBED_MAX } else { PROBED_SINGLY_MAX };
    let mut new = NewProbe { spec: spec.typed.clone(), lasts, returns, ..NewProbe::default() };
    let mut events = Vec::new();
    match &spec.place {
        Place::Kernel(module) => {
            // First: where there are none, the reason is not the name.
            let source = Source::kprobe().map_err(|e| anyhow!(e))?;
            "kernel".clone_into(&mut new.path);
            let found = kernel::functions(module.as_deref(), &spec.name, PROBED_SINGLY_MAX);
            let found = found.map_err(|e| anyhow!(e))?;
            let is_one = found.len() == 1;
            for (name, address) in found {
                let opened = open_both(returns, |returns| source.at_address(address, returns));
                match opened {
                    Ok(opened) => events.extend(opened),
                    // The kernel probes none of its own that it needs for that.
                    Err(e) if !is_one && is_refused(&e) => continue,
                    Err(e) => bail!(refused(&name, "the kernel", &e)),
                }
                new.functions.push(name);
            }
            if new.functions.is_empty() {
                bail!("the kernel lets none of the functions {} be probed", spec.name);
            }
        }
        Place::File(name) => {
            let (source, path, program) = open(name)?;
            let found = functions(&program, &path, &spec.name, most)?;
            new.path = path;
            new.build_id.clone_from(&program.build_id);
            for (name, at) in found {
                let of = |returns| source.in_file(&program.file, at, 0, returns);
                if takes_files {
                    new.offsets.push(at);
                } else {
                    let opened = open_both(returns, of);
                    events.extend(opened.map_err(|e| anyhow!(refused(&name, &new.path, &e)))?);
                }
                new.functions.push(name);
            }
            if takes_files {
                events.push(program.file.into());
            }
        }
        Place::Marks(name, provider) => {
            let (source, path, program) = open(name)?;
            let is_wanted = |of: &&flightrec_reader::binaries::Mark| {
                provider.has(&of.provider) && spec.name.has(&of.name)
            };
            // A mark may stand at several places: each has its own arguments.
            for mark in program.marks.iter().filter(is_wanted) {
                let name = format!("{}:{}", mark.provider, mark.name);
                let operands = mark.operands.clone().map_err(|operand| {
                    anyhow!("{name} of {path} has an argument in a place that is not understood: {operand}")
                })?;
                let (mut offset, mut semaphore) = (mark.at, mark.semaphore);
                if !takes_files {
                    let event = source.in_file(&program.file, mark.at, mark.semaphore, false);
                    events.push(event.map_err(|e| anyhow!(refused(&name, &path, &e)))?);
                    (offset, semaphore) = (0, 0);
                }
                new.marks.push(NewMark { name, offset, semaphore, operands });
            }
            if new.marks.is_empty() {
                bail!(no_mark(&program, &path, provider, &spec.name));
            }
            (new.path, new.build_id) = (path, program.build_id);
            if takes_files {
                events.push(program.file.into());
            }
        }
    }
    Ok((new, events))
}

fn open(name: &str) -> Result<(Source, String, Program)> {
    let source = Source::uprobe().map_err(|e| anyhow!(e))?;
    let path = library::locate(name).map_err(|e| anyhow!(e))?;
    let program = Program::open(&path)?;
    let path = path.to_str().ok_or_else(|| anyhow!("{}: no UTF-8 path", path.display()))?;
    Ok((source, path.to_owned(), program))
}

/// The events of a function's entry and of its return.
fn open_both(
    returns: bool,
    mut open: impl FnMut(bool) -> io::Result<OwnedFd>,
) -> io::Result<Vec<OwnedFd>> {
    let mut events = vec![open(false)?];
    if returns {
        events.push(open(true)?);
    }
    Ok(events)
}

/// Whether the kernel can't have a probe there.
fn is_refused(e: &io::Error) -> bool {
    let refusals =
        [libc::EINVAL, libc::EADDRNOTAVAIL, libc::EILSEQ, libc::ENOENT, libc::EOPNOTSUPP];
    e.raw_os_error().is_some_and(|errno| refusals.contains(&errno))
}

fn refused(name: &str, path: &str, e: &io::Error) -> String {
    let hint = match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => ": run flightctl as root",
        Some(libc::EMFILE | libc::ENFILE) => ": raise the limit of open files (ulimit -n)",
        Some(libc::EINVAL | libc::EILSEQ | libc::EOPNOTSUPP) => {
            ": the kernel can have no probe at its first instruction"
        }
        _ => "",
    };
    format!("{name} of {path} can't be probed ({e}){hint}")
}

/// The functions that are meant, each once by its place. None, or too many, are an error.
fn functions(
    program: &Program,
    path: &str,
    wanted: &Pattern,
    most: usize,
) -> Result<Vec<(String, u64)>> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for (name, at) in program.functions().filter(|(name, _)| wanted.has(name)) {
        // Other names of the same function stand next to it.
        if found.last().is_none_or(|(_, last)| *last != at) {
            found.push((name.to_owned(), at));
        }
    }
    if found.len() > most {
        bail!(
            "{wanted} means {} functions of {path}; {most} can be probed at a time: narrow \
             the pattern",
            found.len()
        );
    }
    if found.is_empty() {
        bail!(no_function(program, path, wanted));
    }
    Ok(found)
}

/// That there is no such function, and what there is.
fn no_function(program: &Program, path: &str, wanted: &Pattern) -> String {
    let all: Vec<&str> = program.functions().map(|(name, _)| name).collect();
    let near = if wanted.is_name() {
        hint(&nearest(&wanted.text, all.iter().copied()))
    } else {
        String::new()
    };
    let debug = |path: &Path| path.parent().is_some_and(Path::is_dir);
    match program.table {
        Table::Exported => {
            let exports = match all.len() {
                0 => "it exports none".to_owned(),
                n => format!(
                    "of its functions only the {n} that it exports have names{}",
                    some(&all)
                ),
            };
            let id = &program.build_id;
            let has_debug = debug(Path::new("/usr/lib/debug/.build-id"));
            let install = if id.is_empty() || !has_debug {
                String::new()
            } else {
                let file = id.split_at_checked(2).unwrap_or_default();
                format!(
                    "; its debug symbols would be /usr/lib/debug/.build-id/{}/{}.debug",
                    file.0, file.1
                )
            };
            format!(
                "{path} has no function {wanted}: the file was stripped, {exports}{install}{near}"
            )
        }
        Table::Whole | Table::Debug => {
            format!("{path} has no function {wanted} among its {}{near}", all.len())
        }
    }
}

/// The first of them, if there are many.
fn some(all: &[&str]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<&str> = all.iter().take(SHOWN).copied().collect();
    let more = if all.len() > SHOWN { ", …" } else { "" };
    format!(" ({}{more})", shown.join(", "))
}

/// That there is no such mark, and what there is.
fn no_mark(program: &Program, path: &str, provider: &Pattern, name: &Pattern) -> String {
    let all: Vec<String> =
        program.marks.iter().map(|of| format!("{}:{}", of.provider, of.name)).collect();
    if all.is_empty() {
        return format!(
            "{path} has no marks: programs get them by DTRACE_PROBE of <sys/sdt.h> when they are \
             compiled"
        );
    }
    let mut names: Vec<&str> = all.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let near = hint(&nearest(&format!("{provider}:{name}"), names.iter().copied()));
    format!("{path} has no mark {provider}:{name}{}{near}", some(&names))
}
