//! The book's source directory: the repository's files at the same paths, with links that lead
//! somewhere in the book or to the repository.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{contents, markdown};
use crate::command::repository;

/// Where files are that are no part of the book.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main");

/// Where a page, or what stands for a file of the repository, is in the book.
pub(super) fn in_book(path: &str) -> String {
    match path {
        // The page of a site that has no name.
        "README.md" => "index.md".to_owned(),
        "docs/design/README.md" => "docs/design/index.md".to_owned(),
        "config/flightd.toml" => "reference/flightd.toml.md".to_owned(),
        "config/flight-ship.toml" => "reference/flight-ship.toml.md".to_owned(),
        path => path.to_owned(),
    }
}

/// Whether the book has this file of the repository.
fn is_in_book(path: &str) -> bool {
    in_book(path) != path || contents::pages().any(|page| page == path) || is_beside(path)
}

/// Pictures and schemas: copied as they are.
fn is_beside(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    path.starts_with("docs/") && matches!(extension, Some("png" | "svg" | "json"))
}

/// The path in the repository that a link of a file means; none if it leads out of it.
pub(super) fn resolve(file: &str, link: &str) -> Option<String> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    path.into_os_string().into_string().ok()
}

/// Copies what the book has into its source directory.
pub(super) fn copy(src: &Path) -> Result<()> {
    for page in contents::pages().filter(|page| !page.starts_with("reference/")) {
        let text = read(page)?;
        write(&src.join(in_book(page)), &rewritten(page, &text)?)?;
    }
    for entry in fs::read_dir(repository().join("docs")).context("docs")? {
        let path = format!("docs/{}", entry?.file_name().to_string_lossy());
        if is_beside(&path) {
            fs::copy(repository().join(&path), src.join(&path)).context(path)?;
        }
    }
    Ok(())
}

fn read(page: &str) -> Result<String> {
    fs::read_to_string(repository().join(page)).with_context(|| page.to_owned())
}

/// Writes a file, and makes its directory.
pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::write(file, text).with_context(|| file.display().to_string())
}

/// A page with links as the book needs them.
fn rewritten(page: &str, text: &str) -> Result<String> {
    let mut out = text.to_owned();
    let mut links = markdown::read(text).links;
    // From the end, so that what was found before stays where it is; a picture in a link lies in
    // its range, and begins after it.
    links.sort_by_key(|link| link.range.start);
    for link in links.iter().rev() {
        if link.is_external() || link.to.starts_with('#') {
            continue;
        }
        let (path, anchor) = link.to.split_at(link.to.find('#').unwrap_or(link.to.len()));
        let target = resolve(page, path).with_context(|| format!("{page}: {path}"))?;
        let to = if is_in_book(&target) {
            format!("{}{anchor}", relative(&in_book(page), &in_book(&target)))
        } else {
            format!("{REPOSITORY}/{}{anchor}", target.trim_end_matches('/'))
        };
        let written = format!("]({})", link.to);
        let range = link.range.start..link.range.end;
        let at = out.get(range.clone()).and_then(|link| link.rfind(&written));
        ensure!(at.is_some(), "{page}: {} is not written as [text](path)", link.to);
        let at = range.start + at.unwrap_or_default();
        out.replace_range(at..at + written.len(), &format!("]({to})"));
    }
    Ok(out)
}

/// How one page of the book names another.
fn relative(from: &str, to: &str) -> String {
    let folders: Vec<&str> = from.split('/').collect();
    let parts: Vec<&str> = to.split('/').collect();
    let depth = folders.len() - 1;
    let common = folders[..depth].iter().zip(&parts).take_while(|(a, b)| a == b).count();
    let common = common.min(parts.len() - 1);
    let up = std::iter::repeat_n("..", depth - common);
    up.chain(parts[common..].iter().copied()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_into_the_book_or_to_the_repository() {
        let text = "[a](../README.md#use-it) [b](why.md) [c](../config/flightd.toml)\n\
                    [d](../ctl/src/lib.rs) [e](#here) [f](https://example.org) ![g](page.png)\n\
                    [h](design/README.md)\n";
        let book = rewritten("docs/page.md", text).unwrap();
        assert_eq!(
            book,
            format!(
                "[a](../index.md#use-it) [b](why.md) [c](../reference/flightd.toml.md)\n\
                 [d]({REPOSITORY}/ctl/src/lib.rs) [e](#here) [f](https://example.org) \
                 ![g](page.png)\n[h](design/index.md)\n"
            )
        );
    }

    #[test]
    fn paths_from_page_to_page() {
        for (from, to, path) in [
            ("index.md", "docs/why.md", "docs/why.md"),
            ("docs/guides/disk.md", "docs/why.md", "../why.md"),
            ("docs/guides/disk.md", "crates/a.md", "../../crates/a.md"),
            ("docs/why.md", "reference/flightd.md", "../reference/flightd.md"),
        ] {
            assert_eq!(relative(from, to), path);
        }
    }
}
