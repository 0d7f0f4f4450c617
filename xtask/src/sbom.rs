//! `cargo xtask sbom`: what each program is made of, as CycloneDX in JSON.
//!
//! cargo-cyclonedx writes it, from `cargo metadata`, which knows the features that crates have when
//! the whole workspace is built with its tests. So some crates are among them that no program is
//! built with; they are left out here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{cargo, read, repository, run as run_command};
use crate::reproducible::timed;
use crate::tool;

/// What is installed; it takes minutes to compile, so only this command asks for it.
const CYCLONEDX: &str = "0.5.9";

/// Folders of the packages: those of the three programs, and the probes that flightd has in it.
const PACKAGES: [&str; 4] = ["daemon", "ctl", "ship", "probes-ebpf"];

/// What cargo-cyclonedx calls its files, each beside a package's manifest, until they are moved.
const NAME: &str = "sbom-of-xtask";

/// Writes a file for each of [`PACKAGES`] into target/sbom, and returns them. The same commit makes
/// the same bytes, wherever it lies.
///
/// # Errors
/// Whatever a step says; a crate that a program is built with and that cargo-cyclonedx does not
/// name.
pub(crate) fn run() -> Result<Vec<PathBuf>> {
    let program = tool::install("cargo-cyclonedx", CYCLONEDX, &[])?;
    let folder = repository().join("target/sbom");
    fs::create_dir_all(&folder).context("target/sbom")?;
    let made = Made(folders()?);
    for manifest in ["Cargo.toml", "probes-ebpf/Cargo.toml"] {
        let mut command = Command::new(&program);
        timed(command.current_dir(repository()))?;
        command.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"]);
        command.args(["--override-filename", NAME, "--manifest-path", manifest]);
        run_command(&mut command)?;
    }
    let mut files = Vec::new();
    for package in PACKAGES {
        let text = fs::read_to_string(file(&repository().join(package)))
            .with_context(|| format!("cargo-cyclonedx has written nothing for {package}"))?;
        let text = placeless(&text, &repository());
        let mut bom: Value = serde_json::from_str(&text).context(package)?;
        let built_with = built_with(package)?;
        leave_out(&mut bom, &built_with)?;
        let (name, named) = components(&bom)?;
        let missing: Vec<String> = built_with.difference(&named).cloned().collect();
        ensure!(missing.is_empty(), "{name}: not in its SBOM: {}", missing.join(", "));
        println!("sbom: {name}: {} crates, as cargo builds it with", named.len());
        let path = folder.join(format!("{name}.cdx.json"));
        let text = serde_json::to_string_pretty(&bom)? + "\n";
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        files.push(path);
    }
    drop(made);
    Ok(files)
}

fn file(folder: &Path) -> PathBuf {
    folder.join(format!("{NAME}.json"))
}

/// The folders that cargo-cyclonedx writes into: every package's.
fn folders() -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(repository()).context("the repository")? {
        let path = entry?.path();
        if path.join("Cargo.toml").exists() {
            folders.push(path);
        }
    }
    Ok(folders)
}

/// Removes its files on drop, those of packages that are no programs as well.
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            // Most have none.
            let _ = fs::remove_file(file(folder));
        }
    }
}

/// The text without the place where the repository lies.
fn placeless(text: &str, repository: &Path) -> String {
    text.replace(&repository.display().to_string(), "/flightrec")
}

/// Leaves out the components that are none of these (`NAME VERSION`), and who depends on them.
fn leave_out(bom: &mut Value, built_with: &BTreeSet<String>) -> Result<()> {
    let components = bom["components"].as_array_mut().context("an SBOM without components")?;
    components.retain(|component| named(component).is_some_and(|name| built_with.contains(&name)));
    let reference = |component: &Value| component["bom-ref"].as_str().map(str::to_owned);
    let mut kept: BTreeSet<String> = components.iter().filter_map(reference).collect();
    kept.extend(reference(&bom["metadata"]["component"]));
    let is_kept = |reference: &Value| reference.as_str().is_some_and(|name| kept.contains(name));
    let rows = bom["dependencies"].as_array_mut().context("an SBOM without dependencies")?;
    rows.retain(|row| is_kept(&row["ref"]));
    for row in rows {
        if let Some(on) = row.get_mut("dependsOn").and_then(Value::as_array_mut) {
            on.retain(is_kept);
        }
    }
    Ok(())
}

