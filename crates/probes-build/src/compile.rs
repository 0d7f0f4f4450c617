//! Compiles the probes. Every flag stands in this file, which is one of the object's sources.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::toolchain::{Compiler, TARGET, Toolchain};

/// Set where the calling program runs as cargo's `RUSTC_WRAPPER`.
const WRAPPER: &str = "FLIGHTREC_RUSTC_WRAPPER";

/// Compiles the probes into `target_dir/probes`, and returns the object's path; the object has
/// DWARF. The calling program becomes cargo's `RUSTC_WRAPPER`: its `main` must begin with
/// [`as_rustc_wrapper`].
///
/// # Errors
/// In words, with what the compiler wrote.
pub fn compile(toolchain: &Toolchain, root: &Path, target_dir: &Path) -> Result<PathBuf, String> {
    let mut cargo = match &toolchain.compiler {
        Compiler::Precompiled(rustc) => {
            let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
            cargo.env("RUSTC", rustc);
            // aya-ebpf and inline assembly for BPF use unstable features of this compiler.
            cargo.env("RUSTC_BOOTSTRAP", "1");
            cargo
        }
        Compiler::BuildStd(toolchain) => {
            let mut cargo = Command::new("rustup");
            cargo.args(["run", toolchain, "cargo"]).env_remove("RUSTC");
            cargo
        }
    };
    let objects = target_dir.join("probes");
    cargo
        .args(["build", "--release", "--locked", "--quiet", "--target", TARGET, "--manifest-path"])
        .arg(root.join("probes-ebpf/Cargo.toml"))
        .arg("--target-dir")
        .arg(&objects);
    if matches!(toolchain.compiler, Compiler::BuildStd(_)) {
        cargo.args(["-Z", "build-std=core"]);
    }
    let linker_flag = format!("-Clinker={}", toolchain.linker.display());
    // v3: 32-bit arithmetic and every comparison as one instruction, so shorter programs (Linux
    // 5.1).
    let mut flags: Vec<String> =
        [&linker_flag, "-Clink-arg=--btf", "-Ctarget-cpu=v3"].map(str::to_owned).into();
    flags.push("-Cdebuginfo=2".to_owned());
    flags.extend(placeless(root));
    // Not in the probes' own directory, whose rust-toolchain.toml is for rustup's nightly.
    cargo.current_dir(root).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // The object is the same wherever the repository lies: cargo mixes the paths of `format`, which
    // is outside the probes' workspace, and of the linker into the hash that the compiler has in
    // names of symbols.
    let own = env::current_exe().map_err(|e| e.to_string())?;
    cargo.env("RUSTC_WRAPPER", own).env(WRAPPER, "1");
    // What the outer cargo set for its own compiler must not reach this one.
    for variable in ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS", "RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(variable);
    }
    // Nor a profile that somebody wants for it: the verifier is shown what this release's profile
    // makes, or it is not known what it says.
    for (variable, _) in
        env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PROFILE_"))
    {
        cargo.env_remove(variable);
    }
    let output = cargo.output().map_err(|e| format!("{}: {e}", cargo.get_program().display()))?;
    if !output.status.success() {
        return Err(format!("cargo said:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(objects.join(TARGET).join("release/probes"))
}

/// Flags that keep out of the object where it was built: BTF names the files of lines.
fn placeless(root: &Path) -> Vec<String> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let places = [(Some(root.to_path_buf()), "/flightrec"), (cargo_home, "/cargo")];
    let flag = |from: PathBuf, to| format!("--remap-path-prefix={}={to}", from.display());
    places.into_iter().filter_map(|(from, to)| Some(flag(from?, to))).collect()
}

/// Where the calling program is run by the cargo of [`compile`] in the compiler's place: runs the
/// compiler as cargo asks, but for the hash, in whose place are the package's name and version; the
/// exit code. Otherwise nothing.
pub fn as_rustc_wrapper() -> Option<i32> {
    env::var_os(WRAPPER)?;
    let mut words = env::args_os().skip(1);
    let Some(rustc) = words.next() else { return Some(1) };
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let package = [variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION")].join("-");
    let words = words.map(|word| {
        let is_hash = word.to_string_lossy().starts_with("metadata=");
        if is_hash { format!("metadata={package}").into() } else { word }
    });
    let status = Command::new(rustc).args(words).status();
    Some(status.ok().and_then(|status| status.code()).unwrap_or(1))
}
