//! The small C programs that do one known thing.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::repository;

/// Compiles `tests/programs/NAME.c`, unless that is done already, with `flags` after
/// `-O2 -Wall -Wextra -Werror -static -pthread`. The result stands in `target/test-programs`.
///
/// # Panics
/// If there is no such program, or it doesn't compile.
pub fn c_program(name: &str, flags: &[&str]) -> PathBuf {
    compile(name, &["-static"], flags)
}

/// The same without `-static`, and always: what it is linked with may have changed.
///
/// # Panics
/// As [`c_program`].
pub fn c_dynamic(name: &str, flags: &[&str]) -> PathBuf {
    compile(name, &[], flags)
}

fn compile(name: &str, link: &[&str], flags: &[&str]) -> PathBuf {
    let source = repository().join("tests/programs").join(name).with_extension("c");
    let folder = repository().join("target/test-programs");
    // Flags may have paths in them.
    let file = [&[name], flags].concat().concat().replace('/', "_");
    let program = folder.join(file);
    let sources = [&source, &source.with_file_name("pin.h")];
    if !link.is_empty() && sources.into_iter().all(|of| is_newer(&program, of)) {
        return program;
    }
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    // Under its own name first: tests that run at the same time never see half a program.
    let part = tempfile::Builder::new()
        .prefix(name)
        .tempdir_in(&folder)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let fresh = part.path().join(name);
    let output = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(link)
        .arg("-o")
        .arg(&fresh)
        .arg(&source)
        .args(flags)
        .output()
        .unwrap_or_else(|e| panic!("can't run gcc (`cargo xtask setup` installs it): {e}"));
    assert!(
        output.status.success(),
        "gcc {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&fresh, &program).unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    program
}

fn is_newer(program: &Path, source: &Path) -> bool {
    let modified = |path| fs::metadata(path).and_then(|m| m.modified());
    matches!((modified(program), modified(source)), (Ok(program), Ok(source)) if program > source)
}

/// The lines `key=value` of a program's output; other lines are left out.
pub fn key_values(output: &[u8]) -> HashMap<String, String> {
    let text = String::from_utf8_lossy(output);
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}
