//! OpenMetrics text, as `flightctl metrics` and `flight-ship metrics` print it, read back.

use std::collections::BTreeMap;

/// Most samples that are read: far more than a machine of a thousand CPUs has.
const SAMPLES_MAX: usize = 200_000;

/// A family of samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Family {
    /// Its name, without `_total`.
    pub name: String,
    /// Whether it only adds up.
    pub is_counter: bool,
    /// Its unit; empty: none.
    pub unit: String,
    /// What it is.
    pub help: String,
    /// Its samples.
    pub samples: Vec<Sample>,
}

/// A sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// What tells it from the others.
    pub labels: Vec<(String, String)>,
    /// Its value, as text.
    pub value: String,
}

impl Family {
    /// The value of its only sample.
    pub fn value(&self) -> Option<f64> {
        self.samples.first()?.value.parse().ok()
    }
}

/// The families of a text, by name. Lines that are none of the format are left out.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut samples) = (String::new(), 0);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (Some(what), Some(name), value) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let value = value.unwrap_or_default();
            let family = all.entry(name.to_owned()).or_default();
            match what {
                "TYPE" => family.is_counter = value == "counter",
                "UNIT" => value.clone_into(&mut family.unit),
                "HELP" => value.clone_into(&mut family.help),
                _ => continue,
            }
            name.clone_into(&mut family.name);
            name.clone_into(&mut current);
        } else if let Some((name, sample)) = sample(line) {
            // A sample stands after what describes it.
            let is_of = name == current || name.strip_suffix("_total") == Some(&current);
            samples += 1;
            if is_of
                && samples <= SAMPLES_MAX
                && let Some(family) = all.get_mut(&current)
            {
                family.samples.push(sample);
            }
        }
    }
    all.retain(|_, family| !family.samples.is_empty());
    all
}

/// The name in a line, and the rest of it.
fn sample(line: &str) -> Option<(&str, Sample)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = value.trim().to_owned();
    value.parse::<f64>().ok()?;
    Some((name, Sample { labels, value }))
}

/// Labels up to the brace, and what is after it.
fn labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let (mut labels, mut rest) = (Vec::new(), text);
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((key.trim_start_matches(',').to_owned(), value));
        rest = after.get(end + 1..)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn families_and_their_samples() {
        let text = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds Time.\n\
            a_seconds_total{x=\"1\",y=\"q\\\"\\\\\\n,}\"} 0.5\na_seconds_total 7\n\
            # TYPE b gauge\n# HELP b Bees.\nb 3\nb{x=\"\n# TYPE c gauge\nother 5\n# EOF\n";
        let all = families(text);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a_seconds", "b"]);
        let a = &all["a_seconds"];
        assert!(a.is_counter && a.unit == "seconds" && a.help == "Time.");
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(a.samples[0].labels, [label("x", "1"), label("y", "q\"\\\n,}")]);
        assert_eq!((a.samples[0].value.as_str(), a.samples.len()), ("0.5", 2));
        assert!(!all["b"].is_counter);
        assert_eq!(all["b"].value(), Some(3.0));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[# a-zA-Z_{}=\",\\\\\n0-9.]{0,300}") {
            let _ = families(&text);
            let _ = families(&format!("# TYPE a gauge\na{text}"));
        }
    }
}
