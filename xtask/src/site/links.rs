//! The links of the built site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::pages::resolve;

/// What is read of a page.
#[derive(Debug, Default)]
struct Html {
    /// Values of `id`.
    ids: BTreeSet<String>,
    /// Values of `href` and `src`.
    links: Vec<String>,
}

/// Checks that every relative link of a page in a directory goes to a file in it, and to an element
/// of that; returns how many there are.
pub(super) fn check(site: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(site.join(&folder)).context("the site")?;
        for entry in entries {
            let entry = entry.context("the site")?;
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.to_string_lossy().into_owned();
            if path.extension().is_some_and(|extension| extension == "html") {
                let text = fs::read_to_string(site.join(&path)).with_context(|| name.clone())?;
                pages.insert(name.clone(), read(&text));
            }
            files.insert(name);
        }
    }
    let wrong = complaints(&pages, &files);
    if !wrong.is_empty() {
        bail!("{} links of the site go nowhere:\n{}", wrong.len(), wrong.join("\n"));
    }
    Ok(pages.values().map(|page| page.links.len()).sum())
}

fn complaints(pages: &BTreeMap<String, Html>, files: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, page) in pages {
        for link in &page.links {
            let is_external = link.split_once(':').is_some_and(|(scheme, _)| {
                scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            });
            if is_external {
                continue;
            }
            let (path, id) = link.split_once('#').unwrap_or((link, ""));
            let path = match path {
                "" => Some(name.clone()),
                path if path.ends_with('/') => resolve(name, &format!("{path}index.html")),
                path => resolve(name, path),
            };
            let there = path.filter(|path| files.contains(path));
            let has_id = |path: &String| pages.get(path).is_none_or(|page| page.ids.contains(id));
            match there {
                None => wrong.push(format!("{name}: there is no {link}")),
                Some(path) if !id.is_empty() && !has_id(&path) => {
                    wrong.push(format!("{name}: no element is {link}"));
                }
                Some(_) => {}
            }
        }
    }
    wrong
}

/// Reads a page as mdBook writes it: attributes in double quotes, `<` in text escaped.
fn read(text: &str) -> Html {
    let mut page = Html::default();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        // Nothing in these is markup.
        let opaque = [("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>")];
        let opaque = opaque.into_iter().find(|(begin, _)| rest.starts_with(begin));
        // The base of 404.html is the root of the site, where the page itself is.
        let is_skipped = rest.starts_with("<!--") || rest.starts_with("<base ");
        let tag = if is_skipped { "<" } else { &rest[..tag_end(rest)] };
        for (name, value) in attributes(tag) {
            let value = unescaped(value);
            match name {
                "id" => _ = page.ids.insert(value),
                "href" | "src" => page.links.push(value),
                _ => {}
            }
        }
        let end = opaque.and_then(|(_, end)| Some(rest.find(end)? + end.len()));
        rest = &rest[end.unwrap_or(tag.len()).max(1)..];
    }
    page
}

/// How long the tag is that a text begins with; a `>` in a quoted value does not end it.
fn tag_end(text: &str) -> usize {
    let mut quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'>' if !quoted => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The attributes of a tag that have a value.
fn attributes(tag: &str) -> impl Iterator<Item = (&str, &str)> {
    // After each `="` a value and the next name, by turns with names.
    let mut rest = tag;
    std::iter::from_fn(move || {
        let (before, after) = rest.split_once("=\"")?;
        let (value, next) = after.split_once('"')?;
        rest = next;
        Some((before.rsplit(char::is_whitespace).next().unwrap_or_default(), value))
    })
}

/// An attribute's value as a path: mdBook escapes no more than this.
fn unescaped(value: &str) -> String {
    let mut value = value.to_owned();
    for (escape, is) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("%20", " ")]
    {
        value = value.replace(escape, is);
    }
    value.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_go_nowhere_are_found() {
        let a = "<!-- <a href=\"no.html\"> --><h1 id=\"top\"><a class=\"x\" href=\"#top\">A</a>\
                 <a href=\"d/b.html#c\"></a><a href=\"d/b.html#no\" title=\"1 > 0\"></a>\
                 <img src=\"no.png\"><a href=\"https://example.org/x#y\"></a><a href=\"#no\"></a>\
                 <script src=\"x.js\">\"<a href='no'>\"</script>";
        let b = "<p id=\"c\"><a href=\"../a.html#top\"></a><a href=\"../../a.html\"></a>";
        let pages: BTreeMap<String, Html> = [("a.html", a), ("d/b.html", b)]
            .map(|(name, html)| (name.to_owned(), read(html)))
            .into();
        let files = ["a.html", "d/b.html", "x.js"].map(str::to_owned).into();
        assert_eq!(
            complaints(&pages, &files),
            [
                "a.html: no element is d/b.html#no",
                "a.html: there is no no.png",
                "a.html: no element is #no",
                "d/b.html: there is no ../../a.html",
            ]
        );
        assert_eq!(pages["a.html"].links.len(), 7);
    }
}
