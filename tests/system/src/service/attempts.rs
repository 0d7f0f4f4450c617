//! The attempts that docs/security.md lists: each names tests that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use xtask::command::repository;

use super::trial::STEPS;

const PAGE: &str = include_str!("../../../../docs/security.md");

/// The last column of the table of attempts, a line each.
fn tests() -> Vec<&'static str> {
    let (_, rest) = PAGE.split_once("## Attempts and their results").expect("the section");
    let rows = rest.lines().filter(|line| line.starts_with("| ")).skip(2);
    rows.map(|row| row.trim_end_matches(" |").rsplit(" | ").next().expect("a column")).collect()
}

/// What stands between two marks.
fn quoted(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

/// The names of all tests in a directory and below: those of functions in modules that may be.
fn functions(dir: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let name = path.file_name().expect("a name");
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                functions(&path, into);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let names = text.split("fn ").skip(1);
            into.extend(names.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
        }
    }
}

/// Whether `cargo xtask …` is a command. What follows `bench` is a variant of that program's.
fn is_command(words: &str) -> bool {
    let (task, bench) = words.split_once(' ').unwrap_or((words, ""));
    let variant: String = bench
        .split('-')
        .flat_map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            [first.to_uppercase(), rest.to_owned()]
        })
        .collect();
    let benches = fs::read_to_string(repository().join("bench/src/main.rs")).expect("a source");
    xtask::command_line().find_subcommand(task).is_some()
        && (bench.is_empty() || benches.contains(&format!("\n    {variant}")))
}

/// Whether a function of `tests/kernel`, or one of these files, has that name.
fn is_kernel_test(name: &str) -> bool {
    let (file, function) = name.split_once("::").unwrap_or((name, ""));
    let file = repository().join(format!("tests/kernel/{file}.rs"));
    let is_there = |text: String| match function {
        "" => true,
        function => text.contains(&format!("fn {function}(")),
    };
    fs::read_to_string(file).is_ok_and(is_there)
}

#[test]
fn each_names_tests_that_there_are() {
    let mut known = BTreeSet::new();
    functions(&repository(), &mut known);
    let rows = tests();
    assert!(rows.len() > 30, "{rows:#?}");
    for row in rows {
        let mut named = 0;
        for name in quoted(row, '`') {
            let is_known = match name.strip_prefix("cargo xtask ") {
                Some(words) => is_command(words),
                None if name.starts_with("--") => continue,
                None if name.contains('/') => repository().join(name).exists(),
                None => is_kernel_test(name) || known.contains(name),
            };
            assert!(is_known, "there is no {name}, which docs/security.md names");
            named += 1;
        }
        assert!(named > 0, "no test: {row}");
        for step in quoted(row, '"') {
            let is_step = STEPS.iter().any(|(what, _)| *what == step);
            assert!(is_step, "{step} is no step of `cargo xtask service`");
        }
    }
}
