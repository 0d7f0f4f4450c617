//! OpenMetrics text, family by family.

use std::fmt::{Display, Write as _};

/// Labels of a sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// A text in the making.
#[derive(Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Begins a family: its samples follow. A counter's samples have `_total` after the name.
    pub(super) fn family(
        &mut self,
        name: &'static str,
        unit: &str,
        counter: bool,
        help: &str,
    ) -> Family<'_> {
        let (kind, suffix) = if counter { ("counter", "_total") } else { ("gauge", "") };
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
        Family { out: &mut self.0, name, suffix }
    }

    /// A family of one sample without labels.
    pub(super) fn gauge(
        &mut self,
        name: &'static str,
        unit: &str,
        help: &str,
        value: impl Display,
    ) {
        self.family(name, unit, false, help).sample(&[], value);
    }

    /// Ends the text.
    pub(super) fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

/// Samples of one name.
pub(super) struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
    suffix: &'static str,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.out.push_str(self.name);
        self.out.push_str(self.suffix);
        for (i, (key, label)) in labels.iter().enumerate() {
            // Writing to a string can't fail.
            let _ =
                write!(self.out, "{}{key}=\"{}\"", if i == 0 { '{' } else { ',' }, escaped(label));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{end} {value}");
    }
}

/// A label's value, as the format wants it.
fn escaped(label: &dyn Display) -> String {
    label.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
