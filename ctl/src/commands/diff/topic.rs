//! What is compared.

use std::collections::BTreeMap;

use flightrec_analysis::compare::{ChangeKind, Figures, Side, Weight};
use flightrec_analysis::groups::Sum;

use crate::report::{self, Key, Report, Table, Unit};
use crate::text::printable;

/// One of the things that are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Topic {
    /// Its name.
    pub(super) name: &'static str,
    /// The report that adds it up.
    report: &'static str,
    /// By what.
    pub(super) by: &'static [Key],
    /// By what where one of the windows is made of sums of minutes.
    pub(super) by_minutes: &'static [Key],
    /// By what it is weighed.
    pub(super) weight: Weight,
    /// Whether only failures count.
    pub(super) is_of_errors: bool,
}

/// All of them.
pub(super) const ALL: [Topic; 6] = [
    Topic {
        name: "calls",
        report: "calls",
        by: &[Key::Unit, Key::Comm, Key::Syscall],
        by_minutes: &[Key::Unit, Key::Syscall],
        weight: Weight::Total,
        is_of_errors: false,
    },
    Topic {
        name: "errors",
        report: "calls",
        by: &[Key::Comm, Key::Syscall, Key::Errno],
        by_minutes: &[Key::Unit, Key::Syscall, Key::Errno],
        weight: Weight::Count,
        is_of_errors: true,
    },
    Topic {
        name: "waits",
        report: "waits",
        by: &[Key::Unit, Key::Comm, Key::Reason],
        by_minutes: &[Key::Unit, Key::Reason],
        weight: Weight::Total,
        is_of_errors: false,
    },
    Topic {
        name: "run_queue",
        report: "runq",
        by: &[Key::Unit, Key::Comm],
        by_minutes: &[Key::Unit],
        weight: Weight::Total,
        is_of_errors: false,
    },
    Topic {
        name: "devices",
        report: "block",
        by: &[Key::Device, Key::Op],
        by_minutes: &[Key::Device, Key::Op],
        weight: Weight::Total,
        is_of_errors: false,
    },
    Topic {
        name: "files",
        report: "bytes",
        by: &[Key::Comm, Key::File, Key::Op],
        by_minutes: &[Key::Unit, Key::Op],
        weight: Weight::Total,
        is_of_errors: false,
    },
];

/// A group's keys, as words; `-`: not known.
pub(super) type Words = Vec<String>;

impl Topic {
    /// What adds it up.
    pub(super) fn report(&self) -> Option<Box<dyn Report>> {
        // Who waits for work that does not come is not slower for it.
        match self.report {
            "waits" => Some(report::waits_of_work()),
            _ if self.is_of_errors => Some(report::failures()),
            report => report::of(report).map(|kind| (kind.make)()),
        }
    }

    /// What its values are.
    pub(super) fn unit(&self) -> Unit {
        report::of(self.report).map_or(Unit::None, |kind| kind.shape.unit)
    }

    /// The groups of a table.
    pub(super) fn side(&self, table: &Table) -> Side<Words> {
        let mut groups: BTreeMap<Words, Figures> = BTreeMap::new();
        for (keys, sum) in &table.ranked.rows {
            let words: Words = table.words(keys).map(printable_or_dash).collect();
            if self.by.contains(&Key::File) && words.iter().any(|word| is_passing(word)) {
                continue;
            }
            let of = groups.entry(words).or_default();
            *of = plus(*of, figures(sum));
        }
        Side { groups, all: figures(&table.ranked.total()), length: table.length() }
    }

    /// The name of a change.
    pub(super) fn change(&self, kind: ChangeKind) -> &'static str {
        let is_time = self.unit() == Unit::Ns;
        match kind {
            ChangeKind::New => "new",
            ChangeKind::Gone => "gone",
            ChangeKind::Greater if is_time => "slower",
            ChangeKind::Greater => "larger",
            ChangeKind::Smaller if is_time => "faster",
            ChangeKind::Smaller => "smaller",
            ChangeKind::MoreOften => "more_often",
            ChangeKind::LessOften => "less_often",
        }
    }
}

/// Whether a name is one of something that has another the next time: a socket, a pipe.
fn is_passing(name: &str) -> bool {
    name.contains(":[") && name.ends_with(']')
}

fn printable_or_dash(word: Option<Vec<u8>>) -> String {
    word.map_or_else(|| "-".to_owned(), printable)
}

fn figures(sum: &Sum) -> Figures {
    Figures { count: sum.count, valued: sum.values.count(), total: sum.values.sum() }
}

fn plus(a: Figures, b: Figures) -> Figures {
    Figures {
        count: a.count.saturating_add(b.count),
        valued: a.valued.saturating_add(b.valued),
        total: a.total.saturating_add(b.total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::minutes;

    #[test]
    fn every_topic_has_its_report() {
        for topic in ALL {
            let report = topic.report().unwrap_or_else(|| panic!("{}", topic.name));
            for by in [topic.by, topic.by_minutes] {
                let has = |key: &Key| report.shape().has_key(*key);
                assert!(by.iter().all(has), "{}", topic.name);
            }
            assert!(
                minutes::table(report.tables(), topic.by_minutes).is_some(),
                "{}: sums can't answer",
                topic.name
            );
        }
        assert!(is_passing("TCP:[1.2.3.4:5->6.7.8.9:10]") && !is_passing("/srv/[a]"));
    }
}
