//! What the virtual machine boots from: a small initrd with the modules of its disk, and the disk,
//! on which the programs and scripts are, and what comes out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::machine::Hardware;
use xtask::command::{read, repository, run};

/// What reaches the disk, and what makes a slow one.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "ext4", "loop", "dm-delay"];
/// The disk: dumps of a machine of 1 GiB in four forms, with room to spare. It is sparse.
const DISK: u64 = 2 << 30;

/// What QEMU's forms of an aarch64 machine's memory are called, and how it is asked for them.
pub(super) const FORMS: [(&str, Option<&str>); 2] = [("elf", None), ("kdump", Some("kdump-zlib"))];

/// Files for QEMU.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    pub(super) disk: PathBuf,
    /// Where the machine's console goes.
    pub(super) console: PathBuf,
    /// QEMU's monitor.
    pub(super) monitor: PathBuf,
    /// Where QEMU puts the machine's memory, once it has panicked.
    pub(super) memory: PathBuf,
    pub(super) hardware: Hardware,
}

/// What the machine is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trial {
    /// Work, and panic.
    Panic,
    /// A flood of so many seconds, and a panic.
    Flood(u32),
    /// Record on so many CPUs.
    Cpus(u32),
    /// Start the recorder where something is missing.
    Refusals,
}

impl Trial {
    /// What the folder of its results is called after.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Panic => "out",
            Self::Flood(_) => "flood",
            Self::Cpus(_) => "cpus",
            Self::Refusals => "refusals",
        }
    }
}

/// Makes them, for an unpacked kernel; `forms` is what [`super::FORMS`] are.
pub(super) fn build(cache: &Path, kernel: &Path, forms: &[&str], trial: Trial) -> Result<Image> {
    let release =
        kernel.file_name().context("a kernel without a name")?.to_string_lossy().into_owned();
    let work = cache.join(format!("work-{release}"));
    let mut image = image(&work, kernel, (&which("busybox")?, "strip"), |vmlinuz, initrd| {
        let root = root(&work, vmlinuz, initrd)?;
        fs::write(root.join("out/forms"), forms.join(" "))?;
        match trial {
            Trial::Panic => {}
            Trial::Flood(seconds) => {
                fs::write(root.join("flood"), format!("{seconds}\n"))?;
                fs::rename(root.join("flood.sh"), root.join("guest.sh"))?;
            }
            Trial::Cpus(_) => fs::rename(root.join("cpus.sh"), root.join("guest.sh"))?,
            Trial::Refusals => fs::rename(root.join("refusals.sh"), root.join("guest.sh"))?,
        }
        Ok(root)
    })?;
    if let Trial::Cpus(cpus) = trial {
        image.hardware = Hardware::of(cpus);
    }
    Ok(image)
}

/// Makes them in `work`, for an unpacked kernel, with a tree for the disk that `root` makes, and
/// that is removed then; with the machine's busybox, and what makes its modules smaller.
pub(super) fn image(
    work: &Path,
    kernel: &Path,
    (busybox, strip): (&Path, &str),
    root: impl FnOnce(&Path, &Path) -> Result<PathBuf>,
) -> Result<Image> {
    let release =
        kernel.file_name().context("a kernel without a name")?.to_string_lossy().into_owned();
    if work.exists() {
        fs::remove_dir_all(work)?;
    }
    let vmlinuz = read(Command::new("find").arg(kernel).args(["-name", "vmlinuz*", "-type", "f"]))?;
    let vmlinuz =
        PathBuf::from(vmlinuz.lines().next().context("no vmlinuz in the kernel's package")?);
    let initrd = initrd(work, kernel, &release, (busybox, strip))?;
    let root = root(&vmlinuz, &initrd)?;
    let disk = work.join("disk.ext4");
    // mke2fs would say that it makes it.
    fs::File::create(&disk)?.set_len(DISK)?;
    let mut mke2fs = Command::new("mke2fs");
    run(mke2fs.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d"]).arg(&root).arg(&disk))?;
    fs::remove_dir_all(root)?;
    let [console, monitor, memory] = ["console.log", "qmp", "memory"].map(|name| work.join(name));
    let hardware = Hardware::SMALL;
    Ok(Image { kernel: vmlinuz, initrd, disk, console, monitor, memory, hardware })
}

impl Image {
    /// Takes out what the machine left: `out`, the state directory, and what the hook left. The
    /// disk is then removed.
    pub(super) fn extract(&self, to: &Path) -> Result<()> {
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        fs::create_dir_all(to)?;
        for dir in ["/out", "/var/lib/flightrec", "/var/lib/flightrec-crash"] {
            run(Command::new("debugfs")
                .args(["-R", &format!("rdump {dir} {}", to.display())])
                .arg(&self.disk))?;
        }
        fs::copy(&self.console, to.join("console.log"))?;
        fs::remove_file(&self.disk)?;
        Ok(())
    }
}

/// busybox, the modules, and the script that loads them.
fn initrd(
    work: &Path,
    kernel: &Path,
    release: &str,
    (busybox, strip): (&Path, &str),
) -> Result<PathBuf> {
    let root = work.join("initrd");
    for dir in ["bin", "dev", "proc", "sys", "disk", "modules"] {
        fs::create_dir_all(root.join(dir))?;
    }
    copy_program(busybox, &root.join("bin/busybox"), false)?;
    fs::copy(repository().join("tests/system/vm/init.sh"), root.join("init"))?;
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
    // modprobe looks in lib/modules; merged packages have it below usr.
    if !kernel.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", kernel.join("lib"))?;
    }
    if !kernel.join("lib/modules").join(release).join("modules.dep").exists() {
        run(Command::new("depmod").arg("-b").arg(kernel).arg(release))?;
    }
    let mut order: Vec<String> = Vec::new();
    for module in MODULES {
        let mut modprobe = Command::new("modprobe");
        modprobe.arg("-d").arg(kernel).args(["-S", release, "--show-depends", module]);
        // What is no module is built in (in some kernels' packages without a list that says so); if
        // it is neither, the machine finds no disk, and says so.
        for line in xtask::command::probe(&mut modprobe).unwrap_or_default().lines() {
            let Some(path) = line.strip_prefix("insmod ") else { continue };
            let path = Path::new(path.trim());
            let name =
                path.file_name().context("a module without a name")?.to_string_lossy().into_owned();
            let name = name.trim_end_matches(".xz").to_owned();
            if order.contains(&name) {
                continue;
            }
            let to = root.join("modules").join(&name);
            if path.extension().is_some_and(|extension| extension == "xz") {
                fs::write(&to, read_bytes(Command::new("xz").arg("-dc").arg(path))?)?;
            } else {
                fs::copy(path, &to)?;
            }
            run(Command::new(strip).args(["--strip-debug", "-R", ".BTF"]).arg(&to))?;
            order.push(name);
        }
    }
    fs::write(root.join("modules/order"), order.join("\n"))?;
    let file = work.join("initrd.cpio");
    let script = format!(
        "cd '{}' && find . | cpio -o -H newc --quiet > '{}'",
        root.display(),
        file.display()
    );
    run(Command::new("sh").args(["-c", &script]))?;
    Ok(file)
}

