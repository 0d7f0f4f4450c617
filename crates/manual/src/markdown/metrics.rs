//! The page of metrics, of what `flightctl metrics` prints.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::text;

/// A table of the families: a counter by the name of its samples.
pub(super) fn page() -> (String, String) {
    let mut out = String::from(
        "# Metrics\n\nWhat `flightctl metrics` can print, by its own types and help texts. Which \
         of them are there when, and what to alert on, is in [Monitoring the \
         recorder](../docs/status.md#flightctl-metrics).\n\n| Metric | Type | Labels | |\n\
         | --- | --- | --- | --- |\n",
    );
    let all = flightctl::commands::metrics::every_family();
    for family in all.split("# TYPE ").skip(1) {
        let mut lines = family.lines();
        let (name, kind) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
        let suffix = if kind == "counter" { "_total" } else { "" };
        let mut help = "";
        let mut labels = BTreeSet::new();
        for line in lines {
            if let Some((_, words)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
                help = words;
            } else if let Some((_, set)) = line.split_once('{') {
                // No value of these has a comma or an equals sign.
                labels.extend(set.split(',').filter_map(|label| label.split_once("=\"")));
            }
        }
        let labels: BTreeSet<String> = labels.iter().map(|(key, _)| format!("`{key}`")).collect();
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        // Writing to a string can't fail.
        let _ = writeln!(out, "| `{name}{suffix}` | {kind} | {labels} | {} |", text(help));
    }
    ("metrics.md".to_owned(), out)
}
