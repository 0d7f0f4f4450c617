//! Builds the probes for the kernel's BPF machine, so that they are inside `flightd`.
//!
//! Needed: a rustc that has `core` for `bpfel-unknown-none` (Debian's rustc-web), or else the
//! nightly that probes-ebpf/rust-toolchain.toml pins, with rust-src; and bpf-linker. `cargo xtask
//! setup` installs the first and the last; this only finds them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "bpfel-unknown-none";
/// Pins the nightly.
const PINNED: &str = "probes-ebpf/rust-toolchain.toml";

/// Set where this program is run as cargo's `RUSTC_WRAPPER`.
const WRAPPER: &str = "FLIGHTREC_RUSTC_WRAPPER";

/// How to compile for the BPF machine.
enum Compiler {
    /// A rustc that brings a precompiled `core`.
    Precompiled(PathBuf),
    /// rustup's toolchain of this name, which compiles `core` from rust-src.
    BuildStd(String),
}

fn main() {
    if env::var_os(WRAPPER).is_some() {
        std::process::exit(wrapped());
    }
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = manifest.parent().unwrap_or(Path::new("..")).to_path_buf();
    let probes = root.join("probes-ebpf");
    for watched in [
        "probes-ebpf/src",
        "probes-ebpf/Cargo.toml",
        "probes-ebpf/Cargo.lock",
        PINNED,
        "format/src/abi",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    for variable in ["FLIGHTREC_BPF_RUSTC", "PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let target_dir = out
        .ancestors()
        .find(|p| p.file_name().is_some_and(|n| n == "build"))
        .and_then(|p| p.parent()?.parent())
        .unwrap_or(&out)
        .to_path_buf();

    if let Err(why) = build(&probes, &target_dir, &out) {
        println!("cargo::error=the probes could not be built: {why}");
        println!("cargo::error=`cargo xtask setup` installs what they need");
        std::process::exit(1);
    }
}

fn build(probes: &Path, target_dir: &Path, out: &Path) -> Result<(), String> {
    let nightly = pinned(&probes.join("rust-toolchain.toml"))?;
    let compiler = find_compiler(&nightly).ok_or(format!(
        "no rustc here has `core` for {TARGET}, and rustup has no {nightly} with rust-src"
    ))?;
    let linker = find_linker(target_dir)
        .ok_or("bpf-linker is neither in target/tools/bin nor on the PATH")?;
    let mut cargo = match &compiler {
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
        .args(["build", "--release", "--locked", "--quiet", "--target", TARGET, "--target-dir"])
        .arg(&objects);
    if matches!(compiler, Compiler::BuildStd(_)) {
        cargo.args(["-Z", "build-std=core"]);
    }
    let linker_flag = format!("-Clinker={}", linker.display());
    // v3: 32-bit arithmetic and every comparison as one instruction, so shorter programs (Linux
    // 5.1).
    let mut flags: Vec<String> =
        [&linker_flag, "-Clink-arg=--btf", "-Ctarget-cpu=v3"].map(str::to_owned).into();
    flags.push("-Cdebuginfo=2".to_owned());
    flags.extend(placeless(probes));
    cargo.current_dir(probes).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
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
    // `floor` is for daemon/examples/floor.rs, and not in flightd.
    for name in ["probes", "floor"] {
        let built = objects.join(TARGET).join("release").join(name);
        std::fs::copy(&built, out.join(name)).map_err(|e| format!("{}: {e}", built.display()))?;
    }
    Ok(())
}

/// Flags that keep out of the object where it was built: BTF names the files of lines.
fn placeless(probes: &Path) -> Vec<String> {
    let root = probes.parent().unwrap_or(probes);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let places = [(Some(root.to_path_buf()), "/flightrec"), (cargo_home, "/cargo")];
    let flag = |from: PathBuf, to| format!("--remap-path-prefix={}={to}", from.display());
    places.into_iter().filter_map(|(from, to)| Some(flag(from?, to))).collect()
}

/// Runs the compiler as cargo asks, but for the hash, in whose place are the package's name and
/// version.
fn wrapped() -> i32 {
    let mut words = env::args_os().skip(1);
    let Some(rustc) = words.next() else { return 1 };
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let package = [variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION")].join("-");
    let words = words.map(|word| {
        let is_hash = word.to_string_lossy().starts_with("metadata=");
        if is_hash { format!("metadata={package}").into() } else { word }
    });
    let status = Command::new(rustc).args(words).status();
    status.ok().and_then(|status| status.code()).unwrap_or(1)
}

/// The toolchain that the file pins, by its line `channel = "…"`.
fn pinned(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let channel = text.lines().find_map(|line| line.strip_prefix("channel = "));
    let channel = channel.map(|quoted| quoted.trim_matches('"').to_owned());
    channel.ok_or_else(|| format!("{}: no channel", file.display()))
}

fn find_compiler(nightly: &str) -> Option<Compiler> {
    let mut candidates: Vec<PathBuf> =
        env::var_os("FLIGHTREC_BPF_RUSTC").map(PathBuf::from).into_iter().collect();
    candidates.extend(env::var_os("RUSTC").map(PathBuf::from));
    candidates.push("/usr/bin/rustc".into());
    if let Some(rustc) = candidates.into_iter().find(|rustc| has_core(rustc)) {
        return Some(Compiler::Precompiled(rustc));
    }
    let sysroot = Command::new("rustup")
        .args(["run", nightly, "rustc", "--print", "sysroot"])
        .output()
        .ok()?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let has_source = sysroot.join("lib/rustlib/src/rust/library/core").is_dir();
    has_source.then(|| Compiler::BuildStd(nightly.to_owned()))
}

fn has_core(rustc: &Path) -> bool {
    let Ok(output) =
        Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output()
    else {
        return false;
    };
    let dir = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    std::fs::read_dir(dir).is_ok_and(|mut files| {
        files.any(|f| f.is_ok_and(|f| f.file_name().to_string_lossy().starts_with("libcore-")))
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