/// A component: `NAME VERSION`.
fn named(component: &Value) -> Option<String> {
    Some(format!("{} {}", component["name"].as_str()?, component["version"].as_str()?))
}

/// The program's name, and what it is made of.
fn components(bom: &Value) -> Result<(String, BTreeSet<String>)> {
    let name =
        bom["metadata"]["component"]["name"].as_str().context("an SBOM without a subject")?;
    let all = bom["components"].as_array().context("an SBOM without components")?;
    Ok((name.to_owned(), all.iter().filter_map(named).collect()))
}

/// What cargo compiles for a package, itself excepted: `NAME VERSION`.
fn built_with(package: &str) -> Result<BTreeSet<String>> {
    let manifest = format!("{package}/Cargo.toml");
    let tree = read(cargo().args(["tree", "--locked", "--edges", "normal,build"]).args([
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--manifest-path",
        &manifest,
    ]))?;
    Ok(crates(&tree))
}

/// Of `cargo tree`'s lines all but the first.
fn crates(tree: &str) -> BTreeSet<String> {
    let mut lines = tree.lines();
    let first = lines.next();
    let lines = lines.filter(|line| Some(*line) != first);
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, version) = (words.next()?, words.next()?);
            Some(format!("{name} {}", version.strip_prefix('v')?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_program_is_built_with() {
        let tree = "flightd v0.1.0 (/x/daemon)\naya v0.13.1\nlibc v0.2.1\nproc v1.0.0 \
                    (proc-macro)\naya v0.13.1 (*)\n";
        let crates = crates(tree);
        assert_eq!(
            crates.into_iter().collect::<Vec<_>>(),
            ["aya 0.13.1", "libc 0.2.1", "proc 1.0.0"]
        );
    }

    #[test]
    fn what_an_sbom_names() {
        let bom = json!({
            "metadata": {"component": {"name": "flightd", "version": "0.1.0"}},
            "components": [{"name": "aya", "version": "0.13.1"}, {"name": "no version"}],
        });
        let (name, named) = components(&bom).unwrap();
        assert_eq!((&*name, named), ("flightd", BTreeSet::from(["aya 0.13.1".to_owned()])));
        assert!(components(&json!({})).is_err());
    }

    #[test]
    fn what_only_tests_need_is_left_out_and_so_is_who_depends_on_it() {
        let component = |name: &str| json!({"name": name, "version": "1", "bom-ref": name});
        let mut bom = json!({
            "metadata": {"component": component("flightd")},
            "components": [component("aya"), component("proptest"), component("libc")],
            "dependencies": [
                {"ref": "flightd", "dependsOn": ["aya", "proptest"]},
                {"ref": "aya", "dependsOn": ["libc"]},
                {"ref": "proptest", "dependsOn": ["libc"]},
                {"ref": "libc"},
            ],
        });
        let built_with = BTreeSet::from(["aya 1".to_owned(), "libc 1".to_owned()]);
        leave_out(&mut bom, &built_with).unwrap();
        assert_eq!(components(&bom).unwrap().1, built_with);
        assert_eq!(
            bom["dependencies"],
            json!([
                {"ref": "flightd", "dependsOn": ["aya"]},
                {"ref": "aya", "dependsOn": ["libc"]},
                {"ref": "libc"},
            ])
        );
        assert!(leave_out(&mut json!({}), &built_with).is_err());
    }

    #[test]
    fn the_place_is_not_told() {
        let text = r#""bom-ref": "path+file:///x/y/daemon#0.1.0""#;
        assert_eq!(
            placeless(text, Path::new("/x/y")),
            r#""bom-ref": "path+file:///flightrec/daemon#0.1.0""#
        );
    }
}
