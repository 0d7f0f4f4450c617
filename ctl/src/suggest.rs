//! The nearest right names for a wrong one.

/// How many names are suggested at most.
const SUGGESTIONS: usize = 3;
/// Similarity below which a name is no help.
const SIMILAR: f64 = 0.75;

/// The names most like `wrong`, best first.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(score, _)| *score >= SIMILAR)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.truncate(SUGGESTIONS);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// `; did you mean …?`, or nothing.
pub fn hint(nearest: &[&str]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_first() {
        assert_eq!(nearest("swich", ["waking", "switch", "fork"]), ["switch"]);
        assert_eq!(nearest("opnat", ["openat", "open", "getpid"]).first(), Some(&"openat"));
    }

    #[test]
    fn nothing_for_nonsense() {
        assert!(nearest("qqqq", ["waking", "switch"]).is_empty());
        assert_eq!(hint(&[]), "");
    }
}
