//! What an item imports from its own crate: by `use`, and by paths in its code.

use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemMod, Macro, Meta, UseTree};

use super::tree::Module;

/// A path that a module goes to in its own crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// From the crate's root on.
    pub(super) path: Vec<String>,
}

/// What an item of `module`, which stands in `file`, imports.
pub(super) fn of(item: &Item, module: &Module, file: &Path) -> Vec<Import> {
    let mut imports = Imports { module, file, found: Vec::new() };
    imports.visit_item(item);
    imports.found
}

/// Whether what has these attributes is there for tests alone.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        }
        _ => false,
    })
}

/// The attributes of an item that may be there for tests alone.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

struct Imports<'a> {
    module: &'a Module,
    file: &'a Path,
    found: Vec<Import>,
}

impl Imports<'_> {
    /// Takes a path if it begins in the own crate.
    fn take(&mut self, names: &[String], span: Span) {
        let Some(path) = absolute(names, self.module) else { return };
        self.found.push(Import { file: self.file.into(), line: span.start().line, path });
    }

    fn tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(tree, before));
            }
            UseTree::Name(name) if name.ident == "self" => self.take(before, name.ident.span()),
            UseTree::Name(name) => self.take(&with(&name.ident), name.ident.span()),
            UseTree::Rename(name) if name.ident == "self" => self.take(before, name.ident.span()),
            UseTree::Rename(name) => self.take(&with(&name.ident), name.ident.span()),
            UseTree::Glob(glob) => self.take(before, glob.star_token.spans[0]),
        }
    }

    /// Paths in what a macro is given, which may be anything.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut begin = Span::call_site();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if path.is_empty() || colons != 2 {
                        self.take(&path, begin);
                        path.clear();
                        begin = ident.span();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.take(&path, begin);
                    path.clear();
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.take(&path, begin);
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.take(&names, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.visit_path(&item.path);
        self.tokens(item.tokens.clone());
    }

    /// A module in a function.
    fn visit_item_mod(&mut self, _item: &'ast ItemMod) {}

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }
}

/// A path from the crate's root on; `None`: it does not say that it is of this crate.
fn absolute(names: &[String], module: &[String]) -> Option<Vec<String>> {
    let (first, mut rest) = names.split_first()?;
    let mut base = match first.as_str() {
        "crate" => &[][..],
        "self" => module,
        "super" => module.split_last()?.1,
        _ => return None,
    };
    while let Some((next, after)) = rest.split_first()
        && next == "super"
    {
        (base, rest) = (base.split_last()?.1, after);
    }
    Some([base, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(module: &str, source: &str) -> Vec<String> {
        let module: Module = module.split("::").map(str::to_owned).collect();
        let file = syn::parse_file(source).unwrap();
        let found = file.items.iter().flat_map(|item| of(item, &module, Path::new("x.rs")));
        found.map(|import| format!("{} {}", import.line, import.path.join("::"))).collect()
    }

    #[test]
    fn a_use_tree_is_as_many_imports_as_it_has_leaves() {
        let source = "use crate::a::{self, B, c::{D as E, *}};\nuse super::{f, super::g};\n";
        let expected = ["1 a", "1 a::B", "1 a::c::D", "1 a::c", "2 x::f", "2 g"];
        assert_eq!(imports("x::y", source), expected);
        assert!(imports("x", "use std::fs; use a::B; extern crate core;").is_empty());
    }

    #[test]
    fn paths_stand_anywhere_in_code() {
        let source = "fn f(a: crate::a::A) -> Option<super::B> {\n    crate::c::D::new(a)\n}\n\
                      impl crate::e::E for self::F {}\n";
        let expected = ["1 a::A", "1 x::B", "2 c::D::new", "4 e::E", "4 x::y::F"];
        let mut found = imports("x::y", source);
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn paths_stand_in_macros() {
        let source = "fn f() {\n    assert!(vec![a::crate_, crate::a::b(1)].is_empty(),\n    \
                      \"{}\", super::C);\n}\n#[derive(X)] enum E { A = 1 }";
        assert_eq!(imports("x::y", source), ["2 a::b", "3 x::C"]);
    }
}
