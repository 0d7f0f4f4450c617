//! `cargo xtask check-modules`: that no crate has modules that import each other in a circle.
//!
//! Two modules that need each other are one module in two files: neither can be read, tested or
//! moved without the other. So the imports between the modules directly below a crate's root, and
//! between the folders at every level below, must have a direction. Tests may look at anything:
//! modules under `#[cfg(test)]` are left out.

mod circle;
mod import;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::circle::Circle;
use self::tree::Tree;
use crate::command::repository;

/// Prints each circle with the imports that make it; fails where there is one.
pub(crate) fn run() -> Result<()> {
    let root = repository();
    let mut circles = 0;
    for package in packages(&root)? {
        let tree = Tree::read(&package)?;
        for circle in circle::circles(&tree) {
            print(&root, &package, &circle);
            circles += 1;
        }
    }
    if circles != 0 {
        bail!("circles of imports: {circles}; put what both sides need below them");
    }
    Ok(())
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
