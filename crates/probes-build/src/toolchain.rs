//! Finds the programs that compile and link the probes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The probes' machine.
pub const TARGET: &str = "bpfel-unknown-none";
/// Pins the nightly, from the repository's root.
const PINNED: &str = "probes-ebpf/rust-toolchain.toml";
/// Where LLVM's own programs are, unless `LLVM_PREFIX` says it: the LLVM that bpf-linker is built
/// with, as `cargo xtask setup` installs it.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

/// The programs that make the probes.
#[derive(Debug)]
pub struct Toolchain {
    pub(crate) compiler: Compiler,
    pub(crate) linker: PathBuf,
}

/// How to compile for the BPF machine.
#[derive(Debug)]
pub(crate) enum Compiler {
    /// A rustc that brings a precompiled `core`.
    Precompiled(PathBuf),
    /// rustup's toolchain of this name, which compiles `core` from rust-src.
    BuildStd(String),
}

impl Toolchain {
    /// Finds them: a rustc that has `core` for [`TARGET`] (Debian's rustc-web), else the pinned
    /// nightly with rust-src; and bpf-linker in `target_dir` or on the path.
    ///
    /// # Errors
    /// Names the missing program.
    pub fn find(root: &Path, target_dir: &Path) -> Result<Self, String> {
        let nightly = pinned_nightly(root)?;
        let compiler = find_compiler(&nightly).ok_or(format!(
            "no rustc here has `core` for {TARGET}, and rustup has no {nightly} with rust-src"
        ))?;
        let linker = find_linker(target_dir)
            .ok_or("bpf-linker is neither in target/tools/bin nor on the PATH")?;
        Ok(Self { compiler, linker })
    }

    /// Whether there is a compiler for the probes.
    pub fn has_compiler(root: &Path) -> bool {
        pinned_nightly(root).is_ok_and(|nightly| find_compiler(&nightly).is_some())
    }

    /// The compiler's version, as it prints it.
    ///
    /// # Errors
    /// In words, why it can't be asked.
    pub fn rustc_version(&self) -> Result<String, String> {
        match &self.compiler {
            Compiler::Precompiled(rustc) => read(Command::new(rustc).arg("--version")),
            Compiler::BuildStd(toolchain) => {
                read(Command::new("rustup").args(["run", toolchain, "rustc", "--version"]))
            }
        }
    }

    /// The linker's version, and that of the LLVM that it is built with.
    ///
    /// # Errors
    /// In words, why they can't be asked.
    pub fn linker_version(&self) -> Result<String, String> {
        let linker = read(Command::new(&self.linker).arg("--version"))?;
        let llvm = read(llvm("llvm-config").arg("--version"))?;
        Ok(format!("{linker}, LLVM {llvm}"))
    }

    /// Takes DWARF out of an object: the kernel reads BTF alone, and DWARF is four fifths of it.
    ///
    /// # Errors
    /// In words, why it can't be done.
    pub fn strip(&self, from: &Path, to: &Path) -> Result<(), String> {
        read(llvm("llvm-objcopy").arg("--strip-debug").args([from, to])).map(drop)
    }
}

/// The nightly toolchain that the repository pins for the probes.
///
/// # Errors
/// In words: no such file, or no line `channel = "…"`.
pub fn pinned_nightly(root: &Path) -> Result<String, String> {
    let file = root.join(PINNED);
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let channel = text.lines().find_map(|line| line.strip_prefix("channel = "));
    let channel = channel.map(|quoted| quoted.trim_matches('"').to_owned());
    channel.ok_or_else(|| format!("{}: no channel", file.display()))
}

/// A program of LLVM's.
fn llvm(name: &str) -> Command {
    let prefix = env::var_os("LLVM_PREFIX").map_or_else(|| LLVM_PREFIX.into(), PathBuf::from);
    Command::new(prefix.join("bin").join(name))
}

/// What a command prints, without the line's end.
fn read(command: &mut Command) -> Result<String, String> {
    let output =
        command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{}: {}: {said}", command.get_program().display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn find_compiler(nightly: &str) -> Option<Compiler> {
    let named = ["FLIGHTREC_BPF_RUSTC", "RUSTC"].into_iter().filter_map(env::var_os);
    let mut candidates = named.map(PathBuf::from).chain(["/usr/bin/rustc".into()]);
    if let Some(rustc) = candidates.find(|rustc| has_core(rustc)) {
        return Some(Compiler::Precompiled(rustc));
    }
    let mut sysroot = Command::new("rustup");
    let sysroot = read(sysroot.args(["run", nightly, "rustc", "--print", "sysroot"])).ok()?;
    let has_source = Path::new(&sysroot).join("lib/rustlib/src/rust/library/core").is_dir();
    has_source.then(|| Compiler::BuildStd(nightly.to_owned()))
}

fn has_core(rustc: &Path) -> bool {
    // The folder is named even where the target isn't installed.
    let mut print = Command::new(rustc);
    let Ok(folder) = read(print.args(["--print", "target-libdir", "--target", TARGET])) else {
        return false;
    };
    fs::read_dir(folder).is_ok_and(|files| {
        files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libcore-"))
    })
}

fn find_linker(target_dir: &Path) -> Option<PathBuf> {
    let ours = target_dir.join("tools/bin/bpf-linker");
    // Under `cargo --target`, `target_dir` is one level deeper.
    let above = target_dir.parent().map(|p| p.join("tools/bin/bpf-linker"));
    let path = env::var_os("PATH").unwrap_or_default();
    [Some(ours), above]
        .into_iter()
        .flatten()
        .chain(env::split_paths(&path).map(|p| p.join("bpf-linker")))
        .find(|p| p.is_file())
}
