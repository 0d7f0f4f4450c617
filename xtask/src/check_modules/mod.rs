//! `cargo xtask check-modules`: that no crate has modules that import each other in a circle.
//!
//! Two modules that need each other are one module in two files: neither can be read, tested or
//! moved without the other. So the imports between the modules directly below a crate's root, and
//! between the folders at every level below, must have a direction. Some modules import none of
//! their neighbours at all ([`APART`]): what they share stands below them. Tests may look at
//! anything: modules under `#[cfg(test)]` are left out.

mod circle;
mod import;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::circle::Circle;
use self::import::Import;
use self::tree::Tree;
use crate::command::repository;

/// Crates, and their modules whose own modules do not import each other.
const APART: [(&str, &str); 1] = [("ctl", "commands")];

/// Prints each circle with the imports that make it, and each import between modules that stand
/// apart; fails where there is one.
pub(crate) fn run() -> Result<()> {
    let root = repository();
    let (mut circles, mut sideways) = (0, 0);
    let packages = packages(&root)?;
    if let Some((name, _)) = APART.iter().find(|(name, _)| !packages.contains(&root.join(name))) {
        bail!("{name} is no crate any more: correct APART in xtask/src/check_modules/mod.rs");
    }
    for package in packages {
        let tree = Tree::read(&package)?;
        for circle in circle::circles(&tree) {
            print(&root, &package, &circle);
            circles += 1;
        }
        for (name, level) in APART.iter().filter(|(name, _)| package == root.join(name)) {
            if !tree.modules.contains([(*level).to_owned()].as_slice()) {
                bail!("{name} has no module {level} any more: correct APART");
            }
            for import in between(&tree, level) {
                let file = import.file.strip_prefix(&root).unwrap_or(&import.file).display();
                println!("{file}:{}: {}", import.line, import.path.join("::"));
                sideways += 1;
            }
        }
    }
    if circles + sideways != 0 {
        bail!(
            "circles of imports: {circles}, imports between modules that stand apart: {sideways}; \
             put what both sides need below them"
        );
    }
    Ok(())
}

/// The imports of one of a level's modules by another.
fn between<'t>(tree: &'t Tree, level: &str) -> Vec<&'t Import> {
    fn of<'m>(module: &'m [String], level: &str) -> Option<&'m String> {
        module.get(1).filter(|_| module.first().is_some_and(|name| name == level))
    }
    let mut found = Vec::new();
    for (module, imports) in &tree.imports {
        let Some(from) = of(module, level) else { continue };
        let is_other =
            |import: &&Import| of(tree.module_of(&import.path), level).is_some_and(|to| to != from);
        // What the level itself has for all of them is no module with a file.
        found.extend(
            imports.iter().filter(is_other).filter(|of| !of.path.contains(&"prelude".into())),
        );
    }
    found
}

/// The folders of the repository that are crates: those of the workspace, and the probes.
fn packages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut packages = Vec::new();
    for folder in [root.to_path_buf(), root.join("crates"), root.join("tests")] {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.join("Cargo.toml").is_file() && path.join("src").is_dir() {
                packages.push(path);
            }
        }
    }
    packages.sort();
    Ok(packages)
}

fn print(root: &Path, package: &Path, circle: &Circle<'_>) {
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let inside = circle.level.join("::");
    let inside = if inside.is_empty() { inside } else { format!(" in {inside}") };
    println!("{}{inside}: {}", relative(package), circle.modules.join(", "));
    for (from, to, import) in &circle.imports {
        let (file, line) = (relative(&import.file), import.line);
        println!("  {from} -> {to}: {file}:{line}: {}", import.path.join("::"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_stand_apart_import_the_level_and_what_is_below_it() {
        let tree = tree::tests::tree(&[
            ("lib.rs", "mod commands; mod output;"),
            ("commands/mod.rs", "mod dump; mod ps; mod prelude; pub struct Plan;"),
            (
                "commands/dump.rs",
                "use super::prelude::*; use super::{Plan, ps::Args}; use crate::output::X; \
                 use crate::commands::ps; use crate::commands::dump::Own;",
            ),
            ("commands/ps.rs", "use super::Plan;"),
            ("commands/prelude.rs", ""),
            ("output.rs", ""),
        ]);
        let found = between(&tree, "commands");
        let mut paths: Vec<String> = found.iter().map(|import| import.path.join("::")).collect();
        paths.sort();
        assert_eq!(paths, ["commands::ps", "commands::ps::Args"]);
        assert!(between(&tree, "output").is_empty());
    }
}
