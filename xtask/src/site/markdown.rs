//! What a Markdown file has: its links, and the anchors that links may name.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What is read of a file.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// The text of the first heading.
    pub(super) title: Option<String>,
    /// The headings' anchors, as GitHub and mdBook make them.
    pub(super) anchors: BTreeSet<String>,
    /// Links and images, in the order of the text.
    pub(super) links: Vec<Link>,
}

/// A link or an image.
#[derive(Debug)]
pub(super) struct Link {
    /// Where it goes, as written.
    pub(super) to: String,
    /// Its bytes in the file, from its text to its closing parenthesis.
    pub(super) range: Range<usize>,
}

impl Link {
    /// Whether it leaves the project.
    pub(super) fn is_external(&self) -> bool {
        ["http://", "https://", "mailto:"].iter().any(|scheme| self.to.starts_with(scheme))
    }
}

/// Reads a file.
pub(super) fn read(text: &str) -> Markdown {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    let mut read = Markdown::default();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut heading: Option<String> = None;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let Some(words) = heading.take() else { continue };
                let anchor = anchor(&words);
                let times = seen.entry(anchor.clone()).or_default();
                read.anchors.insert(match *times {
                    0 => anchor,
                    n => format!("{anchor}-{n}"),
                });
                *times += 1;
                read.title.get_or_insert(words);
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                read.links.push(Link { to: dest_url.into_string(), range });
            }
            _ => {}
        }
    }
    read
}

/// A heading's anchor: in small letters, without punctuation, blanks as hyphens.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The project's Markdown files, by their paths in the repository.
#[cfg(test)]
pub(super) fn files() -> Vec<String> {
    let root = crate::command::repository();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name().into_string().expect("a name"));
            if path.is_dir() {
                let is_ours = !matches!(&*name, "target" | ".git" | "node_modules" | "vendor");
                folders.extend(is_ours.then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let inside = path.strip_prefix(&root).expect("inside").to_str().expect("UTF-8");
                found.push(inside.to_owned());
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::repository;
    use crate::site::pages::resolve;

    /// What is wrong with a file's links. `text_of`: another file's text, if there is one; a folder
    /// or a file of another kind has an empty one.
    fn complaints(file: &str, text: &str, text_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let here = read(text);
        let mut wrong = Vec::new();
        for link in here.links.iter().filter(|link| !link.is_external()) {
            let (path, anchor) = link.to.split_once('#').unwrap_or((&link.to, ""));
            let target = if path.is_empty() { Some(file.to_owned()) } else { resolve(file, path) };
            let there = if path.is_empty() {
                Some(text.to_owned())
            } else {
                target.as_deref().and_then(&text_of)
            };
            match there {
                None => wrong.push(format!("{file}: there is no {}", link.to)),
                Some(there) if !anchor.is_empty() && !read(&there).anchors.contains(anchor) => {
                    wrong.push(format!("{file}: no heading is {}", link.to));
                }
                Some(_) => {}
            }
        }
        wrong
    }

    #[test]
    fn every_link_of_the_documentation_goes_somewhere() {
        let (mut links, mut wrong) = (0, Vec::new());
        let text_of = |path: &str| {
            let path = repository().join(path);
            let is_text = path.extension().is_some_and(|extension| extension == "md");
            let other = path.exists().then(String::new);
            if is_text { std::fs::read_to_string(path).ok() } else { other }
        };
        for file in files() {
            let text = std::fs::read_to_string(repository().join(&file)).expect("text");
            links += read(&text).links.len();
            wrong.extend(complaints(&file, &text, text_of));
        }
        assert!(links > 150, "only {links} links are found");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let text = "# Here\n[a](b.md) [c](b.md#no) [d](#here) [e](#there) [f](../x.md) \
                    [g](../../x.md) [h](https://example.org/#x) ![i](no.png) [j](b.md#c-d-1)\n";
        let wrong = complaints("docs/a.md", text, |path| match path {
            "docs/b.md" => Some("# C, `d`\n## C: d\n".to_owned()),
            _ => None,
        });
        assert_eq!(
            wrong,
            [
                "docs/a.md: no heading is b.md#no",
                "docs/a.md: no heading is #there",
                "docs/a.md: there is no ../x.md",
                "docs/a.md: there is no ../../x.md",
                "docs/a.md: there is no no.png",
            ]
        );
    }
}
