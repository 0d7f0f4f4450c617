//! Words for the shell that sshd starts.

/// A word as `sh`, `bash`, `zsh`, `dash`, `ksh` and `fish` read it. They agree on single quotes
/// around anything but a quote and a backslash, and on a backslash before those outside of them.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    // A word that begins with `=` or a `%` means something to zsh and to job control.
    let is_name = |word: &str| !word.is_empty() && !word.starts_with(['=', '%']);
    if is_name(word) && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut out = String::new();
    let mut inside = false;
    for c in word.chars() {
        let escape = matches!(c, '\'' | '\\');
        if escape == inside {
            out.push('\'');
            inside = !inside;
        }
        if escape {
            out.push('\\');
        }
        out.push(c);
    }
    if inside || out.is_empty() {
        out.push_str(if inside { "'" } else { "''" });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    use proptest::prelude::*;

    /// What shells make of it: printf writes its argument as it is.
    fn read_by(shell: &str, word: &str) -> String {
        let line = format!("printf '%s' {}", quoted(word));
        let out = Command::new(shell).arg("-c").arg(line).output().unwrap();
        assert!(out.status.success(), "{word:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// Those that are installed.
    fn shells() -> Vec<&'static str> {
        let is_there = |shell: &&str| Command::new(shell).args(["-c", "true"]).output().is_ok();
        let others = ["dash", "zsh", "ksh", "fish"].into_iter().filter(is_there);
        ["sh", "bash"].into_iter().chain(others).collect()
    }

    #[test]
    fn what_is_plain_stays_readable() {
        assert_eq!(quoted("--last"), "--last");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("=ls"), "'=ls'");
    }

    #[test]
    fn words_that_a_shell_would_do_something_with() {
        for word in [
            "$(id)",
            "`id`",
            "a;id",
            "a\nid",
            "'",
            "\\",
            "''\\'",
            "-n",
            "~",
            "*",
            "!x",
            "\"$HOME\"",
            "é",
        ] {
            for shell in shells() {
                assert_eq!(read_by(shell, word), word, "{shell}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_word_is_one_word(word in "[^\0]{0,20}") {
            for shell in shells() {
                prop_assert_eq!(&read_by(shell, &word), &word, "{}", shell);
            }
        }
    }
}
