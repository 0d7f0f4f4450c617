//! What the book has, in which order.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::markdown;

/// A page by its path in the repository; `reference/…` are made from the programs
/// (`crates/manual/src/markdown`), all others are files.
pub(super) type Page = &'static str;

/// The parts, each a heading of the contents, with their pages.
pub(super) const PARTS: &[(&str, &[Page])] = &[
    ("", &["README.md"]),
    ("Start", &["docs/start.md", "docs/install.md"]),
    (
        "Guides",
        &[
            "docs/guides/slow-request.md",
            "docs/guides/panic.md",
            "docs/guides/disk.md",
            "docs/guides/network.md",
            "docs/guides/container.md",
        ],
    ),
    (
        "In depth",
        &[
            "docs/reading.md",
            "docs/why.md",
            "docs/reports.md",
            "docs/triggers.md",
            "docs/page.md",
            "docs/export.md",
            "docs/sql.md",
            "docs/containers.md",
            "docs/kubernetes.md",
            "docs/fleet.md",
            "docs/ship.md",
            "docs/otlp.md",
            "docs/fault-injection.md",
            "docs/security.md",
        ],
    ),
    (
        "Reference",
        &[
            "reference/flightctl.md",
            "reference/flightd.md",
            "reference/flight-ship.md",
            "reference/flightd.toml.md",
            "reference/flight-ship.toml.md",
            "reference/metrics.md",
            "docs/glossary.md",
            "docs/status.md",
            "docs/json.md",
            "docs/kernels.md",
            "docs/compatibility.md",
            "crates/format/FORMAT.md",
        ],
    ),
    (
        "How it works",
        &[
            "ARCHITECTURE.md",
            "docs/comparison.md",
            "CONTRIBUTING.md",
            "docs/release.md",
            "SECURITY.md",
            "CHANGELOG.md",
        ],
    ),
    (
        "Design",
        &[
            "docs/design/README.md",
            "docs/design/probes.md",
            "docs/design/probes-events.md",
            "docs/design/thread-contexts.md",
            "docs/design/budget.md",
            "docs/design/recording.md",
            "docs/design/files.md",
            "docs/design/triggers.md",
            "docs/design/reader.md",
            "docs/design/analysis.md",
            "docs/design/exports.md",
            "docs/design/shipping.md",
            "docs/design/kernel-dumps.md",
            "docs/design/testing.md",
            "docs/design/dependencies.md",
        ],
    ),
];

/// The pages of the parts.
pub(super) fn pages() -> impl Iterator<Item = Page> {
    PARTS.iter().flat_map(|(_, pages)| pages.iter().copied())
}

/// Below which page one of the made ones stands that no part names.
fn parent(name: &str) -> Option<Page> {
    if name.ends_with(".schema.md") {
        return Some("docs/json.md");
    }
    let programs = [("flightctl-", "reference/flightctl.md")];
    let programs = programs.into_iter().chain([("flight-ship-", "reference/flight-ship.md")]);
    programs.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, page)| page)
}

/// mdBook's SUMMARY.md, of the pages in its source directory; `made`: the names of those in its
/// directory `reference`. Every page has its place, or it is an error.
pub(super) fn summary(src: &Path, made: &BTreeSet<String>) -> Result<String> {
    let mut text = String::from("# Summary\n");
    let mut left = made.clone();
    for (part, pages) in PARTS {
        if !part.is_empty() {
            // Writing to a string can't fail.
            let _ = writeln!(text, "\n# {part}\n");
        }
        for page in *pages {
            if let Some(name) = page.strip_prefix("reference/") {
                ensure!(left.remove(name), "{page} was not made");
            }
            let page = super::pages::in_book(page);
            let bullet = if part.is_empty() { "" } else { "- " };
            let _ = writeln!(text, "{bullet}[{}]({page})", title(src, &page)?);
            for name in made.iter().filter(|name| parent(name) == Some(page.as_str())) {
                if left.remove(name) {
                    let path = format!("reference/{name}");
                    let _ = writeln!(text, "  - [{}]({path})", title(src, &path)?);
                }
            }
        }
    }
    ensure!(left.is_empty(), "in no part of the contents: {left:?} (xtask/src/site/contents.rs)");
    Ok(text)
}

/// A page's first heading.
fn title(src: &Path, page: &str) -> Result<String> {
    let text = fs::read_to_string(src.join(page)).with_context(|| page.to_owned())?;
    let title = markdown::read(&text).title;
    title.with_context(|| format!("{page} has no heading"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::repository;
    use crate::site::markdown::files;

    #[test]
    fn every_page_of_the_documentation_has_its_place() {
        let listed: BTreeSet<String> =
            pages().filter(|page| !page.starts_with("reference/")).map(str::to_owned).collect();
        for page in &listed {
            assert!(repository().join(page).is_file(), "there is no {page}");
        }
        let there = files().into_iter().filter(|file| file.starts_with("docs/"));
        for page in there {
            assert!(listed.contains(&page), "{page} is in no part of the site's contents");
        }
    }

    #[test]
    fn what_is_made_stands_below_its_program() {
        assert_eq!(parent("flightctl-dump.md"), Some("reference/flightctl.md"));
        assert_eq!(parent("flightctl-dump.schema.md"), Some("docs/json.md"));
        assert_eq!(parent("flight-ship-status.md"), Some("reference/flight-ship.md"));
        assert_eq!(parent("flightd.md"), None);
    }
}
