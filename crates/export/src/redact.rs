//! What is hidden of texts before they leave the machine: whatever patterns match.
//!
//! It is applied where a format's texts are written, to every one of them that may hold what
//! anybody chose; only words of this program's own are left as they are.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use serde_json::Value;
use thiserror::Error;

/// What stands in the place of what is hidden.
pub const HIDDEN: &str = "***";
/// Most patterns, and the longest, bytes.
const PATTERNS_MAX: usize = 256;
const LENGTH_MAX: usize = 4096;
/// Most bytes that a compiled pattern takes.
const SIZE_MAX: usize = 1 << 20;

/// A pattern that can't be used.
#[derive(Debug, Error)]
pub enum RedactError {
    /// There are too many.
    #[error("{0} patterns are more than {PATTERNS_MAX}: join them by `|`")]
    TooMany(usize),
    /// It is too long.
    #[error("a pattern of {0} bytes is longer than {LENGTH_MAX}")]
    TooLong(usize),
    /// It is none.
    #[error("{pattern:?} is no regular expression: {reason}")]
    Syntax {
        /// The pattern.
        pattern: String,
        /// Why not.
        reason: String,
    },
    /// It matches anywhere.
    #[error("{0:?} matches the empty text, and so everywhere: write `+` for `*`, say")]
    Empty(String),
}

/// Patterns of what is hidden.
#[derive(Debug, Clone, Default)]
pub struct Redact {
    patterns: Vec<Regex>,
}

impl Redact {
    /// Of regular expressions.
    ///
    /// # Errors
    /// See [`RedactError`].
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, RedactError> {
        if patterns.len() > PATTERNS_MAX {
            return Err(RedactError::TooMany(patterns.len()));
        }
        let compile = |pattern: &S| {
            let pattern = pattern.as_ref();
            if pattern.len() > LENGTH_MAX {
                return Err(RedactError::TooLong(pattern.len()));
            }
            let built = RegexBuilder::new(pattern).size_limit(SIZE_MAX).build();
            let regex = built.map_err(|e| RedactError::Syntax {
                pattern: pattern.to_owned(),
                reason: last_line(&e.to_string()),
            })?;
            if regex.is_match("") {
                return Err(RedactError::Empty(pattern.to_owned()));
            }
            Ok(regex)
        };
        Ok(Self { patterns: patterns.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Whether nothing is hidden.
    pub fn is_none(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A text without what is hidden.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for pattern in &self.patterns {
            // A borrowed answer is the text itself.
            if let Cow::Owned(hidden) = pattern.replace_all(&text, HIDDEN) {
                text = Cow::Owned(hidden);
            }
        }
        text
    }

    /// A text without what is hidden, of so many bytes at most; `...` stands after one that is cut.
    /// What is hidden goes first: of a text that was cut, a pattern would not match what is left.
    pub fn cut(&self, text: &str, most: usize) -> String {
        let mut text = self.text(text).into_owned();
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most.saturating_sub(3)));
            text.push_str("...");
        }
        text
    }

    /// A JSON document without what is hidden in its texts; the names of members stay.
    pub fn json<'t>(&self, json: &'t str) -> Cow<'t, str> {
        if self.is_none() {
            return Cow::Borrowed(json);
        }
        let Ok(mut value) = serde_json::from_str(json) else {
            // Nothing of it is known to be harmless.
            return Cow::Borrowed("{}");
        };
        if self.value(&mut value) { Cow::Owned(value.to_string()) } else { Cow::Borrowed(json) }
    }

    /// Hides what is in the texts of a value; whether there was anything.
    pub fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.text(text) {
                Cow::Owned(hidden) => {
                    *text = hidden;
                    true
                }
                Cow::Borrowed(_) => false,
            },
            // All of them: none may be left out after the first.
            Value::Array(of) => {
                of.iter_mut().filter_map(|of| self.value(of).then_some(())).count() > 0
            }
            Value::Object(of) => {
                of.values_mut().filter_map(|of| self.value(of).then_some(())).count() > 0
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

/// What is wrong, without the drawing of where.
fn last_line(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_patterns_match_is_hidden() {
        let redact = Redact::new(&[r"/home/[^/]+", r"(?i)token=\S+"]).unwrap();
        assert_eq!(redact.text("/home/ada/x TOKEN=abc y"), "***/x *** y");
        assert!(matches!(redact.text("/etc/passwd"), Cow::Borrowed("/etc/passwd")));
        let json = r#"{"a":"/home/ada","n":5,"b":["x",{"/home/k":"token=\"1\""}]}"#;
        let hidden: Value = serde_json::from_str(&redact.json(json)).unwrap();
        let expected = r#"{"a":"***","n":5,"b":["x",{"/home/k":"***"}]}"#;
        assert_eq!(hidden, serde_json::from_str::<Value>(expected).unwrap());
        assert_eq!(redact.json(r#"{"a":1}"#), r#"{"a":1}"#);
        assert_eq!(redact.json("{\"/home/ada"), "{}");
        assert_eq!(Redact::default().json("{\"/home/ada"), "{\"/home/ada");
    }

    #[test]
    fn nothing_of_a_secret_stays_where_a_text_is_cut() {
        let redact = Redact::new(&["SECRET[0-9]{20}"]).unwrap();
        let text = format!("a SECRET{}", "7".repeat(20));
        assert_eq!(redact.cut(&text, 20), "a ***");
        assert_eq!(Redact::default().cut(&text, 20), "a SECRET777777777...");
    }

    #[test]
    fn patterns_that_cannot_be_used() {
        for (patterns, said) in [
            (vec!["(".to_owned()], "is no regular expression"),
            (vec!["x*".to_owned()], "matches the empty text"),
            (vec!["x".repeat(5000)], "is longer than"),
            (vec!["x".to_owned(); 300], "are more than"),
            (vec![r"\w{1000}{100}".to_owned()], "size limit"),
        ] {
            let error = Redact::new(&patterns).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
