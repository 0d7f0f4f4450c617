//! Modules that import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::import::Import;
use super::tree::{Module, Tree};

/// Modules of one level, each of which leads to each other one.
#[derive(Debug)]
pub(super) struct Circle<'t> {
    /// The module that they are in; empty: the crate.
    pub(super) level: Module,
    /// Their names.
    pub(super) modules: Vec<&'t str>,
    /// The imports between them: from, to.
    pub(super) imports: Vec<(&'t str, &'t str, &'t Import)>,
}

/// The imports between the modules of a level.
type Graph<'t> = BTreeMap<&'t str, BTreeMap<&'t str, Vec<&'t Import>>>;

/// The circles of a crate: between the modules directly below its root, and between folders (the
/// modules that have modules) at every level below.
pub(super) fn circles(tree: &Tree) -> Vec<Circle<'_>> {
    let levels: BTreeSet<&[String]> =
        tree.modules.iter().filter_map(|module| module.split_last()).map(|(_, of)| of).collect();
    levels.iter().flat_map(|level| of_level(tree, level, &levels)).collect()
}

fn of_level<'t>(
    tree: &'t Tree,
    level: &[String],
    folders: &BTreeSet<&[String]>,
) -> Vec<Circle<'t>> {
    let mut graph: Graph<'_> = BTreeMap::new();
    // The module of this level that a module is, or is in.
    let of = |module: &'t [String]| {
        let name = module.get(level.len()).filter(|_| module.starts_with(level))?;
        let counts = level.is_empty() || folders.contains(module.get(..=level.len())?);
        counts.then_some(name.as_str())
    };
    for (module, imports) in &tree.imports {
        let Some(from) = of(module) else { continue };
        for import in imports {
            if let Some(to) = of(tree.module_of(&import.path)).filter(|to| *to != from) {
                graph.entry(from).or_default().entry(to).or_default().push(import);
            }
        }
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|name| (*name, reached(&graph, name))).collect();
    let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (name, others) in &reached {
        let back = |other: &&str| reached.get(other).is_some_and(|of| of.contains(name));
        let circle: Vec<&str> = others.iter().copied().filter(back).collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().map(|modules| circle(&graph, level.to_vec(), modules)).collect()
}

/// The modules that one leads to; itself as well, where it is in a circle.
fn reached<'t>(graph: &Graph<'t>, from: &'t str) -> BTreeSet<&'t str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(name) = next.pop() {
        for to in graph.get(name).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                next.push(to);
            }
        }
    }
    reached
}

fn circle<'t>(graph: &Graph<'t>, level: Module, modules: Vec<&'t str>) -> Circle<'t> {
    let mut imports = Vec::new();
    for from in &modules {
        for (to, between) in graph.get(from).into_iter().flatten() {
            if modules.contains(to) {
                imports.extend(between.iter().map(|import| (*from, *to, *import)));
            }
        }
    }
    Circle { level, modules, imports }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_modules::tree::tests::tree;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        let told = |circle: Circle<'_>| {
            let imports: Vec<String> =
                circle.imports.iter().map(|(from, to, _)| format!("{from}-{to}")).collect();
            let (level, modules) = (circle.level.join("::"), circle.modules.join(","));
            format!("{level}: {modules}: {}", imports.join(" "))
        };
        circles(&tree).into_iter().map(told).collect()
    }

    #[test]
    fn a_crate_with_a_direction_has_none() {
        let files = [
            ("lib.rs", "pub mod a; pub mod b; pub mod c; use a::X;"),
            ("a.rs", "use crate::b::X; use crate::c::Y; use crate::Z;"),
            ("b.rs", "use crate::c::Y;"),
            ("c.rs", "use std::fs; use super::Z;"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_circle_is_told_with_the_imports_that_make_it() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b; use crate::d::X;"),
            ("b.rs", "fn f() { super::c::g(); }"),
            ("c/mod.rs", "mod inner; use crate::d::X;"),
            ("c/inner.rs", "use super::super::a::X;"),
            ("d.rs", ""),
        ];
        assert_eq!(found(&files), [": a,b,c: a-b b-c c-a"]);
    }

    #[test]
    fn below_the_root_folders_count_and_files_do_not() {
        let files = |second: &'static str| {
            [
                ("lib.rs", "mod m;"),
                ("m/mod.rs", "mod a; mod b; mod file; mod other;"),
                ("m/a/mod.rs", "mod x; use super::file::X;"),
                ("m/a/x.rs", "use crate::m::b::x::Y;"),
                ("m/b/mod.rs", "mod x;"),
                ("m/b/x.rs", second),
                ("m/file.rs", "use super::other::X; use super::a::X;"),
                ("m/other.rs", "use super::file::X;"),
            ]
        };
        assert!(found(&files("")).is_empty());
        assert_eq!(found(&files("use crate::m::a::Z;")), ["m: a,b: a-b b-a"]);
    }
}