/// The tree of the disk.
fn root(work: &Path, vmlinuz: &Path, initrd: &Path) -> Result<PathBuf> {
    let (root, repository) = (work.join("root"), repository());
    for dir in [
        "bin",
        "boot",
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "out",
        "var/lib/flightrec",
        "var/lib/flightrec-crash",
    ] {
        fs::create_dir_all(root.join(dir))?;
    }
    let ours = super::programs();
    let programs =
        [which("busybox")?, which("makedumpfile")?, ours.join("flightd"), ours.join("flightctl")];
    for program in &programs {
        let name = program.file_name().context("a program without a name")?;
        let to = root.join("bin").join(name);
        copy_program(program, &to, true)?;
        libraries(program, &root)?;
    }
    // This program, as what attacks the recording.
    let program = std::env::current_exe().context("where this program is")?;
    copy_program(&program, &root.join("bin/system-tests"), true)?;
    libraries(&program, &root)?;
    // As the package has it, for the hook.
    if let Some(program) = super::static_program() {
        fs::create_dir_all(root.join("usr/lib/flightrec"))?;
        copy_program(&program, &root.join("usr/lib/flightrec/flightctl"), true)?;
    }
    let sources = ["load-crash-kernel", "stress", "first", "quiet", "delay", "numbers"]
        .map(|name| (name, format!("tests/system/vm/{name}.c")));
    let of_tests =
        ["storm", "wakeups", "rings"].map(|name| (name, format!("tests/programs/{name}.c")));
    for (name, source) in sources.into_iter().chain(of_tests) {
        let source = repository.join(source);
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o"]);
        run(gcc.arg(root.join("bin").join(name)).arg(source))?;
    }
    copy_program(
        &repository.join("packaging/kdump/kdump-recover"),
        &root.join("bin/kdump-recover"),
        false,
    )?;
    for name in [
        "common.sh",
        "begin.sh",
        "guest.sh",
        "crash.sh",
        "flightd.toml",
        "flood.sh",
        "flood.toml",
        "cpus.sh",
        "cpus.toml",
        "refusals.sh",
    ] {
        fs::copy(repository.join("tests/system/vm").join(name), root.join(name))?;
    }
    fs::copy(vmlinuz, root.join("boot/vmlinuz"))?;
    fs::copy(initrd, root.join("boot/initrd"))?;
    Ok(root)
}

fn copy_program(from: &Path, to: &Path, strip: bool) -> Result<()> {
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    if strip {
        run(Command::new("strip").arg(to))?;
    }
    Ok(())
}

/// The shared libraries of a program, where it looks for them.
fn libraries(program: &Path, root: &Path) -> Result<()> {
    // A static program has none, and ldd fails.
    let Some(text) = xtask::command::probe(Command::new("ldd").arg(program)) else { return Ok(()) };
    for path in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(path.trim_start_matches('/'));
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::copy(path, &to).with_context(|| path.to_owned())?;
    }
    Ok(())
}

pub(super) fn which(program: &str) -> Result<PathBuf> {
    Ok(read(Command::new("which").arg(program))?.trim().into())
}

fn read_bytes(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output()?;
    ensure!(output.status.success(), "{} failed", xtask::command::shown(command));
    Ok(output.stdout)
}
