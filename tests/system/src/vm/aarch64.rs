//! `cargo xtask vm --arch aarch64`: whether the recorder works on aarch64, in a virtual machine,
//! and whether what each machine recorded is the same on the other.
//!
//! The machine records wakeups, preempted threads, calls that x86_64 numbers differently, probed
//! functions and marks of programs, and threads that publish for which span they work. It tells the
//! recording in text, tells one of this machine in text as well, and panics; QEMU takes its memory
//! in two forms. There is no kdump: Debian's kernels for arm64 have no `kexec_file_load`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Options, Recorder};

use super::check::Found;
use super::image::{self, FORMS, Image};
use super::kernels::{self, Kernel};
use super::{check, machine};
use xtask::command::{CROSS_GCC, CROSS_STRIP, read, repository, run};
use xtask::{cross, elf};

/// In continuous integration.
pub(super) const CI: &str = "6.12";
/// Where the machine has libraries, as a Debian.
const LIBRARIES: &str = "lib/aarch64-linux-gnu";

/// One kernel's run and checks; what was found, for people.
pub(super) fn one(cache: &Path, kernel: &Kernel, check_only: bool) -> Result<Found> {
    let out = cache.join(format!("out-{}", kernel.name));
    if !check_only {
        let unpacked = kernels::unpacked(cache, kernel)?;
        let recorded = cache.join("x86_64.flight");
        record_here(&recorded)?;
        let image = build(cache, &unpacked, &recorded)?;
        machine::run_until_panic(&image)?;
        image.extract(&out)?;
        for (form, _) in FORMS {
            fs::rename(image.memory.with_extension(form), out.join(form))?;
        }
        fs::copy(&recorded, out.join("x86_64.flight"))?;
    }
    check::aarch64(&out)
}

/// Records this machine for a moment.
fn record_here(to: &Path) -> Result<()> {
    let recorder = Recorder::try_start(Options::default())?;
    run(Command::new("find").arg("/etc").stdout(std::process::Stdio::null()))?;
    let mut save = recorder.flightctl_command();
    run(save.args(["save", "--last", "500ms", "--force", "-o"]).arg(to))
}

/// Files for QEMU.
fn build(cache: &Path, kernel: &Path, recorded: &Path) -> Result<Image> {
    let release =
        kernel.file_name().context("a kernel without a name")?.to_string_lossy().into_owned();
    let work = cache.join(format!("work-{release}"));
    let busybox = busybox(cache)?;
    image::image(&work, kernel, (&busybox, CROSS_STRIP), |_, _| root(&work, &busybox, recorded))
}

/// Debian's busybox for arm64.
pub(super) fn busybox(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("busybox");
    let program = folder.join("usr/bin/busybox");
    if !program.exists() {
        let apt = kernels::apt(cache, xtask::architecture::Architecture::Aarch64)?;
        apt.unpack("busybox-static", &folder)?;
        // Older packages have it in /bin.
        let other = folder.join("bin/busybox");
        if other.exists() {
            fs::create_dir_all(folder.join("usr/bin"))?;
            fs::rename(other, &program)?;
        }
    }
    Ok(program)
}

/// The tree of the disk.
fn root(work: &Path, busybox: &Path, recorded: &Path) -> Result<PathBuf> {
    let root = work.join("root");
    for dir in ["bin", LIBRARIES, "dev", "proc", "sys", "run", "tmp", "out", "var/lib/flightrec"] {
        fs::create_dir_all(root.join(dir))?;
    }
    // It has none, and image::Image::extract takes it.
    fs::create_dir_all(root.join("var/lib/flightrec-crash"))?;
    fs::copy(busybox, root.join("bin/busybox"))?;
    for name in ["flightd", "flightctl"] {
        let program = cross::programs().join(name);
        ensure!(program.exists(), "{}: build it by `cargo xtask cross`", program.display());
        run(Command::new(CROSS_STRIP).arg("-o").arg(root.join("bin").join(name)).arg(&program))?;
        libraries(&program, &root)?;
    }
    for (name, source) in [
        ("stress", "tests/system/vm/stress.c"),
        ("first", "tests/system/vm/first.c"),
        ("machine", "tests/system/vm/machine.c"),
        ("wakeups", "tests/programs/wakeups.c"),
    ] {
        compile(&root.join("bin").join(name), source, &["-static"])?;
    }
    dynamic(&root)?;
    for (file, name) in
        [("common.sh", "common.sh"), ("aarch64.sh", "guest.sh"), ("flightd.toml", "flightd.toml")]
    {
        fs::copy(repository().join("tests/system/vm").join(file), root.join(name))?;
    }
    fs::copy(recorded, root.join("x86_64.flight"))?;
    Ok(root)
}

/// Copies the shared libraries of a program, and theirs, as the cross compiler has them. The dynamic
/// linker is one of them, and programs expect it in `/lib`.
fn libraries(program: &Path, root: &Path) -> Result<()> {
    let mut wanted = elf::libraries(program)?;
    while let Some(name) = wanted.pop() {
        let folder = if name.starts_with("ld-") { "lib" } else { LIBRARIES };
        let copy = root.join(folder).join(&name);
        if copy.exists() {
            continue;
        }
        let mut gcc = Command::new(CROSS_GCC);
        let path = read(gcc.arg(format!("-print-file-name={name}")))?;
        fs::copy(path.trim(), &copy).with_context(|| format!("{CROSS_GCC} has no {name}"))?;
        wanted.extend(elf::libraries(&copy)?);
    }
    Ok(())
}

/// Programs with shared libraries, and those: of the functions that are probed, and of the threads
/// that publish for which span they work, by each way of finding their variable.
fn dynamic(root: &Path) -> Result<()> {
    const CONTEXTS: &str = "tests/programs/contexts.c";
    const VARIABLE: &str = "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1";
    // More than there is room for in the static part.
    const LARGE: &str = "-DPADDING=100000";
    for (name, source, flags) in [
        ("functions", "tests/programs/functions.c", &[][..]),
        ("contexts-pie", CONTEXTS, &["-DOWN", "-fPIE", "-pie", VARIABLE]),
        ("contexts", CONTEXTS, &[]),
    ] {
        let program = root.join("bin").join(name);
        compile(&program, source, flags)?;
        libraries(&program, root)?;
    }
    for (name, flags) in [
        ("fixed.so", &["-ftls-model=initial-exec"][..]),
        ("large.so", &["-mtls-dialect=desc", LARGE]),
        ("traditional.so", &["-mtls-dialect=trad", LARGE]),
    ] {
        let flags = [&["-shared", "-fPIC"], flags].concat();
        compile(&root.join(LIBRARIES).join(name), "tests/programs/contexts_variable.c", &flags)?;
    }
    Ok(())
}

/// Compiles a program of the repository.
fn compile(to: &Path, source: &str, flags: &[&str]) -> Result<()> {
    let mut gcc = Command::new(CROSS_GCC);
    gcc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(to);
    run(gcc.arg(repository().join(source)).args(flags))
}
