//! The modules of a crate, as its sources declare them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta};

use super::import::{self, Import, is_test};

/// A module's place: the names from the crate's root on.
pub(super) type Module = Vec<String>;

/// The modules of a crate, and what they import.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// All modules but tests; the root as well.
    pub(super) modules: BTreeSet<Module>,
    /// What each module imports.
    pub(super) imports: BTreeMap<Module, Vec<Import>>,
}

/// The file or the inline module that is being read.
struct ModulePlace<'a> {
    file: &'a Path,
    /// Where the files of its modules are.
    folder: PathBuf,
    module: Module,
}

impl Tree {
    /// Reads the sources of a package, from its roots on.
    pub(super) fn read(package: &Path) -> Result<Self> {
        let source = package.join("src");
        let mut tree = Self::default();
        for root in ["lib.rs", "main.rs"].map(|name| source.join(name)) {
            if root.is_file() {
                tree.file(&root, source.clone(), Module::new())?;
            }
        }
        Ok(tree)
    }

    /// The module that a path names or leads into; the path is from the crate's root on.
    pub(super) fn module_of<'p>(&self, path: &'p [String]) -> &'p [String] {
        let mut module = path;
        while let Some((_, outer)) = module.split_last() {
            if self.modules.contains(module) {
                break;
            }
            module = outer;
        }
        module
    }

    fn file(&mut self, file: &Path, folder: PathBuf, module: Module) -> Result<()> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).with_context(name)?;
        let items = syn::parse_file(&text).with_context(name)?.items;
        self.items(&items, &ModulePlace { file, folder, module })
    }

    fn items(&mut self, items: &[Item], place: &ModulePlace<'_>) -> Result<()> {
        self.modules.insert(place.module.clone());
        for item in items {
            match item {
                Item::Mod(inner) => self.inner(inner, place)?,
                other if is_test(import::attributes(other)) => {}
                other => {
                    let imports = import::of(other, &place.module, place.file);
                    self.imports.entry(place.module.clone()).or_default().extend(imports);
                }
            }
        }
        Ok(())
    }

    /// Goes into a module, unless it is a test.
    fn inner(&mut self, inner: &ItemMod, place: &ModulePlace<'_>) -> Result<()> {
        if is_test(&inner.attrs) {
            return Ok(());
        }
        let name = inner.ident.to_string();
        let folder = place.folder.join(&name);
        let module = [place.module.as_slice(), std::slice::from_ref(&name)].concat();
        if let Some((_, items)) = &inner.content {
            return self.items(items, &ModulePlace { file: place.file, folder, module });
        }
        let beside = place.folder.join(format!("{name}.rs"));
        let file = match path_of(&inner.attrs) {
            Some(path) => place.file.with_file_name(path),
            None if beside.is_file() => beside,
            None => folder.join("mod.rs"),
        };
        self.file(&file, folder, module)
    }
}

/// The file that `#[path = "…"]` names.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A package of these sources, below `src`.
    pub(in crate::check_modules) fn tree(files: &[(&str, &str)]) -> Tree {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join("src").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Tree::read(dir.path()).unwrap()
    }

    fn modules(tree: &Tree) -> Vec<String> {
        tree.modules.iter().map(|module| module.join("::")).collect()
    }

    #[test]
    fn modules_are_found_where_the_compiler_finds_them() {
        let tree = tree(&[
            ("lib.rs", "mod a; mod b; mod inline { mod deep; } #[path = \"else.rs\"] mod c;"),
            ("a.rs", "mod inner;"),
            ("a/inner.rs", ""),
            ("b/mod.rs", "mod inner;"),
            ("b/inner/mod.rs", ""),
            ("inline/deep.rs", ""),
            ("else.rs", ""),
        ]);
        let expected = ["", "a", "a::inner", "b", "b::inner", "c", "inline", "inline::deep"];
        assert_eq!(modules(&tree), expected);
    }

    #[test]
    fn tests_are_left_out() {
        let tree = tree(&[
            ("lib.rs", "mod a; #[cfg(test)] mod tests; #[cfg(test)] use crate::a::X;"),
            ("a.rs", "#[cfg(test)] mod tests { use crate::b::X; } #[cfg(unix)] mod b {}"),
        ]);
        assert_eq!(modules(&tree), ["", "a", "a::b"]);
        assert!(tree.imports.values().all(Vec::is_empty), "{:?}", tree.imports);
    }

    #[test]
    fn a_path_leads_into_the_innermost_module() {
        let tree = tree(&[("lib.rs", "mod a { pub mod b { pub fn f() {} } }")]);
        let of = |path: &str| {
            let path: Vec<String> = path.split("::").map(str::to_owned).collect();
            tree.module_of(&path).join("::")
        };
        assert_eq!([of("a::b::f"), of("a::X"), of("X")], ["a::b", "a", ""]);
    }
}
